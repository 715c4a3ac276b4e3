"""The bytes of a stream on their way to a harness's program, cut anywhere."""

import asyncio
import json

import pytest

from agenteval.errors import InfrastructureError
from agenteval.models.openai_client import _RelayedStream
from agenteval.models.stream import StreamReader
from agenteval.trial.redaction import MARK, SHORTEST, KnownKeys, _passwords_in, secrets_of

KEY = "canary-key-of-twenty+"


def event(text):
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()


def relayed(stream, size):
    written, reader = [], StreamReader()

    async def write(part):
        written.append(part)

    async def relay():
        sink = _RelayedStream(KnownKeys.of([KEY]), write)
        for at in range(0, len(stream), size):
            ready = sink.ready(stream[at : at + size])
            reader.feed(ready, 0.0)
            await sink.write(ready, reader)
        rest = sink.rest()
        reader.feed(rest, 0.0)
        await sink.write(rest, reader)
        await sink.end()

    try:
        asyncio.run(relay())
    except InfrastructureError as error:
        return b"".join(written), str(error)
    return b"".join(written), ""


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
def test_a_key_in_one_event_is_replaced_wherever_its_bytes_are_cut(size) -> None:
    stream = event("a") + event(f"say {KEY} twice {KEY}.") + event("cana") + event("ry!")
    assert relayed(stream, size) == (stream.replace(KEY.encode(), MARK.encode()), "")


@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.parametrize("piece", [1, 3, 8, 20])
def test_of_a_key_in_pieces_of_many_events_no_piece_is_written(piece, size) -> None:
    pieces = b"".join(event(KEY[at : at + piece]) for at in range(0, len(KEY), piece))
    stream = event("it is ") + pieces + event(".")
    written, why = relayed(stream, size)
    assert (why, event(KEY[:piece]) in written) == ("the server repeats its key in pieces", False)


CASES = {
    '{"a": "\\u0063anary-key-of-twenty+"}': '{"a": "redacted-key"}',
    "canary-key-of-twenty%2B": MARK,
    "canary-key-of-twenty%2b": MARK,
    KEY.encode().hex(): MARK,
    "canary-key": "canary-key",
}


@pytest.mark.parametrize("text", CASES)
def test_a_key_is_known_as_programs_write_it(text) -> None:
    assert KnownKeys.of([KEY, "canary-key-of"]).json(text) == CASES[text]


def test_what_is_short_is_no_key_and_what_a_url_hides_is_one() -> None:
    keys = KnownKeys.of(
        ["none", "x" * (SHORTEST - 1), *_passwords_in("http://u:p%40ssw0rd!@h/?t=12345678")]
    )
    assert keys.values == ("p%40ssw0rd!", "p@ssw0rd!", "12345678")


VARIABLES = {
    "OPENAI_API_KEY": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "GITHUB_TOKEN": "c",
    "PGPASSWORD": "d",
    "HTTPS_PROXY": "http://u:e@h",
    "PATH": "/bin",
    "KEYBOARD": "us",
    "TOKENIZERS_PARALLELISM": "1",
}


def test_secrets_are_known_by_the_names_of_their_variables() -> None:
    assert set(secrets_of(VARIABLES)) == {"a", "b", "c", "d", "e"}
