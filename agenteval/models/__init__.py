"""The player of a trial: a served model over HTTP, or a simulated one behind the same wire.

Begin with `openai_client`: `transport` carries its bytes, `stream` puts a reply together, and
`turns` reads it. `simulated` serves a `player`, which makes the slips of a `persona`.
"""
