"""What runs beyond the border: standard library only, loaded from bytes, never from the disk."""
