"""The permission engines of other harnesses: each gives the verdict that the real one gives."""
