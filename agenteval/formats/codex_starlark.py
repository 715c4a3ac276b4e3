"""Codex's rules files are programs in Starlark: which of Codex's functions they call, with what."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agenteval.errors import UsageError
from agenteval.formats.text import naming

_CHILD = Path(__file__).with_name("codex_starlark_child.py")
_PATIENCE = 10.0  # seconds: the child's own limit is on those that it computes


@dataclass(frozen=True, slots=True)
class RuleCall:
    """One call of a function of Codex's, `where` in words for errors."""

    function: str
    where: str
    given: Mapping[str, Any]


def run(path: Path) -> list[RuleCall]:
    """The calls that a rules file makes, in their order; UsageError when it is no program."""
    with naming(path):
        text = path.read_text(encoding="utf-8")
    answer = _answer(text)
    if "calls" not in answer:
        raise UsageError(f"{path}:{answer['line']}: not a rules file: {answer['why']}")
    return [RuleCall(name, f"{path}:{line}", given) for name, line, given in answer["calls"]]


def _answer(text: str) -> dict[str, Any]:
    """What the child says: a program may kill its interpreter, or never end."""
    try:
        ended = subprocess.run(
            [sys.executable, "-P", str(_CHILD)],  # -P: its neighbours here hide no library
            input=text.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=True,
        )
        answer: dict[str, Any] = json.loads(ended.stdout)
    except (subprocess.SubprocessError, ValueError):
        return {"line": 1, "why": "it takes too long, or too much memory, to run"}
    return answer
