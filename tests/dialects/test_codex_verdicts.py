"""What Codex itself said to commands and to rules files: ask_codex.py asked it."""

import json
from pathlib import Path

import pytest

from agenteval.core.call import ToolCall
from agenteval.core.policy.policy import Policy, World, allows
from agenteval.dialects import registry
from agenteval.dialects.codex.engine import Codex
from agenteval.errors import UsageError
from agenteval.formats.permissions import load_any

VERDICTS = Path(registry.__file__).parent
TABLE = json.loads((VERDICTS / "codex" / "verdicts.json").read_text("utf-8"))
ROOT = "/home/me/project"


@pytest.mark.parametrize("number", range(len(TABLE["sessions"])))
def test_a_command_gets_the_verdict_that_codex_gave_it(tmp_path: Path, number: int) -> None:
    session = TABLE["sessions"][number]
    for place, text in enumerate(session["rules"] or [""]):
        (tmp_path / f"{place}.rules").write_text(text, "utf-8")
    policy = load_any(f"codex:{tmp_path}", roots=[])
    ours = [[arguments, decision(policy, arguments)] for arguments, _ in session["verdicts"]]
    assert ours == session["verdicts"]


def decision(policy: Policy, arguments: dict[str, str]) -> str:
    """What the engine says; `allow` is only what the policy allows."""
    assert isinstance(policy.engine, Codex)
    found = policy.engine.decision(arguments["command"], ROOT)
    call = ToolCall("", "bash", "", arguments)
    assert allows(call, policy, World(root=ROOT)) is (found == "allow")
    return found


def test_a_rules_file_is_read_where_codex_reads_it(tmp_path: Path) -> None:
    ours = [[text, is_read(tmp_path / "a.rules", text)] for text, _ in TABLE["files"]]
    assert ours == TABLE["files"]


def is_read(path: Path, text: str) -> bool:
    path.write_text(text, "utf-8")
    try:
        load_any(str(path), roots=[])
    except UsageError:
        return False
    return True
