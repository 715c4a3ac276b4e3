"""The world of one trial, looked at from outside: its goal, its handshake, who is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agenteval.core.prompt.prompt import Prompt
from agenteval.core.prompt.template import fill
from agenteval.core.scenario import Agent, Scenario
from agenteval.core.trial import HandshakeStep
from agenteval.engine.world import Database, Row, holding, passes, rows


@dataclass(slots=True)
class Watch:
    """Keeps what was seen first; `files` is the world's database while nothing has run since.

    `held` says whether the goal's checks hold there, once that was asked.
    """

    scenario: Scenario
    prompt: Prompt
    database: Database
    files: Mapping[str, bytes] | None = None
    held: tuple[Mapping[str, bytes], bool] | None = None
    reached: dict[str, HandshakeStep] = field(default_factory=dict)
    seen: set[tuple[str, str]] = field(default_factory=set)

    async def after(self, agent: str, turn: int, position: int) -> list[tuple[Agent, Row]]:
        """Look at what this call did; the requests for agents that nobody had made before it."""
        self.files = None
        if not self.prompt.handshake and not self.scenario.agents:
            return []
        files = await self._now()
        self._note_steps(files, agent, turn, position)
        return [
            (one, row)
            for one in self.scenario.agents
            for row in rows(files, fill(one.spawned, self.prompt.variables))
            if self._is_new(one.name, str(next(iter(row.values()))))
        ]

    async def goal_met(self) -> bool:
        files = await self._now()
        if self.held is None or self.held[0] is not files:
            self.held = files, all(holding(files, self.prompt.goal))
        if not self.held[1]:
            return False
        for test in self.scenario.tests:
            if not await passes(self.database.sandbox, test, self.prompt.variables):
                return False
        return True

    @property
    def handshake(self) -> tuple[HandshakeStep, ...]:
        names = [step.name for step in self.prompt.handshake]
        return tuple(self.reached.get(name) or HandshakeStep(name, reached=False) for name in names)

    async def _now(self) -> Mapping[str, bytes]:
        if self.files is None:
            self.files = await self.database.now()
        return self.files

    def _note_steps(self, files: Mapping[str, bytes], agent: str, turn: int, position: int) -> None:
        """A step is in order when those before it were reached earlier, or by the same call."""
        steps = self.prompt.handshake
        in_order = True
        for step, holds in zip(steps, holding(files, steps), strict=True):
            if holds and step.name not in self.reached:
                self.reached[step.name] = HandshakeStep(
                    step.name,
                    reached=True,
                    agent=agent,
                    turn=turn,
                    position=position,
                    in_order=in_order,
                )
            in_order = in_order and step.name in self.reached

    def _is_new(self, agent: str, request: str) -> bool:
        if (agent, request) in self.seen:
            return False
        self.seen.add((agent, request))
        return True
