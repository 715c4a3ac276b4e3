"""What names a call, a message, a session: a text, a whole number, or nothing."""

import json

import pytest
from sample_logs import attribute, jsonl, span
from test_readers import read, recorded, written

from agenteval.readers.json_source import name_at

DENIED = "Permission to use Bash with command rm x has been denied."


def claude_results(*results):
    uses = [
        {"type": "tool_use", "id": number, "name": "Bash", "input": {"command": command}}
        for number, command in ((1, "ls"), (2, "rm x"))
    ]
    message = {"id": 7, "model": "opus", "content": uses}
    answer = {"content": [{"type": "tool_result", **one} for one in results]}
    return jsonl(
        {"type": "assistant", "uuid": 1, "sessionId": 5, "message": message},
        {"type": "user", "uuid": 2, "sessionId": 5, "message": answer},
    )


def codex_results(*results):
    calls = [
        {"type": "function_call", "call_id": number, "name": "shell", "arguments": "{}"}
        for number in (1, 2)
    ]
    answers = [{"type": "function_call_output", **one} for one in results]
    return jsonl(
        {"type": "session_meta", "payload": {"id": 5, "cli_version": "1"}},
        *({"type": "response_item", "payload": one} for one in (*calls, *answers)),
    )


def inspect_results(*results):
    calls = [{"id": number, "function": "bash", "arguments": {}} for number in (1, 2)]
    messages = [
        {"role": "assistant", "id": 7, "content": "", "tool_calls": calls},
        *({"role": "tool", **one} for one in results),
    ]
    return json.dumps({"eval": {}, "samples": [{"uuid": 5, "messages": messages}]})


def qwen_results(*results):
    calls = [{"functionCall": {"id": number, "name": "x", "args": {}}} for number in (1, 2)]
    return jsonl(
        {"type": "assistant", "sessionId": 5, "message": {"parts": calls}},
        *({"type": "tool_result", "toolCallResult": one} for one in results),
    )


NUMBERED = {
    "claude-code": claude_results(
        {"tool_use_id": 2, "content": DENIED, "is_error": True},
        {"tool_use_id": 1, "content": "a"},
    ),
    "codex": codex_results(
        {"call_id": 2, "output": "exec_command failed: Rejected(no)"},
        {"call_id": 1, "output": "Process exited with code 0"},
    ),
    "inspect": inspect_results(
        {"tool_call_id": 2, "content": "", "error": {"type": "approval", "message": "no"}},
        {"tool_call_id": 1, "content": "a"},
    ),
    "qwen-code": qwen_results(
        {"callId": 2, "status": "error", "errorType": "execution_denied"},
        {"callId": 1, "status": "success"},
    ),
}


@pytest.mark.parametrize("name", NUMBERED)
def test_a_result_finds_its_call_by_a_number_too(tmp_path, name) -> None:
    sessions, _ = read(name, written(tmp_path, "log.json", NUMBERED[name]))
    assert [session.id for session in sessions] == ["5"]
    assert [call.call.id for call in sessions[0].calls] == ["1", "2"]
    assert recorded(sessions) == ["ran", "denied"]


def test_attributes_of_spans_that_are_numbers_name_as_well(tmp_path) -> None:
    named = span(1, "execute_tool bash", ("gen_ai.tool.name", "bash"))
    named["attributes"] += [
        {"key": "gen_ai.tool.call.id", "value": {"intValue": 7}},
        {"key": "gen_ai.conversation.id", "value": {"intValue": 5}},
        attribute("session.id", "other"),
    ]
    text = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [named]}]}]})
    ((session,), _) = read("otel", written(tmp_path, "spans.json", text))
    assert (session.id, session.calls[0].call.id) == ("5", "7")


@pytest.mark.parametrize(
    ("value", "name"),
    [("x", "x"), (0, "0"), (12, "12"), (True, ""), (1.5, ""), (None, ""), ([], "")],
)
def test_a_name_is_a_text_or_a_whole_number(value, name) -> None:
    assert name_at({"a": {"id": value}}, "a", "id") == name
    assert name_at({"id": value}, "id") == name
    assert name_at([], "id") == ""
