"""The player of a trial: a served model over HTTP, or a simulated one behind the same wire.

Begin with `openai_client`, which sends a `request` and reads the `stream` of its reply; `failures`
are what a server says instead. `servers` and `probe` read what a server states and does. Several
servers of one model are `endpoints`. `simulated` serves a `player`, which makes the slips of a
`persona`; an `oracle` proves a scenario.
"""
