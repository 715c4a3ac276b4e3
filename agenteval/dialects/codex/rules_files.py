"""Codex's prefix rules, from a `.rules` file or a folder of them; and into one."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice, product
from pathlib import Path
from typing import Any

from agenteval.bounded import read_text
from agenteval.core.policy.arguments import ToolRule
from agenteval.core.policy.bash import BashRules
from agenteval.core.policy.patterns import CommandPattern, PathRules
from agenteval.core.policy.policy import Policy
from agenteval.core.shell.leaves import Construct
from agenteval.dialects.codex.engine import APPROVALS, Approval, Codex, PrefixRule
from agenteval.dialects.codex.keys import unheeded
from agenteval.dialects.codex.rule_calls import RuleCall, check, places_of, rule_of, try_examples
from agenteval.dialects.config_files import (
    Written,
    commands,
    denied,
    digest,
    lost_everywhere,
    naming,
)
from agenteval.errors import UsageError

_PASSES = frozenset((Construct.PIPE, Construct.CHAIN))
_CHILD = Path(__file__).with_name("starlark_child.py")
_TIMEOUT = 10.0  # seconds: the child's own limit is on those that it computes
_SPELLED_OUT = 64  # of a rule with many alternatives, for hints


def read(path: Path, approval: Approval = "untrusted") -> Policy:
    """Read a rules file. Raises UsageError with the file and the line if a rule can't be read."""
    files = sorted(path.glob("*.rules")) if path.is_dir() else [path]
    if not files:
        raise UsageError(f"{path}: a folder without any .rules file")
    engine = replace(_engine(files), approval=approval)
    policy = of_engine(engine, path.stem, f"codex rules of {path.name}")
    return replace(policy, unheeded=tuple(unheeded(path)))


def of_engine(engine: Codex, name: str, description: str) -> Policy:
    starts = [
        " ".join((*words, "*"))
        for rule in engine.rules
        if rule.decision == "allow"
        for words in islice(product(*rule.pattern), _SPELLED_OUT)
    ]
    everything = PathRules(("**",))
    places = [f"{program} {sorted(paths)}" for program, paths in engine.executables.items()]
    return Policy(
        name=name,
        digest=digest([engine.name, *map(str, engine.rules), *places]),
        description=description,
        bash=BashRules((CommandPattern.parse(start) for start in starts), constructs=_PASSES),
        read=everything,
        write=everything,
        tools={name: ToolRule(name) for name in ("bash", "read", "write", "apply_patch")},
        engine=engine,
    )


def in_mode(policy: Policy, mode: str) -> Policy:
    """The same rules under the approval policy that a log names; as they are under any other."""
    engine = policy.engine
    if not isinstance(engine, Codex) or mode not in APPROVALS:
        return policy
    told = replace(engine, approval=mode)  # type: ignore[arg-type]  # it is one of them
    return replace(policy, engine=told, digest=digest([policy.digest, mode]))


def _engine(files: list[Path]) -> Codex:
    rules: list[PrefixRule] = []
    places: dict[str, frozenset[str]] = {}
    for file in files:
        calls = _run(file)
        for call in calls:
            check(call)
        places |= dict(places_of(call) for call in calls if call.function == "host_executable")
        for call in calls:
            if call.function == "prefix_rule":
                rules.append(rule_of(call))
                try_examples(call, rules[-1], places)
    return Codex(tuple(rules), places)


def _run(path: Path) -> list[RuleCall]:
    """The calls that a rules file makes, in their order; UsageError when it is no program."""
    if find_spec("starlark") is None:
        raise UsageError(f"{path}: needs Starlark: install agenteval-gate[codex]")
    with naming(path):
        text = read_text(path)
    answer = _answer(text)
    if "calls" not in answer:
        raise UsageError(f"{path}:{answer['line']}: not a rules file: {answer['why']}")
    return [RuleCall(name, f"{path}:{line}", given) for name, line, given in answer["calls"]]


def _answer(text: str) -> dict[str, Any]:
    """Return the child's answer. A program may kill its interpreter, or never end."""
    try:
        ended = subprocess.run(
            [sys.executable, "-P", str(_CHILD)],  # -P: its neighbours here hide no library
            input=text.encode(),
            env={},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT,
            check=True,
        )
        answer: dict[str, Any] = json.loads(ended.stdout)
    except (subprocess.SubprocessError, ValueError):
        return {"line": 1, "why": "it takes too long, or too much memory, to run"}
    return answer


def write(policy: Policy) -> Written:
    lines, losses = [], list(lost_everywhere(policy, _PASSES))
    bare: dict[str, None] = {}
    for start, open_end in commands(policy):
        if "*" in start:
            losses.append(f"{start}: left out, for a prefix has no patterns")
            continue
        words = start.split()
        lines.append(f'prefix_rule(pattern={json.dumps(words)}, decision="allow")')
        if "/" not in words[0]:
            bare[words[0]] = None
        if not open_end:
            losses.append(f"{start}: that no further words may follow")
    for start, open_end in denied(policy):
        if "*" in start or not open_end:
            losses.append(
                f"{start}: its denial is left out, for a prefix has no patterns and no end"
            )
            continue
        lines.append(f'prefix_rule(pattern={json.dumps(start.split())}, decision="forbidden")')
    # Else each rule would be about every program of that name, wherever it is.
    lines += [f"host_executable(name={json.dumps(name)}, paths=[])" for name in bare]
    losses.append(
        r"that a word may have one of *?[]{}\~^# outside quotes: no rule can allow it there"
    )
    losses += [
        f"tools.{name}: rules are about commands only" for name in policy.tools if name != "bash"
    ]
    return Written("\n".join(lines) + "\n", tuple(losses))


def left_behind(engine: Codex) -> Iterator[str]:
    """The rules that no list for anyone else can hold: all but allowed commands."""
    for rule in engine.rules:
        words = " ".join("|".join(choices) for choices in rule.pattern)
        if rule.decision != "allow":
            yield f"prefix_rule {words}: {rule.decision}"
        elif rule.caseless:
            yield f"prefix_rule {words}: whatever the case of its letters"
    for name, paths in engine.executables.items():
        yield f"host_executable {name}: {', '.join(sorted(paths)) or 'nowhere but in PATH'}"
    if any(rule.decision == "allow" for rule in engine.rules):
        yield "that a program may be given by its path too"
