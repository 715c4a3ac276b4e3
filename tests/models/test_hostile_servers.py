"""A server may send anything: memory stays bounded, and what happened has a name."""

import asyncio
import json
import tracemalloc

import pytest
from hostile import Play, floods, model_behind, sends, serving

from agenteval.config.models import ModelEntry, Timeouts
from agenteval.errors import Cause, InfrastructureError
from agenteval.models.openai_client import OpenAIModel
from agenteval.models.stream import LARGEST_BODY
from agenteval.trial.trial import Message

LATER = [Message("system", "s"), Message("user", "u"), Message("assistant", "a")]
JSON = "application/json"
MEGABYTE = b"x" * (1 << 20)
TOO_MUCH = f"a reply of over {LARGEST_BODY} bytes"


def event(delta: object, finish: str | None = None) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


WORD = event({"content": "word "})
HEAD = event({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "bash"}}]})
ARGUMENTS = event({"tool_calls": [{"index": 0, "function": {"arguments": '{"comm'}}]})

# what the server does, what the void is called
CASES: dict[str, tuple[Play, str]] = {
    "100 MB of one event": (floods(MEGABYTE, 100), TOO_MUCH),
    "100 MB of events": (floods(event({"content": "word " * 20_000}), 1000), TOO_MUCH),
    "100 MB of JSON": (floods(MEGABYTE, 100, kind=JSON), TOO_MUCH),
    "100 MB of an error": (floods(MEGABYTE, 100, kind=JSON, status=500), TOO_MUCH),
    "a stream that never ends": (floods(b": ping\n\n", 10**9), r"no reply within \d|of over"),
    "a reply that never begins": (sends(pause=30.0, kind=JSON), "no chat completion"),
    "a stream that stalls": (sends(WORD, pause=30.0), r"no reply within \d"),
    "an event that is no JSON": (sends(b"data: {broken\n\n"), "a broken event in the stream"),
    "an event of another shape": (sends(b'data: {"choices": 7}\n\n'), "a broken event"),
    "an event nested without end": (sends(b"data: " + b"[" * 10**6 + b"\n\n"), "a broken event"),
    "an error in the stream, and no DONE": (
        sends(WORD, b'data: {"error": {"code": 500, "message": "CUDA out of memory"}}\n\n'),
        "an error in the reply: .*CUDA out of memory",
    ),
    "closed in the middle of a reply": (sends(WORD), "ended in the middle of a reply"),
    "closed in the middle of a call": (sends(HEAD, ARGUMENTS), "in the middle of a tool call"),
    "words of which no byte is text": (
        sends(b'data: {"choices": [{"delta": {"content": "\xff\xfe"}}]}\n\n', event({}, "stop")),
        "nothing in the reply is text",
    ),
    "thoughts of which no byte is text": (
        sends(
            b'{"choices": [{"message": {"reasoning": "\xff"}, "finish_reason": "stop"}]}', kind=JSON
        ),
        "nothing in the reply is text",
    ),
    "a reply broken off by the engine": (sends(WORD, event({}, "abort")), "finish_reason abort"),
    "a reply broken off, and why": (
        sends(
            b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": {"type": "abort"}, '
            b'"error": {"message": "EngineCore died"}}]}\n\n'
        ),
        r'finish_reason abort \{"message": "EngineCore died"\}',
    ),
    "closed at once": (sends(), "ended in the middle of a reply"),
    "no HTTP": (lambda writer: _write(writer, b"SSH-2.0-OpenSSH_9.2\r\n"), r"127\.0\.0\.1"),
}


async def _write(writer: asyncio.StreamWriter, answer: bytes) -> None:
    writer.write(answer)
    await writer.drain()


async def ask(url: str):
    entry = ModelEntry(base_url=url, model="m", timeouts=Timeouts(request=3.0))
    async with OpenAIModel(entry) as model:
        return await model.ask(LATER, [], seed=1)


@pytest.mark.parametrize(("play", "name"), CASES.values(), ids=CASES)
async def test_what_a_server_does_to_us_is_a_named_void(play, name) -> None:
    async with serving(play) as url:
        with pytest.raises(InfrastructureError, match=name):
            await ask(url)


@pytest.mark.parametrize("kind", ["text/event-stream", JSON])
async def test_a_flood_of_100_mb_takes_bounded_memory(kind) -> None:
    tracemalloc.start()
    try:
        async with serving(floods(MEGABYTE, 100, kind=kind)) as url:
            with pytest.raises(InfrastructureError, match="of over"):
                await ask(url)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * LARGEST_BODY


def drips(pieces: int, every: float) -> Play:
    """So many words, each at its time however busy the machine is, and the end."""

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        loop = asyncio.get_running_loop()
        began = loop.time()
        for piece in range(pieces):
            writer.write(WORD)
            await asyncio.sleep(began + every * piece - loop.time())
        await _write(writer, event({}, "stop"))

    return play


@pytest.mark.slow
async def test_a_server_that_is_slow_and_goes_on_gets_more_time() -> None:
    """Thirty tokens a second, where limits are written for forty: seven seconds become nine."""
    async with model_behind(drips(250, every=0.033), timeouts=Timeouts(request=7.0)) as model:
        turn = await model.ask(LATER, [], seed=1)
        assert (turn.timing.pieces, 8 < turn.seconds < 9, 1.2 < model.stretch() < 1.5) == (
            *(250, True, True),
        )


async def test_a_compressed_reply_is_refused_as_its_size_is_unknown() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n\r\nx"
    async with serving(lambda writer: _write(writer, head)) as url:
        with pytest.raises(InfrastructureError, match="a compressed reply"):
            await ask(url)


async def test_a_connection_that_is_held_open_after_done_does_not_hold_us() -> None:
    ends = event({}, "stop") + b"data: [DONE]\n\n"
    async with serving(sends(WORD, ends, pause=0.01)) as url:
        quick = await ask(url)
    held = sends(WORD + ends, pause=30.0)
    async with model_behind(held, timeouts=Timeouts(request=20.0)) as model:
        slow = await model.ask(LATER, [], seed=1)
    assert (slow.text, slow.text == quick.text, slow.seconds < 5) == ("word ", True, True)


async def test_a_whole_reply_on_a_connection_left_open_is_read_without_its_end() -> None:
    held = sends(WORD + event({}, "stop"), pause=30.0)
    async with model_behind(held, timeouts=Timeouts(request=20.0)) as model:
        turn = await model.ask(LATER, [], seed=1)
    assert (turn.text, turn.finish_reason, turn.seconds < 20) == ("word ", "stop", True)


def in_chunks(*parts: bytes, pause: float, more: str = "") -> Play:
    """A chunked body whose last chunk, the empty one, never comes."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{more}"

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        for part in parts:
            await _write(writer, b"%x\r\n%s\r\n" % (len(part), part))
            await asyncio.sleep(pause)

    return play


STOP, DONE = event({}, "stop"), b"data: [DONE]\n\n"
COUNT = b'data: {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}\n\n'


@pytest.mark.parametrize("pause", [0.0, 0.05])
@pytest.mark.parametrize("ends", [(STOP,), (STOP, COUNT), (STOP, COUNT, DONE), (STOP + DONE,)])
async def test_a_whole_reply_is_read_where_the_connection_ends_behind_it(ends, pause) -> None:
    async with serving(in_chunks(WORD, *ends, pause=pause)) as url:
        turn = await ask(url)
    assert (turn.text, turn.finish_reason, turn.usage.prompt_tokens) == (
        *("word ", "stop"),
        9 if COUNT in ends else 0,
    )


@pytest.mark.parametrize("pause", [0.0, 0.05])
async def test_a_part_of_a_reply_is_none_where_the_connection_ends_behind_it(pause) -> None:
    async with serving(in_chunks(WORD, pause=pause)) as url:
        with pytest.raises(InfrastructureError) as raised:
            await ask(url)
    assert raised.value.cause is Cause.LOST


@pytest.mark.parametrize("said", ["", "Identity", " identity "])
async def test_a_reply_that_is_said_to_be_encoded_as_it_is_is_read(said) -> None:
    more = f"content-encoding: {said}\r\n"
    async with serving(in_chunks(WORD, STOP + DONE, pause=0.0, more=more)) as url:
        assert (await ask(url)).text == "word "


TURN = WORD + event({}, "stop") + b"data: [DONE]\n\n"
WHOLE = b'{"choices": [{"message": {"content": "word "}, "finish_reason": "stop"}]}'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (TURN, "Text/Event-Stream; charset=utf-8"),
        (TURN, "text/plain"),
        (TURN, "application/x-ndjson"),
        (TURN, JSON),
        (WHOLE, "text/event-stream"),
        (WHOLE + b"\n\ndata: [DONE]\n\n", "text/event-stream"),
        (WHOLE, "text/plain"),
    ],
)
async def test_a_reply_is_read_by_what_it_is_and_not_by_what_it_is_called(body, kind) -> None:
    async with serving(sends(body, kind=kind)) as url:
        turn = await ask(url)
    assert (turn.text, turn.finish_reason) == ("word ", "stop")


async def test_the_next_request_after_a_broken_one_goes_well() -> None:
    plays = iter([sends(WORD), sends(WORD, event({}, "stop"))])

    async def play(writer: asyncio.StreamWriter) -> None:
        await next(plays)(writer)

    async with serving(play) as url, OpenAIModel(ModelEntry(base_url=url, model="m")) as model:
        with pytest.raises(InfrastructureError, match="ended in the middle"):
            await model.ask(LATER, [], seed=1)
        assert (await model.ask(LATER, [], seed=1)).text == "word "
