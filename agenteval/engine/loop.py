"""One trial: ask, judge, run or deny, answer; until the goal, a stop or a limit."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from agenteval.core.call import ToolCall
from agenteval.core.loops import looped
from agenteval.core.outcome import Ending, outcome
from agenteval.core.prompt import Prompt
from agenteval.core.scenario import Scenario
from agenteval.core.trial import CallRecord, HandshakeStep, Message, Trial, Turn
from agenteval.engine import tools
from agenteval.engine.hands import Hands
from agenteval.engine.world import holding, passes, snapshot
from agenteval.protocols import Model, Observer, Recorder, TrialKey


@dataclass(slots=True)
class Loop:
    """A trial under way. What it gathered is true at any moment, however it ends."""

    scenario: Scenario
    prompt: Prompt
    key: TrialKey
    max_turns: int
    model: Model
    hands: Hands
    recorder: Recorder
    observer: Observer
    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)

    async def play(self) -> Trial:
        """Raises InfrastructureError when the server or the sandbox fails."""
        self.messages += self.prompt.messages
        deadline = asyncio.get_running_loop().time() + self.scenario.limits.trial_seconds
        try:
            ending = await self._turns(deadline)
        except TimeoutError:
            ending = Ending.TIME
        return await self._finished(ending)

    async def _turns(self, deadline: float) -> Ending:
        """Only waiting for the model is cut short; a running command has a limit of its own."""
        schemas = tools.schemas(self.hands.profile, self.scenario.tools)
        for number in range(self.max_turns):
            async with asyncio.timeout_at(deadline):
                turn = await self.model.ask(self.messages, schemas, seed=self.key.seed)
            self._took(number, turn)
            for position, call in enumerate(turn.calls):
                await self._call(number, position, call)
            if ending := await self._ending(turn):
                return ending
        return Ending.TURNS

    def _took(self, number: int, turn: Turn) -> None:
        self.turns.append(turn)
        self.recorder.turn(self.key, number, turn)
        self.messages.append(Message("assistant", turn.text, turn.calls))

    async def _ending(self, turn: Turn) -> Ending | None:
        """What ends the trial after this turn, if anything does."""
        if not turn.calls:
            return Ending.STOPPED
        if looped([record.call for record in self.calls]):
            return Ending.LOOPED
        if await self._goal_met():
            return Ending.GOAL
        tokens = sum(turn.usage.completion_tokens for turn in self.turns)
        return Ending.TOKENS if tokens > self.scenario.limits.completion_tokens else None

    async def _call(self, number: int, position: int, call: ToolCall) -> None:
        record = await self.hands.handle(number, position, call)
        self.calls.append(record)
        self.recorder.call(self.key, record)
        self.observer.called(self.key, denied=not record.verdict.allowed)
        self.messages.append(Message("tool", record.reply, call_id=call.id))

    async def _goal_met(self, files: Mapping[str, bytes] | None = None) -> bool:
        files = files or await snapshot(self.hands.sandbox, self.scenario.database)
        return all(holding(files, self.prompt.goal)) and await self._tests_pass()

    async def _tests_pass(self) -> bool:
        for test in self.scenario.tests:
            if not await passes(self.hands.sandbox, test, self.prompt.variables):
                return False
        return True

    async def _finished(self, ending: Ending) -> Trial:
        files = await snapshot(self.hands.sandbox, self.scenario.database)
        ended = outcome(
            ending,
            goal_met=ending is Ending.GOAL or await self._goal_met(files),
            last_denied=bool(self.calls) and not self.calls[-1].verdict.allowed,
            last_text=self.turns[-1].text if self.turns else "",
        )
        steps = zip(self.prompt.handshake, holding(files, self.prompt.handshake), strict=True)
        return Trial(
            scenario=self.key.scenario,
            number=self.key.number,
            seed=self.key.seed,
            turns=tuple(self.turns),
            calls=tuple(self.calls),
            ending=ending,
            outcome=ended,
            handshake=tuple(HandshakeStep(step.name, reached) for step, reached in steps),
            seconds=sum(turn.seconds for turn in self.turns),
        )
