"""Codex's prefix rules, from a `.rules` file: Starlark, of which rules use what Python shares."""

import ast
from itertools import islice, product
from pathlib import Path
from typing import Any

from agenteval.core.dialect_codex import Codex, PrefixRule
from agenteval.core.patterns import CommandPattern, PathRules
from agenteval.core.policy import Policy
from agenteval.core.policy_bash import BashRules
from agenteval.core.policy_tools import ToolRule
from agenteval.core.shell_leaves import Construct
from agenteval.errors import UsageError
from agenteval.formats.text import digest

_DECISIONS = ("allow", "prompt", "forbidden")
_PASSES = frozenset((Construct.PIPE, Construct.CHAIN))
_SPELLED_OUT = 64  # of a rule with many alternatives, for hints


def read(path: Path) -> Policy:
    """Raises UsageError with the file and the line when a rule can't be read."""
    try:
        module = ast.parse(path.read_text(encoding="utf-8"), str(path))
    except SyntaxError as error:
        raise UsageError(f"{path}:{error.lineno}: not a rules file: {error.msg}") from error
    rules = tuple(_rule(path, statement) for statement in module.body)
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


def _rule(path: Path, statement: ast.stmt) -> PrefixRule:
    where = f"{path}:{statement.lineno}"
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "prefix_rule"):
        raise UsageError(f"{where}: expected prefix_rule(...)")
    try:
        given: dict[str, Any] = {
            each.arg or "": ast.literal_eval(each.value) for each in call.keywords
        }
    except ValueError as error:
        raise UsageError(f"{where}: expected plain strings and lists") from error
    pattern, decision = given.get("pattern"), given.get("decision", "allow")
    if not isinstance(pattern, list) or not pattern:
        raise UsageError(f"{where}: pattern: expected a list of words, got {pattern!r}")
    if decision not in _DECISIONS:
        raise UsageError(f"{where}: decision: expected {', '.join(_DECISIONS)}, got {decision!r}")
    words = tuple(tuple(word) if isinstance(word, list) else (str(word),) for word in pattern)
    return PrefixRule(words, decision)
