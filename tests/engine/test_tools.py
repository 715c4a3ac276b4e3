import pytest

from agenteval.core.call import Evidence, Finding, ToolCall, Verdict
from agenteval.core.scenario import Limits
from agenteval.core.trial import Execution
from agenteval.engine import tools


def denied(failure_class: str, evidence: str = "ls", hint: str = "") -> Verdict:
    return Verdict(allowed=False, findings=(Finding(failure_class, Evidence(evidence), hint),))


@pytest.mark.parametrize(
    ("call", "verdict", "said"),
    [
        (
            ToolCall("1", "bash", "", {"command": "ls | head"}),
            denied("pipe-to-filter", "| head"),
            "Permission denied: the rules do not allow `| head` here. Nothing was run.",
        ),
        (
            ToolCall("1", "emit_guidance", "{}", {}),
            denied("hallucinated-tool"),
            "Unknown tool: 'emit_guidance'. Nothing was run.",
        ),
        (
            ToolCall("1", "bash", "{", None, "arguments are not JSON: x"),
            denied("malformed-arguments"),
            "Invalid tool call: arguments are not JSON: x. Nothing was run.",
        ),
        (
            ToolCall("1", "bash", "{}", {}),
            denied("malformed-arguments", hint="no command"),
            "Invalid tool call: the arguments do not fit the schema: no command. Nothing was run.",
        ),
    ],
)
def test_a_denial_names_the_part_and_not_the_cure(call, verdict, said) -> None:
    assert tools.denial(call, verdict) == said


def test_an_allowed_call_has_no_denial() -> None:
    with pytest.raises(ValueError, match="no denial"):
        tools.denial(ToolCall("1", "bash", ""), Verdict(allowed=True))


@pytest.mark.parametrize(
    ("execution", "said"),
    [
        (Execution(0, "hello\n", 0.1), "hello\n"),
        (Execution(0, "", 0.1), "[no output]"),
        (Execution(2, "usage\n", 0.1), "usage\n\n[exit code 2]"),
        (Execution(1, "", 0.1), "[exit code 1]"),
        (Execution(0, "aa", 0.1, cut=True), "aa\n[output cut here]"),
        (
            Execution(None, "", 9, "wall-time"),
            "[The command was stopped: it ran longer than 30 s.]",
        ),
        (Execution(1, "x", 9, "inodes"), "x\n[The disk is full: the workspace holds 8192 files.]"),
    ],
)
def test_an_answer_is_the_output_and_what_went_wrong(execution, said) -> None:
    assert tools.answer(execution, Limits()) == said


def test_a_schema_asks_for_one_text() -> None:
    (schema,) = tools.schemas(["read"])
    assert schema["function"]["parameters"]["required"] == ["path"]
