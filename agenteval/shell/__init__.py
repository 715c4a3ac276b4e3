"""Reading shell: the gate and the leaves decide what may run, the facts explain what may not.

Begin with `gate`, one simple command; `leaves` splits a text for it, and `reader` explains.
"""
