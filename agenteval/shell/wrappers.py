"""Programs that run what their arguments say: where the inner command begins, or its text.

`programs.toml` names the options and operands before the inner command; shells, interpreters,
`env` and `find` have a reader each. A rule that allows a wrapper is judged by what stands inside,
so where two readings are possible, both count.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from agenteval.lazily import read_table
from agenteval.shell.gate import names

MAX_WRAPPED = 8  # wrappers and nested shells inside each other that are seen through
SHELLS = names("ash bash csh dash fish ksh mksh rbash sh tcsh yash zsh")
_Argv = Sequence[str]


class Inside(NamedTuple):
    """The words that a wrapper runs: as a command, or as the shell text that they join to."""

    start: int
    stop: int
    is_text: bool = False


class _Prefix(NamedTuple):
    """A program that runs the command behind its own options; `programs.toml` has its fields."""

    valued: str = ""
    operands: int = 0
    assignments: bool = False
    is_text: bool = False
    asks: str = ""


_BASH_LONG = re.compile(
    "debug(?:ger)?|dump-(?:po-)?strings|help|init-file|login|no(?:editing|profile|rc)|posix"
    "|pretty-print|rcfile|restricted|verbose|version"
)
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*\Z")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_FIND_EXEC = names("-exec -execdir -ok -okdir")


@lru_cache(maxsize=1024)
def base_name(program: str) -> str:
    """Return the program without its folder: /usr/bin/ls is ls."""
    return program.rpartition("/")[2]


@cache
def program_table() -> Mapping[str, Any]:
    """Return `programs.toml`."""
    return read_table("agenteval.shell", "programs.toml")


def rows_by_program(name: str) -> dict[str, Mapping[str, Any]]:
    """Return a part of `programs.toml` in which programs that are alike share a row."""
    by_program: dict[str, Mapping[str, Any]] = {}
    for programs, row in program_table()[name].items():
        by_program |= dict.fromkeys(programs.split(), row)
    return by_program


@cache
def _prefixes(name: str) -> Mapping[str, _Prefix]:
    return {program: _Prefix(**row) for program, row in rows_by_program(name).items()}


@lru_cache(maxsize=1024)
def is_wrapper(program: str) -> bool:
    name = base_name(program)
    if name in _READERS or _PYTHON.match(name):
        return True
    return name in _prefixes("prefixes") or name in _prefixes("runners")


@lru_cache(maxsize=1024)
def is_prefix(program: str) -> bool:
    """Return True if a wrapper runs what stands behind words of its own: timeout, env, xargs."""
    name = base_name(program)
    return name in _prefixes("prefixes") or name == "env"


def unwrap(argv: _Argv) -> list[Inside]:
    """Return what a command runs besides itself, one level deep."""
    name = base_name(argv[0])
    if reader := _READERS.get(name):
        return reader(argv)
    if prefix := _prefixes("prefixes").get(name):
        return _behind(argv, prefix, 1)
    if runner := _prefixes("runners").get(name):
        return _behind_run(argv, runner)
    return _behind_python(argv, 1) if _PYTHON.match(name) else []


def _behind(argv: _Argv, prefix: _Prefix, at: int) -> list[Inside]:
    at = _skip_options(argv, prefix, at)
    if not names(prefix.asks).isdisjoint(argv[1:at]):
        return []
    while prefix.assignments and at < len(argv) and _ASSIGNMENT.match(argv[at]):
        at += 1
    at += prefix.operands
    if at >= len(argv):
        return []
    return [Inside(at, len(argv), prefix.is_text)]


def _skip_options(argv: _Argv, prefix: _Prefix, at: int) -> int:
    valued = names(prefix.valued)
    while at < len(argv) and argv[at].startswith("-"):
        if argv[at] == "--":
            return at + 1
        at += 2 if argv[at] in valued else 1
    return min(at, len(argv))  # the value of the last option may be missing


def _behind_shell(argv: _Argv) -> list[Inside]:
    """Return the text behind the options, which not all shells read alike: both readings count."""
    places = [at for at in operands_of_shell(argv) if at < len(argv)]
    return [Inside(at, at + 1, is_text=True) for at in places if has_letter(argv[1:at], "c")]


def has_letter(words: _Argv, letter: str) -> bool:
    """Return True if one of the words is a cluster of options with this letter."""
    return any(letter in word for word in words if word[:1] in "-+" and word[:2] != "--")


def operands_of_shell(argv: _Argv) -> list[int]:
    """Return where the first word may stand that is neither an option of a shell nor its value."""
    return sorted({_operand_of_bash(argv), _operand_of_any(argv)})


def _operand_of_bash(argv: _Argv) -> int:
    """Return the place of the operand, behind bash's own options.

    Each o and O of a cluster takes a word behind it. Long options stand before all others.
    """
    at = 1
    may_be_long = True
    while _is_option(argv, at):
        word = argv[at]
        if word in ("-", "--"):
            return at + 1
        has_dashes = word.startswith("--")
        name = word[2:] if has_dashes else word[1:]
        may_be_long = may_be_long and word[0] == "-" and bool(_BASH_LONG.fullmatch(name))
        if may_be_long:
            at += name in ("rcfile", "init-file")
        elif not has_dashes:
            # In -oOc the next word is the value of o, and the one behind it that of O.
            at += word.count("o") + word.count("O")
        at += 1
    return min(at, len(argv))


def _operand_of_any(argv: _Argv) -> int:
    at = 1
    while _is_option(argv, at):
        # Only the last letter of a cluster can take the next word.
        takes_next = argv[at] in ("--rcfile", "--init-file") or argv[at][-1] in "oO"
        at += 2 if takes_next else 1
    return min(at, len(argv))


def _is_option(argv: _Argv, at: int) -> bool:
    return at < len(argv) and argv[at].startswith(("-", "+"))


def option_values(
    argv: _Argv,
    valued: str,
    long: Mapping[str, str],
) -> list[tuple[str, int, str]]:
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
    """Return the values of fish's options, as `option_values` does."""
    return option_values(argv, "cCdDfop", program_table()["fish_options"])


def _behind_fish(argv: _Argv) -> list[Inside]:
    """Return the texts that are words of their own."""
    inside = _behind_shell(argv)
    for letter, at, value in fish_values(argv):
        if letter in "cC" and argv[at] == value:
            inside.append(Inside(at, at + 1, is_text=True))
    return list(dict.fromkeys(inside))


def _behind_find(argv: _Argv) -> list[Inside]:
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


def _behind_python(argv: _Argv, at: int) -> list[Inside]:
    while at < len(argv) and argv[at].startswith("-"):
        option = argv[at]
        if option == "-m" and at + 1 < len(argv):
            return [Inside(at + 1, len(argv))]
        # Code in a word, or a module in the same word: neither is a command.
        if option.startswith(("-c", "-m")):
            return []
        at += 2 if option in ("-W", "-X") else 1
    return []


def _behind_run(argv: _Argv, runner: _Prefix) -> list[Inside]:
    """Return what `uv run x` runs, with options before and behind `run`."""
    at = _skip_options(argv, runner, 1)
    if at == len(argv) or argv[at] != "run":
        return []
    if any(word in ("-m", "--module") for word in argv[at : at + 2]):
        return _behind_python(argv, at + 1)
    return _behind(argv, runner, at + 1)


def _behind_env(argv: _Argv) -> list[Inside]:
    at = 1
    while at + 1 < len(argv) and argv[at].startswith("-"):
        if argv[at] in ("-S", "--split-string"):
            return [Inside(at + 1, at + 2, is_text=True)]
        at += 1
    return _behind(argv, _ENV, 1)


_ENV = _Prefix("-u --unset -C --chdir", assignments=True)
_READERS: dict[str, Callable[[_Argv], list[Inside]]] = {
    "env": _behind_env,
    "find": _behind_find,
    **dict.fromkeys(SHELLS, _behind_shell),
    "fish": _behind_fish,
}


def passes_arguments(via: Sequence[str], argv: Sequence[str]) -> bool:
    """Return True if one of these wrappers gives words to the command: find only in place of {}."""
    if "find" in via and any("{}" in word for word in argv):
        return True
    return "xargs" in via or "parallel" in via
