"""Codex's prefix rules, from a `.rules` file: Starlark, of which rules use what Python shares."""

import ast
from collections.abc import Mapping
from itertools import islice, product
from pathlib import Path
from typing import Any

from agenteval.core.dialects.codex import Codex, Decision, PrefixRule
from agenteval.core.policy.bash import BashRules
from agenteval.core.policy.patterns import CommandPattern, PathRules
from agenteval.core.policy.policy import Policy
from agenteval.core.policy.tools import ToolRule
from agenteval.core.shell.gate import NotSimple, read_simple
from agenteval.core.shell.leaves import Construct
from agenteval.errors import UsageError
from agenteval.formats.text import digest

# Whoever is to be asked, nobody is there to answer.
_DECISIONS: Mapping[str, Decision] = {
    "allow": "allow",
    "prompt": "prompt",
    "auto_review": "prompt",
    "forbidden": "forbidden",
}
_KEYS = ("pattern", "decision", "match", "not_match", "justification")  # in the order of Codex
_OTHERS = ("host_executable", "network_rule")  # they say nothing of which commands may run
_PASSES = frozenset((Construct.PIPE, Construct.CHAIN))
_SPELLED_OUT = 64  # of a rule with many alternatives, for hints


def read(path: Path) -> Policy:
    """Raises UsageError with the file and the line when a rule can't be read."""
    try:
        module = ast.parse(path.read_text(encoding="utf-8-sig"), str(path))
    except SyntaxError as error:
        where = f"{path}:{error.lineno or 1}"
        raise UsageError(f"{where}: not a rules file: {error.msg}") from error
    except (RecursionError, MemoryError) as error:
        raise UsageError(f"{path}: not a rules file: nested too deeply") from error
    rules = tuple(_rule(path, each) for each in module.body if not _is_other(each))
    starts = [
        " ".join((*words, "*"))
        for rule in rules
        if rule.decision == "allow"
        for words in islice(product(*rule.pattern), _SPELLED_OUT)
    ]
    everything = PathRules(("**",))
    return Policy(
        name=path.stem,
        digest=digest(["codex", *map(str, rules)]),
        description=f"codex rules of {path.name}",
        bash=BashRules((CommandPattern.parse(start) for start in starts), constructs=_PASSES),
        read=everything,
        write=everything,
        tools={name: ToolRule(name) for name in ("bash", "read", "write", "apply_patch")},
        engine=Codex(rules),
    )


def _calls(statement: ast.stmt) -> str:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return getattr(call.func, "id", "") if isinstance(call, ast.Call) else ""


def _is_other(statement: ast.stmt) -> bool:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or _calls(statement) in _OTHERS


def _rule(path: Path, statement: ast.stmt) -> PrefixRule:
    where = f"{path}:{statement.lineno}"
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or _calls(statement) != "prefix_rule":
        raise UsageError(f"{where}: expected prefix_rule(...), each rule written out")
    by_position = dict(zip(_KEYS, call.args, strict=False))
    by_name = {each.arg or "": each.value for each in call.keywords}
    try:
        given = {key: ast.literal_eval(value) for key, value in (by_position | by_name).items()}
    except (ValueError, TypeError) as error:
        raise UsageError(f"{where}: expected plain strings and lists") from error
    if unknown := sorted(given.keys() - set(_KEYS)):
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(_KEYS))}")
    decision = given.get("decision", "allow")
    if decision not in tuple(_DECISIONS):
        raise UsageError(f"{where}: decision: expected {', '.join(_DECISIONS)}, got {decision!r}")
    rule = PrefixRule(_pattern(where, given.get("pattern")), _DECISIONS[decision])
    _try_examples(where, rule, given)
    return rule


def _pattern(where: str, pattern: Any) -> tuple[tuple[str, ...], ...]:
    words = pattern if isinstance(pattern, list) else []
    choices = tuple(tuple(word) if isinstance(word, list) else (word,) for word in words)
    texts = [text for word in choices for text in word]
    if not (choices and all(choices) and all(isinstance(text, str) for text in texts)):
        raise UsageError(f"{where}: pattern: expected a list of words, got {pattern!r}")
    return choices


def _try_examples(where: str, rule: PrefixRule, given: dict[str, Any]) -> None:
    """Codex reads no file whose rules don't do what their examples say.

    An example that is no single simple command is passed over.
    """
    for key, wanted in (("match", True), ("not_match", False)):
        examples = given.get(key, [])
        for example in examples if isinstance(examples, list) else [examples]:
            read = read_simple(example) if isinstance(example, str) else None
            if isinstance(read, NotSimple):
                continue
            argv = read.argv if read else example
            if not isinstance(argv, (list, tuple)) or rule.matches(argv) is not wanted:
                verb = "does not match" if wanted else "matches"
                raise UsageError(f"{where}: {key}: the rule {verb} {example!r}")
