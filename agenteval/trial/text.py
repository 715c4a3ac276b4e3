"""Text, JSON and chance that are the same for every program, whatever was received.

A name is one line, and a text may have several. The two are different types, as what prints a
name would otherwise print the lines that a stranger wrote into it.

In order: text and names; plain JSON; chance that follows from a key, and what a scenario draws
by it; the known name that a wrong one may mean, for hints.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from math import isinf
from operator import add
from typing import Any, NewType, TypeVar

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
    content = plain.encode()[:_LONGEST_PART]
    part = content.decode("utf-8", "ignore").rstrip(".")
    if not part or _DEVICE.match(part):
        part = f"_{part}"
    return Name(part)


_LONGEST_PART = 120
# Of Windows, whatever stands behind a dot.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:[.:]|$)", re.IGNORECASE)


def without_log_commands(text: str) -> str:
    """Return the text with a look-alike in each part that a CI runner would obey.

    GitHub's runner obeys a line that begins, behind blanks, with `::`, and `##[` anywhere in one;
    Azure's `##vso[` and TeamCity's `##teamcity[` anywhere. Other runners need control characters.
    """
    text = _LINE_COMMAND.sub("\\1\u2237", text)
    return _INNER_COMMAND.sub("#\u266f", text)


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
    if re.fullmatch(r"[\w@%+=:,./-]+", text, re.ASCII):
        return text
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"


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
    return f"{text[:most]} ({rest} more characters)" if rest > 0 else text


def excerpt(body: str, length: int = 120) -> str:
    """Return the first characters of a body on one line, for an error message."""
    flat = " ".join(body[: 4 * length].split())
    if len(flat) > length:
        flat = f"{flat[:length]}..."
    return repr(flat)


def is_json(value: Any) -> bool:
    """Return True if it can be written as JSON: no NaN, no infinite number, not too deep."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


# JSON that every program reads the same.

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
    rest = text[end:].strip(" \t\n\r")
    if rest:
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
        below: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                below += part.values()
            elif isinstance(part, list):
                below += part
        level = below
    return bool(level)


# Chance.

Item = TypeVar("Item")
_SEEDS = 2**31  # what every server takes
_STRIDE = 1_000_003


def turn_seed(trial_seed: int, turns: int) -> int:
    """Return the seed sent with a request after so many turns of its trial.

    With one seed for all of them a server draws the same chance in every turn: a model would make
    one mistake again and again, and look as if it never recovered.
    """
    return (trial_seed + turns * _STRIDE) % _SEEDS


def seed_of_trial(turn_seed: int, turns: int) -> int:
    """Return the trial's seed, from the one that was sent after so many turns."""
    return (turn_seed - turns * _STRIDE) % _SEEDS


class Chance:
    """A stream of draws. Templates of worlds use it as `chance`; every bound is included."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._drawn = 0

    def integer(self, low: int, high: int) -> int:
        """Draw a whole number. Raises ValueError when `high` is below `low`."""
        if high < low:
            raise ValueError(f"no whole number from {low} to {high}")
        self._drawn += 1
        digest = hashlib.sha256(f"{self._key}/{self._drawn}".encode()).digest()
        return low + int.from_bytes(digest[:8]) % (high - low + 1)

    def number(self, low: float, high: float, digits: int = 2) -> float:
        """Draw a decimal number with so many digits behind the point."""
        scale: int = 10**digits
        return self.integer(round(low * scale), round(high * scale)) / scale

    def choice(self, items: Sequence[Item]) -> Item:
        return items[self.integer(0, len(items) - 1)]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """Draw `count` different items. Raises ValueError when there are too few."""
        left = list(items)
        return [left.pop(self.integer(0, len(left) - 1)) for _ in range(count)]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        return self.sample(items, len(items))

    def day(self, first: str, last: str) -> str:
        """Draw a day between two, all as YYYY-MM-DD."""
        start = date.fromisoformat(first)
        days = self.integer(0, (date.fromisoformat(last) - start).days)
        return (start + timedelta(days=days)).isoformat()


DRAWS = frozenset({"integer", "number", "choice", "sample", "shuffled", "day"})  # for templates

Value = str | int | float | list[str | int]


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number, both ends included."""

    low: int
    high: int

    def drawn(self, chance: Chance) -> Value:
        return chance.integer(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Day:
    """A day as YYYY-MM-DD, both ends included."""

    first: str
    last: str

    def drawn(self, chance: Chance) -> Value:
        return chance.day(self.first, self.last)


@dataclass(frozen=True, slots=True)
class Pick:
    """One of a list; with a `count`, a list of so many different ones."""

    of: tuple[str | int, ...]
    count: int = 0

    def drawn(self, chance: Chance) -> Value:
        return chance.sample(self.of, self.count) if self.count else chance.choice(self.of)


Draw = Whole | Day | Pick

# Names that are alike.

_ALIKE = 0.5  # Dice's coefficient of the pairs of letters; `listt` and `list` have 0.8


class Names:
    """A set of known names, made ready for questions: a denied call must not wait for its hint."""

    def __init__(self, names: Iterable[str], *, alike: float = _ALIKE) -> None:
        self._alike = alike
        self._sizes: dict[str, int] = {}  # how many pairs of letters each name has
        self._having: dict[str, list[str]] = {}  # which names have this pair of letters
        for name in sorted(set(names)):
            pairs = _letter_pairs(name)
            self._sizes[name] = len(pairs)
            for pair in pairs:
                self._having.setdefault(pair, []).append(name)
        self.nearest = lru_cache(maxsize=1024)(self._nearest)  # agents know few programs

    def _nearest(self, word: str) -> str:
        """Return the known name most like `word`; "" when none is like it at all.

        Of names that are equally like it, the first in their order.
        """
        pairs = _letter_pairs(word)
        shared: Counter[str] = Counter()
        for pair in pairs:
            shared.update(self._having.get(pair, ()))
        best = 0.0
        nearest = ""
        for name in sorted(shared):
            likeness = 2 * shared[name] / (len(pairs) + self._sizes[name])
            if likeness > best:
                best = likeness
                nearest = name
        return nearest if best >= self._alike else ""


@lru_cache(maxsize=256)
def names(known: frozenset[str]) -> Names:
    """Return the names, kept for sets that are asked about again and again."""
    return Names(known)


def likeness_of_names(first: str, second: str) -> float:
    """Return Dice's coefficient of the pairs of letters of two names, from 0 to 1."""
    pairs = _letter_pairs(first)
    other_pairs = _letter_pairs(second)
    return 2 * len(pairs & other_pairs) / (len(pairs) + len(other_pairs))


def _letter_pairs(word: str) -> frozenset[str]:
    """Return the pairs of letters, with signs for the beginning and the end, in small letters."""
    whole = f"^{word.lower()}$"
    return frozenset(map(add, whole, whole[1:]))
