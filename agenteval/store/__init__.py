"""The store of runs: begin with `sql`, the store, and `tables.sql`, which describes its tables.

`write` writes a run as it happens, `read` and `summaries` read it, and `search` finds and counts
calls: all by plain SQL, through `location` and `tables`. `orm` speaks to any database that is no
file of SQLite. A store of an older schema is read by `older` as it is, and changed by `migration`.
"""
