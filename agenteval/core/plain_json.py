"""JSON that every program reads the same: what goes beyond is told to be none.

Python reads more (NaN, half a character, any depth) and some of it not at all (5,000 digits). What
is read here can be written again, stored and compared, however deep the caller stands.
"""

import json
from math import isinf
from typing import Any

from agenteval.core.legible import is_legible

DEEPEST = 100  # levels of objects and lists
_SHOWN = 20  # characters of a number


class _PlainError(ValueError):
    """What is JSON to Python, and to others not."""


def _whole(digits: str) -> int:
    _bounded(digits)
    return int(digits)


def _bounded(number: str) -> float:
    value = float(number)
    if isinf(value):
        raise _PlainError(f"a number beyond all bounds: {number[:_SHOWN]}...")
    return value


def _refused(constant: str) -> float:
    raise _PlainError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_int=_whole, parse_float=_bounded, parse_constant=_refused)


def read(text: str) -> Any:
    """The value. Raises ValueError, and nothing else, for what is no plain JSON."""
    start = len(text) - len(text.lstrip(" \t\n\r"))
    value, end = read_from(text, start)
    if rest := text[end:].strip(" \t\n\r"):
        raise json.JSONDecodeError("Extra data", text, text.index(rest[0], end))
    return value


def read_from(text: str, start: int) -> tuple[Any, int]:
    """The value that begins there, and where it ends. Raises as `read` does."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise _PlainError("nested without end") from None
    written = text[start:end]
    if written.count("{") + written.count("[") > DEEPEST and _is_deep(value):
        raise _PlainError(f"nested deeper than {DEEPEST} levels")
    if not _is_plain(value, written):
        raise _PlainError("half a character: a surrogate without its other half")
    return value, end


def _is_plain(value: Any, written: str) -> bool:
    """Whether all its strings are text. Only an escape makes one that is not."""
    if "\\u" not in written and is_legible(written):
        return True
    return is_legible(json.dumps(value, ensure_ascii=False))


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _inside(one)]
    return bool(level)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
