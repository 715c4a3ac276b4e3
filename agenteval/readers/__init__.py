"""Readers of the logs of other programs, one file each; `log_formats` has the list of them.

A reader takes a path and gives sessions (`core.logged`), and what it could not read of it. It never
raises for what stands in a file, and never holds a whole one.
"""
