"""Reading shell: the gate and the leaves decide what may run, the facts explain what may not.

Begin with `gate`, one simple command; `leaves` splits a text for it, and `reader` explains.
"""

from typing import Any


def read_table(package: str, name: str) -> dict[str, Any]:
    """Return a table that lies as TOML next to the modules of a package."""
    import tomllib  # noqa: PLC0415 -- start-up: an allowed call needs no table
    from pkgutil import get_data  # noqa: PLC0415 -- likewise

    content = get_data(package, name) or b""
    return tomllib.loads(content.decode())
