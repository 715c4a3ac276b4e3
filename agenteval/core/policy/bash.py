"""The rules for bash: which simple commands may run."""

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from agenteval.core.call import BashRun
from agenteval.core.nearest import Names
from agenteval.core.policy.argparse_line import read_argparse
from agenteval.core.policy.command_line import CommandLine, Misuse, Parser
from agenteval.core.policy.patterns import CommandPattern, normalise
from agenteval.core.policy.plain_line import read_plain
from agenteval.core.policy.what_runs import UNKNOWN, Run, all_that_runs
from agenteval.core.shell.leaves import Construct, Leaves, read_leaves
from agenteval.core.shell.programs import base_name, only_itself, script_at
from agenteval.core.shell.simple_command import NEEDS_CARE, Simple
from agenteval.core.shell.wrappers import MAX_WRAPPED
from agenteval.core.span import new

_NONE: frozenset[int] = frozenset()
_ALIKE = 0.6  # of a program's name and a script's: with less, choco is echo.py
MOVES = frozenset(("cd", "pushd", "popd"))


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


def misuse(
    line: CommandLine, argv: Sequence[str], start: int, *, dynamic: Collection[int], root: str
) -> Misuse | None:
    """The first way in which `argv[start:]` is no such command line; None when it is one."""
    for number in sorted(dynamic):
        if number >= start:
            return Misuse(number, f"quote {argv[number]} or write it out: bash would expand it")
    read = read_argparse if line.parser is Parser.ARGPARSE else read_plain
    return read(line, argv, start, root)


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
        self.is_strange = lru_cache(maxsize=1024)(self._is_strange)  # agents know few programs

    def _is_strange(self, program: str) -> bool:
        """Return True if no rule can be about a command that begins so, whatever words follow."""
        is_open = self._is_open or self.denied or program in self.through
        return only_itself(program) and not (is_open or program in self._first_words)

    def may_name(self, program: str) -> bool:
        """Return True if a rule is about commands that begin so, or a script that they may run."""
        is_named = program in self._first_words or not only_itself(program)
        return is_named or any(rule.program.matches(program) for rule in self._loose)

    def admits(
        self, argv: Sequence[str], dynamic: Collection[int] = _NONE, *, root: str = "/workspace"
    ) -> bool:
        """Return True if a rule fits the command.

        `dynamic` are the numbers of the words that bash still expands.
        """
        return not self.denial(argv, dynamic) and self.fits(argv, dynamic, root)

    def fits(self, argv: Sequence[str], dynamic: Collection[int], root: str) -> bool:
        """Return True if a rule that allows fits the command, whatever is denied.

        No rule fits behind more wrappers than are seen through.
        """
        for _ in range(MAX_WRAPPED + 1):
            at = _past_wrapper(argv, dynamic) if argv[0] in self.through else 0
            if not at:
                return self._fits_here(argv, dynamic, root)
            argv, dynamic = argv[at:], frozenset(number - at for number in dynamic)
        return False

    def _fits_here(self, argv: Sequence[str], dynamic: Collection[int], root: str) -> bool:
        program = argv[0]
        if (self._has_bare or program in self.by_first_word) and self._admits_script(
            argv, dynamic, root
        ):
            return True
        careful = program in NEEDS_CARE
        for rule in (*self.rules_for(program), *self._loose):
            if rule.matches(argv, dynamic) and not (careful and rule.wild):
                return True
        return False

    def denial(
        self, argv: Sequence[str], dynamic: Collection[int] = _NONE
    ) -> CommandPattern | None:
        """The rule that denies the command, or one that it runs as far as wrappers are known.

        What cannot be read, or is more than is looked at, is denied by the first rule.
        """
        for command in all_that_runs(Run(argv, dynamic), _in_text) if self.denied else ():
            if command is None:
                return self.denied[0]
            if rule := self._denies(command):
                return rule
        return None

    def _denies(self, command: Run) -> CommandPattern | None:
        named = (rule for rule in self.denied if rule.names(command.argv, command.dynamic))
        return next(named, None)

    def sets_only_named(self, assignments: Iterable[str]) -> bool:
        """Return True if each NAME=value sets a variable that the rules name."""
        return all(each.partition("=")[0].removesuffix("+") in self.env for each in assignments)

    def _admits_script(self, argv: Sequence[str], dynamic: Collection[int], root: str) -> bool:
        program = argv[0]
        for runner in self._by_runner:
            at = len(runner)
            if not runner and "/" not in program:
                continue  # bash would look for a builtin, then in PATH
            if len(argv) > at and tuple(argv[:at]) == runner and at not in dynamic:
                script = self.script(runner, argv[at], root)
                if script and not misuse(script.line, argv, at + 1, dynamic=dynamic, root=root):
                    return True
        return False

    def rules_for(self, program: str) -> tuple[CommandPattern, ...]:
        """The patterns that begin with exactly this program."""
        return self._by_program.get(program, ())

    def script(self, runner: tuple[str, ...], path: str, root: str) -> ScriptRule | None:
        """The rule for a script, however its path is written."""
        return self._by_runner.get(runner, {}).get(normalise(path, root) or "")

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


def _past_wrapper(argv: Sequence[str], dynamic: Collection[int]) -> int:
    """Return the position of the command that a wrapper runs; 0 if that is uncertain."""
    at = 1 + THROUGH[argv[0]]
    if len(argv) <= at or any(number <= at for number in dynamic):
        return 0
    if at == 2 and not _DURATION.fullmatch(argv[1]):
        return 0
    program = argv[at]
    is_plain = program[:1] not in {"", "-"} and "=" not in program
    return at if is_plain and program not in BUILTINS else 0


def changes_folder(argv: Sequence[str]) -> bool:
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
    listed: dict[str, tuple[str, ...]] = {}
    for path, start in (*_script_starts(scripts), *_pattern_starts(patterns)):
        listed[path] = (*listed.get(path, ()), start)
    return listed


def _script_starts(scripts: Sequence[ScriptRule]) -> Iterator[tuple[str, str]]:
    for script in scripts:
        yield script.path, script.start


def _pattern_starts(patterns: Sequence[CommandPattern]) -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        words = [word.text for word in pattern.words]
        at = script_at(words)
        if at is not None and not pattern.words[at].wild:
            yield posixpath.normpath(words[at]), " ".join(words[: at + 1])


BASH = ("bash", "--norc", "--noprofile", "-c")
# Bash runs these itself; as programs they are missing or mean something else.
# fmt: off
BUILTINS = frozenset({
    ".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command",
    "compgen", "complete", "compopt", "continue", "declare", "dirs", "disown", "echo", "enable",
    "eval", "exec", "exit", "export", "false", "fc", "fg", "getopts", "hash", "help", "history",
    "jobs", "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read",
    "readarray", "readonly", "return", "set", "shift", "shopt", "source", "suspend", "test",
    "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
})
# fmt: on


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
