"""What our client costs beside a bare SDK loop and raw HTTP: own CPU per tool call, per chunk.

An instant mock server answers in a process of its own; every reply is one call of `echo hi N`.
Own CPU is that of this process alone, without the commands it starts. Every harness plays one turn
first: what is done once (imports, tables, compiled statements) is no part of what is measured.
"""

import asyncio
import gc
import json
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
from openai import AsyncOpenAI
from rich.console import Console
from rich.table import Table

from agenteval.config.allowlists import load_policy
from agenteval.config.models import ModelEntry
from agenteval.core.cards import ModelCard
from agenteval.core.prompt.arm import STRICT
from agenteval.core.run import Run
from agenteval.core.scenario import Check, Limits, Scenario
from agenteval.core.trial import Message
from agenteval.engine.orchestrator import Orchestrator, trial_keys
from agenteval.engine.second_reader import SecondReader
from agenteval.engine.tool_texts import schemas
from agenteval.models.openai_client import OpenAIModel
from agenteval.protocols import Sandbox, Stage, TrialKey
from agenteval.sandbox.backends import Namespaces
from agenteval.store.sql import SqlStore
from agenteval.taxonomy import judge as judging

CHUNKS = 33  # of one streamed reply, as a call of `echo hi` has them
TRIALS, CONCURRENCY = 8, 8
REPEATS = {10: 5, 50: 3}  # by turns
STREAMS, TOKENS_PER_SECOND, SECONDS = 16, 150, 4
BARE, OURS = "bare SDK", "agenteval, streaming"
AIMS = {10: 0.5, 50: 0.3}  # of the bare SDK's own CPU, by turns
CHUNK_AIM, CORE_AIM = 0.03, 0.25  # ms for a chunk; of a core for all streams
TASK = [Message("system", "You echo."), Message("user", "Echo.")]
TOOLS = schemas(STRICT.profile, ["bash"])

Row = dict[str, float]


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


def _call(number: int) -> dict[str, object]:
    arguments = json.dumps({"command": f"echo hi {number}"})
    function = {"name": "bash", "arguments": arguments}
    return {"id": f"call_{number}", "type": "function", "function": function}


def _streamed(number: int) -> list[bytes]:
    call = _call(number)
    arguments = call["function"]["arguments"]
    head = {**call, "index": 0, "function": {"name": "bash", "arguments": ""}}
    said = CHUNKS - len(arguments) - 4
    return [
        _event({"role": "assistant", "content": ""}),
        *(_event({"content": "word "}) for _ in range(max(0, said))),
        _event({"tool_calls": [head]}),
        *(
            _event({"tool_calls": [{"index": 0, "function": {"arguments": character}}]})
            for character in arguments
        ),
        _event({}, "tool_calls"),
        b"data: " + json.dumps({"choices": [], "usage": _usage(CHUNKS)}).encode() + b"\n\n",
        b"data: [DONE]\n\n",
    ]


def _whole(number: int) -> bytes:
    message = {"role": "assistant", "content": None, "tool_calls": [_call(number)]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    envelope = {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": "mock"}
    return json.dumps({**envelope, "choices": [choice], "usage": _usage(CHUNKS)}).encode()


class _Mock(asyncio.Protocol):
    """Answers at once; `model` "paced" streams tokens at their pace, a write each."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.buffer = transport, b""

    def data_received(self, received: bytes) -> None:
        self.buffer += received
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(rest) < length:
            return
        body, self.buffer = rest[:length], rest[length:]
        number = body.count(b'"assistant"')
        if b'"paced"' in body:
            self.task = asyncio.get_running_loop().create_task(self._pace())
        elif b'"stream":true' in body.replace(b" ", b""):
            pieces = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in _streamed(number))
            self.transport.write(_head() + pieces + b"0\r\n\r\n")
        else:
            payload = _whole(number)
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


async def raw_http(client: httpx2.AsyncClient, turns: int) -> None:
    messages = _opening()
    for _ in range(turns):
        request = {"model": "m", "messages": messages, "tools": TOOLS}
        reply = (await client.post("chat/completions", json=request)).json()
        message = reply["choices"][0]["message"]
        messages.append(message)
        for call in message["tool_calls"]:
            output = await _echo(json.loads(call["function"]["arguments"])["command"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})


async def _played(session: Callable[[int], Awaitable[None]], turns: int) -> float:
    await session(1)
    return await measured(_at_once(session, turns), TRIALS * turns)


async def _at_once(session: Callable[[int], Awaitable[None]], turns: int) -> None:
    free = asyncio.Semaphore(CONCURRENCY)

    async def one() -> None:
        async with free:
            await session(turns)

    async with asyncio.TaskGroup() as group:
        for _ in range(TRIALS):
            group.create_task(one())


class _Ready:
    """A backend whose worlds are open already."""

    name = "namespaces"

    def __init__(self, worlds: list[Sandbox]) -> None:
        self._worlds = worlds

    @asynccontextmanager
    async def open(self, files: object, limits: object) -> AsyncIterator[Sandbox]:
        yield self._worlds.pop()


class _Nobody:
    def wrote(self, trial: TrialKey, tokens: int) -> None:
        """Nobody watches."""

    def called(self, trial: TrialKey, *, failure_class: str) -> None:
        """Nobody watches."""

    def finished(self, trial: TrialKey, *, void: str) -> None:
        """Nobody watches."""


async def agenteval(url: str, turns: int, folder: Path, *, stream: bool) -> float:
    """Whole trials: client, verdict, second reader, command, storage, goal check.

    Their worlds are made before: what that costs, `make bench-sandbox` tells.
    """
    scenario = Scenario(
        name="bench",
        title="",
        policy="bench",
        fixture="",
        instructions="# System\nYou echo.\n\n# Task\nEcho.",
        tools=("bash",),
        database="w.db",
        goal=(Check("never", "SELECT 0", 1),),
        solution=(),
        max_turns=turns,
        limits=Limits(),
    )
    policy = load_policy("bench", roots=[folder])
    ident, card = str(time.perf_counter_ns()), ModelCard("m", "m")
    run = Run(ident, card, "t", 1, TRIALS, None, 1, "n", "p", "t", {})
    store = SqlStore(str(folder / f"{run.id}.db"))
    store.add(run)
    entry = ModelEntry(base_url=url, model="m", stream=stream)
    async with OpenAIModel(entry) as model, SecondReader() as reader, AsyncExitStack() as stack:
        backend, files = Namespaces(), {"w.db": b""}
        worlds = [
            await stack.enter_async_context(backend.open(files, scenario.limits))
            for _ in range(TRIALS + 1)
        ]
        orchestrator = Orchestrator(
            model=model,
            backend=_Ready(worlds),
            judge=judging,
            second_reader=reader,
            recorder=store.recorder(run, {"bench": policy.digest}),
            observer=_Nobody(),
            concurrency=CONCURRENCY,
        )
        stage = Stage(scenario, policy, lambda _: files)
        first, *keys = trial_keys(["bench"], TRIALS + 1, 1)
        await replace(orchestrator, max_turns=1).play([stage], [first])
        used = await measured(orchestrator.play([stage], keys), TRIALS * turns)
    trials = store.load(run.id).trials
    store.close()
    if [len(trial.calls) for trial in trials] != [1] + [turns] * TRIALS:
        raise SystemExit(f"not what was to be measured: {[trial.reason for trial in trials]}")
    return used


def own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measured(work: Awaitable[None], units: int) -> float:
    """Milliseconds of our own CPU for each unit."""
    gc.collect()  # of what was imported, and of what the harness before left
    before = own_cpu()
    await work
    return 1000 * (own_cpu() - before) / units


async def per_call(url: str, turns: int, folder: Path) -> Row:
    row = {}
    async with AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
        row[BARE] = await _played(lambda n: bare_sdk(client, n), turns)
        row["bare SDK, streaming"] = await _played(lambda n: bare_sdk_streaming(client, n), turns)
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
        row["raw HTTP"] = await _played(lambda n: raw_http(client, n), turns)
    row["agenteval"] = await agenteval(url, turns, folder, stream=False)
    row[OURS] = await agenteval(url, turns, folder, stream=True)
    return row


async def per_chunk(url: str) -> Row:
    """Streams at a steady pace, so that every chunk is a read of its own."""
    chunks = STREAMS * TOKENS_PER_SECOND * SECONDS
    entry = ModelEntry(base_url=url, model="paced")
    async with OpenAIModel(entry) as model, asyncio.TaskGroup() as group:
        started, before = time.perf_counter(), own_cpu()
        tasks = [group.create_task(model.ask(TASK, TOOLS, seed=1)) for _ in range(STREAMS)]
        for task in tasks:
            await task
        used, seconds = own_cpu() - before, time.perf_counter() - started
    return {"per chunk": 1000 * used / chunks, "of a core": used / seconds}


def _best(rows: list[Row]) -> Row:
    """The least of each: what else runs on a machine takes caches away, and so only adds."""
    return {name: min(row[name] for row in rows) for name in rows[0]}


def _table(columns: dict[int, Row]) -> Table:
    repeats = " and ".join(map(str, REPEATS.values()))
    table = Table("own CPU, ms per tool call", title=f"best of {repeats}, interleaved")
    for turns in columns:
        table.add_column(f"{turns} turns", justify="right")
        table.add_column("of bare SDK", justify="right")
    for harness in columns[10]:
        pairs = [
            (f"{row[harness]:.2f}", f"{row[harness] / row[BARE]:.2f}x") for row in columns.values()
        ]
        table.add_row(harness, *(cell for pair in pairs for cell in pair))
    return table


def _verdict(what: str, seen: float, aim: float, unit: str) -> str:
    met = "met" if seen <= aim else "MISSED"
    return f"{what}: {seen:.3g}{unit}, at most {aim:g}{unit}: {met}"


async def bench(console: Console) -> None:
    columns = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "allowlists").mkdir()
        (folder / "allowlists" / "bench.toml").write_text('[bash]\nallow = ["echo hi *"]\n')
        async with mock() as url:
            await per_call(url, 2, folder)
            for turns, repeats in REPEATS.items():
                rows = [await per_call(url, turns, folder) for _ in range(repeats)]
                columns[turns] = _best(rows)
            paced = _best([await per_chunk(url) for _ in range(3)])
    console.print(_table(columns))
    for turns, aim in AIMS.items():
        share = columns[turns][OURS] / columns[turns][BARE]
        console.print(_verdict(f"{OURS}, {turns} turns, of bare SDK", share, aim, "x"))
    pace = f"{STREAMS} streams x {TOKENS_PER_SECOND} tokens/s, {SECONDS} s"
    console.print(_verdict(f"{pace}, per chunk", paced["per chunk"], CHUNK_AIM, " ms"))
    console.print(_verdict(f"{pace}, of a core", 100 * paced["of a core"], 100 * CORE_AIM, " %"))


if __name__ == "__main__":
    asyncio.run(_serve() if "--serve" in sys.argv else bench(Console()))
