"""Patterns of an allow list: words of a command line, and paths below the workspace."""

import posixpath
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import dropwhile
from typing import Self

from agenteval.core.shell.words import compiled

ANY = "*"
_LONGEST_PATH = 4096  # what Linux opens
_LONGEST_NAME = 255
_STILL = frozenset(("", ".", ".."))
_REST_OF_NAME = rf"[^/\0]{{0,{_LONGEST_NAME - 1}}}"
_PLAIN_PATH = compiled(rf"[^/.~\0]{_REST_OF_NAME}(?:/[^/.\0]{_REST_OF_NAME})*+")


@dataclass(frozen=True, slots=True)
class WordPattern:
    """One word of a rule; `*` stands for any characters, everything else for itself.

    It never matches a dynamic word: bash makes any number of words of that, none included. A
    pattern with both a star and a slash never matches a word in which a `..` could lead out, be it
    behind an option: -I../x.
    """

    text: str
    pieces: tuple[str, ...]
    wild: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        pieces = tuple(text.split(ANY))
        return cls(text, pieces, len(pieces) > 1)

    def matches(self, word: str, *, dynamic: bool = False) -> bool:
        if dynamic:
            return False
        if not self.wild:
            return word == self.text
        if "/" in self.text and ("../" in word or word.endswith("..")):
            return False
        return _in_order(self.pieces, word)

    def may_be(self, word: str, at: int) -> bool:
        """Return True if it may name a word at this place.

        The first word may have its folder before it.
        """
        name = word if at else word.rpartition("/")[2]
        return _in_order(self.pieces, name) or word == self.text


def _behind_options(argv: Sequence[str], starts: Collection[int]) -> set[int]:
    """Return the places of the next word: these, and those behind options and their values."""
    places = set(starts)
    for at in range(min(places, default=len(argv)), len(argv)):
        if at in places and argv[at].startswith("-"):
            places.add(at + 1)
            if "=" not in argv[at]:
                places.add(at + 2)
    return places


def _in_order(pieces: tuple[str, ...], text: str) -> bool:
    """Does `text` consist of the pieces with anything between them? Linear in its length."""
    if len(pieces) == 1:
        return text == pieces[0]
    first, *middle, last = pieces
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """A rule for whole commands, as `git diff *`: one pattern for each word.

    A last word `*` stands for any further words, none included; a last word with both a slash and
    a `*`, as `data/*`, for one or more words that each match it. With `without` no word behind the
    program may be one of these options, in any way to write it, or one that bash still expands.
    """

    text: str
    words: tuple[WordPattern, ...]
    rest: WordPattern | None  # what every further word must match
    fewest: int
    without: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a rule. Raises ValueError if there is no word in it."""
        words = tuple(WordPattern.parse(word) for word in text.split())
        if not words:
            raise ValueError("a rule needs at least one word")
        last = words[-1]
        if len(words) > 1 and last.text == ANY:
            return cls(text, words[:-1], last, len(words) - 1)
        if len(words) > 1 and "/" in last.text and last.wild:
            return cls(text, words[:-1], last, len(words))
        return cls(text, words, None, len(words))

    @classmethod
    def parse_without(cls, program: str, options: Sequence[str]) -> Self:
        """Return a rule for `program` with any words behind it but these options.

        Raises ValueError as `parse` does.
        """
        pattern = cls.parse(f"{program} *")
        if wrong := next(
            (each for each in options if not each.startswith("-") or len(each) < 2), ""
        ):
            raise ValueError(f"{program}: not: an option begins with -, unlike {wrong!r}")
        text = f"{pattern.text} without {', '.join(options)}"
        return cls(text, pattern.words, pattern.rest, pattern.fewest, tuple(options))

    @property
    def program(self) -> WordPattern:
        return self.words[0]

    @property
    def wild(self) -> bool:
        """Return True if any word may differ from what the rule says."""
        return self.rest is not None or any(word.wild for word in self.words)

    def matches(self, argv: Sequence[str], dynamic: Collection[int] = ()) -> bool:
        """Return True if the rule fits a command.

        `dynamic` are the numbers of the words that bash still expands.
        """
        fixed = len(self.words)
        if len(argv) < self.fewest or (self.rest is None and len(argv) > fixed):
            return False
        if self.agreeing(argv, dynamic) < fixed:
            return False
        rest = self.rest
        if self.without and (dynamic or any(map(self._leaves_out, argv[fixed:]))):
            return False
        return (
            rest is None
            or rest.text == ANY
            or all(rest.matches(argv[i], dynamic=i in dynamic) for i in range(fixed, len(argv)))
        )

    def _leaves_out(self, word: str) -> bool:
        """Return True if a word may be an option: also shortened, with a value, in a cluster."""
        if len(word) < 2 or word[0] != "-" or word == "--":
            return False
        name = word.partition("=")[0]
        return any(
            option.startswith(name)
            or name == option
            or (len(option) == 2 and word[1] != "-" and option[1] in word)
            for option in self.without
        )

    def names(self, argv: Sequence[str], dynamic: Collection[int] = ()) -> bool:
        """Return True if it may name the command, as a rule that denies.

        A word that bash still expands can become any words, and a program may have its folder.
        Options may stand before any word, each with a value or without: `git -C x push`.
        """
        ends, at_most = {0}, len(argv)
        for number, pattern in enumerate(self.words):
            places = _behind_options(argv, ends) if number else ends
            if not places.isdisjoint(dynamic):
                return True
            ends = {at + 1 for at in places if at < at_most and pattern.may_be(argv[at], at)}
        if any(number >= min(ends, default=at_most) for number in dynamic):
            return True
        if self.rest is None:
            return at_most in ends
        if self.rest.text == ANY:
            return bool(ends)
        further = argv[min(ends, default=at_most) :]
        return any(_in_order(self.rest.pieces, word) for word in further)

    def agreeing(self, argv: Sequence[str], dynamic: Collection[int] = ()) -> int:
        """Return the number of leading words that fit, by which a hint compares rules."""
        for number, (pattern, word) in enumerate(zip(self.words, argv, strict=False)):
            if pattern.wild or dynamic:
                if not pattern.matches(word, dynamic=number in dynamic):
                    return number
            elif word != pattern.text:  # most words of most rules
                return number
        return min(len(self.words), len(argv))


def normalise(path: str, root: str) -> str | None:
    """`path` relative to the workspace `root`, without `.`; None when it may lead outside.

    So may any `..` behind a folder: that can be a link, and then its parent lies elsewhere.
    """
    if not path or len(path) > _LONGEST_PATH or "\0" in path or path.startswith("~"):
        return None
    if _PLAIN_PATH.fullmatch(path) and _is_plain(root):
        return path
    names = path.split("/")
    if ".." in dropwhile(_STILL.__contains__, names) or max(map(len, names)) > _LONGEST_NAME:
        return None
    whole = posixpath.normpath(posixpath.join(root, path))
    if whole == root:
        return "."
    prefix = root.rstrip("/") + "/"
    return whole[len(prefix) :] if whole.startswith(prefix) else None


@cache
def _is_plain(root: str) -> bool:
    """Return True if a plain path below this folder is already normal."""
    return posixpath.normpath(posixpath.join(root, "x")) == f"{root.rstrip('/')}/x"


@cache
def wildcard_regex(pattern: str) -> re.Pattern[str]:
    """`*` for anything and `?` for one character, as other harnesses match; linear in the text.

    Each part between two stars is taken where it first stands: if any place will do, that one will.
    """
    first, *others = (
        "".join("." if c == "?" else re.escape(c) for c in part) for part in pattern.split(ANY)
    )
    middle = "".join(f"(?>.*?{part})" for part in others[:-1])
    last = f".*{others[-1]}" if others else ""
    return compiled(first + middle + last, re.DOTALL)


@cache
def path_regex(glob: str) -> re.Pattern[str]:
    """Return the regular expression of a glob: `**` crosses folders, `*` and `?` do not.

    As above, it tries no path in many ways. `**/` where a name begins stands for any folders, none
    included.
    """
    first, *others = re.split(r"((?:^|(?<=/))\*\*/|\*\*)", glob)
    remaining = len(others) // 2
    regex = _names(first, is_last=not remaining)
    for star, part in zip(others[::2], others[1::2], strict=True):
        folders = "(?:[^/]++/)*" if star == "**/" else ".*"
        remaining -= 1
        names = _names(part, is_last=not remaining)
        regex += f"(?>{folders}?{names})" if remaining else f"{folders}{names}"
    return compiled(regex, re.DOTALL)


def _names(glob: str, *, is_last: bool) -> str:
    first, *others = (
        "".join("[^/]" if c == "?" else re.escape(c) for c in part) for part in glob.split(ANY)
    )
    if not is_last:
        return first + "".join(f"(?>[^/]*?{part})" for part in others)
    middle = "".join(f"(?>[^/]*?{part})" for part in others[:-1])
    return first + middle + "".join(f"[^/]*{part}" for part in others[-1:])


@dataclass(frozen=True, slots=True)
class PathRules:
    """The paths that a file tool may touch. `**` crosses folders, `*` and `?` do not; deny wins."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def admits(self, path: str) -> bool:
        """Return True if a normalised path is allowed; nothing is unless a rule says so."""
        return self._any(self.allow, path) and not self._any(self.deny, path)

    @staticmethod
    def _any(globs: tuple[str, ...], path: str) -> bool:
        return any(path_regex(glob).fullmatch(path) for glob in globs)


def absolute(path: str, root: str) -> str:
    """Unlike `normpath` alone with one slash in front: two would hide /etc from a rule for it."""
    return "/" + posixpath.normpath(posixpath.join(root, path)).lstrip("/")


def inside(whole: str, root: str) -> str | None:
    """Return an absolute path relative to the project; None for one outside."""
    if whole == root:
        return "."
    prefix = root.rstrip("/") + "/"
    return whole.removeprefix(prefix) if whole.startswith(prefix) else None


def expanded(path: str, home: str) -> str:
    """A path with the home folder in place of a `~` that begins it; other people's stay."""
    return home + path[1:] if path == "~" or path.startswith("~/") else path
