"""The mock server of the benchmarks: a process of its own that answers every request at once.

Each reply is one call of `bash`: whole, or streamed in 33 pieces where the request asks for it. A
conversation that names the scenario's script is answered by a call of that script, with a word that
no reply before had: what was judged in one trial is not remembered in the next.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count, pairwise

CHUNKS = 33  # of one streamed reply, as a call of `echo hi` has them
TOKENS_PER_SECOND, SECONDS = 150, 4  # of model "paced"


def _event(delta: object, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {
        "id": "chatcmpl-0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1760000000,
        "model": "mock",
        "choices": [choice],
    }
    return f"data: {json.dumps(chunk)}\n\n".encode()


PIECE, LAST = _event({"content": "word "}), _event({}, "stop")  # of model "paced"


def _usage(tokens: int) -> dict[str, int]:
    # No count of the prompt: one that stays the same is taken for a context that was cut.
    return {"prompt_tokens": 0, "completion_tokens": tokens, "total_tokens": tokens}


_REPLIES = count(1)


def _call(number: int, program: str) -> dict[str, object]:
    arguments = json.dumps({"command": f"{program} {number} q{next(_REPLIES)}"})
    function = {"name": "bash", "arguments": arguments}
    return {"id": f"call_{number}", "type": "function", "function": function}


def _streamed(call: dict[str, object]) -> list[bytes]:
    arguments = call["function"]["arguments"]
    head = {**call, "index": 0, "function": {"name": "bash", "arguments": ""}}
    cuts = [len(arguments) * at // (CHUNKS - 5) for at in range(CHUNKS - 4)]
    pieces = [arguments[one:other] for one, other in pairwise(cuts)]
    return [
        _event({"role": "assistant", "content": ""}),
        _event({"tool_calls": [head]}),
        *(
            _event({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
            for piece in pieces
        ),
        _event({}, "tool_calls"),
        b"data: " + json.dumps({"choices": [], "usage": _usage(CHUNKS)}).encode() + b"\n\n",
        b"data: [DONE]\n\n",
    ]


def _whole(call: dict[str, object]) -> bytes:
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    envelope = {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": "mock"}
    return json.dumps({**envelope, "choices": [choice], "usage": _usage(CHUNKS)}).encode()


SEARCH = "uv run scripts/search.py"  # which the scenario's instructions name
MODELS = json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode()


class _Mock(asyncio.Protocol):
    """Answers at once; `model` "paced" streams tokens at their pace, a write each."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.buffer = transport, b""

    def data_received(self, received: bytes) -> None:
        self.buffer += received
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        if len(rest) < length:
            return
        body, self.buffer = rest[:length], rest[length:]
        call = _call(body.count(b'"assistant"'), SEARCH if SEARCH.encode() in body else "echo hi")
        if head.startswith(b"GET"):
            self.transport.write(_plain_head(len(MODELS)) + MODELS)
        elif b'"paced"' in body:
            self.task = asyncio.get_running_loop().create_task(self._pace())
        elif b'"stream":true' in body.replace(b" ", b""):
            pieces = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in _streamed(call))
            self.transport.write(_head() + pieces + b"0\r\n\r\n")
        else:
            payload = _whole(call)
            self.transport.write(_plain_head(len(payload)) + payload)

    async def _pace(self) -> None:
        self.transport.write(_head())
        loop, tokens = asyncio.get_running_loop(), TOKENS_PER_SECOND * SECONDS
        started, one = loop.time(), PIECE
        for at in range(tokens):
            await asyncio.sleep(started + at / TOKENS_PER_SECOND - loop.time())
            self.transport.write(b"%x\r\n%b\r\n" % (len(one), one))
        for last in (LAST, b"data: [DONE]\n\n"):
            self.transport.write(b"%x\r\n%b\r\n" % (len(last), last))
        self.transport.write(b"0\r\n\r\n")


def _head() -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )


def _plain_head(length: int) -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % length
    )


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Mock, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@asynccontextmanager
async def mock() -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, stdout=asyncio.subprocess.PIPE
    )
    try:
        port = int(await process.stdout.readline())
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(_serve())
