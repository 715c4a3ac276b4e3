"""The trial runner: one trial's first agent, and each requested sub-agent, one by one.

The tool executor: one tool call is judged, run in the sandbox or denied, and answered.

The retrying model: queries within its trial's time, with adaptive timeouts on slow servers.

The agent loop: ask, judge, run or deny, answer; until the model stops, or a limit.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agenteval.errors import Cause, InfrastructureError, OutgrownError, UnservedError
from agenteval.patience import until
from agenteval.play import tools as tool_texts
from agenteval.play.second_reader import SecondReader
from agenteval.play.tools import Row, WorldMonitor, carried_out, run_program
from agenteval.policy.policy import Policy, World, files_written
from agenteval.prompt.arm import Arm
from agenteval.prompt.prompt import Prompt, Setting, Variables, lengthened
from agenteval.protocols import (
    Health,
    Judge,
    Loop,
    Model,
    Observer,
    Pace,
    Recorder,
    Sandbox,
    ToolSchema,
    TrialContext,
    TrialKey,
)
from agenteval.sandbox.maker import MakerError, render_agent
from agenteval.trial.call import (
    CUT,
    Allowed,
    BashRun,
    Denied,
    Ending,
    Note,
    Outcome,
    Runnable,
    ToolCall,
    outcome,
)
from agenteval.trial.claims import claims_done
from agenteval.trial.recovery import looped
from agenteval.trial.tally import (
    Counted,
    Sent,
    counted,
    cut,
    cut_reply,
    generated,
    least,
    sent,
    stretch,
)
from agenteval.trial.text import Chance
from agenteval.trial.trial import (
    Agent,
    AgentPart,
    CallRecord,
    CodeTest,
    Execution,
    Limits,
    Message,
    Scenario,
    Trial,
    Turn,
    last_denied,
)


@dataclass(frozen=True, slots=True)
class ToolExecutor:
    """Carries out the calls of one trial. `running` bounds how many commands run at once.

    The policy's tools are those that are offered. All agents of a trial share `budget` and
    `written`, the files. `saved` are results too long to be shown, by the paths where the model may
    read them.
    """

    arm: Arm
    policy: Policy
    world: World
    sandbox: Sandbox
    judge: Judge
    second_reader: SecondReader
    limits: Limits
    running: asyncio.Semaphore
    saved: dict[str, str] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    budget: tool_texts.TextBudget = field(default_factory=tool_texts.TextBudget)

    async def handle(self, turn: int, position: int, call: ToolCall) -> CallRecord:
        """`call` is as the model wrote it; its record speaks of our own tools."""
        own_call, verdict, objection = await self.judged(call)
        if isinstance(verdict, Denied):
            reply = tool_texts.denial(own_call, verdict, self.arm, self.policy)
            return CallRecord(turn, position, own_call, verdict, reply, None, objection)
        execution = self.budget.fitted(await self._execute(verdict.runs))
        if execution.exit_code == 0:
            self.written.update(files_written(own_call, self.world.root))
        reply = tool_texts.answer(execution, self.limits, self.arm, verdict.runs, self.saved)
        return CallRecord(turn, position, own_call, verdict, reply, execution, objection)

    async def judged(self, call: ToolCall) -> tuple[ToolCall, Allowed | Denied, str]:
        """Return the call as one of our own tools, our verdict, and the second reader's objection.

        A call of another tool stays as it was written.
        """
        own_call = self.arm.profile.as_own_call(call, tuple(self.policy.tools))
        if own_call is None:
            none = replace(self.policy, tools={})  # not even one that is called so among ours
            return call, self.judge.deny(call, none, self._now()), ""
        return own_call, *await self._judge(own_call)

    def _now(self) -> World:
        return replace(self.world, written=frozenset(self.written), saved=frozenset(self.saved))

    async def _judge(self, call: ToolCall) -> tuple[Allowed | Denied, str]:
        """Return our verdict, and the second reader's objection to a command about to run."""
        world = self._now()
        verdict = self.judge.judge(call, self.policy, world)
        if isinstance(verdict, Denied) or not isinstance(verdict.runs, BashRun):
            return verdict, ""
        if not (objection := await self.second_reader.objection(verdict.runs)):
            return verdict, ""
        return self.judge.deny(call, self.policy, world, objection=objection), objection

    async def _execute(self, runs: Runnable | None) -> Execution:
        async with self.running:
            match runs:
                case BashRun():
                    return await self.sandbox.run(runs.argv)
                case Note():
                    return Execution(0, runs.text, 0.0)
                case None:  # another harness's rules allow a fetch, or a search outside
                    return Execution(1, "failed: nothing of this can be reached here", 0.0)
                case _:
                    return await carried_out(runs, self.sandbox, self.policy.read, self.saved)


PAUSES = (1.0, 2.0, 4.0, 8.0)  # seconds before the next try; after the last one the trial is void
LONGEST_PAUSE = 60.0  # that a server may ask for


class Unwatched:
    """Implements `protocols.Health` where there is no server to look at."""

    async def after(self, error: InfrastructureError) -> InfrastructureError:
        return error

    async def context(self) -> int | None:
        return None


@dataclass(slots=True)
class Replies:
    """Implements `protocols.Pace` by the replies that have come."""

    tokens: int = 0
    seconds: float = 0.0

    def add(self, turn: Turn) -> None:
        self.tokens += generated(turn)
        self.seconds += turn.seconds

    def stretch(self) -> float:
        return stretch(self.tokens, self.seconds)


@dataclass(slots=True)
class RetryingModel:
    """Implements `protocols.Model` for one trial, whose time begins with the first request.

    `seconds` is the time on a fast server: it grows as `core.served` says, by the trial's own
    replies or by `pace`, and by every pause. Only a request that was not accepted at all is sent
    again, so that no reply, even a bad one, is requested twice and no tool runs twice.
    """

    model: Model
    seconds: float
    health: Health = field(default_factory=Unwatched)
    pauses: Sequence[float] = PAUSES
    pace: Pace = field(default_factory=Replies)
    retries: int = 0
    stretched: float = 1.0  # how many times its seconds the trial was given
    _began: float | None = None
    _paused: float = 0.0
    _replies: Replies = field(default_factory=Replies)

    async def ask(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], *, seed: int
    ) -> Turn:
        return await self.insist(lambda: self.model.ask(messages, tools, seed=seed))

    async def insist(self, ask: Callable[[], Awaitable[Turn]]) -> Turn:
        """Raises TimeoutError when the time of the trial is up, and what `ask` raises."""
        for pause in (*self.pauses, None):
            try:
                async with until(self._deadline):
                    turn = await ask()
            except InfrastructureError as error:
                failure = await self.health.after(error)
                if pause is None or not isinstance(error, UnservedError):
                    raise self._with_retries(failure) from error
                await self._pause(pause if error.after is None else error.after)
            else:
                self._replies.add(turn)
                return turn
        raise AssertionError("the last try returns or raises")

    async def cut(self, turn: Turn, prompt: float) -> tuple[Ending | None, str]:
        """Return how a reply that a length limit cut ends, as `protocols.TrialContext.cut`."""
        if turn.finish_reason not in CUT:
            return None, ""
        return cut_reply(turn, prompt, await self.health.context())

    def check_time(self) -> None:
        """Raises TimeoutError when the time of the trial is up."""
        if asyncio.get_running_loop().time() >= self._deadline():
            raise TimeoutError

    def _deadline(self) -> float:
        if self._began is None:
            self._began = asyncio.get_running_loop().time()
        slow = max(self._replies.stretch(), self.pace.stretch())
        self.stretched = max(self.stretched, slow)
        return self._began + self.seconds * self.stretched + self._paused

    async def _pause(self, seconds: float) -> None:
        wait = min(seconds, LONGEST_PAUSE)
        self.retries += 1
        self._paused += wait
        await asyncio.sleep(wait)

    def _with_retries(self, error: InfrastructureError) -> InfrastructureError:
        tries = f" (asked again {self.retries} times in this trial)" if self.retries else ""
        return InfrastructureError(f"{error}{tries}", error.cause)


PROOF = 20  # requests that were counted as whole; caches that forget can look so for a few


@dataclass(slots=True)
class Reading:
    """A server's way to count prompts: `whole` requests in full; `partly` if one only in part."""

    whole: int = 0
    partly: bool = False

    async def check(self, requests: Sequence[Sent], health: Health) -> None:
        """Raises InfrastructureError when the last request of a conversation was cut."""
        meaning = counted(requests)
        self.whole += meaning is Counted.WHOLE
        if meaning not in {Counted.SHORT, Counted.NEW}:
            return
        context = await health.context()
        proved = self.whole >= PROOF and not self.partly and meaning is Counted.SHORT
        if why := cut(requests, context=context, whole=proved):
            raise InfrastructureError(why, Cause.CONTEXT_CUT)
        self.partly = True


@dataclass(slots=True)
class AgentLoop:
    """An agent at work. What it gathered is true at any moment, however it ends.

    `agent` is its label in the trial; `reason` says what it did again and again, or outgrew.
    """

    agent: str
    prompt: Prompt
    tools: Sequence[str]
    seed: int
    max_turns: int
    model: RetryingModel
    executor: ToolExecutor
    context: TrialContext
    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)
    requests: list[Sent] = field(default_factory=list)
    reason: str = ""

    async def play(self) -> Ending:
        """Raises InfrastructureError when the server or the sandbox fails."""
        self.messages += self.prompt.messages
        try:
            return await self._turns()
        except (TimeoutError, OutgrownError) as error:
            self.reason = str(error)
            return Ending.CONTEXT if isinstance(error, OutgrownError) else Ending.TIME

    async def _turns(self) -> Ending:
        """Only waiting for the model is cut short, by `retrying_model`: commands have limits."""
        arm, policy = self.executor.arm, self.executor.policy
        schemas = tool_texts.schemas(arm.profile, arm.offered(self.tools, visible=policy.tools))
        for number in range(self.max_turns):
            turn = await self.model.ask(self.messages, schemas, seed=self.seed)
            await self._record_turn(number, turn)
            for position, call in enumerate(turn.calls):
                if position and self._leaves_the_rest():
                    break
                await self._record_call(await self.executor.handle(number, position, call))
            if ending := await self._ending(turn):
                return ending
        return Ending.TURNS

    def _leaves_the_rest(self) -> bool:
        """Return True if a turn's other calls are skipped. Raises TimeoutError, as `ask` would."""
        self.model.check_time()
        return bool(self.executor.budget.outgrown or looped(self.calls))

    async def _record_turn(self, number: int, turn: Turn) -> None:
        self.turns.append(turn)
        self.context.record_turn(self.agent, number, turn)
        self.requests.append(sent(self.messages, turn.usage.prompt_tokens, self.requests))
        await self.context.read(self.requests)
        self.messages.append(Message("assistant", turn.text, turn.calls, "", turn.reasoning))

    async def _record_call(self, record: CallRecord) -> None:
        self.calls.append(record)
        self.messages.append(Message("tool", record.reply, call_id=record.call.id))
        await self.context.follow_call(self.agent, record)

    async def _ending(self, turn: Turn) -> Ending | None:
        """Return the ending of this agent's work after this turn; None if it goes on."""
        ended = await self.context.ended()
        if again := turn.repeats or looped(self.calls):
            self.reason = f"wrote again and again: {again}" if turn.repeats else str(again)
            return Ending.LOOPED
        filled, why = await self.context.cut(turn, least(self.requests))
        if filled or not turn.calls:
            self.reason = why
            return filled or Ending.STOPPED
        return ended


FIRST = AgentPart("", 0, 0, 0, Ending.BROKEN)  # as every agent's part until it has ended


@dataclass(frozen=True, slots=True)
class Request:
    """A row of the database that requests an agent, and the call and agent that wrote it."""

    agent: Agent
    row: Row
    parent: AgentPart
    turn: int
    position: int

    @property
    def attached(self) -> bool:
        return self.row.get("attached") == 1


@dataclass(slots=True)
class TrialRunner:
    """A trial under way. What its agents gathered is true at any moment, however it ends.

    `executor` is that of the first agent, `policies` the allow lists of the others by their names.
    An agent that is waited for acts at once, any other when those before it have ended. One agent
    at a time uses the sandbox, so that the trial is the same each time. Implements
    `protocols.TrialContext`. `make_loop` makes the loop that plays in the place of our own.
    """

    scenario: Scenario
    prompt: Prompt
    key: TrialKey
    setting: Setting
    max_turns: int | None
    model: RetryingModel
    executor: ToolExecutor
    policies: Mapping[str, Policy]
    recorder: Recorder
    observer: Observer
    watch: WorldMonitor
    make_loop: Callable[..., Loop] | None = None
    reading: Reading = field(default_factory=Reading)
    parts: dict[str, AgentPart] = field(default_factory=dict)
    loops: dict[str, Loop] = field(default_factory=dict)
    last: str = ""  # the label of the agent that ended last
    waiting: deque[Request] = field(default_factory=deque)

    async def play(self) -> Trial:
        """Raises InfrastructureError when the server or the sandbox fails."""
        await self._act(FIRST, self.prompt, self.scenario, self.executor)
        while self.waiting:
            await self._start(self.waiting.popleft())
        loop, ending = self.loops[self.last], self.parts[self.last].ending
        goal = await self.watch.judged(max(0, len(self.loops[""].turns) - 1))
        ended = outcome(
            ending,
            goal_met=all(check.held for check in goal),
            last_denied=last_denied(loop.calls),
            claimed=bool(loop.turns) and claims_done(loop.turns[-1].text),
        )
        missed = (f"not met: {check.failure}" for check in goal if not check.held)
        reason = "; ".join(filter(None, (loop.reason, self.executor.budget.outgrown, *missed)))
        return replace(self._trial(ended, reason), goal=goal)

    def broken(self, error: InfrastructureError) -> Trial:
        """Return the trial as far as it came, as void."""
        void = self._trial(Outcome.VOID, str(error))
        return replace(void, ending=Ending.BROKEN, cause=error.cause)

    def record_turn(self, agent: str, number: int, turn: Turn) -> None:
        self.executor.budget.take(turn.raw)
        self.recorder.turn(self.key, number, turn, agent=agent)
        self.observer.wrote(self.key, turn.usage.completion_tokens)

    async def read(self, requests: Sequence[Sent]) -> None:
        await self.reading.check(requests, self.model.health)
        if self.prompt.goal and not any(record.execution for record in self.loops[""].calls):
            await self.watch.database.begin()

    async def cut(self, turn: Turn, prompt: float) -> tuple[Ending | None, str]:
        return await self.model.cut(turn, prompt)

    def record_call(self, agent: str, record: CallRecord) -> None:
        self.recorder.call(self.key, record, agent=agent)
        if not agent:
            denied = record.verdict.primary
            self.observer.called(self.key, failure_class=denied.failure_class if denied else "")
        if record.execution is not None:
            self.watch.ran(record.call, record.execution)

    async def follow_call(self, agent: str, record: CallRecord) -> None:
        self.record_call(agent, record)
        if record.execution is not None:
            await self._follow(agent, record.turn, record.position)

    async def ended(self) -> Ending | None:
        await self.watch.note_goal(len(self.loops[""].turns) - 1)
        return self.spent()

    def spent(self) -> Ending | None:
        most, full = self.scenario.limits.completion_tokens, self.executor.budget.outgrown
        used = sum(turn.usage.completion_tokens for of in self.loops.values() for turn in of.turns)
        return Ending.CONTEXT if full else Ending.TOKENS if used > most else None

    async def _follow(self, agent: str, turn: int, position: int) -> None:
        """Start the agents that this call requested and waits for, and queue the others."""
        rows = await self.watch.after(agent, turn, position)
        requests = [Request(one, row, self.parts[agent], turn, position) for one, row in rows]
        self.waiting += (request for request in requests if not request.attached)
        for request in requests:
            if request.attached:
                await self._start(request)

    async def _start(self, request: Request) -> None:
        agent, part = request.agent, self._begun(request)
        self.parts[part.label] = part
        variables = {**self.prompt.variables, **request.row}
        if part.ending is Ending.REFUSED:
            return
        if agent.program is not None:
            await self._run(part, agent.program, variables)
        else:
            executor = replace(self.executor, policy=self.policies[agent.name])
            await self._act(part, self._prompt(agent, variables, part.label), agent, executor)

    def _begun(self, request: Request) -> AgentPart:
        """Return the part of the requested agent; refused beyond the limits of the scenario."""
        parent, number = request.parent, len(self.parts)
        started = sum(one.ending is not Ending.REFUSED for one in self.parts.values())
        refused = self.scenario.spawn.refused(parent.depth, started - 1)  # without the first
        ending = Ending.REFUSED if refused else Ending.BROKEN
        part = AgentPart(request.agent.name, number, parent.number, parent.depth + 1, ending)
        return replace(part, reason=refused, turn=request.turn, position=request.position)

    def _prompt(self, agent: Agent, variables: Variables, label: str) -> Prompt:
        chance = Chance(f"{self.scenario.name}/{self.key.seed}//context/{label}")
        try:
            prompt = render_agent(agent, variables, self.setting)
            return lengthened(prompt, self.scenario, self.setting, chance)
        except MakerError as error:  # a row that the author's template did not expect
            raise InfrastructureError(f"the prompt of {label} cannot be made: {error}") from error

    async def _act(
        self, part: AgentPart, prompt: Prompt, player: Scenario | Agent, executor: ToolExecutor
    ) -> None:
        loop = self._loop(part.label, prompt, player, executor)
        part = replace(part, prompt=prompt.messages)
        self.parts[part.label], self.loops[part.label] = part, loop
        part = replace(part, ending=await loop.play(), reason=loop.reason)
        self.parts[part.label], self.last = part, part.label

    def _loop(
        self, agent: str, prompt: Prompt, player: Scenario | Agent, executor: ToolExecutor
    ) -> Loop:
        turns, seed, model = self.max_turns or player.max_turns, self.key.seed, self.model
        if self.make_loop:
            return self.make_loop(self, agent, prompt, turns, executor)
        return AgentLoop(agent, prompt, player.tools, seed, turns, model, executor, self)

    async def _run(self, part: AgentPart, program: CodeTest, variables: Variables) -> None:
        ran = await run_program(self.executor.sandbox, program, variables)
        reason = "" if ran.exit_code == 0 else f"{program.name}: {ran.output.strip()}"
        self.parts[part.label] = replace(part, ending=Ending.STOPPED, reason=reason)
        await self._follow(part.label, 0, 0)

    def _trial(self, ended: Outcome, reason: str) -> Trial:
        first, *others = (self._done(part) for part in (self.parts or {"": FIRST}).values())
        return Trial(
            scenario=self.key.scenario,
            number=self.key.number,
            seed=self.key.seed,
            turns=first.turns,
            calls=first.calls,
            ending=first.ending,
            outcome=ended,
            reason=reason,
            handshake=self.watch.handshake,
            seconds=sum(turn.seconds for loop in self.loops.values() for turn in loop.turns),
            agents=tuple(others),
            retries=self.model.retries,
            stretched=self.model.stretched,
            goal_turn=self.watch.goal_turn,
            prompt=first.prompt,
        )

    def _done(self, part: AgentPart) -> AgentPart:
        """Return the part with its agent's turns and calls."""
        loop = self.loops.get(part.label)
        return replace(part, turns=tuple(loop.turns), calls=tuple(loop.calls)) if loop else part
