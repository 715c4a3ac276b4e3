"""Reading shell: the gate and the leaves decide what may run, the facts explain what may not.

Begin with `simple_command`, the gate; `leaves` splits a text for it, `fact_reader` explains.
"""
