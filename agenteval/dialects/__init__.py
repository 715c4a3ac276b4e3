"""Other harnesses, one folder each: begin with registry.py, which says what a folder holds."""

from pathlib import Path

_FOLDERS = (path.parent.name for path in Path(__file__).parent.glob("*/__init__.py"))
# Known without loading any of them: the start of every command waits for this.
NAMES = tuple(sorted(name.replace("_", "-") for name in _FOLDERS))
