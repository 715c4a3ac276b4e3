"""Text and JSON that every program reads the same, whatever was received.

A name is one line, and a text may have several. The two are different types, as what prints a
name would otherwise print the lines that a stranger wrote into it.
"""

import json
import re
from math import isinf
from typing import Any, NewType

REPLACEMENT = "\ufffd"
Name = NewType("Name", str)  # one line that hides nothing: only `as_name` makes one


def decoded(content: bytes) -> str:
    """Return bytes as text, whatever they are: a byte that is no UTF-8 becomes a lone surrogate."""
    return content.decode("utf-8", "surrogateescape")


def is_byte(character: str) -> bool:
    """Return True if `decoded` returns this character for a byte that is no UTF-8."""
    return "\udc80" <= character <= "\udcff"


def is_legible(text: str) -> bool:
    """Return True if the text has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def paired(text: str) -> str:
    """Return the text with separated halves of a character joined."""
    if is_legible(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def legible(text: str) -> str:
    """Return the text with U+FFFD for what is no character."""
    if is_legible(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def visible(text: str) -> str:
    """Return the text with a sign for every character that is invisible or moves others.

    Control characters are pictures, as at a terminal; what turns the direction of writing, joins
    or has no width is its number. Ends of lines and tabs stay.
    """
    return text if text.isprintable() else text.translate(_SIGNS)


def as_name(text: str) -> Name:
    """Return the text as one line: ends of lines and tabs become signs as well."""
    return Name(text if text.isprintable() else text.translate(_NAME_SIGNS))


def as_file_part(text: str) -> Name:
    """Return a part of a file's name: no separator or blank, no option, no hidden file.

    It has at most 120 bytes, as a file system takes 255 for a name with all that is added to it.
    """
    plain = re.sub(r"[^\w.:+@=,-]+", "-", legible(text)).lstrip("-.")
    short = plain.encode()[:_LONGEST_PART].decode("utf-8", "ignore").rstrip(".")
    is_device = _DEVICE.match(short)  # of Windows, whatever stands behind a dot
    return Name(f"_{short}" if is_device or not short else short)


_LONGEST_PART = 120
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:[.:]|$)", re.IGNORECASE)


def without_log_commands(text: str) -> str:
    """Return the text with a look-alike in each part that a CI runner would obey.

    GitHub's runner obeys a line that begins, behind blanks, with `::`, and `##[` anywhere in one;
    Azure's `##vso[` and TeamCity's `##teamcity[` anywhere. Other runners need control characters.
    """
    return _INNER_COMMAND.sub("#\u266f", _LINE_COMMAND.sub("\\1\u2237", text))


# The runners are .NET programs: a comparison by the rules of a language passes over these.
_IGNORED = (
    r"\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    r"\U000e0000-\U000e0fff"
)
_BLANKS = r" \t\x0b\x0c\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_GAP = f"[{_IGNORED}]*"
_LINE_COMMAND = re.compile(rf"(?<![^\n\r])([{_BLANKS}{_IGNORED}]*):{_GAP}:")
_INNER_COMMAND = re.compile(
    rf"#{_GAP}#(?={_GAP}(?:\[|{_GAP.join('vso')}{_GAP}\[|{_GAP.join('teamcity')}{_GAP}\[))",
    re.IGNORECASE,
)


def as_word(text: str) -> str:
    """Return the text quoted as one word of shell, for a command that is shown to a user."""
    is_plain = re.fullmatch(r"[\w@%+=:,./-]+", text, re.ASCII)
    return text if is_plain else "'{}'".format(text.replace("'", "'\\''"))


class _Signs(dict[int, str]):
    """Signs by character code: made on first use, and kept for the usual characters."""

    def __init__(self, unchanged: str) -> None:
        super().__init__({ord(character): character for character in unchanged})

    def __missing__(self, code: int) -> str:
        sign = _sign(chr(code))
        if code < _USUAL:
            self[code] = sign
        return sign


_USUAL = 0x3000  # so that a text which has every character does not fill the memory
_SIGNS = _Signs("\n\t")
_NAME_SIGNS = _Signs("")


def _sign(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def shortened(text: str, most: int) -> str:
    """Return the first characters of a text, and how many more there are."""
    rest = len(text) - most
    return text if rest <= 0 else f"{text[:most]} ({rest} more characters)"


def excerpt(body: str, length: int = 120) -> str:
    """Return the first characters of a body on one line, for an error message."""
    flat = " ".join(body[: 4 * length].split())
    return repr(flat if len(flat) <= length else flat[:length] + "...")


def is_json(value: Any) -> bool:
    """Return True if it can be written as JSON: no NaN, no infinite number, not too deep."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


DEEPEST = 100  # levels of objects and lists
_SHOWN = 20  # characters of a number


class _PlainError(ValueError):
    """A text that is JSON to Python and not to other programs."""


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
    """Return the value. Raises ValueError, and nothing else, for what is no plain JSON."""
    start = len(text) - len(text.lstrip(" \t\n\r"))
    value, end = read_from(text, start)
    if rest := text[end:].strip(" \t\n\r"):
        raise json.JSONDecodeError("Extra data", text, text.index(rest[0], end))
    return value


def read_from(text: str, start: int) -> tuple[Any, int]:
    """Return the value that begins at `start`, and where it ends. Raises as `read` does."""
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
    """Return True if all its strings are text. Only an escape makes one that is not."""
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
