"""A script that tells how it was run."""

# A fixture's script that tells how it was run: the runner's own Python is an isolated one.
WITNESS = b"import sys\nprint('forked' if sys.flags.isolated else 'executed')\n"
