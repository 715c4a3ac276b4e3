"""What a call costs through `agenteval run`, all work included, beside a bare SDK loop.

An instant mock server answers in a process of its own. `agenteval run` plays the shipped scenario
notes/append by it: a world for each trial, every call judged, read twice, run in the sandbox and
stored, the goal asked after each turn, the report written. The bare loops ask the same server and
start `echo` for each call: they judge, contain, store and check nothing, and send no instructions.

Own CPU, user and system, is that of the one process, without those it starts. Of the command it is
what a call more costs: the difference of a run of few trials and one of many, by their calls. Its
start is told by itself: CPU until the first byte, and the least peak memory of a run.

    python tests/bench_client.py [--repeats 5] [--trials 40] [--turns 10 50] [--crowds 32 512]
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import aiohttp
from openai import AsyncOpenAI

from agenteval.config.models import ModelEntry
from agenteval.core.prompt.arm import STRICT
from agenteval.core.trial import Message
from agenteval.engine.tool_texts import schemas
from agenteval.models.openai_client import OpenAIModel
from agenteval.store.sql import SqlStore

SCENARIO = "notes/append"
CHUNKS = 33  # of one streamed reply, as a call of `echo hi` has them
FEW, CONCURRENCY = 8, 8  # trials of the run that is taken off
STREAMS, TOKENS_PER_SECOND, SECONDS = 16, 150, 4
CROWDS = (32, 512)  # trials at a time, for the peak memory
TASK = [Message("system", "You echo."), Message("user", "Echo.")]
TOOLS = schemas(STRICT.profile, ["bash"])

Figures = dict[str, float]


# The mock server.


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


def _usage(tokens: int) -> dict[str, int]:
    # No count of the prompt: one that stays the same is taken for a context that was cut.
    return {"prompt_tokens": 0, "completion_tokens": tokens, "total_tokens": tokens}


def _call(number: int, program: str) -> dict[str, object]:
    arguments = json.dumps({"command": f"{program} {number}"})
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
        started, one = loop.time(), _event({"content": "word "})
        for at in range(tokens):
            await asyncio.sleep(started + at / TOKENS_PER_SECOND - loop.time())
            self.transport.write(b"%x\r\n%b\r\n" % (len(one), one))
        for last in (_event({}, "stop"), b"data: [DONE]\n\n"):
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
        sys.executable, __file__, "--serve", stdout=asyncio.subprocess.PIPE
    )
    try:
        port = int(await process.stdout.readline())
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        await process.wait()


# The harnesses: each plays one session of so many turns.


async def _echo(command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command.split(), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    return (await process.communicate())[0].decode()


def _opening() -> list[dict[str, object]]:
    return [{"role": one.role, "content": one.content} for one in TASK]


async def bare_sdk(client: AsyncOpenAI, turns: int) -> None:
    messages = _opening()
    for _ in range(turns):
        reply = await client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
        messages.append(reply.choices[0].message)
        for call in reply.choices[0].message.tool_calls:
            output = await _echo(json.loads(call.function.arguments)["command"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": output})


async def bare_sdk_streaming(client: AsyncOpenAI, turns: int) -> None:
    messages = _opening()
    for _ in range(turns):
        name, ident, arguments = "", "", ""
        stream = await client.chat.completions.create(
            model="m", messages=messages, tools=TOOLS, stream=True
        )
        async for chunk in stream:
            for choice in chunk.choices:
                for part in choice.delta.tool_calls or []:
                    ident, name = ident or part.id, name or part.function.name
                    arguments += part.function.arguments or ""
        function = {"name": name, "arguments": arguments}
        call = {"id": ident, "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        output = await _echo(json.loads(arguments)["command"])
        messages.append({"role": "tool", "tool_call_id": ident, "content": output})


async def _played(
    session: Callable[[int], Awaitable[None]], turns: int, sessions: int = 4 * CONCURRENCY
) -> float:
    await session(1)
    return await measured(_at_once(session, turns, sessions), sessions * turns)


async def _at_once(session: Callable[[int], Awaitable[None]], turns: int, sessions: int) -> None:
    free = asyncio.Semaphore(CONCURRENCY)

    async def one() -> None:
        async with free:
            await session(turns)

    async with asyncio.TaskGroup() as group:
        for _ in range(sessions):
            group.create_task(one())


@dataclass(frozen=True, slots=True)
class Played:
    """One `agenteval run`: seconds of CPU and MB, of its own process; `others` are its children."""

    calls: int
    own: float
    others: float
    first_byte: float
    peak: float


PLAY = """
import atexit, io, json, resource, sys, time
class Noted(io.FileIO):
    first = None
    def write(self, text):
        if Noted.first is not None and self.isatty():
            return len(text)  # nobody reads that terminal
        Noted.first = Noted.first or time.process_time()
        return super().write(text)
sys.stderr = io.TextIOWrapper(io.BufferedWriter(Noted(2, "w")), line_buffering=True)
def told(file):
    own = resource.getrusage(resource.RUSAGE_SELF)
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = [one.ru_utime + one.ru_stime for one in (own, others)]
    with open(file, "w") as used:
        json.dump([*seconds, Noted.first or 0.0, own.ru_maxrss / 1024], used)
atexit.register(told, sys.argv.pop(1))
from agenteval.__main__ import main
main()
"""


def agenteval(
    url: str,
    turns: int,
    trials: int,
    *,
    stream: bool,
    at_once: int = CONCURRENCY,
    at_terminal: bool = False,
) -> Played:
    """A run of the command in an empty folder. Ends the program where it was not what is asked."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entry = f'[models.m]\nbase_url = "{url}"\nmodel = "m"\nstream = {str(stream).lower()}\n'
        (folder / "agenteval.toml").write_text(entry)
        words = ["run", "--model", "m", "--trials", str(trials), "--concurrency", str(at_once)]
        words += ["--max-turns", str(turns), "--store", "runs.db", SCENARIO]
        command = [sys.executable, "-c", PLAY, "used.json", *words]
        terminal, screen = os.openpty()
        seen = screen if at_terminal else subprocess.STDOUT
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=seen) as process:
            said = process.stdout.read()
        os.close(screen)
        os.close(terminal)
        with closing(SqlStore(str(folder / "runs.db"))) as store, store.connect() as asked:
            made = asked.exec_driver_sql(
                "SELECT count(*), sum(allowed AND output IS NOT NULL) FROM call"
            ).one()
        if tuple(made) != (trials * turns,) * 2 or not [*(folder / "reports").glob("*.html")]:
            raise SystemExit(f"not what was to be measured: {made}\n{said.decode()}")
        return Played(trials * turns, *json.loads((folder / "used.json").read_text()))


def own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measured(work: Awaitable[None], units: int) -> float:
    """Milliseconds of our own CPU for each unit."""
    gc.collect()  # of what was imported, and of what the harness before left
    before = own_cpu()
    await work
    return 1000 * (own_cpu() - before) / units


async def per_call(url: str, turns: int, trials: int) -> dict[str, float]:
    """Milliseconds of own CPU a call, of each way to play."""
    found = {}
    async with AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
        found["bare SDK loop, whole"] = await _played(lambda n: bare_sdk(client, n), turns)
        found["bare SDK loop, 33 pieces"] = await _played(
            lambda n: bare_sdk_streaming(client, n), turns
        )
    for stream, told in ((False, "whole"), (True, "33 pieces")):
        few, many = [
            await asyncio.to_thread(agenteval, url, turns, count, stream=stream)
            for count in (FEW, FEW + trials)
        ]
        more = 1000 / (many.calls - few.calls)
        found[f"agenteval run, {told}"] = more * (many.own - few.own)
        found[f"its sandbox and second reader, {told}"] = more * (many.others - few.others)
    return found


async def per_run(url: str, crowds: Sequence[int]) -> dict[str, float]:
    """What a run takes once."""
    one = await asyncio.to_thread(agenteval, url, 2, 1, stream=True, at_terminal=True)
    found = {"first byte, s of CPU": one.first_byte}
    for crowd in crowds:
        run = await asyncio.to_thread(agenteval, url, 4, crowd, stream=True, at_once=crowd)
        found[f"peak at {crowd} trials at a time, MB"] = run.peak
    return found


async def per_chunk(url: str) -> dict[str, float]:
    """Streams at a steady pace, so that every chunk is a read of its own.

    Beside a loop that reads the same bytes by the same client and drops them: most of what a piece
    costs is the system's wake-up and read, which differ from machine to machine.
    """
    chunks = STREAMS * TOKENS_PER_SECOND * SECONDS
    entry = ModelEntry(base_url=url, model="paced")
    async with OpenAIModel(entry) as model, aiohttp.ClientSession() as session:
        await asyncio.gather(_read(session, url, "m"), model.ask(TASK, TOOLS, seed=1))  # connected
        bare = await measured(_streams(lambda: _read(session, url, "paced")), chunks)
        started = time.perf_counter()
        ours = await measured(_streams(lambda: model.ask(TASK, TOOLS, seed=1)), chunks)
        seconds = time.perf_counter() - started
    return {
        "a piece of 16 streams of 150 tokens/s, ms of CPU": ours,
        "the same, read and dropped, ms of CPU": bare,
        "what reading a piece adds, ms of CPU": ours - bare,
        "these 16 streams, % of a core": ours * chunks / seconds / 10,
    }


async def _streams(ask: Callable[[], Awaitable[object]]) -> None:
    await asyncio.gather(*(ask() for _ in range(STREAMS)))


async def _read(session: aiohttp.ClientSession, url: str, model: str) -> None:
    asked = {"model": model, "stream": True, "messages": []}
    async with session.post(f"{url}/chat/completions", json=asked) as reply:
        while await reply.content.readany():
            continue


async def figures(url: str, turns: Sequence[int], trials: int, crowds: Sequence[int]) -> Figures:
    """Of one repeat: by what is measured, in the order of the table."""
    found: Figures = {}
    for many in turns:
        each = await per_call(url, many, trials)
        for name, spent in each.items():
            found[f"{name}, {many} turns, ms of own CPU a call"] = spent
        for told in ("whole", "33 pieces"):
            share = each[f"agenteval run, {told}"] / each[f"bare SDK loop, {told}"]
            found[f"agenteval run by bare SDK loop, {told}, {many} turns"] = share
    return found | await per_run(url, crowds) | await per_chunk(url)


async def bench(repeats: int, turns: Sequence[int], trials: int, crowds: Sequence[int]) -> Figures:
    """The medians, of repeats in each of which everything is measured once."""
    async with mock() as url:
        every = [await figures(url, turns, trials, crowds) for _ in range(repeats)]
    return {name: median(one[name] for one in every) for name in every[0]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", action="store_true", help="be the mock server")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--trials", type=int, default=40, help="more than the few of the start")
    parser.add_argument("--turns", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--crowds", type=int, nargs="*", default=CROWDS)
    asked = parser.parse_args()
    if asked.serve:
        asyncio.run(_serve())
        return
    found = asyncio.run(bench(asked.repeats, asked.turns, asked.trials, asked.crowds))
    for name, value in found.items():
        sys.stdout.write(f"{name}\t{value:.3g}\n")


if __name__ == "__main__":
    main()
