"""Text exactly as a model wrote it, in a form that any column can hold."""

import json

MARK = "\x02json:"


def to_column(value: str) -> str:
    """As it is, or as MARK and its JSON in ASCII where a database would refuse it."""
    marked = value.startswith(MARK) or "\0" in value or _has_surrogate(value)
    return MARK + json.dumps(value) if marked else value


def from_column(stored: str) -> str:
    return str(json.loads(stored.removeprefix(MARK))) if stored.startswith(MARK) else stored


def _has_surrogate(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False
