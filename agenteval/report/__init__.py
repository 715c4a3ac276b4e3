"""One view of a run, many renderers."""
