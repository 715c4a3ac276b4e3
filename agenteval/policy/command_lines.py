"""The shapes of what an allow list allows: commands, paths, and the command lines of scripts.

`CommandPattern` is a rule for whole commands, made of `WordPattern`; `PathRules` are globs of a
file tool, read after `normalise`. `CommandLine` says which options, positionals and sub-commands a
script takes, `Misuse` where a call is no such line; `parsers` reads one. `complaint` is about a
single value.
"""

import json
import math
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import dropwhile
from typing import Self

from agenteval.shell.gate import compiled

# The words of a command, and the numbers of those that bash still expands.
Argv = Sequence[str]
Dynamic = Collection[int]
Texts = tuple[str, ...]
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
    pieces: Texts
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


def _behind_options(argv: Argv, starts: Collection[int]) -> set[int]:
    """Return the places of the next word: these, and those behind options and their values."""
    places = set(starts)
    for at in range(min(places, default=len(argv)), len(argv)):
        if at in places and argv[at].startswith("-"):
            places.add(at + 1)
            if "=" not in argv[at]:
                places.add(at + 2)
    return places


def _in_order(pieces: Texts, text: str) -> bool:
    """Return True if a text is the pieces with anything between them. Linear in its length."""
    if len(pieces) == 1:
        return text == pieces[0]
    first, *middle, last = pieces
    if not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    # The same characters are both the beginning and the end: a in a*a.
    if end < at:
        return False
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
    # What every further word must match.
    rest: WordPattern | None
    fewest: int
    without: Texts = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a rule. Raises ValueError if there is no word in it."""
        words = tuple(WordPattern.parse(word) for word in text.split())
        if not words:
            raise ValueError("a rule needs at least one word")
        *fixed, last = words
        if fixed and last.text == ANY:
            return cls(text, tuple(fixed), last, len(fixed))
        if fixed and "/" in last.text and last.wild:
            return cls(text, tuple(fixed), last, len(words))
        return cls(text, words, None, len(words))

    @classmethod
    def parse_without(cls, program: str, options: Sequence[str]) -> Self:
        """Return a rule for `program` with any words behind it but these options.

        Raises ValueError as `parse` does.
        """
        pattern = cls.parse(f"{program} *")
        unfit = (option for option in options if not option.startswith("-") or len(option) < 2)
        if wrong := next(unfit, ""):
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

    def matches(self, argv: Argv, dynamic: Dynamic = ()) -> bool:
        """Return True if the rule fits a command.

        `dynamic` are the numbers of the words that bash still expands.
        """
        fixed = len(self.words)
        rest = self.rest
        if len(argv) < self.fewest or (rest is None and len(argv) > fixed):
            return False
        if self.agreeing(argv, dynamic) < fixed:
            return False
        if self.without and (dynamic or any(map(self._leaves_out, argv[fixed:]))):
            return False
        if rest is None or rest.text == ANY:
            return True
        further = range(fixed, len(argv))
        return all(rest.matches(argv[number], dynamic=number in dynamic) for number in further)

    def _leaves_out(self, word: str) -> bool:
        """Return True if a word may be an option: also shortened, with a value, in a cluster."""
        if len(word) < 2 or word[0] != "-" or word == "--":
            return False
        name = word.partition("=")[0]
        if any(option.startswith(name) for option in self.without):
            return True
        if word[1] == "-":
            return False
        return any(len(option) == 2 and option[1] in word for option in self.without)

    def names(self, argv: Argv, dynamic: Dynamic = ()) -> bool:
        """Return True if it may name the command, as a rule that denies.

        A word that bash still expands can become any words, and a program may have its folder.
        Options may stand before any word, each with a value or without: `git -C x push`.
        """
        at_most = len(argv)
        ends = {0}
        for number, pattern in enumerate(self.words):
            places = _behind_options(argv, ends) if number else ends
            if not places.isdisjoint(dynamic):
                return True
            words = [(at, argv[at]) for at in places if at < at_most]
            ends = {at + 1 for at, word in words if pattern.may_be(word, at)}
        first_end = min(ends, default=at_most)
        if any(number >= first_end for number in dynamic):
            return True
        if self.rest is None:
            return at_most in ends
        if self.rest.text == ANY:
            return bool(ends)
        return any(_in_order(self.rest.pieces, word) for word in argv[first_end:])

    def agreeing(self, argv: Argv, dynamic: Dynamic = ()) -> int:
        """Return the number of leading words that fit, by which a hint compares rules."""
        for number, (pattern, word) in enumerate(zip(self.words, argv, strict=False)):
            if pattern.wild or dynamic:
                if not pattern.matches(word, dynamic=number in dynamic):
                    return number
            # Most words of most rules.
            elif word != pattern.text:
                return number
        return min(len(self.words), len(argv))


def normalise(path: str, root: str) -> str | None:
    """Return `path` relative to the workspace `root`, without `.`; None when it may lead outside.

    So may any `..` behind a folder: that can be a link, and then its parent lies elsewhere.
    """
    if not path or len(path) > _LONGEST_PATH or "\0" in path or path.startswith("~"):
        return None
    if _PLAIN_PATH.fullmatch(path) and _is_plain(root):
        return path
    names = path.split("/")
    if max(map(len, names)) > _LONGEST_NAME:
        return None
    if ".." in dropwhile(_STILL.__contains__, names):
        return None
    return inside(posixpath.normpath(posixpath.join(root, path)), root)


@cache
def _is_plain(root: str) -> bool:
    """Return True if a plain path below this folder is already normal."""
    return posixpath.normpath(posixpath.join(root, "x")) == f"{root.rstrip('/')}/x"


@cache
def wildcard_regex(pattern: str) -> re.Pattern[str]:
    """Return the regular expression for `*`, anything, and `?`, one character.

    So other harnesses match. It is linear in the text.
    """
    first, *others = (_literal(part, ".") for part in pattern.split(ANY))
    return compiled(first + in_order(others, "."), re.DOTALL)


def in_order(parts: Sequence[str], character: str) -> str:
    """Return the regular expression of parts with any of such characters before each.

    Each but the last is taken where it first stands: if any place will do, that one will.
    """
    middle = "".join(f"(?>{character}*?{part})" for part in parts[:-1])
    return middle + "".join(f"{character}*{part}" for part in parts[-1:])


def _literal(text: str, character: str) -> str:
    """Return a part of a pattern, in which `?` stands for such a character."""
    return re.escape(text).replace(r"\?", character)


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
    first, *others = (_literal(part, "[^/]") for part in glob.split(ANY))
    if is_last:
        return first + in_order(others, "[^/]")
    return first + "".join(f"(?>[^/]*?{part})" for part in others)


@dataclass(frozen=True, slots=True)
class PathRules:
    """The paths that a file tool may touch. `**` crosses folders, `*` and `?` do not; deny wins."""

    allow: Texts = ()
    deny: Texts = ()

    def admits(self, path: str) -> bool:
        """Return True if a normalised path is allowed; nothing is unless a rule says so."""
        return self._any(self.allow, path) and not self._any(self.deny, path)

    @staticmethod
    def _any(globs: Texts, path: str) -> bool:
        return any(path_regex(glob).fullmatch(path) for glob in globs)


def absolute(path: str, root: str) -> str:
    """Return the normalised absolute path, with one slash in front."""
    # `normpath` keeps two slashes, which would hide /etc from a rule for it.
    return "/" + posixpath.normpath(posixpath.join(root, path)).lstrip("/")


def inside(whole: str, root: str) -> str | None:
    """Return an absolute path relative to the project; None for one outside."""
    if whole == root:
        return "."
    prefix = root.rstrip("/") + "/"
    return whole.removeprefix(prefix) if whole.startswith(prefix) else None


def expanded(path: str, home: str) -> str:
    """A path with the home folder in place of a `~` that begins it; other people's stay."""
    is_below_home = path == "~" or path.startswith("~/")
    return home + path[1:] if is_below_home else path


class Kind(StrEnum):
    """The kind of value that an argument must have; a flag takes none."""

    STR = "str"
    INT = "int"
    FLOAT = "float"
    CHOICE = "choice"
    PATH = "path"
    JSON = "json"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Argument:
    """One option or positional. `most` None: any number of values.

    `repeatable` None: it may be given again, and the last one counts; True: each one counts.
    `ends` marks an option at which the script stops, as for help. `is_rest` marks a positional that
    takes all that is left, options too.
    """

    name: str
    kind: Kind = Kind.STR
    choices: Texts = ()
    fewest: int = 1
    most: int | None = 1
    aliases: Texts = ()
    required: bool = False
    repeatable: bool | None = None
    ends: bool = False
    is_rest: bool = False


class Parser(StrEnum):
    """The parser of a script's command line. Each finds other words in the same text."""

    ARGPARSE = "argparse"
    CLICK = "click"
    TYPER = "typer"
    # GNU's getopt_long, and Python's gnu_getopt.
    GETOPT = "getopt"
    GO = "go"  # the package flag
    # Every word is a positional.
    NONE = "none"


@dataclass(frozen=True, slots=True)
class OneOf:
    """Options of which one may be given, and with `required` must be."""

    names: Texts
    required: bool = False


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The words that may follow a script's path, or the name of one of its sub-commands.

    `abbreviations` says whether a prefix that fits one long option is that option, `prefix` with
    which characters an option may begin, `command_optional` whether a sub-command may be left out.
    """

    # By every name and alias, those for help among them.
    options: Mapping[str, Argument]
    positionals: tuple[Argument, ...] = ()
    commands: Mapping[str, "CommandLine"] = field(default_factory=dict)
    parser: Parser = Parser.ARGPARSE
    abbreviations: bool = True
    prefix: str = "-"
    groups: tuple[OneOf, ...] = ()
    command_optional: bool = False
    # None: as every such parser has them.
    helps: Texts | None = None

    @classmethod
    def of(  # noqa: PLR0913 -- a command line has that many sides
        cls,
        options: Collection[Argument] = (),
        positionals: tuple[Argument, ...] = (),
        commands: Mapping[str, "CommandLine"] | None = None,
        *,
        parser: Parser = Parser.ARGPARSE,
        prefix: str = "-",
        helps: Sequence[str] | None = None,
        abbreviations: bool = True,
        groups: Iterable[OneOf] = (),
        command_optional: bool = False,
    ) -> Self:
        """Return a command line with each option under all its names.

        `helps` are the options that print help; None for those that the parser has itself.
        """
        own = helps_of(parser, prefix) if helps is None else tuple(helps)
        all_options = [*options]
        if own:
            all_options.insert(0, Argument(own[0], Kind.FLAG, aliases=own[1:], ends=True))
        by_name: dict[str, Argument] = {}
        for option in all_options:
            by_name |= dict.fromkeys((option.name, *option.aliases), option)
        return cls(
            by_name,
            positionals,
            commands or {},
            parser,
            abbreviations,
            prefix,
            tuple(groups),
            command_optional,
            None if helps is None else own,
        )

    def flags(self) -> Iterator[str]:
        """Yield every option's name, of the sub-commands too."""
        yield from self.options
        for command in self.commands.values():
            yield from command.flags()

    def own_options(self) -> Iterator[Argument]:
        """Yield each option once, without those for help."""
        helps = helps_of(self.parser, self.prefix) if self.helps is None else self.helps
        for option in dict.fromkeys(self.options.values()):
            if not option.ends or (option.name, *option.aliases) != helps:
                yield option


def helps_of(parser: Parser, prefix: str = "-") -> Texts:
    """Return the options for help that such a parser has without a definition."""
    if parser in {Parser.CLICK, Parser.TYPER}:
        return ("--help",)
    if parser is Parser.GO:
        return ("-help", "-h")
    if parser in {Parser.GETOPT, Parser.NONE}:
        return ()
    mark = "-" if "-" in prefix else prefix[0]
    return (f"{mark}{mark}help", f"{mark}h")


@dataclass(frozen=True, slots=True)
class Misuse:
    """The reason why a command line does not fit, and the word where it fails.

    A place past the last word means that something is missing. `invented` is what exists nowhere
    in the script: an option, a sub-command, a choice's value; `near` is what exists and is like it.
    """

    at: int
    hint: str
    invented: str = ""
    kind: "Invented | None" = None
    near: str = ""


class Invented(StrEnum):
    """The part of a script's command line that a call made up."""

    OPTION = "option"
    COMMAND = "sub-command"
    VALUE = "value"


# Values of arguments.

Numbers = Mapping[Kind, Callable[[str], object]]
_EXPECTED = {
    Kind.INT: "a whole number",
    Kind.FLOAT: "a number",
    Kind.JSON: "valid JSON",
    Kind.PATH: "a path inside the workspace",
}


def complaint(
    argument: Argument,
    value: str,
    root: str,
    numbers: Numbers,
) -> str:
    """Return the fault of a value, phrased as the fix; empty if it fits."""
    if argument.kind is Kind.FLAG:
        return f"{argument.name} takes no value"
    if argument.choices and value not in argument.choices:
        return f"{argument.name} must be one of {', '.join(argument.choices)}, not {value!r}"
    if _fits(argument.kind, value, root, numbers):
        return ""
    return f"{argument.name} must be {_EXPECTED[argument.kind]}, not {value!r}"


def _fits(
    kind: Kind,
    value: str,
    root: str,
    numbers: Numbers,
) -> bool:
    try:
        match kind:
            case Kind.INT | Kind.FLOAT:
                numbers[kind](value)
            case Kind.JSON:
                json.loads(value)
            case Kind.PATH:
                return normalise(value, root) is not None
    # Of JSON nested some thousand deep.
    except (ValueError, OverflowError, RecursionError):
        return False
    return True


# Numbers: each reader raises ValueError or OverflowError for a text that is none.


def _go_int(text: str) -> None:
    """A leading zero alone means octal, and 64 bits hold it."""
    number = int(_OCTAL.sub(r"\g<1>0o", _bare(text)), 0)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(text)


def _go_float(text: str) -> None:
    is_hex = _HEX.fullmatch(_bare(text))
    value = float.fromhex(text) if is_hex else float(text)
    if not (math.isfinite(value) or _NO_NUMBER.fullmatch(text)):
        raise ValueError(text)


def _bare(text: str) -> str:
    """Return the text. Raises ValueError for what Python reads in numbers and Go does not."""
    if not text.isascii() or text != text.strip():
        raise ValueError(text)
    return text


_OCTAL = re.compile(r"^([+-]?)0(?=[_0-7])")
_HEX = re.compile(r"[+-]?0[xX].*[pP].*")
_NO_NUMBER = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
PYTHON_NUMBERS: Numbers = {Kind.INT: int, Kind.FLOAT: float}
GO_NUMBERS: Numbers = {Kind.INT: _go_int, Kind.FLOAT: _go_float}
