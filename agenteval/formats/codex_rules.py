"""Codex's prefix rules, from a `.rules` file or from a folder of them, as Codex itself has."""

from itertools import islice, product
from pathlib import Path

from agenteval.core.dialects.codex.engine import Codex, PrefixRule
from agenteval.core.policy.bash import BashRules
from agenteval.core.policy.patterns import CommandPattern, PathRules
from agenteval.core.policy.policy import Policy
from agenteval.core.policy.tools import ToolRule
from agenteval.core.shell.leaves import Construct
from agenteval.errors import UsageError
from agenteval.formats.codex_calls import check, places_of, rule_of, try_examples
from agenteval.formats.codex_starlark import run
from agenteval.formats.text import digest

_PASSES = frozenset((Construct.PIPE, Construct.CHAIN))
_SPELLED_OUT = 64  # of a rule with many alternatives, for hints


def read(path: Path) -> Policy:
    """Raises UsageError with the file and the line when a rule can't be read."""
    files = sorted(path.glob("*.rules")) if path.is_dir() else [path]
    if not files:
        raise UsageError(f"{path}: a folder without any .rules file")
    engine = _engine(files)
    starts = [
        " ".join((*words, "*"))
        for rule in engine.rules
        if rule.decision == "allow"
        for words in islice(product(*rule.pattern), _SPELLED_OUT)
    ]
    everything = PathRules(("**",))
    places = [f"{name} {sorted(paths)}" for name, paths in engine.executables.items()]
    return Policy(
        name=path.stem,
        digest=digest(["codex", *map(str, engine.rules), *places]),
        description=f"codex rules of {path.name}",
        bash=BashRules((CommandPattern.parse(start) for start in starts), constructs=_PASSES),
        read=everything,
        write=everything,
        tools={name: ToolRule(name) for name in ("bash", "read", "write", "apply_patch")},
        engine=engine,
    )


def _engine(files: list[Path]) -> Codex:
    rules: list[PrefixRule] = []
    places: dict[str, frozenset[str]] = {}
    for file in files:
        calls = run(file)
        for call in calls:
            check(call)
        places |= dict(places_of(call) for call in calls if call.function == "host_executable")
        for call in calls:
            if call.function == "prefix_rule":
                rules.append(rule_of(call))
                try_examples(call, rules[-1], places)
    return Codex(tuple(rules), places)
