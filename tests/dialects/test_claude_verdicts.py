"""What Claude Code itself said to calls: `ask_claude.py` asked it, in a sandbox.

The project was /home/me/project, and /srv/data was there too. A call that failed after it was
allowed counts as allowed.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from agenteval.core.call import ToolCall
from agenteval.core.policy.policy import World, allows
from agenteval.dialects import registry
from agenteval.formats.permissions import load_any

VERDICTS = Path(registry.__file__).parent
SESSIONS = json.loads((VERDICTS / "claude_code" / "verdicts.json").read_text("utf-8"))
WORLD = World(root="/home/me/project")


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session["version"])
def test_a_call_gets_the_verdict_that_claude_code_gave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: dict[str, Any]
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"permissions": session["permissions"]}))
    policy = load_any(f"claude-code:{settings}", roots=[])
    ours = [
        [tool, arguments, allows(ToolCall("", tool, "", arguments), policy, WORLD)]
        for tool, arguments, _ in session["verdicts"]
    ]
    assert ours == session["verdicts"]
