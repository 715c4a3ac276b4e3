"""The rules for bash: which simple commands may run, and how near a denied one came."""

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from agenteval.core.nearest import names
from agenteval.core.patterns import CommandPattern, normalise
from agenteval.core.policy_script import CommandLine, misuse
from agenteval.core.programs import FAMILIAR, after_runner, base_name, script_at
from agenteval.core.shell import NEEDS_CARE
from agenteval.core.shell_leaves import Construct

_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ScriptRule:
    """A listed script: its normalised path, the words before it, and what may follow."""

    path: str
    runner: tuple[str, ...]
    line: CommandLine

    @property
    def start(self) -> str:
        """How a call of it begins."""
        return " ".join((*self.runner, self.path))


class Miss(StrEnum):
    """What about a command no rule allows."""

    PROGRAM = "program"
    SCRIPT = "script"
    OPTION = "option"
    WORDS = "words"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why no rule fits: at which word (one past the last when some are missing), and the cure."""

    miss: Miss
    at: int
    hint: str


@dataclass(frozen=True, slots=True)
class BashRules:
    """Deny by default: a command runs only when one rule fits every word of it.

    `listed` maps each script's path to the ways its calls may begin. Build it with `of`.
    """

    patterns: tuple[CommandPattern, ...] = ()
    scripts: tuple[ScriptRule, ...] = ()
    constructs: frozenset[Construct] = frozenset()
    listed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _by_program: Mapping[str, tuple[CommandPattern, ...]] = field(default_factory=dict)
    _loose: tuple[CommandPattern, ...] = ()
    _by_path: Mapping[tuple[str, ...], Mapping[str, ScriptRule]] = field(default_factory=dict)
    _by_stem: Mapping[str, str] = field(default_factory=dict)
    _otherwise: str = ""

    @classmethod
    def of(
        cls,
        patterns: tuple[CommandPattern, ...] = (),
        scripts: tuple[ScriptRule, ...] = (),
        constructs: Collection[Construct] = (),
    ) -> Self:
        by_program: dict[str, tuple[CommandPattern, ...]] = {}
        by_path: dict[tuple[str, ...], dict[str, ScriptRule]] = {}
        for pattern in patterns:
            if not pattern.program.wild:
                program = pattern.program.text
                by_program[program] = (*by_program.get(program, ()), pattern)
        for script in scripts:
            by_path.setdefault(script.runner, {})[script.path] = script
        listed: dict[str, tuple[str, ...]] = {}
        for path, start in (*_starts(scripts), *_pattern_starts(patterns)):
            listed[path] = (*listed.get(path, ()), start)
        return cls(
            patterns,
            scripts,
            frozenset(constructs),
            listed,
            by_program,
            tuple(pattern for pattern in patterns if pattern.program.wild),
            by_path,
            {_stem(path): starts[0] for path, starts in listed.items()},
            _otherwise(listed, patterns),
        )

    def admits(
        self, argv: Sequence[str], dynamic: Collection[int] = _NONE, *, root: str = "/workspace"
    ) -> bool:
        """Whether a rule fits the command; `dynamic` numbers the words bash still expands."""
        for runner, scripts in self._by_path.items():
            at = len(runner)
            if len(argv) > at and tuple(argv[:at]) == runner and at not in dynamic:
                script = scripts.get(normalise(argv[at], root) or "")
                if script and not misuse(script.line, argv, at + 1, dynamic=dynamic, root=root):
                    return True
        careful = argv[0] in NEEDS_CARE
        return any(
            rule.matches(argv, dynamic) and not (careful and rule.wild)
            for rule in (*self._by_program.get(argv[0], ()), *self._loose)
        )

    def mismatch(
        self, argv: Sequence[str], dynamic: Collection[int] = _NONE, *, root: str = "/workspace"
    ) -> Mismatch:
        """Why the command, which `admits` denied, is denied."""
        at = script_at(argv)
        if at is not None:
            return self._script_mismatch(argv, at, dynamic, root)
        inner = after_runner(argv)
        if inner and inner < len(argv):
            return Mismatch(Miss.PROGRAM, inner, self._nearest_listed(argv[inner]))
        return (
            self._nearest_rule(self._by_program.get(argv[0], ()), argv, dynamic)
            or self._nearest_script(argv)
            or Mismatch(Miss.PROGRAM, 0, self._nearest_listed(argv[0]))
        )

    def _script_mismatch(
        self, argv: Sequence[str], at: int, dynamic: Collection[int], root: str
    ) -> Mismatch:
        path = normalise(argv[at], root) or argv[at]
        starts = self.listed.get(path, ())
        if not starts:
            return Mismatch(Miss.SCRIPT, at, self._nearest_listed(path))
        runner = tuple(argv[:at])
        script = self._by_path.get(runner, {}).get(path)
        wrong = script and misuse(script.line, argv, at + 1, dynamic=dynamic, root=root)
        if wrong:
            return Mismatch(Miss.OPTION if wrong.invented else Miss.WORDS, wrong.at, wrong.hint)
        rules = tuple(
            rule for rule in self._by_program.get(argv[0], ()) if rule.agreeing(argv, dynamic) > at
        )
        return self._nearest_rule(rules, argv, dynamic) or Mismatch(
            Miss.PROGRAM, 0, f"run it as `{starts[0]}`"
        )

    @staticmethod
    def _nearest_rule(
        rules: Sequence[CommandPattern], argv: Sequence[str], dynamic: Collection[int]
    ) -> Mismatch | None:
        if not rules:
            return None
        best = max(rules, key=lambda rule: rule.agreeing(argv, dynamic))
        at = best.agreeing(argv, dynamic)
        if at in dynamic:
            return Mismatch(
                Miss.WORDS, at, f"quote {argv[at]} or write it out: bash would expand it"
            )
        return Mismatch(Miss.WORDS, at, f"allowed is `{best.text}`")

    def _nearest_script(self, argv: Sequence[str]) -> Mismatch | None:
        for runner, scripts in self._by_path.items():
            if runner[:1] == (argv[0],):
                at = sum(a == b for a, b in zip(runner, argv, strict=False))
                start = next(iter(scripts.values())).start
                return Mismatch(Miss.WORDS, at, f"allowed is `{start}`")
        return None

    def _nearest_listed(self, program: str) -> str:
        """The cure for a program or script that is not listed, by what its name may mean."""
        if program not in FAMILIAR:
            near = names(frozenset(self._by_stem)).nearest(_stem(program))
            if near:
                return f"did you mean `{self._by_stem[near]}`?"
        return self._otherwise


def _stem(path: str) -> str:
    """What names of the same script share: context-cache and scripts/context_cache.py."""
    return base_name(path).partition(".")[0].replace("-", "_")


def _starts(scripts: Sequence[ScriptRule]) -> Iterator[tuple[str, str]]:
    for script in scripts:
        yield script.path, script.start


def _pattern_starts(patterns: Sequence[CommandPattern]) -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        words = [word.text for word in pattern.words]
        at = script_at(words)
        if at is not None and not pattern.words[at].wild:
            yield posixpath.normpath(words[at]), " ".join(words[: at + 1])


def _otherwise(listed: Mapping[str, tuple[str, ...]], patterns: Sequence[CommandPattern]) -> str:
    """The cure when a name means nothing that is listed: the first few ways a call may begin."""
    starts = list(dict.fromkeys(start for starts in listed.values() for start in starts))
    shown = [f"`{start}`" for start in (starts or [rule.text for rule in patterns])[:4]]
    return f"use what is listed: {', '.join(shown)}" if shown else "bash may run nothing here"
