"""Replies as they arrive: repaired where a server distorted them, and calls written as text."""
