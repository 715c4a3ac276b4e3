"""Lines of chat completions that name one session, in whatever way they tell of it."""

import json

import pytest
from sample_logs import function, jsonl
from test_readers import read, written

from agenteval.logs import chat
from agenteval.logs.ingest import take_in
from agenteval.trial import session as logged

USER = {"role": "user", "content": "go"}


def asked(command, identifier="call_0", content=""):
    call = function("bash", json.dumps({"command": command}), identifier)
    return {"role": "assistant", "content": content, "tool_calls": [call]}


def result(said, identifier="call_0"):
    return {"role": "tool", "tool_call_id": identifier, "content": said}


def line(*messages, session="s1", **more):
    return {"session_id": session, "messages": [*messages], **more}


def exchange(*messages, reply, session="s1"):
    """A request with its reply, as a proxy writes it down."""
    response = {"choices": [{"finish_reason": "tool_calls", "message": {**reply, "role": None}}]}
    request = {"model": "qwen", "messages": [*messages]}
    return {"session_id": session, "request": request, "response": response}


def calls(folder, *values):
    """The commands of each session with what was read of them."""
    sessions, skipped = read("openai", written(folder, "chat.jsonl", jsonl(*values)))
    assert skipped == []
    return {
        (one.id, one.part): [(call.call.command, call.said) for call in one.calls]
        for one in sessions
    }


@pytest.mark.parametrize("named", [{"id": "call_0"}, {}], ids=["one id", "no id"])
@pytest.mark.parametrize("log", ["chat.jsonl", "m.traj.json"])
def test_results_of_calls_that_no_id_tells_apart_come_in_their_order(tmp_path, log, named) -> None:
    both = [{**asked(one)["tool_calls"][0], "id": None, **named} for one in ("ls", "pwd")]
    told = {"role": "tool", "tool_call_id": named.get("id")}
    results = [{**told, "content": said} for said in ("a", "b")]
    value = {"messages": [{**asked("ls"), "tool_calls": both}, *results]}
    kind = "swe-agent" if "traj" in log else "openai"
    ((session,), skipped) = read(kind, written(tmp_path, log, json.dumps(value)))
    assert [(call.call.command, call.said) for call in session.calls] == [("ls", "a"), ("pwd", "b")]
    assert skipped == []


def test_lines_of_one_session_are_all_read(tmp_path) -> None:
    told = [line(USER, asked(command)) for command in ("ls", "pwd", "whoami")]
    wanted = [("ls", ""), ("pwd", ""), ("whoami", "")]
    assert calls(tmp_path, *told) == {("s1", 0): wanted}
    found = take_in("openai", [tmp_path / "chat.jsonl"], f"{tmp_path}/store.db")
    assert [(one.sessions, one.recorded.total()) for one in found.runs.values()] == [
        ({"added": 1}, 3)
    ]


def test_what_a_line_repeats_of_the_lines_before_it_is_counted_once(tmp_path) -> None:
    first = [USER, asked("ls"), result("a")]
    second = [*first, asked("pwd", "call_1"), result("b", "call_1")]
    assert calls(tmp_path, line(*first[:2]), line(*first), line(*second), line(*second)) == {
        ("s1", 0): [("ls", "a"), ("pwd", "b")]
    }


def test_requests_with_their_replies_are_a_session_of_a_turn_each(tmp_path) -> None:
    first = [USER, asked("ls"), result("a")]
    values = exchange(USER, reply=asked("ls")), exchange(*first, reply=asked("pwd", "call_1"))
    assert calls(tmp_path, *values) == {("s1", 0): [("ls", "a"), ("pwd", "")]}
    assert calls(tmp_path, *values, *values) == {("s1", 0): [("ls", "a"), ("pwd", "")]}


def test_a_result_is_of_a_call_that_its_own_line_goes_back_to(tmp_path) -> None:
    other = [USER, asked("pwd"), result("/")]
    assert calls(tmp_path, line(USER, asked("ls")), line(*other)) == {
        ("s1", 0): [("ls", ""), ("pwd", "/")]
    }


def test_two_agents_of_one_session_may_speak_in_turn(tmp_path) -> None:
    system = {"role": "system", "content": "You search."}
    main, sub = [USER, asked("ls", "m1")], [system, asked("grep", "s1")]
    assert calls(
        tmp_path,
        line(*main),
        line(*sub),
        line(*main, result("a", "m1"), asked("pwd", "m2")),
        line(*sub, result("b", "s1")),
    ) == {("s1", 0): [("ls", "a"), ("grep", "b"), ("pwd", "")]}


def test_a_session_may_have_a_line_for_each_message(tmp_path) -> None:
    messages = [USER, asked("ls"), result("a"), asked("ls"), result("b")]
    told = [{"session_id": "s1", **message} for message in messages]
    assert calls(tmp_path, *told) == {("s1", 0): [("ls", "a"), ("ls", "b")]}


def test_each_line_of_a_session_tells_its_own_model(tmp_path) -> None:
    told = [line(USER, asked(model), model=model) for model in ("qwen", "glm")]
    ((session,), _) = read("openai", written(tmp_path, "chat.jsonl", jsonl(*told)))
    assert {one.model: [call.call.command for call in one.calls] for one in session.by_model()} == {
        "qwen": ["qwen"],
        "glm": ["glm"],
    }


def test_an_older_call_and_one_in_blocks_are_known_again(tmp_path) -> None:
    blocks = {"role": "assistant", "content": [{"type": "text", "text": "on"}]}
    old = {"role": "assistant", "function_call": {"name": "bash", "arguments": '{"command": "w"}'}}
    whole = [USER, {**blocks, "content": "on"}, old]
    assert calls(tmp_path, line(USER, blocks), line(*whole), line(*whole)) == {
        ("s1", 0): [("w", "")]
    }


@pytest.mark.parametrize("most", [1, 2, 1_000])
def test_of_many_sessions_few_are_held_and_no_call_is_lost_or_counted_twice(
    tmp_path, monkeypatch, most
) -> None:
    monkeypatch.setattr(chat, "_AT_ONCE", most)
    history = {name: [USER] for name in "abc"}
    told = []
    for number in range(3):
        for name, messages in history.items():
            messages.append(asked(f"{name}{number}", f"c{number}"))
            told.append(line(*messages, session=name))
    found = calls(tmp_path, *told)
    by_session = {name: [] for name in "abc"}
    for (name, _), own in sorted(found.items()):
        by_session[name] += [command for command, _ in own]
    assert by_session == {name: [f"{name}{number}" for number in range(3)] for name in "abc"}
    assert len(found) == (3 if most > 2 else 9)


def test_a_long_session_comes_in_parts_and_what_it_repeats_is_counted_once(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(logged, "PART", 2)
    told = [USER]
    lines = [line(*told)]
    for number in range(6):
        told += [asked(f"c{number}", str(number)), result("a", str(number))]
        lines.append(line(*told))
    found = calls(tmp_path, *lines)
    assert [part for _, part in found] == [0, 1, 2]
    assert [one for own in found.values() for one in own] == [
        (f"c{number}", "a") for number in range(6)
    ]
