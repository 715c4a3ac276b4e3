"""Tries the named attempts, or all of them, and prints what stopped each."""

import json
import sys
from importlib import import_module

from base import ATTEMPTS, stopped_by

if __name__ == "__main__":
    for subject in ("files", "network", "processes", "kernel", "corners"):
        import_module(f"on_{subject}")
    wanted = sys.argv[2:] or ATTEMPTS
    print(json.dumps({name: stopped_by(ATTEMPTS[name]) for name in wanted}))
