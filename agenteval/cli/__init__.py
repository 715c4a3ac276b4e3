"""The commands: they parse, call, print and exit."""
