"""The verdict of a gate, shown: one view, and each form of it."""
