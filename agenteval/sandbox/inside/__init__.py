"""What runs beyond the border: standard library only, loaded from bytes, never from the disk.

Begin with `runner`, the first process of a world; `launcher` forks one for each trial.
"""
