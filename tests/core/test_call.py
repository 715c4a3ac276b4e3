import pytest

from agenteval.core.call import Evidence, Finding, ToolCall, Verdict


@pytest.mark.parametrize(
    ("call", "command"),
    [
        (ToolCall("", "bash", "", {"command": "ls"}), "ls"),
        (ToolCall("", "bash", "", {"command": ["ls"]}), None),
        (ToolCall("", "bash", "{"), None),
        (ToolCall("", "read", "", {"command": "ls"}), None),
    ],
)
def test_only_a_bash_call_carries_a_command(call, command) -> None:
    assert call.command == command


@pytest.mark.parametrize(
    ("allowed", "findings"), [(True, (Finding("heredoc", Evidence("<<")),)), (False, ())]
)
def test_a_verdict_that_contradicts_itself_cannot_be_made(*, allowed, findings) -> None:
    with pytest.raises(ValueError, match="exactly when it has no findings"):
        Verdict(allowed, findings)
