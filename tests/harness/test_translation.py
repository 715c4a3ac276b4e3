"""Requests of three dialects as one, and replies back, as the programs' own clients read them."""

import asyncio
import json
from pathlib import Path

import pytest

from agenteval.harness.http import Answer, Request, UnreadableError
from agenteval.harness.translation import Passage, parse_request, say_once
from agenteval.models.failures import RefusedError
from agenteval.models.request import read_reply, turn_of
from agenteval.models.stream import StreamReader
from agenteval.replies.arrival import ReplyError
from agenteval.trial.call import Asked
from agenteval.trial.trial import Turn

TOOL = {"name": "Bash", "description": "runs", "input_schema": {"type": "object"}}
MESSAGES = {
    "model": "served",
    "stream": True,
    "max_tokens": 99,
    "system": [{"type": "text", "text": "You are."}],
    "tools": [TOOL, {"type": "web_search_20250305", "name": "web_search"}],
    "messages": [
        {"role": "user", "content": "do it"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "so"},
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "by the way"},
                {"type": "tool_result", "tool_use_id": "t1", "content": [
                    {"type": "text", "text": "a file"}]},
            ],
        },
    ],
}  # fmt: skip
RESPONSES = {
    "model": "served",
    "stream": True,
    "max_output_tokens": 99,
    "instructions": "You are.",
    "tools": [
        {"type": "function", "name": "Bash", "description": "runs",
         "parameters": {"type": "object"}},
        {"type": "web_search"},
    ],
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do it"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text",
                                                              "text": "so"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "t1", "name": "Bash",
         "arguments": '{"command": "ls"}'},
        {"type": "function_call_output", "call_id": "t1", "output": "a file"},
        {"type": "message", "role": "user", "content": "by the way"},
    ],
}  # fmt: skip
CALL = {"id": "t1", "type": "function",
        "function": {"name": "Bash", "arguments": '{"command": "ls"}'}}  # fmt: skip
CHAT = {
    "messages": [
        {"role": "system", "content": "You are."},
        {"role": "user", "content": "do it"},
        {"role": "assistant", "content": "so", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "t1", "content": "a file"},
        {"role": "user", "content": "by the way"},
    ],
    "stream": True,
    "max_tokens": 99,
    "tools": [
        {
            "type": "function",
            "function": {"name": "Bash", "description": "runs", "parameters": {"type": "object"}},
        }
    ],
}


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/messages", MESSAGES), ("/v1/responses", RESPONSES), ("/v1/chat/completions", CHAT)],
)
def test_each_dialect_asks_for_the_same(path, body) -> None:
    asked = parse_request(Request("POST", path, json.dumps(body).encode()))
    assert asked is not None
    assert asked.chat == CHAT


@pytest.mark.parametrize("request_", [Request("GET", "/v1/messages"), Request("POST", "/v1/x")])
def test_other_requests_want_no_model(request_) -> None:
    assert parse_request(request_) is None


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b'{"messages": []}', b'{"messages": [1]}'])
@pytest.mark.parametrize("path", ["/messages", "/responses", "/chat/completions"])
def test_what_is_no_request_is_told(path, body) -> None:
    with pytest.raises(ValueError, match="no request of"):
        parse_request(Request("POST", path, body))


@pytest.mark.parametrize(
    "odd",
    [
        {"messages": ["x"]},
        {"messages": [{"role": ["user"]}]},
        {"messages": [{"role": "assistant", "tool_calls": 5}]},
        {"messages": [{"role": "assistant", "tool_calls": ["x"]}]},
        {"tools": [{"type": "custom"}]},
        {"tools": [{"function": {"name": "a", "parameters": "x"}}]},
        {"max_tokens": "many"},
    ],
    ids=str,
)
def test_a_request_with_a_value_that_none_expects_is_told(odd) -> None:
    body = {"messages": [{"role": "user", "content": "go"}], **odd}
    with pytest.raises(UnreadableError, match="no request of chat"):
        parse_request(Request("POST", "/chat/completions", json.dumps(body).encode()))


@pytest.mark.parametrize("path", ["/messages", "/responses", "/chat/completions"])
def test_half_a_character_that_a_program_sends_back_is_none(path) -> None:
    body = b'{"messages": [{"role": "user", "content": "a \\ud83d b"}], "input": "a \\ud83d b"}'
    asked = parse_request(Request("POST", path, body))
    assert asked is not None
    assert asked.messages[-1]["content"] == "a \ufffd b"


class Sink:
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.kept = b""

    def write(self, part: bytes) -> None:
        self.kept += part

    async def drain(self) -> None: ...


def chunk(delta: dict[str, object], finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice], **more})}\n\n".encode()


def part(index: int, arguments: str, **head: object) -> dict[str, object]:
    call = {"index": index, "function": {"arguments": arguments, **head.pop("named", {})}, **head}
    return {"tool_calls": [call]}


STREAM = b"".join((
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Let me "}),
    chunk({"content": "look."}),
    chunk(part(0, "", id="c0", named={"name": "Bash"})),
    chunk(part(0, '{"command": ')),
    chunk(part(0, '"ls"}')),
    chunk(part(1, '{"command": "pwd"}', id="c1", named={"name": "Bash"})),
    chunk({}, "tool_calls"),
    b'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}\n\n',
    b"data: [DONE]\n\n",
))  # fmt: skip
WHOLE = {
    "choices": [
        {
            "finish_reason": "tool_calls",
            "message": {
                "content": "Let me look.",
                "tool_calls": [
                    {"id": "c0", "function": {"name": "Bash", "arguments": '{"command": "ls"}'}},
                    {"id": "c1", "function": {"name": "Bash", "arguments": '{"command": "pwd"}'}},
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 5},
}


def read(upstream: bytes, *, streamed: bool) -> Turn:
    reader = StreamReader()
    if streamed:
        reader.feed(upstream, 0.0)
    received, usage = reader.received() if streamed else read_reply(upstream)
    return turn_of(received, Asked(), usage=usage, raw="", seconds=0.0)


def told(path: str, body: dict[str, object], upstream: bytes, *, by: int) -> bytes:
    """What the program gets when the model's bytes come in pieces of this length."""
    turn = read(upstream, streamed=not upstream.startswith(b"{"))
    return passed(path, body, upstream, turn, by=by)


def passed(path: str, body: dict[str, object], upstream: bytes, turn: Turn, *, by: int) -> bytes:
    async def pass_on() -> bytes:
        sink = Sink()
        asked = parse_request(Request("POST", path, json.dumps(body).encode()))
        assert asked is not None
        passage = Passage(Answer(sink), asked)
        for at in range(0, len(upstream), by):
            await passage.write(upstream[at : at + by])
        await passage.end(turn)
        return sink.kept

    return asyncio.run(pass_on())


def events(reply: bytes) -> list[dict[str, object]]:
    _, _, body = reply.partition(b"\r\n\r\n")
    return [json.loads(line[6:]) for line in body.split(b"\n") if line.startswith(b"data: ")]


def joined_messages(reply: bytes) -> tuple[list[object], object, object]:
    """The content as Anthropic's client puts it together, why it stopped, and its counts."""
    blocks: list[dict[str, object]] = []
    for event in events(reply):
        match event["type"]:
            case "content_block_start":
                assert event["index"] == len(blocks)
                blocks.append(dict(event["content_block"], said=""))
            case "content_block_delta":
                delta = event["delta"]
                blocks[event["index"]]["said"] += delta.get("text", delta.get("partial_json", ""))
            case "message_delta":
                stop, usage = event["delta"]["stop_reason"], event["usage"]
    content = [
        one["said"] if one["type"] == "text" else (one["id"], one["name"], one["said"])
        for one in blocks
    ]
    assert events(reply)[-1]["type"] == "message_stop"
    return content, stop, usage


@pytest.mark.parametrize("by", [1, 7, 10_000])
def test_a_stream_becomes_messages_whatever_pieces_it_comes_in(by) -> None:
    content, stop, usage = joined_messages(told("/v1/messages", MESSAGES, STREAM, by=by))
    calls = [("c0", "Bash", '{"command": "ls"}'), ("c1", "Bash", '{"command": "pwd"}')]
    assert content == ["Let me look.", *calls]
    assert (stop, usage) == ("tool_use", {"input_tokens": 7, "output_tokens": 5})


@pytest.mark.parametrize("by", [1, 10_000])
def test_a_stream_becomes_responses(by) -> None:
    found = events(told("/v1/responses", RESPONSES, STREAM, by=by))
    items = [event["item"] for event in found if event["type"] == "response.output_item.done"]
    assert [one.get("call_id") or one["content"][0]["text"] for one in items] == [
        "Let me look.", "c0", "c1"]  # fmt: skip
    assert [one.get("arguments") for one in items[1:]] == [
        '{"command": "ls"}', '{"command": "pwd"}']  # fmt: skip
    assert found[0]["type"] == "response.created"
    assert found[-1]["response"]["usage"]["total_tokens"] == 12


@pytest.mark.parametrize(
    ("upstream", "kind"),
    [(STREAM, b"text/event-stream"), (json.dumps(WHOLE).encode(), b"application/json")],
)
def test_chat_completions_are_passed_on_byte_for_byte(upstream, kind) -> None:
    head, _, body = told("/v1/chat/completions", CHAT, upstream, by=33).partition(b"\r\n\r\n")
    assert (kind in head, body) == (True, upstream)


def test_a_whole_reply_to_who_asked_for_a_stream_comes_as_one() -> None:
    upstream = json.dumps(WHOLE).encode()
    turn = read(upstream, streamed=False)
    calls = [(call.id, call.name, call.raw) for call in turn.calls]
    reply = told("/v1/messages", MESSAGES, upstream, by=50)
    assert heard_in_messages(reply, streamed=True) == (turn.text, calls)
    reply = told("/v1/responses", RESPONSES, upstream, by=50)
    assert heard_in_responses(reply, streamed=True) == (turn.text, calls)


def deltas(*deltas: dict[str, object], end: str = "tool_calls") -> bytes:
    return b"".join([*map(chunk, deltas), chunk({}, end)])


ARRIVALS = {
    file.stem: (case["body"].encode(), case["streamed"])
    for file in sorted((Path(__file__).parents[1] / "replies" / "streams").glob("*.json"))
    for case in [json.loads(file.read_text())]
}
BASH = {"name": "Bash"}
HABITS = {
    "a-name-in-each-delta": deltas(
        part(0, '{"comm', id="a", named=BASH), part(0, 'and": "ls"}', named=BASH)
    ),
    "always-the-same-index": deltas(
        part(0, '{"command": "ls"}', id="a", named=BASH),
        part(0, '{"command": "pwd"}', id="b", named=BASH),
    ),
    "no-index": deltas(
        part(None, '{"command": "ls"}', id="a", named=BASH),
        part(None, '{"command": "pwd"}', id="b", named=BASH),
    ),
    "each-part-has-all-before": deltas(
        part(0, '{"command":', id="a", named=BASH),
        part(0, '{"command": "ls"'),
        part(0, '{"command": "ls"}'),
    ),
    "calls-by-turns": deltas(
        part(0, "", id="a", named=BASH),
        part(1, "", id="b", named=BASH),
        part(0, '{"command": "ls"}'),
        part(1, '{"command": "pwd"}'),
    ),
    "the-same-id-twice": deltas(
        part(0, '{"command": "ls"}', id="a", named=BASH),
        part(1, '{"command": "pwd"}', id="a", named=BASH),
    ),
    "words-of-refusal": deltas({"refusal": "No, "}, {"refusal": "I won't."}, end="stop"),
    "lines-that-end-in-cr": STREAM.replace(b"\n", b"\r"),
    "some-lines-end-in-cr": STREAM.replace(b"\n\n", b"\r\r", 3),
    "an-event-of-two-lines": STREAM.replace(b'"Let me', b'\ndata: "Let me'),
    "a-byte-order-mark": b"\xef\xbb\xbf" + deltas({"content": "a"}, {"content": "b"}, end="stop"),
    "two-choices": deltas({"content": "a"}, end="stop").replace(b'"index": 0', b'"index": 1')
    + deltas({"content": "b"}, end="stop"),
}
REPLIES = ARRIVALS | {name: (body, True) for name, body in HABITS.items()}
Heard = tuple[str, list[tuple[object, ...]]]


def heard_in_messages(reply: bytes, *, streamed: bool) -> Heard:
    if streamed:
        content, _, _ = joined_messages(reply)
        calls = [one for one in content if isinstance(one, tuple)]
        return "".join(one for one in content if isinstance(one, str)), calls
    content = json.loads(reply.partition(b"\r\n\r\n")[2])["content"]
    calls = [(one["id"], one["name"], one["input"]) for one in content if "input" in one]
    return "".join(one.get("text", "") for one in content), calls


def heard_in_responses(reply: bytes, *, streamed: bool) -> Heard:
    if streamed:
        found = events(reply)
        items = [one["item"] for one in found if one["type"] == "response.output_item.done"]
        assert found[-1]["response"]["output"] == items
        said = "".join(one["delta"] for one in found if one["type"].endswith("text.delta"))
        words = [one["content"][0]["text"] for one in items if "content" in one]
        assert "".join(words) == said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    else:
        items = json.loads(reply.partition(b"\r\n\r\n")[2])["output"]
        words = [one["content"][0]["text"] for one in items if "content" in one]
    calls = [(one["call_id"], one["name"], one["arguments"]) for one in items if "name" in one]
    return "".join(words), calls


@pytest.mark.parametrize("name", REPLIES)
def test_a_program_is_told_the_words_and_the_calls_that_the_turn_records(name) -> None:
    upstream, streamed = REPLIES[name]
    try:
        turn = read(upstream, streamed=streamed)
    except (ReplyError, RefusedError):
        return  # no reply: there is nothing to tell
    calls = [(one.id, one.name, one.raw) for one in turn.calls]
    whole = [(one.id, one.name, one.arguments or {}) for one in turn.calls]
    for asks in (True, False):
        reply = passed("/responses", {**RESPONSES, "stream": asks}, upstream, turn, by=99)
        assert heard_in_responses(reply, streamed=asks) == (turn.text, calls)
        reply = passed("/messages", {**MESSAGES, "stream": asks}, upstream, turn, by=99)
        text, found = heard_in_messages(reply, streamed=asks)
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert (text, found) == (turn.text, calls if asks else whole)


def test_the_streams_with_habits_are_joined_to_what_was_meant() -> None:
    said = {name: read(body, streamed=True) for name, body in HABITS.items()}
    calls = {name: [one.arguments["command"] for one in turn.calls] for name, turn in said.items()}
    two = ["ls", "pwd"]
    assert list(calls.values()) == [["ls"], two, two, ["ls"], two, two, [], two, two, two, [], []]


DIALECTS = [("/messages", MESSAGES), ("/responses", RESPONSES), ("/chat/completions", CHAT)]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("arguments", ['{"command": "ls"}', '{"command": "ec', "[]"])
@pytest.mark.parametrize(("path", "body"), DIALECTS)
def test_a_model_that_we_play_says_what_it_is_told_to(path, body, arguments, stream) -> None:
    sink = Sink()
    asked = parse_request(Request("POST", path, json.dumps({**body, "stream": stream}).encode()))
    asyncio.run(say_once(Passage(Answer(sink), asked), ("c7", "Bash", arguments)))
    assert sink.kept.startswith(b"HTTP/1.1 200 ")
    assert b'"c7"' in sink.kept
    is_told = json.dumps(arguments).encode() in sink.kept
    assert is_told == (stream or path != "/messages")  # which has a place for an object only


@pytest.mark.parametrize(("path", "body"), DIALECTS)
def test_an_error_in_the_place_of_a_reply_or_in_its_midst_is_told(path, body) -> None:
    async def refused(upstream: bytes) -> bytes:
        sink = Sink()
        way = Passage(Answer(sink), parse_request(Request("POST", path, json.dumps(body).encode())))
        if upstream:
            await way.write(upstream)
        await way.refuse("failed to parse")
        return sink.kept

    reply = asyncio.run(refused(b""))
    assert reply.startswith(b"HTTP/1.1 500 ")
    assert b"failed to parse" in reply
    reply = asyncio.run(refused(chunk({"content": "Let me"})))
    assert reply.startswith(b"HTTP/1.1 200 ")
    last = events(reply)[-1]
    assert "failed to parse" in str(last)
    assert last.get("type", "error") in {"error", "response.failed"}
