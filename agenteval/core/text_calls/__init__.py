"""Tool calls that are written as text, one dialect a module."""
