"""A policy where agents really run: begin with `resident`, which answers, and `asking`.

`client` is what a harness starts to ask. `tool_inputs` reads what a call would do, `judging` gives
the verdict in the harness's own form, and `installing` tells a harness of the hook.
"""
