"""Replies as they arrive: repaired where a server distorted them, and calls written as text.

Begin with `arrival`, which reads a chunk; `text_calls` has the notations by name.
"""
