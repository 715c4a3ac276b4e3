"""Commands that a command runs, for rules that deny: rather too many than too few.

Only programs whose arguments say so are known; what a script or a Makefile runs is not looked at.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from agenteval.core.shell.programs import filled, names
from agenteval.core.shell.wrappers import (
    MAX_WRAPPED,
    SHELLS,
    fish_values,
    has_letter,
    is_prefix,
    operands_of_shell,
    option_values,
    program_name,
    unwrap,
)

_Argv = Sequence[str]

# Words of commands, and characters of texts, that are looked at for one command. Each word behind
# a wrapper is tried as the first one: some seven hundred of them use it up.
_MOST = 1 << 18

# Any word behind these programs may begin a command: of the first only behind one of these words.
_COMMAND_BEHIND: dict[str, frozenset[str]] = {
    "git": frozenset({"foreach", "run", "--exec", "-x", "filter-branch", "--extcmd"}),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), frozenset({"exec", "x", "dlx"})),
    **dict.fromkeys(("docker", "podman", "kubectl"), frozenset({"exec", "run"})),
    **dict.fromkeys(("fd", "fdfind"), frozenset({"-x", "-X", "--exec", "--exec-batch"})),
    **dict.fromkeys(("su", "runuser", "pkexec", "systemd-run", "script"), frozenset()),
    **dict.fromkeys(("unshare", "nsenter", "chroot", "setpriv", "firejail"), frozenset()),
    **dict.fromkeys(("busybox", "toybox", "parallel", "entr", "hyperfine"), frozenset()),
    **dict.fromkeys(("prlimit", "chrt", "numactl", "valgrind", "ltrace"), frozenset()),
    **dict.fromkeys(("fakeroot", "rlwrap", "tmux", "screen", "xvfb-run"), frozenset()),
    **dict.fromkeys(("bunx", "pnpx", "dbus-run-session"), frozenset()),
}
# Options of git rebase and git difftool with a command, which may stand in the same word.
_GIT_TAKES = re.compile(r"(?:-[a-z]*x|--ex(?:e|ec|t|tc|tcm|tcmd)?(?=[=]|\Z))=?(.*)", re.DOTALL)
_FILLERS = frozenset(("xargs", "parallel"))  # they put what they read into the words behind them
# Of all wrappers those that hand no word of theirs to a shell.
_ONLY_WORDS = names(
    "timeout nice nohup setsid ionice stdbuf time taskset command builtin coproc exec chronic xargs"
    " docker podman kubectl"
)
# Settings of git whose value is a command.
_GIT_RUNS = re.compile(
    r"(?:.*(?:pager|editor|command|helper|external|textconv|process|clean|smudge|driver|cmd|program"
    r"|askpass|fsmonitor)|alias\..*)=!?(.*)",
    re.IGNORECASE | re.DOTALL,
)
# Builtins with options whose value is an argument: that of C is run.
_CALLS_BACK = {
    **dict.fromkeys(("mapfile", "readarray"), "dnOsuCc"),
    **dict.fromkeys(("compgen", "complete"), "oAGWFCXPS"),
}
# The letters before O are those without a value; a long option may be cut short.
_OPENS = re.compile(r"--op[-a-z]*=(.*)|-[^-efABCmO]*O(.*)", re.DOTALL)
_NAMES_AT_V = frozenset({"printf", "test", "["})
_NAMES = frozenset(
    ("read", "unset", "let", "declare", "typeset", "local", "export", "readonly", "wait")
)
# Of an array or a list of values, in which a command stands.
_SUBSCRIPT = re.compile(r"\w(?:\[|\+?=\().*(?:\$\(|`|\$\{[\s|])", re.DOTALL)
_READ_ALIKE = re.compile(r"[\w$()\[\]=/ .:,@%+-]*")  # in a subscript quotes quote nothing
_DEVICES = ("/dev/", "/proc/")  # where what is piped into a program has a name


class Run(NamedTuple):
    """A command; `dynamic` numbers the words that bash still expands.

    If it `is_behind` a wrapper, the commands behind its own words are separate runs.
    """

    argv: _Argv
    dynamic: Collection[int]
    is_behind: bool = False


UNKNOWN = Run(("*",), (0,))  # any command


def all_that_runs(
    command: Run, commands_in: Callable[[str], Iterable[Run]]
) -> Iterator[Run | None]:
    """Yield the command and all that it runs, and None where there is more than is looked at.

    `commands_in` reads a text for a shell, and yields UNKNOWN where it cannot.
    """
    budget = _MOST
    stack: list[Iterator[Run | str]] = [iter((command,))]
    while stack:
        part = next(stack[-1], None)
        if part is None:
            stack.pop()
            continue
        budget -= len(part) if isinstance(part, str) else len(part.argv)
        if budget < 0:
            stack.clear()
            yield None
        elif isinstance(part, str):
            stack.append(iter(commands_in(part)))
        else:
            yield part
            stack.append(_may_run(part))


def _may_run(command: Run) -> Iterator[Run | str]:
    """Yield what a command may run, one level deep: commands, and texts for a shell."""
    argv, dynamic, is_behind = command
    if is_prefix(argv[0]):
        if not is_behind:
            yield from _each_behind(argv, dynamic)
        return
    if _reads_commands(argv):
        yield UNKNOWN
    yield from _by_setting(argv)
    yield from _by_option(argv)
    yield from _by_builtin(argv)
    yield from _passed_on(argv, dynamic)
    for start, stop, is_text in unwrap(argv):
        inner = argv[start:stop]
        if is_text:
            is_put_together = program_name(argv[0]) in SHELLS and start in dynamic
            yield UNKNOWN if is_put_together else " ".join(inner)
        else:  # find puts names in place of {}
            holes = {number for number, word in enumerate(inner) if "{}" in word}
            yield Run(inner, holes | {n - start for n in dynamic if start <= n < stop})


def _reads_commands(argv: _Argv) -> bool:
    """Return True if a shell takes its commands from what is piped into it or stands below it."""
    name = program_name(argv[0])
    if name in {".", "source"}:
        return len(argv) > 1 and argv[1].startswith(_DEVICES)
    if name == "parallel":  # without a command it runs each line
        return all(word[:1] == "-" or word.isdigit() for word in argv[1:])
    if name == "fish" and _fish_reads(argv):
        return True
    return name in SHELLS and any(_reads_at(argv, at) for at in operands_of_shell(argv))


def _reads_at(argv: _Argv, at: int) -> bool:
    has_text = at < len(argv) and has_letter(argv[1:at], "c")
    if has_text or not {"--version", "--help"}.isdisjoint(argv[1:at]):
        return False
    return has_letter(argv[1:at], "s") or at == len(argv) or argv[at].startswith(_DEVICES)


def _fish_reads(argv: _Argv) -> bool:
    values = fish_values(argv)
    if any(letter == "c" for letter, *_ in values):
        return False
    taken = {at for _, at, _ in values}
    words = [word for at, word in enumerate(argv) if at and at not in taken]
    if not {"--version", "--help", "-v", "-h"}.isdisjoint(words):
        return False
    file = next((word for word in words if word[:1] != "-"), "")
    return not file or file.startswith(_DEVICES)


def _passed_on(argv: _Argv, dynamic: Collection[int]) -> Iterator[Run | str]:
    marks = _COMMAND_BEHIND.get(program_name(argv[0]))
    taken = _GIT_TAKES if program_name(argv[0]) == "git" else None
    words = [part for word in argv for part in _option_and_value(word, taken)]
    if marks is None or (marks and marks.isdisjoint(words)):
        return
    shifted = len(words) != len(argv) and dynamic
    yield from _each_behind(words, range(1, len(words)) if shifted else dynamic)


def _by_setting(argv: _Argv) -> Iterator[str]:
    """Yield what git runs as `-c` sets it: an alias is a command of git's, or of the shell's."""
    if program_name(argv[0]) != "git":
        return
    for option, word in pairwise(argv):
        if option == "-c" and (found := _GIT_RUNS.match(word)):
            yield found[1]
            yield f"git {found[1]}"


def _by_option(argv: _Argv) -> Iterator[str]:
    """Texts that are the values of options, as with git grep, mapfile and fish."""
    name = program_name(argv[0])
    if name == "fish":
        yield from (value for letter, _, value in fish_values(argv) if letter in "cC" and value)
    elif name == "git" and "grep" in argv:
        yield from _opener(argv[argv.index("grep") + 1 :])
    elif valued := _CALLS_BACK.get(name):
        for letter, _, value in option_values(argv, valued, {}):
            if letter == "C" and value.strip():
                yield from (value, f"{value} *")


def _opener(words: _Argv) -> Iterator[str]:
    """Yield what git grep opens files in: a text, behind which it puts their names."""
    for word in words:
        found = _OPENS.match(word)
        if found and (text := found[1] or found[2]):
            yield from (text, f"{text} *")


def _by_builtin(argv: _Argv) -> Iterator[Run | str]:
    """Yield what builtins run that take a word for a text, or for a place in an array."""
    name = program_name(argv[0])
    if name == "trap":
        has_end = len(argv) > 1 and argv[1] == "--"
        words = argv[2:] if has_end else argv[1:]
        if len(words) > 1 and words[0] not in {"", "-"} and (has_end or words[0][0] != "-"):
            yield words[0]
        return
    if name in _NAMES_AT_V:
        places = [word for option, word in pairwise(argv) if option == "-v"]
        places += [word[2:] for word in argv if name == "printf" and word.startswith("-v")]
    else:
        places = list(argv[1:]) if name in _NAMES else []
    for word in filter(_SUBSCRIPT.search, places):
        yield f": {word}" if _READ_ALIKE.fullmatch(word) else UNKNOWN


def _option_and_value(word: str, taken: re.Pattern[str] | None) -> tuple[str, ...]:
    if taken and (found := taken.fullmatch(word)):
        return ("-x", found[1]) if found[1] else ("-x",)
    name, mark, value = word.partition("=")
    return (name, value) if mark and name.startswith("-") else (word,)


def _each_behind(argv: _Argv, dynamic: Collection[int]) -> Iterator[Run | str]:
    """Yield each word behind a wrapper as the first of what it may run.

    It is not determined where the wrapper's own words end. So wrappers behind it run nothing else;
    xargs puts words behind those that stand there.
    """
    more, opened, unfit, fillers_left, takes_text = argv, {*dynamic}, set[int](), MAX_WRAPPED, False
    for start in range(1, len(argv)):
        is_wrapper = start == 1 or is_prefix(argv[start - 1])
        takes_text |= is_wrapper and program_name(argv[start - 1]) not in _ONLY_WORDS
        if fillers_left and program_name(argv[start - 1]) in _FILLERS:
            fillers_left -= 1
            more = [*filled(argv, start), "*"]
            stars = {n for n, word in enumerate(argv) if more[n] != word}
            opened |= stars | {len(argv)}
            runs = unwrap(("xargs", *argv[start:]))  # of parallel much the same
            unfit = stars - {start - 1 + inside.start for inside in runs}  # no program stands there
        open_words = {n - start for n in opened if n >= start}
        if more is not argv and is_prefix(argv[start]):
            yield UNKNOWN  # all of it is what xargs puts there
        if argv[start] and start not in unfit:
            yield Run(more[start:], open_words, is_behind=True)
        if takes_text and " " in argv[start]:
            yield from dict.fromkeys((" ".join(argv[start:]), " ".join(more[start:])))
