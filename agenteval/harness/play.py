"""One trial with a real program as the agent: the proxy between it and the served model.

The forwarder's orders and news, and the program's requests, come over one socket (`_TrialSocket`).
The first connection is the forwarder, before any program runs; the kernel reports who connects, and
from then on all others are refused.

The proxy decides how the trial ends and whether it is void (`HarnessLoop`): programs retry, hang,
and end with 0 whatever.
"""

import asyncio
import json
import os
import secrets
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from inspect import getsource
from pathlib import Path

from agenteval.errors import AgentevalError, Cause, InfrastructureError, OutgrownError, unwrapped
from agenteval.harness import forwarder
from agenteval.harness.dialogue import CallEvent, Dialogue, Did, PendingCall, events_in, is_unread
from agenteval.harness.http import Answer, Request, UnreadableError, serve_request
from agenteval.harness.install import Installed
from agenteval.harness.recipes import FOLDER, HOME, PORT, Allows, AppServer, Program, SetUp, Task
from agenteval.harness.translation import ModelRequest, Passage, answer_other_request, parse_request
from agenteval.harness.wires import Json
from agenteval.host import temporary_folder
from agenteval.prompt.prompt import Prompt
from agenteval.protocols import Host, HostedProgram, Relay, Sandbox, TrialContext, until
from agenteval.trial.call import Ending, ToolCall, Verdict
from agenteval.trial.recovery import looped
from agenteval.trial.trial import CallRecord, Execution, Limits, Turn

INSIDE = "/run/model"  # where the socket stands in the world
COMES_SECONDS = 20.0
# Requests of one program at a time: each holds its body and a descriptor.
MOST_REQUESTS = 64
HOME_BYTES = 256 << 20  # bytes of a program's home
# Bytes that one piece of news may have: JSON writes a control character as six.
LINE = 6 * forwarder.LONGEST + (1 << 16)
FORWARDER = ("python3", "-I", "-S", "-c", getsource(forwarder), INSIDE)
_COMMON = {
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "PATH": "/run/bin:/usr/local/bin:/usr/bin:/bin",
    "SHELL": "/bin/bash",
    "USER": "agent",
}
_CREDENTIALS = struct.Struct("3i")
# Our end of the socket.

Serve = Callable[[Request, Answer], Awaitable[None]]


@dataclass(slots=True)
class _TrialSocket:
    """A socket that others find at `path`; `strangers` bypassed the forwarder and were refused."""

    path: str
    strangers: int = 0
    _serve: Serve | None = None
    _keeper: int = 0
    _requests: int = 0  # under way
    _came: asyncio.Event = field(default_factory=asyncio.Event)
    _streams: tuple[StreamReader, StreamWriter] | None = None

    async def order(self, set_up: SetUp, serve: Serve) -> None:
        """Have the forwarder start a program. Raises InfrastructureError when there is none."""
        self._serve = serve
        with suppress(TimeoutError):
            async with asyncio.timeout(COMES_SECONDS):
                await self._came.wait()
        if self._streams is None:
            raise InfrastructureError("sandbox: the forwarder of the harness did not come up")
        order = {
            "argv": set_up.argv,
            "env": {**_COMMON, **set_up.env},
            "files": dict(set_up.files),
            "stdin": set_up.stdin,
            "open": set_up.client is not None,
            "port": PORT,
        }
        self._say(json.dumps(order))

    async def listen(self, news: Callable[[Json], None], seconds: float | None = None) -> None:
        """Pass on the program's news until it has ended; it may be given up and begun again.

        Raises InfrastructureError if the forwarder goes without a word, or has none in time
        (`seconds`).
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._streams:
                    reader, _ = self._streams
                    line = await _line(reader)
                    if not line:
                        break
                    item = json.loads(line)
                    news(item)
                    if "ended" in item:
                        return
        raise InfrastructureError("sandbox: the forwarder of the harness was killed")

    def send_stdin(self, text: str | None) -> None:
        """Have the program read that; with None, that nothing more comes."""
        self._say(json.dumps({"stdin": text}))

    def end(self) -> None:
        """Have the forwarder end the program: by request, then by force."""
        self._say("end")

    def _say(self, line: str) -> None:
        if self._streams:
            with suppress(ConnectionError, RuntimeError):
                self._streams[1].write(line.encode() + b"\n")

    async def come(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._streams is None:
            self._keeper = _peer(writer)
            self._streams = reader, writer
            self._came.set()
            return
        self._requests += 1
        try:
            if _peer(writer) != self._keeper:
                self.strangers += 1
            elif self._requests > MOST_REQUESTS:
                await _refuse(reader, Answer(writer))
            elif self._serve:
                await serve_request(reader, Answer(writer), self._serve)
        finally:
            self._requests -= 1
            writer.close()

    def leave(self) -> None:
        """Forget the forwarder; another may come."""
        if self._streams:
            self._streams[1].close()
        self._streams = None
        self._keeper = 0
        self.strangers = 0
        self._came.clear()


async def _line(reader: StreamReader) -> bytes:
    try:
        return await reader.readline()
    except (ValueError, ConnectionError):  # longer than anything the forwarder says
        return b""


async def _refuse(reader: StreamReader, answer: Answer) -> None:
    """Answer that there are too many requests.

    The request is read first: a connection closed over unread bytes shows no answer.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await reader.read(1 << 16)
    await answer.refuse(503, f"over {MOST_REQUESTS} requests at the same time")


def _peer(writer: StreamWriter) -> int:
    """Return the process at the other end, as the kernel knows it."""
    near: socket.socket = writer.get_extra_info("socket")
    credentials = near.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[0])


@contextmanager
def _descriptor(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@asynccontextmanager
async def opened() -> AsyncIterator[_TrialSocket]:
    """Open a socket at a path that nobody can guess or list; the sandbox's user can reach it."""
    with temporary_folder() as folder, _descriptor(folder) as descriptor:
        # Others may pass through, and list nothing.
        folder.chmod(0o711)
        name = f"{secrets.token_hex(16)}.sock"
        way = _TrialSocket(str(folder / name))
        # The path of a socket has 107 bytes at most.
        short = f"/proc/self/fd/{descriptor}/{name}"
        server = await asyncio.start_unix_server(way.come, short, limit=LINE)
        os.chmod(way.path, 0o666)  # noqa: PTH101, S103 -- who may connect is seen by who connects
        try:
            yield way
        finally:
            way.leave()
            server.close()


@dataclass(slots=True)
class Hosting:
    """An implementation of `protocols.SandboxBackend`: sandboxes with the program and a socket."""

    host: Host
    installed: Installed
    name: str = "bubblewrap"
    ways: dict[int, _TrialSocket] = field(default_factory=dict)

    @asynccontextmanager
    async def open(self, files: Mapping[str, bytes], limits: Limits) -> AsyncIterator[Sandbox]:
        async with opened() as way:
            shown = {INSIDE: way.path, FOLDER: str(self.installed.folder)}
            program = HostedProgram(shown, {HOME: HOME_BYTES})
            async with self.host.open_with(program, files, _limits_of_program(limits)) as sandbox:
                self.ways[id(sandbox)] = way
                try:
                    yield sandbox
                finally:
                    del self.ways[id(sandbox)]


def _limits_of_program(limits: Limits) -> Limits:
    """Return the scenario's limits, plus what a program needs in addition to its commands."""
    return replace(
        limits,
        loopback=True,
        memory=limits.memory + (4 << 30),
        processes=limits.processes + 512,
        open_files=4096,
        inodes=limits.inodes + 20_000,
        cpu_seconds=limits.cpu_seconds + round(limits.trial_seconds),
    )


# The loop of a trial.

# Seconds until a program has asked something; it starts slowly beside others.
FIRST = 120.0
LEAVES = 30.0  # after a reply without a call: it has nothing more to do
QUIET = 300.0  # while it carries out calls
# Replies, one after another: no program tries as often to reach its model.
IGNORES = 30
# Turns after which a program that has printed nothing about a call will not do so.
TELLS_WITHIN = 2
Judged = tuple[ToolCall, Verdict, str]
Ask = Callable[[], Awaitable[Turn]]


@dataclass(slots=True)
class Played:
    """The figures of a trial that outlive it; its loop would hold the sandbox and the turns."""

    scenario: str
    calls: list[CallRecord] = field(default_factory=list)
    refused: int = 0  # attempts of commands to ask the model
    cpu: float = 0.0  # seconds that the program used


@dataclass(slots=True)
class HarnessLoop:
    """A program at work as one agent. What it gathered is true at any moment, however it ends."""

    played: Played
    agent: str
    prompt: Prompt
    rules: str
    tools: tuple[str, ...]
    allows: Allows
    seed: int
    max_turns: int
    seconds: float
    installed: Installed
    sandbox: Sandbox
    way: _TrialSocket
    relay: Relay
    insist: Callable[[Ask], Awaitable[Turn]]
    judge: Callable[[ToolCall], Awaitable[Judged]]
    trial: TrialContext
    # Bounds how many programs start at a time: more would only wait for each other.
    starts: asyncio.Semaphore
    reason: str = ""
    _dialogue: Dialogue = field(init=False)
    _judged: dict[tuple[int, int], Judged] = field(default_factory=dict)
    _events: dict[str, CallEvent] = field(default_factory=dict)
    _ending: Ending | None = None
    _failure: AgentevalError | None = None
    _ended: Json | None = None
    _client: AppServer | None = None
    _printed: str = ""
    _since: float = 0.0  # when it last was its turn to do something
    _group: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)
    _answering: set[asyncio.Task[None]] = field(default_factory=set)
    _starting: bool = False

    def __post_init__(self) -> None:
        self._dialogue = Dialogue(self.prompt.task.strip())

    @property
    def _program(self) -> Program:
        return self.installed.program

    @property
    def turns(self) -> list[Turn]:
        return self._dialogue.turns

    @property
    def calls(self) -> list[CallRecord]:
        return self.played.calls

    async def play(self) -> Ending:
        """Raise InfrastructureError if server or sandbox fails, or the program itself."""
        try:
            with unwrapped(AgentevalError):
                async with self._group:
                    # A slow server is given more than `seconds`; we end the program before this.
                    seconds = self.seconds * 4 + FIRST
                    running = self.sandbox.run(FORWARDER, seconds=seconds)
                    ran = self._group.create_task(running)
                    await self._watch()
                    self._hang_up()
        except AgentevalError as error:
            self._fail(error)
        finally:
            self._let_others_start()
            self.played.refused += self.way.strangers
            self.way.leave()
        if self._ended is None:
            self._break(f"ended by a limit: {ran.result().limit or 'killed'}")
        await self._settle(last=True)
        if self._failure:
            raise self._failure
        return await self._find_ending()

    async def _watch(self) -> None:
        await self.starts.acquire()
        self._starting = True
        self._since = asyncio.get_running_loop().time()
        words = "\n\n".join(message.content for message in self.prompt.messages)
        task = Task(words, self.rules, self.tools, self.allows, self.installed.inside)
        set_up = self._program.set_up(task)
        self._client = set_up.client
        await self.way.order(set_up, self._serve)
        try:
            async with until(self._deadline, looks=1.0):
                await self.way.listen(self._take_news)
        except TimeoutError:
            self._end_late()
            await self.way.listen(self._take_news, seconds=15.0)

    def _let_others_start(self) -> None:
        if self._starting:
            self.starts.release()
        self._starting = False

    def _deadline(self) -> float:
        seconds = QUIET if self._has_asked else FIRST
        if self._dialogue.over:
            seconds = LEAVES
        if self._answering:
            return asyncio.get_running_loop().time() + seconds
        return self._since + seconds

    @property
    def _has_asked(self) -> bool:
        return bool(self.turns) or self._dialogue.waits

    def _end_late(self) -> None:
        """End a program that did nothing for too long; after the last word that is no fault."""
        self._stop(None)
        if self._dialogue.over:
            return
        question = f"its model nothing for {FIRST:g} s"
        if self._has_asked:
            question = f"nothing more for {QUIET:g} s"
        self._break(f"asked {question}, and was ended")

    def _take_news(self, news: Json) -> None:
        self.played.refused += "refused" in news
        if "ended" in news:
            self._ended = news
            self.played.cpu = float(news["cpu"])
        line = str(news.get("line", ""))
        self._printed = line.strip() or self._printed
        for event in events_in(line, self._program.reports, self._program.wording):
            self._dialogue.record_event(event)
            self._events[event.id] = event
        if line and self._client:
            if lines := self._client.answer(line):
                self.way.send_stdin(lines)
            if self._client.over:
                self.way.send_stdin(None)

    async def _serve(self, request: Request, answer: Answer) -> None:
        """Answer one request. An unforeseen error ends the trial."""
        answering = self._group.create_task(self._answer_or_stop(request, answer))
        self._answering.add(answering)
        await asyncio.wait({answering})
        self._answering.discard(answering)
        self._since = asyncio.get_running_loop().time()

    def _hang_up(self) -> None:
        """Cancel the requests of a program that has ended: the server has others to answer."""
        for answering in self._answering:
            answering.cancel()

    async def _answer_or_stop(self, request: Request, answer: Answer) -> None:
        try:
            await self._answer(request, answer)
        except UnreadableError as error:
            await answer.refuse(400, str(error))
        except TimeoutError as error:
            self.reason = str(error)
            self._stop(Ending.TIME)
        except OutgrownError as error:
            self.reason = str(error)
            self._stop(Ending.CONTEXT)
        except AgentevalError as error:
            self._fail(error)
            self._stop(None)

    async def _answer(self, request: Request, answer: Answer) -> None:
        model_request = parse_request(request)
        if model_request is None:
            await answer_other_request(request, answer)
        elif self._dialogue.belongs(model_request.messages):
            await self._go_on(model_request, answer)
        else:
            await self._pass_on(model_request, answer)

    async def _go_on(self, model_request: ModelRequest, answer: Answer) -> None:
        self._let_others_start()
        turn = self._dialogue.receive(model_request.messages)
        if turn:
            await self._take_turn(turn)
        await self._settle()
        if self._is_over():
            self._stop(None)
            await answer.refuse(503, "the trial has ended")
            return
        reply = await self._pass_on(model_request, answer)
        if is_unread(reply):
            self._dialogue.failed(reply)
            await self._take_turn(reply)
        elif not answer.gone:
            self._dialogue.send_reply(reply)

    async def _pass_on(self, request: ModelRequest, answer: Answer) -> Turn:
        passage = Passage(answer, request)

        async def ask() -> Turn:
            return await self.relay.relay(
                request.chat,
                seed=self.seed,
                write=passage.write,
            )

        turn = await self.insist(ask)
        if is_unread(turn):
            await passage.refuse(turn.raw)
        else:
            await passage.end(turn)
        return turn

    async def _take_turn(self, turn: Turn) -> None:
        number = len(self.turns) - 1
        self.trial.record_turn(self.agent, number, turn)
        for position, call in enumerate(turn.calls):
            self._judged[number, position] = await self.judge(call)
            if event := self._events.get(call.id):
                self._dialogue.record_event(event)

    async def _settle(self, *, last: bool = False) -> None:
        """Keep the calls that are known whole, in their order; at the end all that there are."""
        if last and (turn := self._dialogue.settle(sure=True)):
            await self._take_turn(turn)
        for call in self._dialogue.pending_calls[len(self.calls) :]:
            is_reported = call.event or not self._program.reports
            is_late = call.turn < len(self.turns) - TELLS_WITHIN
            is_whole = call.reply is not None and (is_reported or is_late)
            if not (last or is_whole):
                return
            record = self._record(call)
            self.calls.append(record)
            self.trial.record_call(self.agent, record)

    def _record(self, pending: PendingCall) -> CallRecord:
        call, verdict, objection = self._judged[pending.turn, pending.position]
        event = pending.event
        if event is None and pending.reply is not None:
            event = self._program.wording.read(pending.id, pending.reply)
        reply = pending.reply or ""
        execution = None
        if event and event.did is Did.RAN:
            execution = Execution(event.code, reply, 0.0)
        return CallRecord(
            pending.turn,
            pending.position,
            call,
            verdict,
            reply,
            execution,
            objection,
            event.did if event else "",
        )

    def _is_over(self) -> bool:
        """Return True if a limit of the trial is reached."""
        if self.turns and self._ending is None:
            self._ending = self._reach_limit()
        if self._dialogue.ignored >= IGNORES and self._ending is None:
            self._break(f"took none of {IGNORES} replies to the same request")
        return self._ending is not None or self._failure is not None

    def _reach_limit(self) -> Ending | None:
        if repeats := self.turns[-1].repeats:
            self.reason = f"wrote again and again: {repeats}"
            return Ending.LOOPED
        if cycle := looped(self.calls):
            self.reason = str(cycle)
            return Ending.LOOPED
        if len(self.turns) >= self.max_turns:
            return Ending.TURNS
        return self.trial.spent()

    def _stop(self, ending: Ending | None) -> None:
        self._ending = self._ending or ending
        self.way.end()

    async def _find_ending(self) -> Ending:
        if self._ending:
            return self._ending
        if not self.turns:
            raise self._break("asked its model nothing")
        last = self.turns[-1]
        filled, self.reason = await self.trial.cut(last, last.usage.prompt_tokens)
        if filled:
            return filled
        has_failed = self._exit_code or self._client_failure
        if last.calls and has_failed and not is_unread(last):
            raise self._break("ended in the middle of its work")
        return Ending.STOPPED

    @property
    def _exit_code(self) -> int:
        return self._ended["ended"] if self._ended else 0

    @property
    def _client_failure(self) -> str:
        return self._client.failure if self._client else ""

    def _fail(self, error: AgentevalError) -> AgentevalError:
        """Keep the error that broke the trial; the first one counts."""
        self._failure = self._failure or error
        return self._failure

    def _break(self, what: str) -> AgentevalError:
        """Have the trial fail by the program's fault."""
        message = f"{self.installed.label} {what}"
        last_lines = [self._printed]
        if self._ended:
            message += f" (exit code {self._exit_code})"
            said = str(self._ended.get("said", ""))
            last_lines += said.strip().splitlines()
        last = self._client_failure or last_lines[-1]
        message += f": {last[:300]}".rstrip(": ")
        if not self._has_asked:
            message += f"; {self.installed.cure}"
        return self._fail(InfrastructureError(message, Cause.HARNESS))
