"""Commands that Claude Code runs without any rule, because they can only read.

free.toml lists the programs and their harmless options, `is_free` judges a command by it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Literal

import msgspec

from agenteval.dialects.claude_code.reading import Command, Words
from agenteval.dialects.claude_code.rules import is_free_sed
from agenteval.dialects.registry import load_table
from agenteval.policy.command_lines import Argv


class _FreeCommands(msgspec.Struct, forbid_unknown_fields=True):
    """The lists of free.toml, which says what each means."""

    anything: frozenset[str]
    exactly: frozenset[str]
    without_operands: frozenset[str]
    behind_xargs: frozenset[str]
    with_globs: frozenset[str]
    with_joined_numbers: frozenset[str]
    git_parts: frozenset[str]
    git_listing: frozenset[str]
    same: dict[str, str]
    programs: dict[str, str]
    git: dict[str, str]


@cache
def _free() -> _FreeCommands:
    return load_table("claude_code/free.toml", _FreeCommands)


_NUMBER = re.compile(r"[0-9]+")
# How a number may stand as an option: not at all, alone (-5), behind a letter (-A5).
_Numbers = Literal["no", "alone", "joined"]
_COUNT = re.compile(r"-[0-9]+")
# In a word of a program whose options are looked at; even in quotes.
_EXPANDS = re.compile(r".*[$`]|.*\{[^}]*(?:,|\.\.)|~[\w+-]", re.DOTALL)
_JQ_NEVER = re.compile(r"\benv\b|\$ENV")
_JQ_OPTION = re.compile(r"-(?:-[a-z]+(?:-[a-z]+)*|[a-zA-Z]+)")
_TEST_OPTION = re.compile(r"-[bcdefghknprsuwxztGLNOS]|!|\(|\)|-[lg][te]|-eq|-ne")
_INTERFACE = re.compile(r"[a-z][a-z0-9]*")
_SOMEBODY = re.compile(r"~[\w+-]")
_PS = re.compile(r"[a-df-z]+|[0-9,]+")


@dataclass(frozen=True, slots=True)
class _Options:
    """The options that may follow a program: names, each with the kind of its value."""

    kinds: dict[str, str]

    @classmethod
    @cache
    def parse(cls, text: str) -> "_Options":
        """Parse a string of options, as free.toml has them."""
        kinds = {}
        for token in text.split():
            name = token.rstrip("#=%")
            kind = token[len(name) :][-1:]
            if name.startswith("-"):
                letters = [f"-{letter}" for letter in name[1:]]
                kinds.update(dict.fromkeys(letters, kind))
            else:
                kinds[f"--{name}"] = kind
        return cls(kinds)

    def operands(self, words: Sequence[str], *, numbers: _Numbers) -> list[str] | None:
        """Return the words besides known options; None if an option is not known."""
        operands: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                return [*operands, *rest]
            if not word.startswith("-") or word == "-":
                operands.append(word)
            elif not self._takes(word, rest, numbers=numbers):
                return None
        return operands

    def _takes(self, word: str, rest: Iterator[str], *, numbers: _Numbers) -> bool:
        """Return True if it is a known option, whose value is taken from `rest` if it has one."""
        name, joined, value = word, "", ""
        if word.startswith("--"):
            name, joined, value = word.partition("=")
        kind = self.kinds.get(name)
        if kind is None:
            if numbers == "alone" and _COUNT.fullmatch(word):
                return True
            return self._takes_letters(word, numbers=numbers)
        if not kind:
            return not joined
        if not joined:
            value = next(rest, "-")
        if kind == "%":
            return bool(joined) and "%" in value
        if kind == "#":
            return _NUMBER.fullmatch(value) is not None
        return joined != "" or not value.startswith("-")

    def _takes_letters(self, word: str, *, numbers: _Numbers) -> bool:
        first = self.kinds.get(word[:2])
        if numbers == "joined" and first and len(word) > 2:
            return _NUMBER.fullmatch(word[2:]) is not None
        if word.startswith("--"):
            return False
        return all(self.kinds.get(f"-{letter}") == "" for letter in word[1:])


def is_free(command: Command) -> bool:
    """Return True if a command needs no rule, as far as its files do not matter."""
    words, argv = command.words, command.argv
    program = argv[0]
    if command.assignments or any(word.varies for word in words):
        return False
    if program == "jq" and any(word.globs for word in words):
        return False
    if special := _SPECIAL.get(program):
        return special(argv)
    if program == "sed":
        return is_free_sed(words)
    if " ".join(argv) in _free().exactly:
        return True
    return program in _free().anything or _is_listed(words)


def _is_listed(words: Words) -> bool:
    """Return True if all options are known, and no word is more than it seems to be."""
    program, *rest = (word.text for word in words)
    lists = _free()
    if program not in lists.with_globs and any(word.globs for word in words):
        return False
    if any(_EXPANDS.match(word.text) for word in words):
        return False
    if program == "git":
        return _git(tuple(rest))
    options = lists.programs.get(lists.same.get(program, program))
    if options is None:
        return False
    numbers: _Numbers = "joined" if program in lists.with_joined_numbers else "no"
    return _plain(program, options, rest, numbers=numbers)


def _cd(argv: Argv) -> bool:
    return not any(word.startswith("-") and word != "-" for word in argv[1:])


def _printf(argv: Argv) -> bool:
    first = argv[1] if len(argv) > 1 else ""
    return first == "--" or not first.startswith("-")


def _echo(argv: Argv) -> bool:
    return not any(map(_SOMEBODY.match, argv[1:]))


def _plain(
    program: str,
    options: str,
    argv: Argv,
    *,
    numbers: _Numbers = "alone",
) -> bool:
    """Return True if all options are among these, and the program only reads its operands."""
    operands = _Options.parse(options).operands(argv, numbers=numbers)
    if operands is None or (operands and program in _free().without_operands):
        return False
    if program == "date":
        return all(word.startswith("+") for word in operands)
    if program == "ifconfig":
        return len(operands) <= 1 and all(map(_INTERFACE.fullmatch, operands))
    if program == "ps":
        return all(map(_PS.fullmatch, operands))
    return True


def _git(argv: Argv) -> bool:
    lists = _free()
    name, rest = (argv[0] if argv else ""), argv[1:]
    options = lists.git.get(name)
    if name in lists.git_parts and rest:
        part_options = lists.git.get(f"{name} {rest[0]}")
        if part_options is not None:
            return _plain("", part_options, rest[1:])
    if name == "config" and rest[:1] != ("--get",):
        return False
    if name == "reflog" and rest and not rest[0].startswith("-"):
        return rest == ("list",)
    if name in {"branch", "tag"} and lists.git_listing.isdisjoint(rest):
        return _Options.parse(lists.git[name]).operands(rest, numbers="alone") == []
    return options is not None and _plain(name, options, rest)


def _xargs(argv: Argv) -> bool:
    lists = _free()
    options = _Options.parse(lists.programs["xargs"] + " -I=")
    own_words = takewhile(lambda word: word not in lists.behind_xargs, argv[1:])
    return options.operands([*own_words], numbers="no") == []


def _jq(argv: Argv) -> bool:
    options = [word for word in argv[1:] if word.startswith("-")]
    return (
        len(options) < len(argv) - 1
        and not any(map(_JQ_NEVER.search, argv[1:]))
        and all(map(_JQ_OPTION.fullmatch, options))
    )


def _test(argv: Argv) -> bool:
    options = [word for word in argv[1:] if word.startswith("-")]
    return all(map(_TEST_OPTION.fullmatch, options))


_SPECIAL = {
    "xargs": _xargs,
    "jq": _jq,
    "test": _test,
    "cd": _cd,
    "printf": _printf,
    "echo": _echo,
}
