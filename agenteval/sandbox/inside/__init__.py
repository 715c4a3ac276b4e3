"""The code that runs beyond the border: standard library only, loaded from bytes, not from disk.

Begin with `runner`, the first process of a sandbox; `launcher` forks one for each trial.
"""
