"""Programs that run what their arguments say: where the inner command begins, or its text.

Tests of whether two commands do the same thing to the same object, by their words.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise, product
from typing import NamedTuple

from agenteval.shell.gate import new

MAX_WRAPPED = 8  # wrappers and nested shells inside each other that are seen through
_Argv = Sequence[str]


class Inside(NamedTuple):
    """The words that a wrapper runs: as a command, or as the shell text that they join to."""

    start: int
    stop: int
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class _Prefix:
    """A program that runs the command behind its own options and operands."""

    valued: frozenset[str] = frozenset()  # options whose value is the next word
    operands: int = 0
    assignments: bool = False
    is_text: bool = False  # it hands what follows to a shell
    asks: frozenset[str] = frozenset()  # options with which it only asks about a command


def _prefix(valued: str = "", operands: int = 0, asks: str = "", **flags: bool) -> _Prefix:
    return _Prefix(frozenset(valued.split()), operands, asks=frozenset(asks.split()), **flags)


_PLAIN = _prefix()
_ENV = _prefix("-u --unset -C --chdir", assignments=True)
_PREFIXES = {
    "timeout": _prefix("-k --kill-after -s --signal", 1),
    "nice": _prefix("-n --adjustment"),
    "ionice": _prefix("-c --class -n --classdata"),
    "stdbuf": _prefix("-i --input -o --output -e --error"),
    "time": _prefix("-f --format -o --output"),
    "taskset": _prefix("", 1),
    "flock": _prefix("-w --timeout -E", 1),
    "sudo": _prefix("-u --user -g --group -h --host -p -C -D -R -T -r -t -U", assignments=True),
    "doas": _prefix("-u -C"),
    "xargs": _prefix("-n -P -I -L -d -E -s -a --max-args --max-procs --delimiter --arg-file"),
    "command": _prefix(asks="-v -V"),
    "exec": _prefix("-a"),
    "strace": _prefix("-e -o -s -p -u"),
    "watch": _prefix("-n --interval", is_text=True),
    "ssh": _prefix("-p -i -l -o -F -J -L -R -D -b -c -E -e -I -m -O -Q -S -W -w", 1, is_text=True),
    "eval": _prefix(is_text=True),
    "npx": _prefix("-p --package"),
    "uvx": _prefix("--from --with -p --python"),
}  # fmt: skip
_PREFIXES |= dict.fromkeys(("nohup", "setsid", "builtin", "coproc", "chronic", "unbuffer"), _PLAIN)
_RUNNERS = {
    "uv": _prefix(
        "--with --with-requirements --with-editable -p --python --extra --group --only-group "
        "--project --directory --env-file --index --index-url --default-index --package"
    ),
    **dict.fromkeys(("poetry", "pipenv", "pdm", "rye", "hatch", "pipx"), _PLAIN),
    "conda": _prefix("-n --name -p --prefix"),
}
SHELLS = {
    "bash", "rbash", "sh", "dash", "zsh", "ksh", "mksh", "yash", "ash", "fish", "csh", "tcsh",
}  # fmt: skip
_BASH_LONG = re.compile(
    "debug(?:ger)?|dump-(?:po-)?strings|help|init-file|login|no(?:editing|profile|rc)|posix"
    "|pretty-print|rcfile|restricted|verbose|version"
)
_FISH_LONG = {"--command": "c", "--init-command": "C", "--debug": "d", "--debug-output": "o"}
_FISH_LONG |= {"--debug-stack-frames": "D", "--features": "f", "--profile": "p"}
_FISH_LONG |= {"--profile-startup": "p"}
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*\Z")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_FIND_EXEC = {"-exec", "-execdir", "-ok", "-okdir"}


def program_name(word: str) -> str:
    return word.rpartition("/")[2]


@lru_cache(maxsize=1024)
def is_wrapper(program: str) -> bool:
    name = program_name(program)
    return name in _READERS or name in _PREFIXES or _PYTHON.match(name) is not None


@lru_cache(maxsize=1024)
def is_prefix(program: str) -> bool:
    """Return True if a wrapper runs what stands behind words of its own: timeout, env, xargs."""
    name = program_name(program)
    return name in _PREFIXES or name == "env"


def unwrap(argv: _Argv) -> list[Inside]:
    """Return what a command runs besides itself, one level deep."""
    name = program_name(argv[0])
    if see_through := _READERS.get(name):
        return see_through(argv)
    if prefix := _PREFIXES.get(name):
        return _behind(argv, prefix, 1)
    return _python(argv) if _PYTHON.match(name) else []


def _behind(argv: _Argv, prefix: _Prefix, at: int) -> list[Inside]:
    at = _skip_options(argv, prefix.valued, at)
    if prefix.asks and not prefix.asks.isdisjoint(argv[1:at]):
        return []
    while prefix.assignments and at < len(argv) and _ASSIGNMENT.match(argv[at]):
        at += 1
    at += prefix.operands
    return [new(Inside, (at, len(argv), prefix.is_text))] if at < len(argv) else []


def _skip_options(argv: _Argv, valued: frozenset[str], at: int) -> int:
    while at < len(argv) and argv[at].startswith("-"):
        if argv[at] == "--":
            return at + 1
        at += 2 if argv[at] in valued else 1
    return min(at, len(argv))  # the value of the last option may be missing


def _shell(argv: _Argv) -> list[Inside]:
    """The text stands behind the options, which not all shells read alike: both readings count."""
    places = [at for at in operands_of_shell(argv) if at < len(argv)]
    return [Inside(at, at + 1, is_text=True) for at in places if has_letter(argv[1:at], "c")]


def has_letter(words: _Argv, letter: str) -> bool:
    """Return True if one of the words is a cluster of options with this letter."""
    return any(letter in word for word in words if word[:1] in "-+" and word[:2] != "--")


def operands_of_shell(argv: _Argv) -> list[int]:
    """Return where the first word may stand that is neither an option of a shell nor its value."""
    return sorted({_operand_of_bash(argv), _operand_of_any(argv)})


def _operand_of_bash(argv: _Argv) -> int:
    """Each o and O of a cluster takes a word behind it. Long options stand before all others."""
    at, may_be_long = 1, True
    while at < len(argv) and (word := argv[at])[:1] in ("-", "+") and word:
        if word in ("-", "--"):
            return at + 1
        name = word[2:] if word[:2] == "--" else word[1:]
        is_long = may_be_long and word[0] == "-" and _BASH_LONG.fullmatch(name) is not None
        may_be_long = is_long
        if is_long:
            at += 2 if name in ("rcfile", "init-file") else 1
        else:
            at += 1 + (word.count("o") + word.count("O") if word[:2] != "--" else 0)
    return min(at, len(argv))


def _operand_of_any(argv: _Argv) -> int:
    at = 1
    while at < len(argv) and argv[at][:1] in ("-", "+") and argv[at]:
        at += 2 if argv[at] in ("--rcfile", "--init-file") or argv[at][-1] in "oO" else 1
    return min(at, len(argv))


def option_values(argv: _Argv, valued: str, long: Mapping[str, str]) -> list[tuple[str, int, str]]:
    """Return the letter of each option with a value, the position of its word, and the value.

    `long` maps long options, which may be cut short, to their letters.
    """
    options: list[tuple[str, int, str]] = []
    at = 1
    while at < len(argv) and argv[at][:1] == "-" and argv[at] not in ("-", "--"):
        name, mark, value = argv[at].partition("=")
        if name[:2] == "--":
            letters = {letter for of, letter in long.items() if of.startswith(name)}
            letters = {long[name]} if name in long else letters
        else:
            cluster = re.match(f"-[^{valued}]*([{valued}])(.*)", argv[at], re.DOTALL)
            letters = {cluster[1]} if cluster else set()
            mark = value = cluster[2] if cluster else ""
        if letters and not mark:
            at += 1
            value = argv[at] if at < len(argv) else ""
        options += [(letter, min(at, len(argv) - 1), value) for letter in sorted(letters)]
        at += 1
    return options


def fish_values(argv: _Argv) -> list[tuple[str, int, str]]:
    return option_values(argv, "cCdDfop", _FISH_LONG)


def _fish(argv: _Argv) -> list[Inside]:
    """The texts that are words of their own."""
    values = fish_values(argv)
    apart = [at for letter, at, value in values if letter in "cC" and argv[at] == value]
    more = [Inside(at, at + 1, is_text=True) for at in apart]
    return list(dict.fromkeys((*_shell(argv), *more)))


def _find(argv: _Argv) -> list[Inside]:
    inside: list[Inside] = []
    start = 0
    for number, word in enumerate(argv):
        if word in _FIND_EXEC:
            start = number + 1
        elif start and word in (";", "+"):
            if start < number:
                inside.append(Inside(start, number))
            start = 0
    return inside


def _python(argv: _Argv, at: int = 1) -> list[Inside]:
    while at < len(argv) and argv[at].startswith("-"):
        option = argv[at]
        if option == "-m" and at + 1 < len(argv):
            return [Inside(at + 1, len(argv))]
        if option[:2] in ("-c", "-m"):
            return []
        at += 2 if option in ("-W", "-X") else 1
    return []


def _runner(argv: _Argv) -> list[Inside]:
    """`uv run x`, with options before and behind `run`."""
    prefix = _RUNNERS[program_name(argv[0])]
    at = _skip_options(argv, prefix.valued, 1)
    if at == len(argv) or argv[at] != "run":
        return []
    if any(word in ("-m", "--module") for word in argv[at : at + 2]):
        return _python(argv, at + 1)
    return _behind(argv, prefix, at + 1)


def _env(argv: _Argv) -> list[Inside]:
    at = 1
    while at + 1 < len(argv) and argv[at].startswith("-"):
        if argv[at] in ("-S", "--split-string"):
            return [Inside(at + 1, at + 2, is_text=True)]
        at += 1
    return _behind(argv, _ENV, 1)


_READERS: dict[str, Callable[[_Argv], list[Inside]]] = {"env": _env, "find": _find}
_READERS |= dict.fromkeys(SHELLS, _shell) | dict.fromkeys(_RUNNERS, _runner)
_READERS["fish"] = _fish


def passes_arguments(via: Sequence[str], argv: Sequence[str]) -> bool:
    """Return True if one of these wrappers gives words to the command: find only in place of {}."""
    if "find" in via and any("{}" in word for word in argv):
        return True
    return "xargs" in via or "parallel" in via


ALIKE = 0.75  # Dice's coefficient of pairs of letters, from which on a name is another, misspelt
SHARED = 1 / 3  # of the words of the shorter command, from which on its object is the same
READS, WRITES, REMOVES = "(read)", "(write)", "(remove)"
OF_FILES = frozenset({READS, WRITES, REMOVES})
Kind = tuple[str, str]  # of a command: its name and subcommand
Kinds = tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that a call does. `words` are its object; of what acts on files, their names.

    `ends` are the last parts of these names: files are the same only where one of them is.
    """

    name: str
    subcommand: str = ""
    words: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    kind: Kind = field(init=False, compare=False)
    ends: frozenset[str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", (self.name, self.subcommand))
        files = self.words if self.name in OF_FILES else ()
        ends = frozenset((_parts(file) or [""])[-1] for file in files)
        object.__setattr__(self, "ends", ends)


def _can_meet(one: Kinds, other: Kinds) -> bool:
    """Return True if calls of such commands can share an intent, whatever else they contain."""
    return one == other or any(_test(*pair) is not _never for pair in product(one, other))


class _Met(dict[int, bool]):
    """For one kind, by the number of another kind: True if calls of the two can share an intent."""

    def __init__(self, one: Kinds, kinds: Sequence[Kinds]) -> None:
        super().__init__()
        self._one, self._kinds = one, kinds

    def __missing__(self, other: int) -> bool:
        found = self[other] = _can_meet(self._kinds[other], self._one)
        return found


class Meetings(dict[int, _Met]):
    """The same for every kind, by its number. Kinds are few, pairs of a trial's calls are many."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[Kinds, int] = {}
        self._kinds: list[Kinds] = []

    def number(self, kinds: Kinds) -> int:
        if kinds not in self._numbers:
            self._numbers[kinds] = len(self._kinds)
            self._kinds.append(kinds)
        return self._numbers[kinds]

    def __missing__(self, one: int) -> _Met:
        found = self[one] = _Met(self._kinds[one], self._kinds)
        return found


def same_command(one: Command, other: Command) -> bool:
    return _test(one.kind, other.kind)(one, other)


def _never(_one: Command, _other: Command) -> bool:
    return False


def _always(_one: Command, _other: Command) -> bool:
    return True


def _same_file(mine: Command, other: Command) -> bool:
    if not mine.words or not other.words:
        return mine.words == other.words
    if mine.ends.isdisjoint(other.ends):
        return False
    parts = [[_parts(one) for one in side.words] for side in (mine, other)]
    return any(
        one[-len(other) :] == other or other[-len(one) :] == one for one, other in product(*parts)
    )


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


def _same_object(first: Command, second: Command) -> bool:
    if not first.words or not second.words:
        return True
    if first.numbers and second.numbers and not first.numbers & second.numbers:
        return False
    shared, shorter = first.words & second.words, min(len(first.words), len(second.words))
    return len(shared) >= SHARED * shorter


def _same_word(one: Command, other: Command) -> bool:
    """Compare commands whose names may be misspellings of each other: they must share a word."""
    return not one.words.isdisjoint(other.words) and _same_object(one, other)


@lru_cache(maxsize=1 << 14)  # programs are few, and each pair is asked about again and again
def _test(one: Kind, other: Kind) -> Callable[[Command, Command], bool]:
    """Return the test of whether two commands of these names share an intent."""
    (name, subcommand), (other_name, other_subcommand) = one, other
    if name in OF_FILES or other_name in OF_FILES:
        return _same_file if name == other_name else _never
    if other_subcommand and other_subcommand == name:
        return _always
    if subcommand and other_subcommand and subcommand != other_subcommand:
        return _never
    if name == other_name:
        return _same_object
    return _same_word if _dice(name, other_name) >= ALIKE else _never


def _dice(one: str, other: str) -> float:
    pairs = [{a + b for a, b in pairwise(f"^{name}$")} for name in (one, other)]
    return 2 * len(pairs[0] & pairs[1]) / (len(pairs[0]) + len(pairs[1]))
