"""What the harnesses themselves said to calls: `ask_*.py` beside this asked them, and tells how.

The project was /home/me/project. A call that failed after it was allowed counts as allowed.
"""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from agenteval import dialects
from agenteval.config.allowlists import load_any
from agenteval.dialects import registry
from agenteval.dialects.codex.engine import Codex
from agenteval.errors import UsageError
from agenteval.policy.policy import Policy, World, allows
from agenteval.trial.call import ToolCall

ROOT = "/home/me/project"
HERE = Path(__file__).parent
STEMS = {name: name.replace("-", "_") for name in dialects.NAMES}
TABLES = {
    name: json.loads((HERE / "verdicts" / f"{stem}.json").read_text("utf-8"))
    for name, stem in STEMS.items()
}
CONFIGURE = {
    name: runpy.run_path(str(HERE / f"ask_{stem}.py"))["configure"] for name, stem in STEMS.items()
}
PROCESSES = 20  # a file of Codex's rules is read in a process of its own: many are slow


def as_case(name: str, session: dict[str, Any], number: int) -> Any:
    files = sum(tool == "file" for tool, *_ in session["verdicts"])
    marks = [pytest.mark.slow] if files > PROCESSES else []
    return pytest.param(name, session, id=f"{name}-{session['version']}-{number}", marks=marks)


SESSIONS = [
    as_case(name, session, number)
    for name, table in TABLES.items()
    for number, session in enumerate(table)
]


@pytest.mark.parametrize(("name", "session"), SESSIONS)
def test_a_call_gets_the_verdict_that_the_harness_gave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, session: dict[str, Any]
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    if any(tool == "file" for tool, *_ in session["verdicts"]):
        ours = [[*row[:2], is_read(tmp_path / "a.rules", **row[1])] for row in session["verdicts"]]
    else:
        policy = load_any(CONFIGURE[name](session, tmp_path), roots=[])
        ours = [
            [tool, arguments, said(policy, ToolCall("", tool, "", arguments))]
            for tool, arguments, _ in session["verdicts"]
        ]
    assert ours == session["verdicts"]


def said(policy: Policy, call: ToolCall) -> bool | str:
    """Whether the policy allows it; of Codex the decision, which says more."""
    is_allowed = allows(call, policy, World(root=ROOT))
    if not isinstance(policy.engine, Codex):
        return is_allowed
    decision = policy.engine.decision(call.arguments or {}, ROOT)
    assert is_allowed is (decision == "allow")
    return decision


def is_read(path: Path, text: str) -> bool:
    path.write_text(text, "utf-8")
    try:
        load_any(str(path), roots=[])
    except UsageError:
        return False
    return True


@pytest.mark.parametrize("name", dialects.NAMES)
def test_a_dialect_names_the_versions_that_its_verdicts_are_of(name: str) -> None:
    versions = {session["version"] for session in TABLES[name]}
    assert versions == set(registry.dialects()[name].checked)
