"""Pure: values in, values out. No I/O, no clock, no chance, no async.

Begin with `call`, a call and its verdict; then `trial`, what happened, and `summary`, that counted.
"""
