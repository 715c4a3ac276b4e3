"""What a conversation shows: which replies were taken, what answers them, what is told."""

import json

import pytest

from agenteval.harness.dialogue import CallEvent, Dialogue, Did, events_in
from agenteval.harness.recipes import programs
from agenteval.trial.call import ToolCall
from agenteval.trial.trial import Turn, Usage

TASK = {"role": "user", "content": "Here is the task."}


def turn(*ids: str) -> Turn:
    calls = tuple(ToolCall(one, "bash", "{}", {}) for one in ids)
    return Turn("", calls, "stop", Usage(), "", 0.0)


def said(*ids: str) -> dict[str, object]:
    return {"role": "assistant", "content": "", "tool_calls": [{"id": one} for one in ids]}


def result(ident: str, text: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": ident, "content": text}


def test_a_reply_counts_once_the_next_request_shows_it() -> None:
    dialogue = Dialogue("the task")
    assert dialogue.belongs([TASK])
    assert dialogue.receive([TASK]) is None
    dialogue.send_reply(turn("a", "b"))
    assert (len(dialogue.turns), dialogue.waits) == (0, True)
    taken = dialogue.receive([TASK, said("a", "b"), result("a", "1"), result("b", "2")])
    assert taken == turn("a", "b")
    assert [(call.id, call.reply) for call in dialogue.pending_calls] == [("a", "1"), ("b", "2")]


def test_a_request_that_is_sent_again_is_no_second_call() -> None:
    dialogue = Dialogue("the task")
    dialogue.receive([TASK])
    dialogue.send_reply(turn("a"))
    dialogue.receive([TASK])  # the same once more: the reply was not taken
    assert dialogue.ignored == 1
    dialogue.send_reply(turn("b"))
    dialogue.receive([TASK, said("b"), result("b", "1")])
    assert ([one.id for one in dialogue.pending_calls], dialogue.ignored) == (["b"], 0)


def test_words_without_a_call_are_taken_when_the_program_goes_on_after_them() -> None:
    dialogue = Dialogue("the task")
    dialogue.send_reply(turn())
    assert dialogue.over
    dialogue.receive([TASK, said(), {"role": "user", "content": "go on"}])
    assert (len(dialogue.turns), dialogue.over) == (1, True)


def test_an_unread_call_is_a_turn_at_once_and_the_words_after_it_are_one_when_gone_on() -> None:
    dialogue = Dialogue("the task")
    dialogue.receive([TASK])
    dialogue.failed(turn("call-0"))
    (unread,) = dialogue.pending_calls
    assert (len(dialogue.turns), dialogue.waits, unread.reply) == (1, False, "")
    assert unread.event == CallEvent("call-0", Did.REFUSED)
    dialogue.receive([TASK])  # the same once more, for it got an error
    dialogue.send_reply(turn())
    dialogue.receive([TASK, said(), {"role": "user", "content": "go on"}])
    assert (len(dialogue.turns), dialogue.ignored) == (2, 0)


def test_ids_that_come_round_again_belong_to_the_last_turn() -> None:
    dialogue = Dialogue("the task")
    for number in range(2):
        dialogue.send_reply(turn("call-0"))
        before = [m for n in range(number) for m in (said("call-0"), result("call-0", f"{n}"))]
        dialogue.receive([TASK, *before, said("call-0"), result("call-0", f"answer {number}")])
    assert [one.reply for one in dialogue.pending_calls] == ["answer 0", "answer 1"]


def test_what_is_about_something_else_stands_beside() -> None:
    dialogue = Dialogue("the task")
    parts = [{"type": "text", "text": "<x>the task</x>"}]
    assert dialogue.belongs([{"role": "user", "content": parts}])
    assert not dialogue.belongs([{"role": "user", "content": "make a title"}])


def test_at_the_end_the_last_reply_is_the_last_turn() -> None:
    dialogue = Dialogue("the task")
    dialogue.send_reply(turn())
    assert (dialogue.settle(sure=True), dialogue.settle(sure=True)) == (turn(), None)


def opencode(tool: str, **state: object) -> str:
    part = {"type": "tool", "callID": "c1", "tool": tool, "state": state}
    return json.dumps({"type": "tool_use", "part": part})


def claude(content: str, *, error: bool) -> str:
    block = {"type": "tool_result", "tool_use_id": "c1", "content": content, "is_error": error}
    return json.dumps({"type": "user", "message": {"content": [block]}})


def reported(line: str, name: str) -> list[CallEvent]:
    program = programs()[name]
    return events_in(line, program.reports, program.wording)


RULE = "The user has specified a rule which prevents you from using this specific tool call."


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("opencode", opencode("bash", status="completed", metadata={"exit": 3}), (Did.RAN, 3)),
        ("opencode", opencode("bash", status="completed", metadata={"exit": "3"}),
         (Did.RAN, 0)),
        ("opencode", opencode("bash", status="completed", metadata={"exit": 1 << 40}),
         (Did.RAN, 0)),
        ("opencode", opencode("bash", status="error", error=RULE), (Did.DENIED, 0)),
        ("opencode", opencode("bash", status="error", error="no such file"), (Did.RAN, 0)),
        ("opencode", opencode("invalid", status="completed"), (Did.REFUSED, 0)),
        ("claude-code", claude("fine", error=False), (Did.RAN, 0)),
        ("claude-code", claude("Permission to use Bash has been denied.", error=True),
         (Did.DENIED, 1)),
        ("claude-code", claude('Qwen Code requires permission to use "run_shell_command", but that '
                              "permission was declined (non-interactive).", error=True),
         (Did.DENIED, 1)),
        ("claude-code", claude("<tool_use_error>InputValidationError", error=True),
         (Did.REFUSED, 1)),
        ("claude-code", claude("Exit code 2", error=True), (Did.RAN, 1)),
    ],
)  # fmt: skip
def test_a_program_tells_what_it_did_with_a_call(name, line, expected) -> None:
    assert reported(line, name) == [CallEvent("c1", *expected)]


def test_a_result_counts_among_blocks_of_forms_that_are_not_known() -> None:
    message = json.loads(claude("fine", error=False))
    message["message"]["content"] += ["text", {"text": "no type"}, {"type": "new"}]
    assert reported(json.dumps(message), "claude-code") == [CallEvent("c1", Did.RAN, 0)]


def test_a_report_without_its_reason_counts() -> None:
    item = {"id": "c1", "type": "commandExecution", "exitCode": 3}
    line = {"method": "item/completed", "params": {"item": item}}
    assert [
        *reported(opencode("bash", status="error"), "opencode"),
        *reported(json.dumps(line), "codex"),
    ] == [CallEvent("c1", Did.RAN, 0), CallEvent("c1", Did.RAN, 3)]


@pytest.mark.parametrize(
    "line",
    [
        "plain words", "{half", '{"type": "text"}', '{"message": 1}',
        '{"type": "tool_use", "part": {"state": "x"}}',
        '{"type": "tool_use", "part": {"state": {"metadata": "x"}}}',
        '{"method": "item/completed", "params": {"item": {"type": ["x"]}}}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", programs())
def test_other_lines_tell_nothing(name, line) -> None:
    assert reported(line, name) == []
