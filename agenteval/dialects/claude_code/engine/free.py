"""Commands that Claude Code runs without any rule, because they can only read."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from agenteval.dialects.claude_code.engine.harmless_options import ANYTHING, EXACTLY, GIT, PROGRAMS
from agenteval.dialects.claude_code.engine.paths import is_free_sed
from agenteval.dialects.claude_code.engine.word_reader import Command, Word

_SAME = {"egrep": "grep", "fgrep": "grep", "fdfind": "fd", "sha1sum": "md5sum"}
_SAME |= {"sha256sum": "md5sum"}
_GIT_PARTS = frozenset(("stash", "worktree", "remote", "reflog"))
# Git lists with an operand only where one of these is among the words.
_LISTING = frozenset(
    ["-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"]
)
_NO_OPERANDS = frozenset(("uniq", "hostname", "ss", "ls-remote", "remote"))
_XARGS = frozenset(("echo", "printf", "wc", "grep", "egrep", "fgrep", "head", "tail"))
_GLOBBERS = frozenset(("grep", "egrep", "fgrep", "md5sum", "sha1sum", "sha256sum"))
_NUMBER = re.compile(r"[0-9]+")
_JOINERS = frozenset(("grep", "egrep", "fgrep", "rg"))
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
        kinds = {}
        for token in text.split():
            name = token.rstrip("#=%")
            kind = token[len(name) :][-1:]
            names = [f"-{c}" for c in name[1:]] if name.startswith("-") else [f"--{name}"]
            kinds.update(dict.fromkeys(names, kind))
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
        if word.startswith("--"):
            name, joined, value = word.partition("=")
        else:
            name, joined, value = word, "", ""
        kind = self.kinds.get(name)
        if kind is None:
            if numbers == "alone" and _COUNT.fullmatch(word):
                return True
            return self._takes_letters(word, numbers=numbers)
        if not kind:
            return not joined
        value = value if joined else next(rest, "-")
        if kind == "%":
            return bool(joined) and "%" in value
        is_number = _NUMBER.fullmatch(value) is not None
        return is_number if kind == "#" else joined != "" or not value.startswith("-")

    def _takes_letters(self, word: str, *, numbers: _Numbers) -> bool:
        first = self.kinds.get(word[:2])
        if numbers == "joined" and first and len(word) > 2:
            return _NUMBER.fullmatch(word[2:]) is not None
        return not word.startswith("--") and all(
            self.kinds.get(f"-{letter}") == "" for letter in word[1:]
        )


def is_free(command: Command) -> bool:
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
    return " ".join(argv) in EXACTLY or program in ANYTHING or _is_listed(words)


def _is_listed(words: Sequence[Word]) -> bool:
    """Return True if all options are known, and no word is more than it seems to be."""
    program, *rest = (word.text for word in words)
    globs = program not in _GLOBBERS and any(word.globs for word in words)
    if globs or any(_EXPANDS.match(word.text) for word in words):
        return False
    if program == "git":
        return _git(tuple(rest))
    options = PROGRAMS.get(_SAME.get(program, program))
    numbers: _Numbers = "joined" if program in _JOINERS else "no"
    return options is not None and _plain(program, options, rest, numbers=numbers)


def _cd(argv: Sequence[str]) -> bool:
    return not any(word.startswith("-") and word != "-" for word in argv[1:])


def _printf(argv: Sequence[str]) -> bool:
    return len(argv) == 1 or argv[1] == "--" or not argv[1].startswith("-")


def _echo(argv: Sequence[str]) -> bool:
    return not any(map(_SOMEBODY.match, argv[1:]))


def _plain(program: str, options: str, argv: Sequence[str], *, numbers: _Numbers = "alone") -> bool:
    operands = _Options.parse(options).operands(argv, numbers=numbers)
    if operands is None or (operands and program in _NO_OPERANDS):
        return False
    if program == "date":
        return all(word.startswith("+") for word in operands)
    if program == "ifconfig":
        return len(operands) <= 1 and all(map(_INTERFACE.fullmatch, operands))
    if program == "ps":
        return all(map(_PS.fullmatch, operands))
    return True


def _git(argv: Sequence[str]) -> bool:
    name, rest = (argv[0] if argv else ""), argv[1:]
    if name in _GIT_PARTS and f"{name} {' '.join(rest[:1])}" in GIT:
        return _plain("", GIT[f"{name} {rest[0]}"], rest[1:])
    if name == "config" and rest[:1] != ("--get",):
        return False
    if name == "reflog" and rest and not rest[0].startswith("-"):
        return rest == ("list",)
    if name in {"branch", "tag"} and not _LISTING.intersection(rest):
        name_only = _Options.parse(GIT[name]).operands(rest, numbers="alone")
        return name_only is not None and not name_only
    return name in GIT and _plain(name, GIT[name], rest)


def _xargs(argv: Sequence[str]) -> bool:
    options = _Options.parse(PROGRAMS["xargs"] + " -I=")
    for end in range(1, len(argv)):
        if argv[end] in _XARGS:
            return options.operands(argv[1:end], numbers="no") == []
    return options.operands(argv[1:], numbers="no") == []


def _jq(argv: Sequence[str]) -> bool:
    options = [word for word in argv[1:] if word.startswith("-")]
    return (
        len(options) < len(argv) - 1
        and not any(map(_JQ_NEVER.search, argv[1:]))
        and all(map(_JQ_OPTION.fullmatch, options))
    )


def _test(argv: Sequence[str]) -> bool:
    return all(_TEST_OPTION.fullmatch(word) for word in argv[1:] if word.startswith("-"))


_SPECIAL = {
    "xargs": _xargs,
    "jq": _jq,
    "test": _test,
    "cd": _cd,
    "printf": _printf,
    "echo": _echo,
}
