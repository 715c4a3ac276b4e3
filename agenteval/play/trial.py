"""One whole trial, from its first prompt to its outcome. Read it from the top.

`TrialRunner` is the trial runner: it plays the first agent and the sub-agents that calls request.
`AgentLoop` is the agent loop: ask the model, then run or deny each call; until a stop or a limit.
`ToolExecutor` is the tool executor: one tool call is judged, run or denied, and answered.
`RetryingModel` is the retrying model: it asks within the trial's time, slow servers included.
`Reading` detects a server that cuts prompts without a word.

`play/run` plays many trials at once. `play/tools` has what a model reads of its tools, the file
tools, and the world monitor, which looks at a trial's sandbox from outside.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agenteval.errors import Cause, InfrastructureError, OutgrownError, UnservedError
from agenteval.play import tools as tool_texts
from agenteval.play.second_reader import SecondReader
from agenteval.play.tools import Row, WorldMonitor, carry_out, run_program
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
    until,
)
from agenteval.sandbox.maker import MakerError, render_agent
from agenteval.trial import tally
from agenteval.trial.call import (
    CUT,
    Allowed,
    BashRun,
    Denied,
    Ending,
    Note,
    Outcome,
    ToolCall,
    outcome,
)
from agenteval.trial.claims import claims_done
from agenteval.trial.recovery import looped
from agenteval.trial.tally import Counted, Sent
from agenteval.trial.text import Chance
from agenteval.trial.trial import (
    Agent,
    AgentPart,
    CallRecord,
    CodeTest,
    Execution,
    GoalCheck,
    Limits,
    Message,
    Scenario,
    Trial,
    Turn,
    last_denied,
)

# The trial runner.

# Every agent's part is as if broken until the agent has ended: so a crash is told from an end.
_FIRST = AgentPart("", 0, 0, 0, Ending.BROKEN)


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
    model: "RetryingModel"
    executor: "ToolExecutor"
    policies: Mapping[str, Policy]
    recorder: Recorder
    observer: Observer
    monitor: WorldMonitor
    reading: "Reading"
    make_loop: Callable[..., Loop] | None = None
    parts: dict[str, AgentPart] = field(default_factory=dict)
    loops: dict[str, Loop] = field(default_factory=dict)
    last: str = ""  # the label of the agent that ended last
    waiting: deque["_Request"] = field(default_factory=deque)

    async def play(self) -> Trial:
        """Raise InfrastructureError if the server or the sandbox fails."""
        await self._act(_FIRST, self.prompt, self.scenario, self.executor)
        while self.waiting:
            await self._start(self.waiting.popleft())
        goal = await self.monitor.judge(self._turn_number())
        # The agent that ended last ended the trial: the others were waited for, or played before.
        loop = self.loops[self.last]
        result = outcome(
            self.parts[self.last].ending,
            goal_met=all(check.held for check in goal),
            last_denied=last_denied(loop.calls),
            claimed=bool(loop.turns) and claims_done(loop.turns[-1].text),
        )
        trial = self._trial(result, self._reason(loop, goal))
        return replace(trial, goal=goal)

    def broken(self, error: InfrastructureError) -> Trial:
        """Return the trial as far as it came, as void."""
        trial = self._trial(Outcome.VOID, str(error))
        return replace(trial, ending=Ending.BROKEN, cause=error.cause)

    # What an agent's loop reports (`protocols.TrialContext`).

    def record_turn(self, agent: str, number: int, turn: Turn) -> None:
        self.executor.budget.take(turn.raw)
        self.recorder.turn(self.key, number, turn, agent=agent)
        self.observer.wrote(self.key, turn.usage.completion_tokens)

    async def read(self, requests: Sequence[Sent]) -> None:
        await self.reading.check(requests, self.model.health)
        # While no call of the first agent ran, nothing can have changed its database.
        has_run = any(record.execution for record in self.loops[""].calls)
        if self.prompt.goal and not has_run:
            await self.monitor.database.begin()

    async def cut(self, turn: Turn, prompt: float) -> tuple[Ending | None, str]:
        return await self.model.cut(turn, prompt)

    def record_call(self, agent: str, record: CallRecord) -> None:
        self.recorder.call(self.key, record, agent=agent)
        if not agent:
            finding = record.verdict.primary
            failure_class = finding.failure_class if finding else ""
            self.observer.called(self.key, failure_class=failure_class)
        if record.execution is not None:
            self.monitor.record(record.call, record.execution)

    async def follow_call(self, agent: str, record: CallRecord) -> None:
        self.record_call(agent, record)
        if record.execution is not None:
            await self._follow(agent, record.turn, record.position)

    async def ended(self) -> Ending | None:
        await self.monitor.note_goal(self._turn_number())
        return self.spent()

    def spent(self) -> Ending | None:
        if self.executor.budget.outgrown:
            return Ending.CONTEXT
        written = sum(turn.usage.completion_tokens for turn in self._turns())
        return Ending.TOKENS if written > self.scenario.limits.completion_tokens else None

    # Sub-agents: a row in the trial's database requests one.

    async def _follow(self, agent: str, turn: int, position: int) -> None:
        """Start the agents that this call requested and waits for, and queue the others."""
        rows = await self.monitor.follow(agent, turn, position)
        parent = self.parts[agent]
        requests = [_Request(spawned, row, parent, turn, position) for spawned, row in rows]
        self.waiting += (request for request in requests if not request.attached)
        for request in requests:
            if request.attached:
                await self._start(request)

    async def _start(self, request: "_Request") -> None:
        agent = request.agent
        part = self._begin_part(request)
        self.parts[part.label] = part
        if part.ending is Ending.REFUSED:
            return
        variables = {**self.prompt.variables, **request.row}
        if agent.program is not None:
            await self._run(part, agent.program, variables)
            return
        prompt = self._prompt(agent, variables, part.label)
        executor = replace(self.executor, policy=self.policies[agent.name])
        await self._act(part, prompt, agent, executor)

    def _begin_part(self, request: "_Request") -> AgentPart:
        """Return the part of the requested agent; refused beyond the limits of the scenario."""
        parent = request.parent
        endings = [part.ending for part in self.parts.values()]
        sub_agents = len(endings) - endings.count(Ending.REFUSED) - 1
        refusal = self.scenario.spawn.refused(parent.depth, sub_agents)
        return AgentPart(
            request.agent.name,
            len(self.parts),
            parent.number,
            parent.depth + 1,
            Ending.REFUSED if refusal else Ending.BROKEN,
            reason=refusal,
            turn=request.turn,
            position=request.position,
        )

    def _prompt(self, agent: Agent, variables: Variables, label: str) -> Prompt:
        chance = Chance(f"{self.scenario.name}/{self.key.seed}//context/{label}")
        try:
            prompt = render_agent(agent, variables, self.setting)
            return lengthened(prompt, self.scenario, self.setting, chance)
        except MakerError as error:  # a row that the author's template did not expect
            raise InfrastructureError(f"the prompt of {label} cannot be made: {error}") from error

    async def _act(
        self, part: AgentPart, prompt: Prompt, player: Scenario | Agent, executor: "ToolExecutor"
    ) -> None:
        """Have an agent of the model play its part to the end."""
        label = part.label
        loop = self._loop(label, prompt, player, executor)
        # Its part and its loop stand there while it plays: a trial that breaks keeps its calls.
        self.loops[label] = loop
        self.parts[label] = part = replace(part, prompt=prompt.messages)
        ending = await loop.play()
        self.parts[label] = replace(part, ending=ending, reason=loop.reason)
        self.last = label

    def _loop(
        self, agent: str, prompt: Prompt, player: Scenario | Agent, executor: "ToolExecutor"
    ) -> Loop:
        turns = self.max_turns or player.max_turns
        if self.make_loop:
            return self.make_loop(self, agent, prompt, turns, executor)
        seed = self.key.seed
        return AgentLoop(agent, prompt, player.tools, seed, turns, self.model, executor, self)

    async def _run(self, part: AgentPart, program: CodeTest, variables: Variables) -> None:
        """Run the program of the scenario's that plays this agent."""
        execution = await run_program(self.executor.sandbox, program, variables)
        reason = ""
        if execution.exit_code != 0:
            reason = f"{program.name}: {execution.output.strip()}"
        self.parts[part.label] = replace(part, ending=Ending.STOPPED, reason=reason)
        await self._follow(part.label, 0, 0)

    # The record of the trial.

    def _turns(self) -> Iterator[Turn]:
        for loop in self.loops.values():
            yield from loop.turns

    def _turn_number(self) -> int:
        """Return the number of the first agent's current turn, from 0."""
        return max(0, len(self.loops[""].turns) - 1)

    def _reason(self, loop: Loop, goal: Sequence[GoalCheck]) -> str:
        reasons = [loop.reason, self.executor.budget.outgrown]
        reasons += [f"not met: {check.failure}" for check in goal if not check.held]
        return "; ".join(filter(None, reasons))

    def _trial(self, result: Outcome, reason: str) -> Trial:
        parts = self.parts or {"": _FIRST}
        first, *others = [self._with_turns(part) for part in parts.values()]
        return Trial(
            scenario=self.key.scenario,
            number=self.key.number,
            seed=self.key.seed,
            turns=first.turns,
            calls=first.calls,
            ending=first.ending,
            outcome=result,
            reason=reason,
            handshake=self.monitor.handshake,
            seconds=sum(turn.seconds for turn in self._turns()),
            agents=tuple(others),
            retries=self.model.retries,
            stretched=self.model.stretched,
            goal_turn=self.monitor.goal_turn,
            prompt=first.prompt,
        )

    def _with_turns(self, part: AgentPart) -> AgentPart:
        """Return the part with its agent's turns and calls; a refused one has none."""
        loop = self.loops.get(part.label)
        if loop is None:
            return part
        return replace(part, turns=tuple(loop.turns), calls=tuple(loop.calls))


@dataclass(frozen=True, slots=True)
class _Request:
    """A row of the database that requests an agent, and the call and agent that wrote it."""

    agent: Agent
    row: Row
    parent: AgentPart
    turn: int
    position: int

    @property
    def attached(self) -> bool:
        """Return True if the agent that wrote the row waits for this one."""
        return self.row.get("attached") == 1


# The agent loop.


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
    model: "RetryingModel"
    executor: "ToolExecutor"
    context: TrialContext
    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)
    requests: list[Sent] = field(default_factory=list)
    reason: str = ""

    async def play(self) -> Ending:
        """Raise InfrastructureError if the server or the sandbox fails."""
        self.messages += self.prompt.messages
        try:
            return await self._play_turns()
        except TimeoutError as error:
            self.reason = str(error)
            return Ending.TIME
        except OutgrownError as error:
            self.reason = str(error)
            return Ending.CONTEXT

    async def _play_turns(self) -> Ending:
        """Return the ending. Only `RetryingModel` cuts waiting short: commands have limits."""
        arm = self.executor.arm
        offered = arm.offered(self.tools, visible=self.executor.policy.tools)
        schemas = tool_texts.schemas(arm.profile, offered)
        for number in range(self.max_turns):
            turn = await self.model.ask(self.messages, schemas, seed=self.seed)
            await self._record_turn(number, turn)
            for position, call in enumerate(turn.calls):
                if position and self._skips_the_rest():
                    break
                record = await self.executor.handle(number, position, call)
                await self._record_call(record)
            if ending := await self._ending(turn):
                return ending
        return Ending.TURNS

    def _skips_the_rest(self) -> bool:
        """Return True if a turn's other calls are skipped. Raises TimeoutError, as `ask` would."""
        self.model.check_time()
        return bool(self.executor.budget.outgrown or looped(self.calls))

    async def _record_turn(self, number: int, turn: Turn) -> None:
        self.turns.append(turn)
        self.context.record_turn(self.agent, number, turn)
        request = tally.sent(self.messages, turn.usage.prompt_tokens, self.requests)
        self.requests.append(request)
        await self.context.read(self.requests)
        message = Message("assistant", turn.text, turn.calls, "", turn.reasoning)
        self.messages.append(message)

    async def _record_call(self, record: CallRecord) -> None:
        self.calls.append(record)
        message = Message("tool", record.reply, call_id=record.call.id)
        self.messages.append(message)
        await self.context.follow_call(self.agent, record)

    async def _ending(self, turn: Turn) -> Ending | None:
        """Return the ending of this agent's work after this turn; None if it goes on."""
        ended = await self.context.ended()
        if turn.repeats:
            self.reason = f"wrote again and again: {turn.repeats}"
            return Ending.LOOPED
        if repeated_call := looped(self.calls):
            self.reason = str(repeated_call)
            return Ending.LOOPED
        filled, why = await self.context.cut(turn, tally.least(self.requests))
        if filled or not turn.calls:
            self.reason = why
            return filled or Ending.STOPPED
        return ended


# The tool executor.


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
        """Run or deny a call as the model wrote it; its record speaks of our own tools."""
        own_call, verdict, objection = await self.decide(call)
        execution = None
        if isinstance(verdict, Denied):
            reply = tool_texts.denial(own_call, verdict, self.arm, self.policy)
        else:
            execution = self.budget.fit(await self._execute(verdict))
            if execution.exit_code == 0:
                self.written.update(files_written(own_call, self.world.root))
            reply = tool_texts.answer(execution, self.limits, self.arm, verdict.runs, self.saved)
        return CallRecord(turn, position, own_call, verdict, reply, execution, objection)

    async def decide(self, call: ToolCall) -> tuple[ToolCall, Allowed | Denied, str]:
        """Return the call as one of our own tools, our verdict, and the second reader's objection.

        A call of another tool stays as it was written.
        """
        world = replace(self.world, written=frozenset(self.written), saved=frozenset(self.saved))
        own_call = self.arm.profile.as_own_call(call, tuple(self.policy.tools))
        if own_call is None:
            # A tool of ours may have the name that the model wrote: it was not offered as such.
            no_tools = replace(self.policy, tools={})
            return call, self.judge.deny(call, no_tools, world), ""
        verdict = self.judge.judge(own_call, self.policy, world)
        if isinstance(verdict, Denied) or not isinstance(verdict.runs, BashRun):
            return own_call, verdict, ""
        objection = await self.second_reader.objection(verdict.runs)
        if objection:
            verdict = self.judge.deny(own_call, self.policy, world, objection=objection)
        return own_call, verdict, objection

    async def _execute(self, verdict: Allowed) -> Execution:
        async with self.running:
            match verdict.runs:
                case BashRun() as command:
                    return await self.sandbox.run(command.argv)
                case Note() as note:
                    return Execution(0, note.text, 0.0)
                case None:  # another harness's rules allow a fetch, or a search outside
                    return Execution(1, "failed: nothing of this can be reached here", 0.0)
                case task:
                    return await carry_out(task, self.sandbox, self.policy.read, self.saved)


# The retrying model.

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
        self.tokens += tally.generated(turn)
        self.seconds += turn.seconds

    def stretch(self) -> float:
        return tally.stretch(self.tokens, self.seconds)


@dataclass(slots=True)
class RetryingModel:
    """Implements `protocols.Model` for one trial, whose time begins with the first request.

    `seconds` is the time on a fast server. It grows as `tally.stretch` says, by the trial's own
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
        """Return what `ask` does at last. Raises TimeoutError when the trial's time is up."""
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
        return tally.cut_reply(turn, prompt, await self.health.context())

    def check_time(self) -> None:
        """Raise TimeoutError if the time of the trial is up."""
        if asyncio.get_running_loop().time() >= self._deadline():
            raise TimeoutError

    def _deadline(self) -> float:
        if self._began is None:
            self._began = asyncio.get_running_loop().time()
        # Once stretched it stays so: a server that speeds up takes no time back.
        self.stretched = max(self.stretched, self._replies.stretch(), self.pace.stretch())
        return self._began + self.seconds * self.stretched + self._paused

    async def _pause(self, seconds: float) -> None:
        wait = min(seconds, LONGEST_PAUSE)
        self.retries += 1
        self._paused += wait
        await asyncio.sleep(wait)

    def _with_retries(self, error: InfrastructureError) -> InfrastructureError:
        message = str(error)
        if self.retries:
            message += f" (asked again {self.retries} times in this trial)"
        return InfrastructureError(message, error.cause)


# Whether the server read the whole prompt.

# Requests that were counted as whole. Caches that forget can make the next one look cut, and for
# more than one request.
PROOF = 20


@dataclass(slots=True)
class Reading:
    """A server's way to count prompts: `whole` requests in full; `partly` if one only in part."""

    whole: int = 0
    partly: bool = False

    async def check(self, requests: Sequence[Sent], health: Health) -> None:
        """Raise InfrastructureError if the last request of a conversation was cut."""
        count = tally.counted(requests)
        if count is Counted.WHOLE:
            self.whole += 1
        if count not in {Counted.SHORT, Counted.NEW}:
            return
        context = await health.context()
        # Only a server that always counted in full is taken at its word.
        is_proved = self.whole >= PROOF and not self.partly and count is Counted.SHORT
        if why := tally.cut(requests, context=context, whole=is_proved):
            raise InfrastructureError(why, Cause.CONTEXT_CUT)
        self.partly = True
