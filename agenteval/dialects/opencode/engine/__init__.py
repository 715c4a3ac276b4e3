"""OpenCode's permissions: of 1.1 and later in `current`, and of 1.0 in `version_1_0`."""
