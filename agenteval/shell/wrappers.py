"""Programs that run what their arguments say: where the inner command begins, or its text.

A table names the options and operands before the inner command; shells, interpreters, `env` and
`find` have a reader each. A rule that allows a wrapper is judged by what stands inside, so where
two readings are possible, both count.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
        letters: set[str] = set()
        if name in long:
            letters = {long[name]}
        elif name[:2] == "--":  # cut short, it may be any of several
            letters = {letter for option, letter in long.items() if option.startswith(name)}
        elif cluster := re.match(f"-[^{valued}]*([{valued}])(.*)", argv[at], re.DOTALL):
            letters = {cluster[1]}
            mark = value = cluster[2]
        if letters and not mark:
            at += 1
            value = argv[at] if at < len(argv) else ""
        place = min(at, len(argv) - 1)
        options += [(letter, place, value) for letter in sorted(letters)]
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
