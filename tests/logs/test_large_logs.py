"""Logs that are long or deep: their cost grows with their length, and what is held is bounded."""

import io
import json
import zipfile
from time import process_time
from unittest.mock import Mock

import pytest
from sample_logs import (
    HOOK_CALL,
    INFO,
    INSPECT_EVAL,
    INSPECT_SAMPLE,
    OPENCODE,
    claude,
    claude_call,
    codex_call,
    database,
    function,
    jsonl,
    part,
)
from test_readers import read, recorded, written

from agenteval.logs import claude as claude_log
from agenteval.logs.ingest import take_in
from agenteval.logs.json import Line, lines, walked
from agenteval.logs.packed import small
from agenteval.logs.tool_calls import DEEPEST, TOO_DEEP, called, is_deep
from agenteval.logs.trials import LogJudge
from agenteval.trial.session import MOST_TEXT, Skipped

MANY = 16_000


def codex_calls():
    call = {"type": "function_call", "name": "shell", "arguments": "{}"}
    return jsonl(*({**call, "call_id": f"k{number}"} for number in range(MANY)))


def opencode_parts():
    parts = [
        {"type": "tool", "callID": f"c{n}", "tool": f"t{n}", "state": {"status": "pending"}}
        for n in range(MANY)
    ]
    info = {"id": "m", "role": "assistant"}
    return json.dumps({"info": {"id": "s"}, "messages": [{"info": info, "parts": parts}]})


def one_span():
    known = [{"key": f"a{n}", "value": {"stringValue": "x"}} for n in range(2 * MANY)]
    spans = [{"traceId": "t", "name": "execute_tool x", "attributes": known}]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


LONG = {"codex": (codex_calls, MANY), "opencode": (opencode_parts, MANY), "otel": (one_span, 1)}


@pytest.mark.parametrize("name", LONG)
def test_what_has_no_result_and_what_has_many_names_costs_no_square(tmp_path, name) -> None:
    make, calls = LONG[name]
    path = written(tmp_path, "log.json", make())
    began = process_time()
    sessions, _ = read(name, path)
    assert process_time() - began < 3.5
    assert sum(len(session.calls) for session in sessions) == calls


def test_results_of_codex_are_cut_as_they_come(tmp_path) -> None:
    long = "x" * 2 * MOST_TEXT
    text = "".join(jsonl(*codex_call(number, "shell", "{}", long)) for number in range(20))
    sessions, _ = read("codex", written(tmp_path, "log.jsonl", text))
    assert {len(call.said) for session in sessions for call in session.calls} == {MOST_TEXT}


def test_calls_of_codex_are_of_one_turn_until_one_of_its_own_has_a_result(tmp_path) -> None:
    pairs = {number: codex_call(number, "shell", "{}", "a") for number in range(1, 6)}
    (one, its), (two, late), (three, _), (four, last), (five, _) = pairs.values()
    text = jsonl(one, two, its, three, late, four, last, five)
    ((session,), _) = read("codex", written(tmp_path, "log.jsonl", text))
    turns = [[call.call.id for call in turn.calls] for turn in session.turns]
    assert turns == [["k1", "k2"], ["k3", "k4"], ["k5"]]


MARK = 424_242  # stands where the deep argument will


def claude_deep():
    first, second = claude_call(1, "Bash", {"a": MARK}, "a")
    return jsonl(first, second, *claude_call(2, "Bash", {"command": "ls"}, "a"))


def inspect_deep():
    event = {"event": "tool", "id": "9", "function": "x", "arguments": {"a": MARK}}
    return json.dumps({**INSPECT_SAMPLE, "events": [event]})


def opencode_deep():
    parts = part(1, "x", {"status": "completed", "input": {"a": MARK}}), OPENCODE[0][0]
    messages = [
        {"info": {"id": f"m{number}", "role": "assistant"}, "parts": [one]}
        for number, one in enumerate(parts)
    ]
    return json.dumps({"info": INFO, "messages": messages})


def hook_deep():
    call = {**HOOK_CALL, "verdict": "allowed"}
    return jsonl({**call, "call": "1", "arguments": {"a": MARK}}, {**call, "call": "2"})


def chat_deep():
    """Its arguments are a text: the line itself is not deep."""
    calls = [function("x", json.dumps({"a": MARK}), "1"), function("bash", {"command": "ls"}, "2")]
    return jsonl({"messages": [{"role": "assistant", "content": "", "tool_calls": calls}]})


DEEP = {
    "claude-code": (claude_deep, 1),
    "inspect": (inspect_deep, 4),
    "opencode": (opencode_deep, 1),
    "hook": (hook_deep, 1),
    "openai": (chat_deep, 1),
}


def packed(text):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": INSPECT_EVAL}))
        archive.writestr("samples/1_epoch_1.json", text)
    return held.getvalue()


@pytest.mark.parametrize("depth", [100, 300, 600, *range(945, 990, 5), 5_000])
@pytest.mark.parametrize("name", DEEP)
def test_a_deeply_nested_argument_ends_nothing(tmp_path, name, depth) -> None:
    make, others = DEEP[name]
    text = make().replace(str(MARK), "[" * depth + "]" * depth)
    content = packed(text) if name == "inspect" else text
    found = take_in(name, [written(tmp_path, "log", content)], f"{tmp_path}/store.db")
    calls = sum(taken.recorded.total() for taken in found.runs.values())
    is_told = depth > DEEPEST and name != "openai"  # whose text is kept
    assert [one.reason for one in found.skipped] == [TOO_DEEP] * is_told
    assert calls == others + (not is_told)


def test_a_deep_argument_that_is_text_is_kept_and_one_that_is_not_has_none() -> None:
    text = '{"a": ' + "[" * 300 + "]" * 300 + "}"
    kept, lost = called("1", "x", text), called("2", "x", json.loads(text))
    assert [(one.raw, one.arguments, one.malformed) for one in (kept, lost)] == [
        (text, None, TOO_DEEP),
        ("", None, TOO_DEEP),
    ]


@pytest.mark.parametrize("depth", [0, 1, DEEPEST, DEEPEST + 1])
def test_what_is_as_deep_as_it_may_be_is_read(depth) -> None:
    for value in (json.loads("[" * depth + "1" + "]" * depth), _objects(depth)):
        assert is_deep(value) is (depth > DEEPEST)


def _objects(depth):
    return json.loads('{"a":' * depth + "1" + "}" * depth)


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_a_value_is_whole_wherever_what_is_held_of_it_ends(tmp_path, monkeypatch, size) -> None:
    monkeypatch.setattr("agenteval.logs.json._AT_ONCE", size)
    value = {"a": 12345678, "b": True, "c": 'x"\\', "d": [[-1.5, "]\\", {}]], "e": None}
    path = written(tmp_path, "log", f"{json.dumps(value)} 1")
    place = f"byte {len(json.dumps(value)) + 1}"
    behind = Skipped(str(path), place, "more behind the end of the document")
    assert [*walked(path)] == [*value.items(), behind]


def test_a_deep_line_is_named_and_what_stands_behind_it_on_it_is_read(tmp_path) -> None:
    deep = '{"a": ' + "[" * 300 + "]" * 300 + "}"
    found = [*lines(written(tmp_path, "log", f'{deep} {{"b": 1}}\n{{"c": {json.dumps(deep)}}}'))]
    assert found == [
        Skipped(str(tmp_path / "log"), "line 1", TOO_DEEP),
        Line(1, {"b": 1}),
        Line(2, {"c": deep}),
    ]


def test_a_small_file_that_is_deep_is_none(tmp_path) -> None:
    with pytest.raises(ValueError, match=TOO_DEEP):
        small(written(tmp_path, "log", "[" * 300 + "]" * 300))


def test_a_row_of_a_database_that_is_deep_is_named(tmp_path) -> None:
    store = database(tmp_path / "opencode.db")
    deep = json.dumps(OPENCODE[0][0]).replace('"output": "[]"', f'"output": {300 * "["}{300 * "]"}')
    store.execute("UPDATE part SET data = ? WHERE id = 'prt_0'", (deep,))
    sessions, skipped = read("opencode", tmp_path / "opencode.db")
    store.close()
    assert [(one.at, one.reason) for one in skipped] == [("part prt_0", f"no JSON: {TOO_DEEP}")]
    assert recorded(sessions) == [told for _, told in OPENCODE[1:]]


@pytest.mark.parametrize("error", [RecursionError("deep"), MemoryError(), ValueError("odd")])
def test_what_nobody_foresaw_in_a_log_is_told_and_stops_no_other(tmp_path, monkeypatch, error):
    def reads(path):
        yield from claude_log.read(path)
        raise error

    paths = [written(tmp_path, name, claude().replace('"c1"', f'"{name}"')) for name in "ab"]
    monkeypatch.setattr("agenteval.logs.workers.FORMATS", {"claude-code": Mock(read=reads)})
    found = take_in("claude-code", paths, f"{tmp_path}/store.db")
    assert [one.sessions["added"] for one in found.runs.values()] == [2]
    why = str(error) or "no memory for it"
    assert found.skipped == [Skipped(str(path), "the file", why) for path in paths]


def test_a_session_that_nothing_can_be_made_of_is_told_and_stops_no_other(
    tmp_path, monkeypatch
) -> None:
    def judged(judge, session):
        if session.id == "a":
            raise RecursionError("deep")
        return whole(judge, session)

    whole = LogJudge.judged
    monkeypatch.setattr(LogJudge, "judged", judged)
    both = claude().replace('"c1"', '"a"') + claude().replace('"uuid": "', '"uuid": "b')
    path = written(tmp_path, "log.jsonl", both)
    found = take_in("claude-code", [path], f"{tmp_path}/store.db")
    assert [one.sessions["added"] for one in found.runs.values()] == [1]
    assert found.skipped == [Skipped(str(path), "session a", "deep")]
