"""The program that a harness starts for each call: `python -I -S client.py OPTIONS`.

It stays small: Python compiles it anew each time, and what it imports once. -I leaves its folder
out of where modules are looked for.
"""

import posix
import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/")[0])
    from asking import main  # type: ignore[import-not-found]

    # All is said and nothing is held: Python's own end would take another millisecond.
    posix._exit(main(sys.argv[1:]))  # noqa: SLF001
