"""The rules for bash: which simple commands may run, and what bash is given for them.

`BashRules` allows a command by one rule for all of its words, and denies it by any rule for any
command in it. For the second, `_all_that_runs` yields the commands that a command runs, rather too
many than too few. Only programs whose arguments say so are known there; what a script or a
Makefile runs is not looked at.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from agenteval.policy.command_lines import Argv, CommandLine, CommandPattern, Dynamic, normalise
from agenteval.policy.parsers import misuse
from agenteval.shell.gate import NEEDS_CARE, Simple, names, new
from agenteval.shell.leaves import Construct, Leaves, read_leaves
from agenteval.shell.programs import filled, only_itself, script_at
from agenteval.shell.wrappers import (
    MAX_WRAPPED,
    SHELLS,
    base_name,
    fish_values,
    has_letter,
    is_prefix,
    operands_of_shell,
    option_values,
    unwrap,
)
from agenteval.trial.call import BashRun
from agenteval.trial.text import Names

# The commands that a command runs.

# Words of commands, and characters of texts, that are looked at for one command. Each word behind
# a wrapper is tried as the first one: some seven hundred of them use it up.
_MOST = 1 << 18
# Any word behind these programs may begin a command: of the first only behind one of these words.
_COMMAND_BEHIND: dict[str, frozenset[str]] = {
    "git": names("foreach run --exec -x filter-branch --extcmd"),
    **dict.fromkeys(names("npm pnpm yarn bun"), names("exec x dlx")),
    **dict.fromkeys(names("docker podman kubectl"), names("exec run")),
    **dict.fromkeys(names("fd fdfind"), names("-x -X --exec --exec-batch")),
    **dict.fromkeys(
        names(
            "bunx busybox chroot chrt dbus-run-session entr fakeroot firejail hyperfine ltrace"
            " nsenter numactl parallel pkexec pnpx prlimit rlwrap runuser screen script setpriv su"
            " systemd-run tmux toybox unshare valgrind xvfb-run"
        ),
        frozenset(),
    ),
}
# Options of git rebase and git difftool with a command, which may stand in the same word.
_GIT_TAKES = re.compile(r"(?:-[a-z]*x|--ex(?:e|ec|t|tc|tcm|tcmd)?(?=[=]|\Z))=?(.*)", re.DOTALL)
# They put what they read into the words behind them.
_FILLERS = names("xargs parallel")
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
    "mapfile": "dnOsuCc",
    "readarray": "dnOsuCc",
    "compgen": "oAGWFCXPS",
    "complete": "oAGWFCXPS",
}
# The letters before O are those without a value; a long option may be cut short.
_OPENS = re.compile(r"--op[-a-z]*=(.*)|-[^-efABCmO]*O(.*)", re.DOTALL)
_NAMES_AT_V = names("printf test [")
_NAMES = names("read unset let declare typeset local export readonly wait")
# Of an array or a list of values, in which a command stands.
_SUBSCRIPT = re.compile(r"\w(?:\[|\+?=\().*(?:\$\(|`|\$\{[\s|])", re.DOTALL)
# In a subscript quotes quote nothing.
_READ_ALIKE = re.compile(r"[\w$()\[\]=/ .:,@%+-]*")
# Where what is piped into a program has a name.
_DEVICES = ("/dev/", "/proc/")


class Run(NamedTuple):
    """A command; `dynamic` numbers the words that bash still expands.

    If it `is_behind` a wrapper, the commands behind its own words are separate runs.
    """

    argv: Argv
    dynamic: Dynamic
    is_behind: bool = False


UNKNOWN = Run(("*",), (0,))  # any command


def _all_that_runs(
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
            is_put_together = base_name(argv[0]) in SHELLS and start in dynamic
            yield UNKNOWN if is_put_together else " ".join(inner)
            continue
        # find puts names in place of {}
        open_words = {number for number, word in enumerate(inner) if "{}" in word}
        open_words |= {number - start for number in dynamic if start <= number < stop}
        yield Run(inner, open_words)


def _reads_commands(argv: Argv) -> bool:
    """Return True if a shell takes its commands from what is piped into it or stands below it."""
    name = base_name(argv[0])
    if name in {".", "source"}:
        return len(argv) > 1 and argv[1].startswith(_DEVICES)
    # Without a command it runs each line.
    if name == "parallel":
        return all(word.startswith("-") or word.isdigit() for word in argv[1:])
    if name == "fish" and _fish_reads(argv):
        return True
    return name in SHELLS and any(_reads_at(argv, at) for at in operands_of_shell(argv))


def _reads_at(argv: Argv, at: int) -> bool:
    options = argv[1:at]
    has_operand = at < len(argv)
    has_text = has_operand and has_letter(options, "c")
    if has_text or not {"--version", "--help"}.isdisjoint(options):
        return False
    if not has_operand or has_letter(options, "s"):
        return True
    return argv[at].startswith(_DEVICES)


def _fish_reads(argv: Argv) -> bool:
    values = fish_values(argv)
    if any(letter == "c" for letter, *_ in values):
        return False
    value_places = {0, *(at for _, at, _ in values)}
    words = [word for at, word in enumerate(argv) if at not in value_places]
    if not names("--version --help -v -h").isdisjoint(words):
        return False
    files = [word for word in words if not word.startswith("-")]
    return not (files and files[0]) or files[0].startswith(_DEVICES)


def _passed_on(argv: Argv, dynamic: Dynamic) -> Iterator[Run | str]:
    name = base_name(argv[0])
    marks = _COMMAND_BEHIND.get(name)
    if marks is None:
        return
    pattern = _GIT_TAKES if name == "git" else None
    words: list[str] = []
    for word in argv:
        words += _option_and_value(word, pattern)
    if marks and marks.isdisjoint(words):
        return
    # The numbers are those of other words.
    if len(words) != len(argv) and dynamic:
        dynamic = range(1, len(words))
    yield from _each_behind(words, dynamic)


def _by_setting(argv: Argv) -> Iterator[str]:
    """Yield what git runs as `-c` sets it: an alias is a command of git's, or of the shell's."""
    if base_name(argv[0]) != "git":
        return
    for option, word in pairwise(argv):
        if option == "-c" and (found := _GIT_RUNS.match(word)):
            yield found[1]
            yield f"git {found[1]}"


def _by_option(argv: Argv) -> Iterator[str]:
    """Texts that are the values of options, as with git grep, mapfile and fish."""
    name = base_name(argv[0])
    if name == "fish":
        for letter, _, value in fish_values(argv):
            if letter in "cC" and value:
                yield value
    elif name == "git" and "grep" in argv:
        yield from _opener(argv[argv.index("grep") + 1 :])
    elif valued := _CALLS_BACK.get(name):
        for letter, _, value in option_values(argv, valued, {}):
            if letter == "C" and value.strip():
                yield from (value, f"{value} *")


def _opener(words: Argv) -> Iterator[str]:
    """Yield what git grep opens files in: a text, behind which it puts their names."""
    for word in words:
        found = _OPENS.match(word)
        if found and (text := found[1] or found[2]):
            yield from (text, f"{text} *")


def _by_builtin(argv: Argv) -> Iterator[Run | str]:
    """Yield what builtins run that take a word for a text, or for a place in an array."""
    name = base_name(argv[0])
    if name == "trap":
        yield from _trapped(argv)
        return
    places: list[str] = []
    if name in _NAMES_AT_V:
        places += [word for option, word in pairwise(argv) if option == "-v"]
        if name == "printf":
            places += [word[2:] for word in argv if word.startswith("-v")]
    elif name in _NAMES:
        places += argv[1:]
    for word in filter(_SUBSCRIPT.search, places):
        yield f": {word}" if _READ_ALIKE.fullmatch(word) else UNKNOWN


def _trapped(argv: Argv) -> Iterator[str]:
    has_end = len(argv) > 1 and argv[1] == "--"
    words = argv[2:] if has_end else argv[1:]
    if len(words) < 2 or words[0] in {"", "-"}:
        return
    if has_end or words[0][0] != "-":
        yield words[0]


def _option_and_value(word: str, pattern: re.Pattern[str] | None) -> tuple[str, ...]:
    match = pattern and pattern.fullmatch(word)
    if match:
        return ("-x", match[1]) if match[1] else ("-x",)
    name, mark, value = word.partition("=")
    return (name, value) if mark and name.startswith("-") else (word,)


def _each_behind(argv: Argv, dynamic: Dynamic) -> Iterator[Run | str]:
    """Yield each word behind a wrapper as the first of what it may run.

    It is not determined where the wrapper's own words end. So wrappers behind it run nothing else;
    xargs puts words behind those that stand there.
    """
    more = argv
    opened = {*dynamic}
    # No program stands there.
    unfit: set[int] = set()
    fillers_left = MAX_WRAPPED
    takes_text = False
    for start in range(1, len(argv)):
        before = base_name(argv[start - 1])
        if start == 1 or is_prefix(argv[start - 1]):
            takes_text |= before not in _ONLY_WORDS
        if fillers_left and before in _FILLERS:
            fillers_left -= 1
            more = [*filled(argv, start), "*"]
            stars = {number for number, word in enumerate(argv) if more[number] != word}
            opened |= stars | {len(argv)}
            # Of parallel much the same.
            runs = unwrap(("xargs", *argv[start:]))
            unfit = stars - {start - 1 + inside.start for inside in runs}
        if more is not argv and is_prefix(argv[start]):
            # All of it is what xargs puts there.
            yield UNKNOWN
        if argv[start] and start not in unfit:
            open_words = {number - start for number in opened if number >= start}
            yield Run(more[start:], open_words, is_behind=True)
        if takes_text and " " in argv[start]:
            texts = (" ".join(argv[start:]), " ".join(more[start:]))
            yield from dict.fromkeys(texts)


# The rules.

_NONE: frozenset[int] = frozenset()
# Of a program's name and a script's: with less, choco is echo.py.
_ALIKE = 0.6
MOVES = names("cd pushd popd")


@dataclass(frozen=True, slots=True)
class ScriptRule:
    """A listed script: its normalised path, the words before it, and what may follow."""

    path: str
    runner: tuple[str, ...]
    line: CommandLine

    @property
    def start(self) -> str:
        """The words that a call of it begins with."""
        return " ".join((*self.runner, self.path))


class BashRules:
    """Deny by default: a command runs only when one rule fits every word of it.

    `listed` maps each script's path to the ways its calls may begin, `by_first_word` the first
    word of each runner to one of its scripts. `env` are the variables that a command may set.
    `denied` wins over every other rule, also inside what a command runs; `through` are the wrappers
    behind which the rules count as without them.
    """

    def __init__(  # noqa: PLR0913, PLR0917 -- an allow list has that many kinds of rules
        self,
        patterns: Iterable[CommandPattern] = (),
        scripts: Iterable[ScriptRule] = (),
        constructs: Iterable[Construct] = (),
        env: Iterable[str] = (),
        denied: Iterable[CommandPattern] = (),
        through: Iterable[str] = (),
    ) -> None:
        self.denied = tuple(denied)
        self.through = frozenset(through)
        self.patterns = tuple(patterns)
        self.scripts = tuple(scripts)
        self.constructs = frozenset(constructs)
        self.env = frozenset(env)
        self.listed = _listed(self.scripts, self.patterns)
        self._loose = tuple(pattern for pattern in self.patterns if pattern.program.wild)
        self._by_program: dict[str, tuple[CommandPattern, ...]] = {}
        for pattern in self.patterns:
            if not pattern.program.wild:
                program = pattern.program.text
                self._by_program[program] = (*self.rules_for(program), pattern)
        self._by_runner: dict[tuple[str, ...], dict[str, ScriptRule]] = {}
        for script in self.scripts:
            self._by_runner.setdefault(script.runner, {})[script.path] = script
        self._has_bare = () in self._by_runner
        self.by_first_word = {script.runner[0]: script for script in self.scripts if script.runner}
        self._first_words = frozenset((*self._by_program, *self.by_first_word))
        self._is_open = self._has_bare or bool(self._loose)  # to any first word
        # Agents know few programs.
        self.is_strange = lru_cache(maxsize=1024)(self._is_strange)

    def _is_strange(self, program: str) -> bool:
        """Return True if no rule can be about a command that begins so, whatever words follow."""
        is_open = self._is_open or self.denied or program in self.through
        return only_itself(program) and not (is_open or program in self._first_words)

    def may_name(self, program: str) -> bool:
        """Return True if a rule is about commands that begin so, or a script that they may run."""
        is_named = program in self._first_words or not only_itself(program)
        return is_named or any(rule.program.matches(program) for rule in self._loose)

    def admits(
        self,
        argv: Argv,
        dynamic: Dynamic = _NONE,
        *,
        root: str = "/workspace",
    ) -> bool:
        """Return True if a rule fits the command.

        `dynamic` are the numbers of the words that bash still expands.
        """
        return not self.denial(argv, dynamic) and self.fits(argv, dynamic, root)

    def fits(self, argv: Argv, dynamic: Dynamic, root: str) -> bool:
        """Return True if a rule that allows fits the command, whatever is denied.

        No rule fits behind more wrappers than are seen through.
        """
        for _ in range(MAX_WRAPPED + 1):
            at = _past_wrapper(argv, dynamic) if argv[0] in self.through else 0
            if not at:
                return self._fits_here(argv, dynamic, root)
            argv = argv[at:]
            dynamic = {number - at for number in dynamic}
        return False

    def _fits_here(self, argv: Argv, dynamic: Dynamic, root: str) -> bool:
        program = argv[0]
        may_be_script = self._has_bare or program in self.by_first_word
        if may_be_script and self._admits_script(argv, dynamic, root):
            return True
        careful = program in NEEDS_CARE
        for rule in (*self.rules_for(program), *self._loose):
            if rule.matches(argv, dynamic) and not (careful and rule.wild):
                return True
        return False

    def denial(self, argv: Argv, dynamic: Dynamic = _NONE) -> CommandPattern | None:
        """Return the rule that denies the command, or one that it runs.

        That is as far as wrappers are known. What cannot be read, or is more than is looked at, is
        denied by the first rule.
        """
        if not self.denied:
            return None
        for command in _all_that_runs(Run(argv, dynamic), _in_text):
            if command is None:
                return self.denied[0]
            for rule in self.denied:
                if rule.names(command.argv, command.dynamic):
                    return rule
        return None

    def sets_only_named(self, assignments: Iterable[str]) -> bool:
        """Return True if each NAME=value sets a variable that the rules name."""
        names_set = (text.partition("=")[0].removesuffix("+") for text in assignments)
        return self.env.issuperset(names_set)

    def _admits_script(self, argv: Argv, dynamic: Dynamic, root: str) -> bool:
        program = argv[0]
        for runner in self._by_runner:
            at = len(runner)
            if not runner and "/" not in program:
                # Bash would look for a builtin, then in PATH.
                continue
            begins_so = len(argv) > at and tuple(argv[:at]) == runner
            if not begins_so or at in dynamic:
                continue
            script = self.script(runner, argv[at], root)
            if script and not misuse(script.line, argv, at + 1, dynamic=dynamic, root=root):
                return True
        return False

    def rules_for(self, program: str) -> tuple[CommandPattern, ...]:
        """The patterns that begin with exactly this program."""
        return self._by_program.get(program, ())

    def script(
        self,
        runner: tuple[str, ...],
        path: str,
        root: str,
    ) -> ScriptRule | None:
        """The rule for a script, however its path is written."""
        scripts = self._by_runner.get(runner, {})
        return scripts.get(normalise(path, root) or "")

    @cached_property
    def by_stem(self) -> Mapping[str, str]:
        """The first words of a call of each listed script, by the script's bare name."""
        return {stem(path): starts[0] for path, starts in self.listed.items()}

    @cached_property
    def stems(self) -> Names:
        return Names(self.by_stem, alike=_ALIKE)


def _in_text(text: str) -> Sequence[Run]:
    split = read_leaves(text)
    leaves = split.leaves if isinstance(split, Leaves) else ()
    return [Run(leaf.argv, leaf.dynamic) for leaf in leaves] or [UNKNOWN]


# Wrappers that a rule may reach through, with how many words of their own; no options.
THROUGH = {"timeout": 1, "nice": 0, "nohup": 0, "setsid": 0, "env": 0}
_DURATION = re.compile(r"[0-9]+(?:\.[0-9]+)?[smhd]?")


def _past_wrapper(argv: Argv, dynamic: Dynamic) -> int:
    """Return the position of the command that a wrapper runs; 0 if that is uncertain."""
    at = 1 + THROUGH[argv[0]]
    if len(argv) <= at or any(number <= at for number in dynamic):
        return 0
    if at == 2 and not _DURATION.fullmatch(argv[1]):
        return 0
    program = argv[at]
    is_plain = program[:1] not in {"", "-"} and "=" not in program
    return at if is_plain and program not in BUILTINS else 0


def changes_folder(argv: Argv) -> bool:
    """Return True if paths in later commands are relative to another folder after this one."""
    if argv[0] in {"builtin", "command"}:
        return not MOVES.isdisjoint(argv)
    return argv[0] in MOVES


def stem(path: str) -> str:
    """Return what names of the same script share: context-cache and scripts/context_cache.py."""
    return base_name(path).partition(".")[0].replace("-", "_")


def _listed(
    scripts: Sequence[ScriptRule], patterns: Sequence[CommandPattern]
) -> dict[str, tuple[str, ...]]:
    """Return how the calls of each script may begin, by its path."""
    starts = [(script.path, script.start) for script in scripts]
    for pattern in patterns:
        words = [word.text for word in pattern.words]
        at = script_at(words)
        if at is not None and not pattern.words[at].wild:
            path = posixpath.normpath(words[at])
            starts.append((path, " ".join(words[: at + 1])))
    listed: dict[str, tuple[str, ...]] = {}
    for path, start in starts:
        listed[path] = (*listed.get(path, ()), start)
    return listed


# What runs.

BASH = ("bash", "--norc", "--noprofile", "-c")
# Bash runs these itself; as programs they are missing or mean something else.
BUILTINS = names(
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare"
    " dirs disown echo enable eval exec exit export false fc fg getopts hash help history jobs kill"
    " let local logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt"
    " source suspend test times trap true type typeset ulimit umask unalias unset wait"
)


def run_of_simple(simple: Simple) -> BashRun:
    """Its own words, when bash would add nothing to them.

    Skipping bash saves a process, and leaves nothing that could read the text another way.
    """
    text, argv, dynamic, _ = simple
    if dynamic or argv[0] in BUILTINS:
        return new(BashRun, (text, (*BASH, text), (argv,)))
    return new(BashRun, (text, argv, (argv,)))


def run_of_text(text: str, split: Leaves | None) -> BashRun:
    """Bash with the text; `split` is what was read in it."""
    commands = tuple(leaf.argv for leaf in split.leaves) if split else ()
    return BashRun(text, (*BASH, text), commands)
