"""Chunks that are not quite of their shape, and what they say."""

import json

import pytest

from agenteval.models.request import parse_arguments, read_reply
from agenteval.models.stream import StreamReader
from agenteval.replies.arrival import DEEPEST, ReplyError, shallow


def whole(message: str, **more: str) -> bytes:
    rest = "".join(f', "{name}": {value}' for name, value in more.items())
    return f'{{"choices": [{{"message": {message}, "finish_reason": "stop"}}]{rest}}}'.encode()


def calling(**fields: str) -> bytes:
    inside = ", ".join(f'"{name}": {value}' for name, value in fields.items())
    return whole(f'{{"tool_calls": [{{{inside}}}]}}')


def text(body: bytes) -> str:
    return read_reply(body)[0].text


@pytest.mark.parametrize(
    ("body", "read"),
    [
        (whole('{"content": [{"type": "text", "text": "a"}, {"type": "image"}, "b"]}'), "ab"),
        (whole('{"content": 7}'), "7"),
        (whole('{"content": "a\\u0001b"}').replace(b"\\u0001", b"\x01"), "a\x01b"),
        (whole('{"content": "a"}', error='""'), "a"),
        (whole('{"content": "a"}', usage='{"prompt_tokens": 1e999}'), "a"),
        (whole('{"content": "a"}', usage='"none"'), "a"),
        (whole('{"content": "a"}', usage=f'{{"x": {"9" * 5000}}}'), "a"),
        (whole('{"content": "a"}', model="7"), "a"),
        (whole('{"content": "a"}', extra="[" * 5000 + "]" * 5000), "a"),
    ],
)
def test_what_is_beside_the_words_does_not_take_them_away(body, read) -> None:
    assert text(body) == read


FUNCTION = '{"name": "bash", "arguments": "{}"}'


@pytest.mark.parametrize(
    ("fields", "ident"),
    [
        ({"id": "7", "function": FUNCTION}, "7"),
        ({"id": '"a"', "index": '"0"', "function": FUNCTION}, "a"),
        ({"id": '"a"', "index": "true", "function": FUNCTION}, "a"),
        ({"id": '["a"]', "index": "9" * 400, "function": FUNCTION}, "a"),
    ],
)
def test_ids_and_places_of_another_type_are_read(fields, ident) -> None:
    (call,) = read_reply(calling(**fields))[0].calls
    assert (call.id, call.name, call.raw) == (ident, "bash", "{}")


def test_a_call_without_its_function_is_one_without_a_name() -> None:
    (call,) = read_reply(calling(id="7"))[0].calls
    assert (call.id, call.name, call.raw) == ("7", "", "")


@pytest.mark.parametrize("deep", ["[" * 5000 + "]" * 5000, '{"a":' * 5000 + "1" + "}" * 5000])
def test_arguments_nested_without_end_are_the_models_and_no_void(deep) -> None:
    function = f'{{"name": "bash", "arguments": {{"a": {deep}}}}}'
    (call,) = read_reply(calling(id='"a"', function=function))[0].calls
    assert (call.as_object, parse_arguments(call.raw)) == (
        True,
        (None, "arguments are not JSON: nested deeper than 100 levels"),
    )


@pytest.mark.parametrize(
    "message",
    ["7", '{"tool_calls": 7}', '{"tool_calls": [7]}', '{"tool_calls": [{"function": 7}]}'],
)
def test_a_value_where_an_object_belongs_is_no_reply(message) -> None:
    with pytest.raises(ReplyError, match="no chat completion"):
        read_reply(whole(message))


@pytest.mark.parametrize("bytes_", [b"\xff", b"\xed\xa0\xbd"])
@pytest.mark.parametrize("more", [b"", b', "id": 7'])
@pytest.mark.parametrize("quoted", [b'"{\\"command\\": \\"HERE\\"}"', b'{"command": "HERE"}'])
def test_bytes_that_are_no_utf_8_are_no_end_of_a_call(quoted, more, bytes_) -> None:
    arguments = quoted.replace(b"HERE", bytes_)
    body = calling(id='"a"', function='{"name": "bash", "arguments": HERE}')
    body = body.replace(b"HERE", arguments).replace(b', "function"', more + b', "function"')
    (call,) = read_reply(body)[0].calls
    found, why = parse_arguments(call.raw.encode("utf-8", "replace").decode())
    assert (set(found or {}), why) == ({"command"}, "")


def test_a_stream_keeps_what_came_as_text_that_can_be_shown() -> None:
    reader = StreamReader()
    reader.feed(
        b'data: {"choices": [{"delta": {"content": "a\xff"}, "finish_reason": "stop"}]}\n', 0
    )
    assert ("\\xff" in reader.raw(), reader.received()[0].text) == (True, "a\udcff")


@pytest.mark.parametrize(("count", "kept"), [(50, 50), (200, 200), (201, 200), (5000, 200)])
def test_only_what_is_nested_too_deep_is_left_out(count, kept) -> None:
    made = shallow('{"a": "[[[[\\"", "b": ' + "[" * count + "1, 2" + "]" * count + "}")
    depth, at = 0, json.loads(made)["b"]
    while isinstance(at, list) and at:
        depth, at = depth + 1, at[0]
    assert depth in {kept, kept - 1}


def test_a_backslash_outside_of_a_text_hides_no_bracket() -> None:
    text = "[" * (DEEPEST + 1) + "\\x" + "]" * (DEEPEST + 1)
    assert shallow(text) == "[" * DEEPEST + "null" + "]" * DEEPEST
