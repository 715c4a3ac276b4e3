"""Statistics without scipy: `rates` first, then `comparison` of two models, and `promotion`.

`promotion` is the gate, and `criteria` has what a gate limits. Modules that need numpy are imported
on first use: that takes half a second, which most commands save.
"""
