"""Playing: one trial in `trial`, many of them in `run`, and the tools of a model in `tools`."""
