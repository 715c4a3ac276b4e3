"""Why no rule fits a denied command: how near it came, and what would mend it."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from agenteval.core.policy.bash import BashRules, stem
from agenteval.core.policy.patterns import CommandPattern, normalise
from agenteval.core.policy.script import misuse
from agenteval.core.shell.harm import is_familiar
from agenteval.core.shell.programs import after_runner, only_itself, script_at

_NONE: frozenset[int] = frozenset()


class Miss(StrEnum):
    """What about a command no rule allows."""

    PROGRAM = "program"
    SCRIPT = "script"
    OPTION = "option"
    WORDS = "words"


class Mismatch(NamedTuple):
    """Why no rule fits: at which word (one past the last when some are missing), and the cure."""

    miss: Miss
    at: int
    hint: str


@lru_cache(maxsize=1024)  # agents know few programs
def unlisted(rules: BashRules, program: str) -> Mismatch:
    """Why a command is denied that is strange to the rules."""
    return Mismatch(Miss.PROGRAM, 0, _nearest_listed(rules, program))


def mismatch(
    rules: BashRules,
    argv: Sequence[str],
    dynamic: Collection[int] = _NONE,
    *,
    root: str = "/workspace",
) -> Mismatch:
    """Why the command, which `rules.admits` denied, is denied."""
    if not only_itself(argv[0]):
        at = script_at(argv)
        if at is not None:
            return _script_mismatch(rules, argv, at, dynamic, root)
        inner = after_runner(argv)
        if inner and inner < len(argv):
            return Mismatch(Miss.PROGRAM, inner, _nearest_listed(rules, argv[inner]))
    return (
        _nearest_rule(rules.rules_for(argv[0]), argv, dynamic)
        or _nearest_runner(rules, argv)
        or unlisted(rules, argv[0])
    )


def _script_mismatch(
    rules: BashRules, argv: Sequence[str], at: int, dynamic: Collection[int], root: str
) -> Mismatch:
    starts = rules.listed.get(normalise(argv[at], root) or argv[at], ())
    if not starts:
        return Mismatch(Miss.SCRIPT, at, _nearest_listed(rules, argv[at]))
    script = rules.script(tuple(argv[:at]), argv[at], root)
    wrong = script and misuse(script.line, argv, at + 1, dynamic=dynamic, root=root)
    if wrong:
        return Mismatch(Miss.OPTION if wrong.invented else Miss.WORDS, wrong.at, wrong.hint)
    patterns = [rule for rule in rules.rules_for(argv[0]) if rule.agreeing(argv, dynamic) > at]
    return _nearest_rule(patterns, argv, dynamic) or Mismatch(
        Miss.PROGRAM, 0, f"run it as `{starts[0]}`"
    )


def _nearest_rule(
    patterns: Sequence[CommandPattern], argv: Sequence[str], dynamic: Collection[int]
) -> Mismatch | None:
    if not patterns:
        return None
    agreeing = [rule.agreeing(argv, dynamic) for rule in patterns]
    at = max(agreeing)
    best = patterns[agreeing.index(at)]
    if at in dynamic:
        return Mismatch(Miss.WORDS, at, f"quote {argv[at]} or write it out: bash would expand it")
    return Mismatch(Miss.WORDS, at, f"allowed is `{best.text}`")


def _nearest_runner(rules: BashRules, argv: Sequence[str]) -> Mismatch | None:
    """A command that begins as the calls of scripts do, but names none: `uv pip install`."""
    script = rules.by_first_word.get(argv[0])
    if script is None:
        return None
    at = sum(a == b for a, b in zip(script.runner, argv, strict=False))
    return Mismatch(Miss.WORDS, at, f"allowed is `{script.start}`")


def _nearest_listed(rules: BashRules, program: str) -> str:
    """The cure for a program or script that is not listed, by what its name may mean."""
    near = "" if is_familiar(program) else rules.stems.nearest(stem(program))
    return f"did you mean `{rules.by_stem[near]}`?" if near else rules.sample
