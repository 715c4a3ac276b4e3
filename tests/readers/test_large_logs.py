"""Logs that are long or deep: their cost grows with their length, and what is held is bounded."""

import json
from time import process_time

import pytest
from sample_logs import codex_call, jsonl
from test_readers import read, written

from agenteval.core.logged import MOST_TEXT

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


LONG = {
    "codex": (codex_calls, MANY),
    "opencode": (opencode_parts, MANY),
    "otel": (one_span, 1),
}


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
