"""Codex's rules files."""
