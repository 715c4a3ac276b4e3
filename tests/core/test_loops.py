import pytest

from agenteval.core.call import ToolCall
from agenteval.core.loops import looped


@pytest.mark.parametrize(
    ("commands", "answer"),
    [("aaaaa", True), ("baaaaa", True), ("aaaa", False), ("aaaab", False), ("ababababab", False)],
)
def test_five_times_the_same_call_is_a_loop(commands: str, *, answer: bool) -> None:
    assert looped([ToolCall("", "bash", command) for command in commands]) is answer
