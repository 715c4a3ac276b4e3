import json

import pytest

from agenteval.core.call import ToolCall
from agenteval.core.trial import Message, Usage
from agenteval.models.stream import parse_stream
from agenteval.models.wire import parse_reply, to_wire, tool_call, usage


@pytest.mark.parametrize(
    ("arguments", "parsed", "garbled"),
    [
        ('{"command": "ls"}', {"command": "ls"}, ""),
        ({"command": "ls"}, {"command": "ls"}, ""),
        ("", {}, ""),
        (None, {}, ""),
        ('{"command": ', None, "arguments are not JSON"),
        ('"ls"', None, "arguments are a JSON str, not an object"),
        ("[" * 100_000, None, "arguments are not JSON"),
    ],
)
def test_arguments_are_kept_raw_and_parsed_where_they_parse(arguments, parsed, garbled) -> None:
    call = tool_call("bash", arguments, "c", 0)
    assert (call.arguments, call.garbled.startswith(garbled), bool(call.garbled)) == (
        parsed,
        True,
        bool(garbled),
    )


def test_a_missing_id_is_the_calls_place_and_a_missing_name_is_empty() -> None:
    assert tool_call(None, "{}", None, 3) == ToolCall("call-3", "", "{}", {})


def test_a_garbled_call_is_sent_back_as_an_empty_object() -> None:
    garbled = ToolCall("a", "bash", '{"comm', None, "arguments are not JSON")
    whole = ToolCall("b", "bash", '{"command": "ls"}', {"command": "ls"})
    sent = to_wire(Message("assistant", "", (garbled, whole)))
    assert [call["function"]["arguments"] for call in sent["tool_calls"]] == ["{}", whole.raw]


def test_the_answer_to_a_call_names_it() -> None:
    assert to_wire(Message("tool", "out", call_id="a"))["tool_call_id"] == "a"


@pytest.mark.parametrize(
    ("counts", "read"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 2}, Usage(3, 2)),
        ({"prompt_tokens": None}, Usage()),
        (None, Usage()),
    ],
)
def test_tokens_that_a_server_does_not_count_are_none(counts, read) -> None:
    assert usage(counts) == read


def stream(*deltas: dict[str, object], finish: str = "tool_calls") -> str:
    events = [{"choices": [{"delta": delta}]} for delta in deltas]
    events.append({"choices": [{"delta": {}, "finish_reason": finish}]})
    events.append({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}})
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


def part(index: int, **function: object) -> dict[str, object]:
    return {"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]}


def test_the_deltas_of_interleaved_calls_are_joined_by_their_index() -> None:
    body = stream(
        {"content": "I "},
        {"content": "look."},
        part(0, name="bash", arguments='{"comm'),
        part(1, name="read", arguments={"path": "a"}),
        part(0, arguments='and": "ls"}'),
    )
    turn = parse_stream(body, 1.0)
    assert (turn.text, [call.arguments for call in turn.calls], turn.usage, turn.raw) == (
        "I look.",
        [{"command": "ls"}, {"path": "a"}],
        Usage(9, 4),
        body,
    )


def test_a_streamed_reply_of_text_alone_has_no_calls() -> None:
    turn = parse_stream(stream({"content": "Done."}, finish="stop"), 1.0)
    assert (turn.text, turn.calls, turn.finish_reason) == ("Done.", (), "stop")


def test_a_whole_reply_without_calls_is_text() -> None:
    body = json.dumps({"choices": [{"message": {"content": "Done."}, "finish_reason": "stop"}]})
    turn = parse_reply(body, 1.0)
    assert (turn.text, turn.calls, turn.usage) == ("Done.", (), Usage())
