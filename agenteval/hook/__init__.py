"""A policy where agents really run: begin with `resident`, which answers, and `asking`.

`client` is what a harness starts to ask. `payloads` knows what each harness sends and takes,
`tool_inputs` what a call would do, `judging` gives the verdict, and `installing` tells a harness of
the hook, by the edits of `settings_text`; `coverage` says which tools it then judges.
"""
