"""The formats of other programs: `tool_calls` has the shapes of a call, `vllm_log` a server's log.

Whole logs of agents are in `readers`, permissions of harnesses in `dialects`.
"""
