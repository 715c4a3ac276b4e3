"""The store of runs: begin with `sql`, the store, and `rows`, its tables.

`recorder` writes a run as it happens, `loading` reads it, `summaries` reads what figures are made
from, and `shards` says which process has a trial: all by plain SQL, through `connections`. `orm`
makes tables and speaks to any database that is no file of SQLite. A store of an older schema is
read by `older` as it is, and changed by `migration` after `backup` has copied it.
"""
