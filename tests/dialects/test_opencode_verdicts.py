"""What OpenCode itself said to calls: `ask_opencode.py` asked it, and tells how."""

import json
from pathlib import Path
from typing import Any

import pytest

from agenteval.core.call import ToolCall
from agenteval.core.policy.policy import World, allows
from agenteval.dialects import registry
from agenteval.formats.permissions import load_any

VERDICTS = Path(registry.__file__).parent
SESSIONS = json.loads((VERDICTS / "opencode" / "verdicts.json").read_text("utf-8"))
WORLD = World(root="/home/me/project")


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session["version"])
def test_a_call_gets_the_verdict_that_opencode_gave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: dict[str, Any]
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    config = tmp_path / "opencode.json"
    config.write_text(json.dumps(session))
    engine = "opencode-1.0" if session["version"].startswith("1.0.") else "opencode"
    policy = load_any(f"{engine}:{config}", roots=[])
    ours = [
        [tool, arguments, allows(ToolCall("", tool, "", arguments), policy, WORLD)]
        for tool, arguments, _ in session["verdicts"]
    ]
    assert ours == session["verdicts"]
