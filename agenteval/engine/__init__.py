"""The loop: one trial, and many of them at once."""
