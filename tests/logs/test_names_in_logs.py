"""What names a call, a message, a session: a text, a whole number, or nothing."""

import json

import pytest
from sample_logs import CLAUDE, CODEX, QWEN, attribute, claude, jsonl, span
from test_readers import read, recorded, written

from agenteval.logs.ingest import take_in
from agenteval.logs.json import name_at

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
        {"tool_use_id": 2, "content": DENIED, "is_error": True}, {"tool_use_id": 1, "content": "a"}
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


def gemini(identifier, command):
    call = {"id": "g", "name": "shell", "args": {"command": command}, "status": "success"}
    return {"type": "gemini", **identifier, "toolCalls": [call]}


def commands(sessions):
    return [call.call.arguments["command"] for one in sessions for call in one.calls]


COMMANDS = ["ls", "pwd", "id"]


@pytest.mark.parametrize("names", [[{}] * 3, [{"id": 1}, {"id": 2}, {"id": 3}], [{"id": ""}] * 3])
def test_messages_of_gemini_without_a_text_as_their_id_are_all_read(tmp_path, names) -> None:
    told = [gemini(*one) for one in zip(names, COMMANDS, strict=True)]
    lines = "".join(map(jsonl, told))
    on_one_line = lines.replace("\n", "") + "\n"
    for text in (
        lines,
        on_one_line,
        jsonl({"messages": told}),
        jsonl({"$set": {"messages": told}}),
    ):
        sessions, skipped = read("gemini-cli", written(tmp_path, "session-1.jsonl", text))
        assert (commands(sessions), skipped) == (COMMANDS, [])


def test_a_message_of_gemini_is_replaced_and_taken_back_by_its_number(tmp_path) -> None:
    changed = [gemini({"id": 1}, "ls"), gemini({"id": 1}, "pwd"), gemini({"id": 2}, "id")]
    text = jsonl(*changed, {"$rewindTo": 2})
    sessions, _ = read("gemini-cli", written(tmp_path, "session-1.jsonl", text))
    assert commands(sessions) == ["pwd"]


def test_a_list_of_gemini_that_is_set_again_without_ids_is_not_counted_twice(tmp_path) -> None:
    first, second = gemini({}, "ls"), gemini({}, "pwd")
    text = jsonl({"$set": {"messages": [first]}}, {"$set": {"messages": [first, second]}})
    sessions, _ = read("gemini-cli", written(tmp_path, "session-1.jsonl", text))
    assert commands(sessions) == ["ls", "pwd"]


_LINE = {"message": {"content": [{"type": "tool_use", "id": "t", "name": "x", "input": {}}]}}
UNNAMED = {
    "claude-code": jsonl({"type": "assistant", "uuid": "a", **_LINE}),
    "codex": jsonl({"type": "function_call", "call_id": "1", "name": "x", "arguments": "{}"}),
    "gemini-cli": jsonl(gemini({"id": "1"}, "ls")),
    "qwen-code": jsonl(
        {"type": "assistant", "message": {"parts": [{"functionCall": {"id": "1", "name": "x"}}]}}
    ),
    "otel": jsonl({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "execute_tool x"}]}]}]}),
}


@pytest.mark.parametrize("name", UNNAMED)
def test_two_files_that_name_no_session_are_two_sessions(tmp_path, name) -> None:
    paths = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        paths.append(written(tmp_path / folder, "log.jsonl", UNNAMED[name]))
    taken = take_in(name, paths, f"{tmp_path}/store.db")
    assert [one.sessions for one in taken.runs.values()] == [{"added": 2}]
    again = take_in(name, paths, f"{tmp_path}/store.db")
    assert not again.has_news


@pytest.mark.parametrize(
    ("name", "content"), [("claude-code", claude()), ("codex", CODEX), ("qwen-code", QWEN)]
)
def test_a_log_that_names_its_session_is_known_where_it_was_moved_to(
    tmp_path, name, content
) -> None:
    take_in(name, [written(tmp_path, "log.jsonl", content)], f"{tmp_path}/store.db")
    moved = (tmp_path / "log.jsonl").rename(tmp_path / "log.jsonl.1")
    assert not take_in(name, [moved], f"{tmp_path}/store.db").has_news


def test_a_line_of_claude_code_without_a_session_is_of_the_one_before_it(tmp_path) -> None:
    lines = [json.loads(line) for line in claude().splitlines()]
    for line in lines[2:]:
        line.pop("sessionId")
    sessions, _ = read("claude-code", written(tmp_path, "other.jsonl", jsonl(*lines)))
    assert [session.id for session in sessions] == ["c1"]
    assert recorded(sessions) == [told for *_, told in CLAUDE]


def test_traces_of_one_conversation_are_one_session(tmp_path) -> None:
    named = ("gen_ai.tool.name", "bash"), ("gen_ai.conversation.id", "c")
    spans = [
        {
            **span(number, "execute_tool", *named, ("tool_arguments", f'{{"command": "{told}"}}')),
            "traceId": f"t{number}",
        }
        for number, told in ((2, "pwd"), (1, "ls"))
    ]
    text = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    sessions, _ = read("otel", written(tmp_path, "spans.json", text))
    assert ([one.id for one in sessions], commands(sessions)) == (["c"], ["ls", "pwd"])
