"""Replies as bytes, and what is read from them."""

import json
import time
from dataclasses import replace

import pytest

from agenteval.config.models import ModelEntry
from agenteval.models.request import (
    _native_message,
    _unique_ids,
    parse_arguments,
    read_reply,
    request_body,
    turn_of,
)
from agenteval.models.stream import StreamReader
from agenteval.replies.arrival import ReplyError, usage
from agenteval.trial.call import Asked, Received, ReceivedCall, Repair
from agenteval.trial.run import _departs, usual
from agenteval.trial.trial import Message, Timing, Usage


@pytest.mark.parametrize(
    ("raw", "parsed", "malformed"),
    [
        ('{"command": "ls"}', {"command": "ls"}, ""),
        ("", {}, ""),
        ('{"command": ', None, "arguments are not JSON"),
        ('"ls"', None, "arguments are a JSON str, not an object"),
        ("[" * 100_000, None, "arguments are not JSON"),
    ],
)
def test_arguments_are_parsed_where_they_parse(raw, parsed, malformed) -> None:
    found, why = parse_arguments(raw)
    assert (found, why.startswith(malformed), bool(why)) == (parsed, True, bool(malformed))


def turn(*calls: ReceivedCall):
    received = Received(calls=calls, finish_reason="tool_calls")
    return turn_of(received, Asked(), usage=Usage(), raw="", seconds=0.0)


BROKEN = ReceivedCall("bash", '{"comm', "a")
WHOLE = ReceivedCall("bash", '{"command": "ls"}', "b")
CASES = {
    "a whole call stays as it is": ([WHOLE], ["b", "bash", WHOLE.raw], ()),
    # vLLM 47761 answers 400 to these when they come back, llama-server 500.
    "broken arguments": ([BROKEN], ["a", "bash", "{}"], [("arguments", '{"comm', "{}")]),
    "no arguments": (
        [ReceivedCall("bash", "", "a")],
        ["a", "bash", "{}"],
        [("arguments", "", "{}")],
    ),
    "an object": (
        [ReceivedCall("bash", '{"command":"ls"}', "a", as_object=True)],
        ["a", "bash", '{"command":"ls"}'],
        (),
    ),
    "no id": ([ReceivedCall("bash", "{}")], ["call-0", "bash", "{}"], [("id", "", "call-0")]),
    "no name": ([ReceivedCall("", "{}", "a")], ["a", "invalid", "{}"], [("name", "", "invalid")]),
    "channel tokens": (
        [ReceivedCall("bash<|channel|>commentary", "{}", "a")],
        ["a", "bash", "{}"],
        [("name", "bash<|channel|>commentary", "bash")],
    ),
}


@pytest.mark.parametrize(("calls", "sent", "mended"), CASES.values(), ids=CASES)
def test_what_a_server_would_refuse_is_mended_and_the_repair_is_kept(calls, sent, mended) -> None:
    seen = turn(*calls)
    (wire,) = _native_message(Message("assistant", "", seen.calls), {})["tool_calls"]
    assert (
        [wire["id"], wire["function"]["name"], wire["function"]["arguments"]],
        seen.repairs,
    ) == (sent, tuple(Repair(0, *repair) for repair in mended))


def test_repeated_ids_become_those_of_their_places() -> None:
    seen = turn(WHOLE, replace(WHOLE, name="read"), ReceivedCall("read", "{}", ""))
    assert [call.id for call in seen.calls] == ["b", "call-1", "call-2"]


@pytest.mark.parametrize(
    ("received", "made"),
    [
        (["call-1", ""], ["call-1", "call-2"]),
        (["", "call-0"], ["call-1", "call-0"]),
        (["a", "a", "a", "call-1"], ["a", "call-2", "call-3", "call-1"]),
        (["call-2", "call-2", ""], ["call-2", "call-1", "call-3"]),
    ],
)
def test_no_made_id_is_that_of_another_call(received, made) -> None:
    assert _unique_ids(received) == made


MANY = 6_000


def many(name: str) -> list[dict[str, object]]:
    if name == "a name in parts":
        return [part(0, "a", name=f"{'x' * 200}{number}") for number in range(MANY)]
    rest = [part(0, f"c{n}", name="bash", arguments=f"word{n} ") for n in range(MANY)]
    return [part(0, "a", name="bash", arguments='{"command": "'), *rest]


@pytest.mark.parametrize("name", ["a name in parts", "an id for each part"])
def test_many_parts_of_a_call_take_no_longer_for_each(name) -> None:
    deltas = many(name)
    few, all_of_them = (b"".join(events(*deltas[: MANY // cut])) for cut in (10, 1))
    assert seconds(lambda: read(all_of_them)) < 40 * seconds(lambda: read(few))


@pytest.mark.parametrize("ident", ["a", "a{}"], ids=["one id", "an id each"])
def test_many_calls_of_a_reply_take_no_longer_for_each(ident) -> None:
    calls = [replace(WHOLE, id=ident.format(number)) for number in range(MANY)]
    assert seconds(lambda: turn(*calls)) < 40 * seconds(lambda: turn(*calls[: MANY // 10]))


def seconds(work) -> float:
    """The least of three: a busy machine, or the collector, makes one of them longer."""
    taken = []
    for _ in range(3):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def test_the_answer_to_a_call_names_it() -> None:
    assert _native_message(Message("tool", "out", call_id="a"), {})["tool_call_id"] == "a"


@pytest.mark.parametrize(
    ("counts", "read"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 2}, Usage(3, 2)),
        ({"prompt_tokens": None}, Usage()),
        ({"prompt_tokens": -1, "completion_tokens": "many"}, Usage()),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 8,
                "completion_tokens_details": {"reasoning_tokens": 5},
                "prompt_tokens_details": {"cached_tokens": 4},
            },
            Usage(9, 8, 5, 4),
        ),
        # A proxy in front of a server that counts only what is new, and says what it had cached.
        (
            {"prompt_tokens": 150, "prompt_tokens_details": {"cached_tokens": 3000}},
            Usage(3150, cached_tokens=3000),
        ),
        ({"prompt_tokens_details": None, "completion_tokens_details": 7}, Usage()),
        (None, Usage()),
    ],
)
def test_tokens_that_a_server_does_not_count_are_none(counts, read) -> None:
    assert usage(counts) == read


def events(*deltas: dict[str, object], finish: str = "tool_calls") -> list[bytes]:
    chunks = [{"choices": [{"delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": finish}]})
    chunks.append({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}})
    return [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks] + [b"data: [DONE]\n\n"]


def read(body: bytes, size: int = 1 << 20) -> StreamReader:
    reader = StreamReader()
    for start in range(0, len(body), size):
        reader.feed(body[start : start + size], float(start))
    return reader


def part(index: int | None, ident: str | None = None, **function: object) -> dict[str, object]:
    return {"tool_calls": [{"index": index, "id": ident, "function": function}]}


INTERLEAVED = (
    {"content": "I "},
    {"reasoning": "Hm. "},
    {"reasoning_content": "Yes."},
    {"content": "look."},
    part(0, "a", name="bash", arguments='{"comm'),
    part(1, "b", name="read", arguments={"path": "a"}),
    part(0, arguments='and": "ls"}'),
)
JOINED = Received(
    text="I look.",
    reasoning="Hm. Yes.",
    thought_in="reasoning",
    calls=(
        ReceivedCall("bash", '{"command": "ls"}', "a"),
        ReceivedCall("read", '{"path": "a"}', "b", as_object=True),
    ),
    finish_reason="tool_calls",
    completion_tokens=4,
)


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_deltas_are_joined_wherever_the_network_cuts_them(size, end) -> None:
    body = b"".join(events(*INTERLEAVED)).replace(b"\n", end.encode())
    reader = read(body, size)
    assert (reader.received(), reader.raw(), reader.done) == (
        (JOINED, Usage(9, 4)),
        body.decode(),
        True,
    )


def test_a_byte_order_mark_is_none_of_the_text_wherever_it_is_cut() -> None:
    body = b"".join(events({"content": "Done."}, finish="stop"))
    for size in (1, 2, 1 << 20):
        assert read(b"\xef\xbb\xbf" + body, size).received()[0].text == "Done."


EVENT = b'{"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}'
SPLIT = {
    "over two fields": EVENT.replace(b' "delta"', b'\ndata: "delta"'),
    "at each blank, without blanks": EVENT.replace(b" ", b"\ndata:"),
    "around fields of other names": EVENT.replace(b' "delta"', b'\nid: 1\n: ping\ndata: "delta"'),
}


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("end", [b"\n\n", b"\r\r", b"\ndata: [DONE]\n", b"\n", b""])
@pytest.mark.parametrize("event", SPLIT.values(), ids=SPLIT)
def test_an_event_may_have_its_document_over_several_fields(event, end, size) -> None:
    assert read(b"data: " + event + end, size).received()[0].text == "a"


def test_a_line_end_inside_a_text_is_read_as_one() -> None:
    body = b"data: " + EVENT.replace(b'"a"', b'"a\rb\nc"') + b"\n\n"
    assert read(body).received()[0].text == "a\nb\nc"


NUMBERINGS = {
    "no index, each call whole": [
        part(None, "a", name="bash", arguments="{}"),
        part(None, "b", name="read", arguments="{}"),
    ],
    "always 0, other ids": [
        part(0, "a", name="bash", arguments="{}"),
        part(0, "b", name="read", arguments="{}"),
    ],
    "the head again with each part": [
        part(0, "a", name="bash", arguments="{"),
        part(0, "a", arguments="}"),
        part(1, "b", name="read", arguments="{}"),
    ],
}


@pytest.mark.parametrize("deltas", NUMBERINGS.values(), ids=NUMBERINGS)
def test_calls_are_told_apart_however_a_server_numbers_them(deltas) -> None:
    received, _ = read(b"".join(events(*deltas))).received()
    assert received.calls == (ReceivedCall("bash", "{}", "a"), ReceivedCall("read", "{}", "b"))


def test_only_pieces_that_bring_something_are_timed() -> None:
    reader = StreamReader()
    said = [{"role": "assistant", "content": ""}, *({"content": "x"} for _ in range(4))]
    for at, event in zip([0.5, 1.0, 1.1, 1.2, 1.5, 9.0, 9.0, 9.0], events(*said), strict=True):
        reader.feed(event, at)
    timing = reader.timing()
    assert timing is not None
    gaps = [timing.gap_mean, timing.gap_median, timing.gap_p95, timing.gap_longest]
    assert (timing.first, timing.pieces, *(round(gap, 6) for gap in gaps)) == (
        *(1.0, 4),
        *(0.166667, 0.1, 0.3, 0.3),
    )


def test_a_stream_without_done_and_without_a_last_line_end_is_read() -> None:
    body = b"".join(events({"content": "Done."}, finish="stop")[:-2]).rstrip()
    assert read(body).received()[0].text == "Done."


def test_comments_and_what_follows_done_are_left_out() -> None:
    body = b": ping\n\nevent: x\n" + b"".join(events({"content": "a"}, finish="stop"))
    received, _ = read(body + b"data: {broken\n\n").received()
    assert received.text == "a"


def test_a_whole_reply_without_calls_is_text() -> None:
    body = {"choices": [{"message": {"content": "Done."}, "finish_reason": "stop"}]}
    assert read_reply(json.dumps(body).encode()) == (
        Received(text="Done.", finish_reason="stop"),
        Usage(),
    )


@pytest.mark.parametrize("body", [b'{"choices": [{}]}', b'{"choices": null}', b'{"a": "\xff"}'])
def test_what_is_no_completion_is_no_reply(body) -> None:
    with pytest.raises(ReplyError):
        read_reply(body)


def test_the_time_of_a_single_piece_has_no_gaps() -> None:
    reader = StreamReader()
    reader.feed(b"".join(events({"content": "a"})), 2.0)
    assert reader.timing() == Timing(2.0, 1)


THOUGHT = [
    Message("system", "s"),
    Message("user", "u"),
    Message("assistant", "", reasoning="one"),
    Message("tool", "t"),
    Message("assistant", "Done.", reasoning="two"),
    Message("user", "more"),
    Message("assistant", "", reasoning="three"),
    Message("tool", "t"),
]


@pytest.mark.parametrize(
    ("settings", "field", "sent"),
    [
        ({}, "reasoning", {6: "three"}),
        ({"reasoning": "loop"}, "reasoning_content", {6: "three"}),
        ({"reasoning": "always"}, "reasoning", {2: "one", 4: "two", 6: "three"}),
        ({"reasoning": "drop"}, "reasoning", {}),
        ({"model": "deepseek-ai/DeepSeek-R1"}, "reasoning_content", {}),
        ({"model": "DeepSeek-R1", "reasoning": "loop"}, "reasoning_content", {6: "three"}),
        ({"tools": "text"}, "reasoning", {}),
    ],
)
def test_what_a_model_thought_is_sent_back_by_its_rule(settings, field, sent) -> None:
    entry = ModelEntry(**{"base_url": "http://a/v1", "model": "qwen3.6", **settings})
    body = json.loads(request_body(entry, THOUGHT, [], 1, field))
    found = {at: one[field] for at, one in enumerate(body["messages"]) if field in one}
    other = {"reasoning", "reasoning_content"} - {field}
    assert (found, [one for one in body["messages"] if other & set(one)]) == (sent, [])


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        ("Qwen/Qwen3.6-35B-A3B", "loop"),
        ("zai-org/GLM-4.6", "loop"),
        ("MiniMaxAI/MiniMax-M2", "loop"),
        ("moonshotai/Kimi-K2-Thinking", "loop"),
        ("deepseek-ai/DeepSeek-V3.2", "loop"),
        ("openai/gpt-oss-120b", "loop"),
        ("deepseek-ai/DeepSeek-R1-0528", "drop"),
        ("deepseek-ai/DeepSeek-V3.1", "drop"),
        ("deepseek-v3", "drop"),
        ("deepseek-reasoner", "drop"),
        ("Qwen/QwQ-32B", "drop"),
        ("m", "loop"),
    ],
)
def test_which_rule_is_usual_follows_from_the_family(model, rule) -> None:
    assert usual(model) == rule


@pytest.mark.parametrize(
    ("url", "rule"),
    [("https://api.mistral.ai/v1", "drop"), ("http://gpu:8000/api.mistral.ai/v1", "loop")],
)
def test_which_rule_is_usual_follows_from_the_server(url, rule) -> None:
    """A thinking model of Mistral's, whose own service refuses what others want back."""
    entry = ModelEntry(base_url=url, model="magistral-medium")
    card = entry.card("m")
    assert (entry.sends_reasoning, card.reasoning) == (rule, rule)
    assert _departs(rule, "magistral-medium", url) == "as usual for the model"
    assert _departs("always", "magistral-medium", url) == "always sent back"
