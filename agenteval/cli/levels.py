"""Concurrency levels as they are given on the command line: `4`, or `1,2,4`."""

from agenteval.errors import UsageError


def levels_of(text: str) -> tuple[int, ...]:
    """Every level once, in the order given. Raises UsageError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 1 <= len(part) <= 4 for part in parts) or any(
        int(part) < 1 for part in parts
    ):
        raise UsageError(
            f"--concurrency {text!r}: numbers from 1 to 9999, such as 4 or 1,2,4; each is a level"
        )
    return tuple(dict.fromkeys(map(int, parts)))
