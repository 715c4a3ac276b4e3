"""Tool calls in the shapes in which programs log them."""

import json
import tracemalloc
from math import inf, nan
from pathlib import Path

import pytest

from agenteval.logs.tool_calls import (
    LONGEST,
    MOST_HELD,
    MOST_VALUES,
    TOO_LONG,
    TOO_MANY,
    TOO_WIDE,
    excess,
    has_too_many,
    tool_calls,
)
from agenteval.trial.call import ToolCall
from agenteval.trial.text import is_json


def seen(calls: list[ToolCall] | None) -> list[tuple[str, str, object]] | None:
    if calls is None:
        return None
    return [(call.id, call.name, call.command or call.arguments) for call in calls]


SHAPES = [*map(json.loads, Path(__file__).with_name("call_shapes.jsonl").read_text().splitlines())]


@pytest.mark.parametrize("row", SHAPES, ids=lambda row: row["what"])
def test_a_call_is_found_in_the_shape_of_its_program(row) -> None:
    assert seen(tool_calls(row["content"])) == [tuple(row["call"])]


def test_every_call_of_a_message_is_found_in_its_order() -> None:
    calls = [{"id": name, "function": {"name": name, "arguments": "{}"}} for name in "abc"]
    message = {"messages": [{"role": "user", "content": "hi"}, {"tool_calls": calls}]}
    assert [call.id for call in tool_calls(message) or ()] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "content",
    [
        {"role": "user", "content": "run ls"},
        {"role": "tool", "name": "bash", "content": "{}"},
        {"type": "user", "message": {"content": [{"type": "tool_result", "content": "x"}]}},
        {"type": "event_msg", "payload": {"type": "exec_command_end", "command": ["ls"]}},
        {"type": "function_call_output", "call_id": "c", "output": '{"command": "ls"}'},
        {"role": "system", "tools": [{"function": {"name": "bash", "parameters": {}}}]},
    ],
)
def test_a_message_without_a_call_has_none(content) -> None:
    assert tool_calls(content) == []


@pytest.mark.parametrize("content", [{}, {"x": 1}, {"command": 5}, {"command": ["ls", 5]}])
def test_what_is_neither_a_call_nor_a_message_is_told(content) -> None:
    assert tool_calls(content) is None


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["ls"], "ls"),
        (["/bin/sh", "-c", "a; b"], "a; b"),
        (["echo", "it's", "$X", "a=b"], "echo 'it'\\''s' '$X' a=b"),
        (["echo", ""], "echo ''"),
        ([], ""),
    ],
)
def test_words_become_the_text_that_bash_would_read_so(argv, command) -> None:
    assert [call.command for call in tool_calls({"command": argv}) or ()] == [command]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"command": "ls', "Unterminated string"),
        ("[1]", "a JSON list"),
        (5, "a JSON int"),
        ('{"command": "ls", "seconds": NaN}', "NaN or Infinity"),
        ('{"seconds": -1e999}', "NaN or Infinity"),
    ],
)
def test_arguments_that_are_no_object_are_malformed_and_kept(arguments, why) -> None:
    (call,) = tool_calls({"type": "tool_use", "name": "Bash", "input": arguments}) or ()
    assert (call.name, call.arguments, call.raw) == ("bash", None, str(arguments))
    assert call.malformed.startswith(why)


ODD = [{"n": nan}, {"n": [inf]}, {"command": "echo NaN 1e999"}, {"n": 1e10, "t": "Infinity"}]


def test_a_number_that_no_database_keeps_is_malformed_and_its_name_in_a_text_is_none() -> None:
    read = [tool_calls({"type": "tool_use", "name": "Bash", "input": one}) for one in ODD]
    assert [bool(call.malformed) for (call,) in read] == [True, True, False, False]
    assert is_json([call.arguments for (call,) in read])


MANY, HALF = b"1," * (MOST_VALUES + 1), MOST_HELD // 2
FACE = "\N{GRINNING FACE}".encode()
CONTENTS = {
    "values": (b"[%s1]" % MANY, TOO_MANY),
    "values in a string": (b'["%s1"]' % MANY, ""),
    "values behind a quote that is escaped": (rb'["\"%s1"]' % MANY, ""),
    "values behind a string that ends in a backslash": (rb'["\\",%s1]' % MANY, TOO_MANY),
    "values behind an open string": (b'["a",%s"1' % MANY, TOO_MANY),
    "plain text": (b'"%s"' % (b"a" * HALF), ""),
    "one wide character": (b'"%s%s"' % (b"a" * HALF, FACE), TOO_WIDE),
    "one that is escaped": (rb'"%s\ud83d\ude00"' % (b"a" * HALF), TOO_WIDE),
    "a backslash before such letters": (rb'"%s\\ud83d"' % (b"a" * HALF), ""),
    "a wide character in another string": (b'["%s","%s"]' % (b"a" * HALF, FACE), ""),
    "two bytes a character": (b'"%s\xc4\x80"' % (b"a" * (HALF + 9)), TOO_WIDE),
    "two bytes a character, escaped": (rb'"%s\u0100"' % (b"a" * (HALF + 9)), TOO_WIDE),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_what_would_take_too_much_memory_is_seen_in_its_bytes(name) -> None:
    content, why = CONTENTS[name]
    text = content.decode("latin-1")
    assert (excess(content), has_too_many(text)) == (why, why == TOO_MANY)


def test_counting_values_behind_many_escapes_takes_no_memory_for_each_of_them() -> None:
    content = b'["%s",%s1]' % (rb"\"," * (MOST_VALUES * 2), b"1," * 9)
    tracemalloc.start()
    counted = has_too_many(content)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (counted, most < 2 * len(content)) == (False, True)


@pytest.mark.parametrize("written", [json.dumps, dict])
def test_arguments_that_no_model_writes_are_malformed_and_cut(written) -> None:
    arguments = written({"command": "a" * LONGEST})
    (call,) = tool_calls({"name": "bash", "arguments": arguments})
    assert (len(call.raw), call.arguments, call.malformed) == (LONGEST, None, TOO_LONG)
