import pytest

from agenteval.core.call import Finding, ToolCall, Verdict
from agenteval.core.span import Span


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
    ("verdict", "allowed"),
    [(Verdict(), True), (Verdict((Finding("heredoc", Span(0, 0, "<<")),)), False)],
)
def test_a_verdict_allows_exactly_when_it_has_no_findings(*, verdict, allowed) -> None:
    assert verdict.allowed == allowed


def test_a_denial_that_nothing_explains_is_no_verdict() -> None:
    with pytest.raises(ValueError, match="at least one finding"):
        Verdict.denied([])
