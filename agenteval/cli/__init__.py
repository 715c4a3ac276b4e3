"""The commands: they parse, call, print and exit. `app` has the table of them."""
