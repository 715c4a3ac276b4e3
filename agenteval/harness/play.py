"""One trial with a real program as the agent: the proxy between it and the served model.

The proxy says how it ends and whether it is void: programs retry, hang, and end with 0 whatever.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agenteval.core.call import ToolCall, Verdict
from agenteval.core.loops import looped
from agenteval.core.outcome import Ending
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.trial import CallRecord, Execution, Turn
from agenteval.errors import AgentevalError, Cause, InfrastructureError, OutgrownError, unwrapped
from agenteval.harness.app_server import Allows, AppServer
from agenteval.harness.dialogue import Asked, Dialogue, Did, Seen, is_unread, seen_in
from agenteval.harness.http_server import Answer, Request, UnreadableError
from agenteval.harness.install import Installed
from agenteval.harness.recipes import Task
from agenteval.harness.translation import Passage, Wanted, answer_other_request, parse_request
from agenteval.harness.trial_socket import FORWARDER, TrialSocket
from agenteval.patience import until
from agenteval.protocols import Relay, Sandbox, TrialContext

FIRST: Final = 120.0  # seconds until a program has asked something; it starts slowly beside others
LEAVES: Final = 30.0  # after a reply without a call: it has nothing more to do
QUIET: Final = 300.0  # while it carries out calls
IGNORES: Final = 30  # replies, one after another: no program tries as often to reach its model
TELLS_WITHIN: Final = 2  # turns: what it did not print of a call until then, it does not print
Judged = tuple[ToolCall, Verdict, str]


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
    way: TrialSocket
    relay: Relay
    insist: Callable[[Callable[[], Awaitable[Turn]]], Awaitable[Turn]]
    judge: Callable[[ToolCall], Awaitable[Judged]]
    scene: TrialContext
    starts: asyncio.Semaphore  # how many may start at a time: they would wait for each other
    reason: str = ""
    _dialogue: Dialogue = field(init=False)
    _judged: dict[tuple[int, int], Judged] = field(default_factory=dict)
    _seen: dict[str, Seen] = field(default_factory=dict)
    _ending: Ending | None = None
    _failure: AgentevalError | None = None
    _ended: Mapping[str, Any] | None = None
    _client: AppServer | None = None
    _printed: str = ""
    _since: float = 0.0  # when it last was its turn to do something
    _group: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)
    _answering: set[asyncio.Task[None]] = field(default_factory=set)
    _starting: bool = False

    def __post_init__(self) -> None:
        self._dialogue = Dialogue(self.prompt.task.strip())

    @property
    def turns(self) -> list[Turn]:
        return self._dialogue.turns

    @property
    def calls(self) -> list[CallRecord]:
        return self.played.calls

    async def play(self) -> Ending:
        """Raises InfrastructureError when server or sandbox fails, or the program itself."""
        try:
            with unwrapped(AgentevalError):
                async with self._group:
                    within = (
                        self.seconds * 4 + FIRST
                    )  # a slow server is given more; we end it first
                    ran = self._group.create_task(self.sandbox.run(FORWARDER, seconds=within))
                    await self._watched()
                    self._hang_up()
        except AgentevalError as error:
            self._failure = self._failure or error
        finally:
            self._is_up()
            self.played.refused += self.way.strangers
            self.way.leave()
        if self._failure is None and self._ended is None:
            self._failure = self._broke(f"ended by a limit: {ran.result().limit or 'killed'}")
        await self._settle(last=True)
        if self._failure:
            raise self._failure
        return await self._how()

    async def _watched(self) -> None:
        await self.starts.acquire()
        self._starting = True
        self._since = asyncio.get_running_loop().time()
        texts = [message.content for message in self.prompt.messages]
        told = "\n\n".join(texts)
        task = Task(told, self.rules, self.tools, self.allows, self.installed.inside)
        made = self.installed.program.set_up(task)
        self._client = made.client
        await self.way.order(made, self._serve)
        try:
            async with until(self._deadline, looks=1.0):
                await self.way.listen(self._news)
        except TimeoutError:
            self._late()
            await self.way.listen(self._news, within=15.0)

    def _is_up(self) -> None:
        if self._starting:
            self.starts.release()
        self._starting = False

    def _deadline(self) -> float:
        patience = QUIET if self._has_asked else FIRST
        patience = LEAVES if self._dialogue.over else patience
        now = asyncio.get_running_loop().time()
        return (now if self._answering else self._since) + patience

    @property
    def _has_asked(self) -> bool:
        return bool(self.turns) or self._dialogue.waits

    def _late(self) -> None:
        """It did nothing for too long; after the model's last word that is no fault."""
        self._stop(None)
        if not self._dialogue.over and self._failure is None:
            asked = (QUIET, "nothing more") if self._has_asked else (FIRST, "its model nothing")
            seconds, said = asked
            self._failure = self._broke(f"asked {said} for {seconds:g} s, and was ended")

    def _news(self, told: Mapping[str, Any]) -> None:
        self.played.refused += "refused" in told
        if "ended" in told:
            self._ended, self.played.cpu = told, float(told["cpu"])
        line = str(told.get("line", ""))
        self._printed = line.strip() or self._printed
        for seen in seen_in(line, self.installed.program.tells):
            self._dialogue.record_event(seen)
            self._seen[seen.id] = seen
        if line and self._client:
            self._answer_client(self._client, line)

    def _answer_client(self, client: AppServer, line: str) -> None:
        if said := client.answer(line):
            self.way.hand(said)
        if client.over:
            self.way.hand(None)

    async def _serve(self, request: Request, answer: Answer) -> None:
        """Answer one request. What nobody foresaw in it ends the trial."""
        answering = self._group.create_task(self._answer_or_stop(request, answer))
        self._answering.add(answering)
        await asyncio.wait({answering})
        self._answering.discard(answering)
        self._since = asyncio.get_running_loop().time()

    def _hang_up(self) -> None:
        """Leave off what a program asked that is no more: the server has others to answer."""
        for answering in self._answering:
            answering.cancel()

    async def _answer_or_stop(self, request: Request, answer: Answer) -> None:
        try:
            await self._answer(request, answer)
        except UnreadableError as error:
            await answer.refuse(400, str(error))
        except (TimeoutError, OutgrownError) as error:
            self.reason = str(error)
            self._stop(Ending.CONTEXT if isinstance(error, OutgrownError) else Ending.TIME)
        except AgentevalError as error:
            self._failure = self._failure or error
            self._stop(None)

    async def _answer(self, request: Request, answer: Answer) -> None:
        asked = parse_request(request)
        if asked is None:
            await answer_other_request(request, answer)
        elif self._dialogue.belongs(asked.messages):
            await self._go_on(asked, answer)
        else:
            await self._passed(asked, answer)

    async def _go_on(self, asked: Wanted, answer: Answer) -> None:
        self._is_up()
        turn, _ = self._dialogue.receive(asked.messages)
        if turn:
            await self._take_turn(turn)
        await self._settle()
        if self._over():
            self._stop(self._ending)
            await answer.refuse(503, "the trial has ended")
            return
        reply = await self._passed(asked, answer)
        if is_unread(reply):
            self._dialogue.failed(reply)
            await self._take_turn(reply)
        elif not answer.gone:
            self._dialogue.send_reply(reply)

    async def _passed(self, asked: Wanted, answer: Answer) -> Turn:
        way, ask = Passage(answer, asked), self.relay.relay
        turn = await self.insist(lambda: ask(asked.chat, seed=self.seed, write=way.write))
        await (way.refuse(turn.raw) if is_unread(turn) else way.end(turn))
        return turn

    async def _take_turn(self, turn: Turn) -> None:
        number = len(self.turns) - 1
        self.scene.took(self.agent, number, turn)
        for position, call in enumerate(turn.calls):
            self._judged[number, position] = await self.judge(call)
            if seen := self._seen.get(call.id):
                self._dialogue.record_event(seen)

    async def _settle(self, *, last: bool = False) -> None:
        """Keep the calls that are known whole, in their order; at the end all that there are."""
        if last and (turn := self._dialogue.settle(sure=True)):
            await self._take_turn(turn)
        for asked in self._dialogue.asked[len(self.calls) :]:
            told = asked.seen or not self.installed.program.tells
            waited = asked.turn < len(self.turns) - TELLS_WITHIN
            if not last and (asked.reply is None or not (told or waited)):
                return
            record = self._record(asked)
            self.calls.append(record)
            self.scene.kept(self.agent, record)

    def _record(self, asked: Asked) -> CallRecord:
        call, verdict, objection = self._judged[asked.turn, asked.position]
        seen = asked.seen
        if seen is None and asked.reply is not None:
            seen = self.installed.program.said.read(asked.id, asked.reply)
        reply, did = asked.reply or "", seen.did if seen else ""
        execution = Execution(seen.code, reply, 0.0) if seen and did is Did.RAN else None
        place = (asked.turn, asked.position, call, verdict, reply)
        return CallRecord(*place, execution, objection, did)

    def _over(self) -> bool:
        """Return True if a limit of the trial is reached."""
        if self._ending is None and self.turns:
            if repeats := self.turns[-1].repeats:
                self._ending, self.reason = Ending.LOOPED, f"wrote again and again: {repeats}"
            elif cycle := looped(self.calls):
                self._ending, self.reason = Ending.LOOPED, str(cycle)
            elif len(self.turns) >= self.max_turns:
                self._ending = Ending.TURNS
            else:
                self._ending = self.scene.spent()
        if self._ending is None and self._failure is None and self._dialogue.ignored >= IGNORES:
            self._failure = self._broke(f"took none of {IGNORES} replies to the same request")
        return self._ending is not None or self._failure is not None

    def _stop(self, ending: Ending | None) -> None:
        self._ending = self._ending or ending
        self.way.end()

    async def _how(self) -> Ending:
        if self._ending:
            return self._ending
        code = self._ended["ended"] if self._ended else 0
        if not self.turns:
            raise self._broke("asked its model nothing")
        last = self.turns[-1]
        filled, self.reason = await self.scene.cut(last, last.usage.prompt_tokens)
        if filled:
            return filled
        failed = code or (self._client and self._client.failure)
        if last.calls and failed and not is_unread(last):
            raise self._broke("ended in the middle of its work")
        return Ending.STOPPED

    def _broke(self, what: str) -> InfrastructureError:
        ended = self._ended or {}
        code = f" (exit code {ended['ended']})" if "ended" in ended else ""
        lines = str(ended.get("said", "")).strip().splitlines() or [self._printed]
        last = (self._client and self._client.failure) or lines[-1]
        said = f": {last[:300]}".rstrip(": ")
        cure = "" if self._has_asked else f"; {self.installed.cure}"
        return InfrastructureError(
            f"{self.installed.label} {what}{code}{said}{cure}", Cause.HARNESS
        )
