"""OpenCode's permissions: of 1.1 and later, and of 1.0."""
