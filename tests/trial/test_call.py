import json

import pytest

from agenteval.shell.gate import Span
from agenteval.trial.call import Allowed, BashRun, Denied, Finding, ToolCall
from agenteval.trial.text import DEEPEST, read


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


FINDING = Finding("heredoc", Span(0, 0, "<<"))


def test_an_allowed_call_has_what_it_runs_and_no_findings() -> None:
    verdict = Allowed(BashRun("ls", ("ls",), (("ls",),)))
    assert (verdict.allowed, verdict.findings, verdict.primary) == (True, (), None)


def test_a_denied_call_has_findings_and_no_place_for_anything_to_run() -> None:
    verdict = Denied.explained([FINDING])
    assert (verdict.allowed, verdict.findings, verdict.primary) == (False, (FINDING,), FINDING)
    assert Denied._fields == ("findings",)


def test_a_denial_that_nothing_explains_is_no_verdict() -> None:
    with pytest.raises(ValueError, match="at least one finding"):
        Denied.explained([])


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"path": "a", "lines": [1, 2.5]}, {"path": "a", "lines": [1, 2.5]}),
        ({"offset": float("nan")}, "as written"),
        ({"at": [{"size": float("inf")}]}, "as written"),
        ({"deep": nested(100_000)}, "as written"),
        (None, "as written"),
    ],
    ids=["plain", "NaN", "infinite", "deep", "none"],
)
def test_arguments_that_are_no_json_are_told_as_they_were_written(arguments, told):
    assert ToolCall("c", "read", "as written", arguments).json_arguments == told


def test_json_with_many_lists_side_by_side_is_not_nested_too_deep() -> None:
    lists = [[1]] * (DEEPEST + 1)
    assert read(json.dumps(lists)) == lists
