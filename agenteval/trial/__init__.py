"""Values of a trial, pure: no I/O, no clock, no async.

Begin with `call`, a call and its verdict; then `trial`, what happened, and `summary`, its counts.
"""
