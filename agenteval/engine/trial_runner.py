"""The trial runner: one trial's first agent, and each requested sub-agent, one by one."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agenteval.core.chance import Chance
from agenteval.core.claims import claims_done
from agenteval.core.outcome import Ending, Outcome, outcome
from agenteval.core.policy.policy import Policy
from agenteval.core.prompt.context import lengthened
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.prompt.setting import Setting
from agenteval.core.prompt.variant import Variables
from agenteval.core.scenario import Agent, CodeTest, Scenario
from agenteval.core.served import Sent
from agenteval.core.trial import AgentPart, CallRecord, Trial, Turn, last_denied
from agenteval.engine.agent_loop import AgentLoop
from agenteval.engine.retrying_model import Reading, RetryingModel
from agenteval.engine.tool_executor import ToolExecutor
from agenteval.engine.world_monitor import Row, WorldMonitor
from agenteval.engine.world_queries import run_program
from agenteval.errors import InfrastructureError
from agenteval.protocols import Loop, Observer, Recorder, TrialKey
from agenteval.sandbox.maker import MakerError, render_agent

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
