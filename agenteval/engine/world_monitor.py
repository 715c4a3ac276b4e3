"""The world of one trial, looked at from outside: its goal, its handshake, who is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agenteval.core.chance import Value
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.prompt.variant import fill
from agenteval.core.scenario import Agent, Answer, Answers, Question, Scenario
from agenteval.core.trial import HandshakeStep
from agenteval.engine.world_queries import Database, failure, missed

Row = Mapping[str, Value]
FEW = 100  # rows; a world that asks for more agents than that is refused them anyway


@dataclass(slots=True)
class WorldMonitor:
    """Keeps what was seen first; `answers` and `failed` hold while nothing has run since.

    `missing` says of the last look at the goal what did not hold, by its name.
    """

    scenario: Scenario
    prompt: Prompt
    database: Database
    answers: Answers | None = None
    failed: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()
    reached: dict[str, HandshakeStep] = field(default_factory=dict)
    seen: set[tuple[str, str]] = field(default_factory=set)

    async def after(self, agent: str, turn: int, position: int) -> list[tuple[Agent, Row]]:
        """Look at what this call did; the requests for agents that nobody had made before it."""
        self.answers = self.failed = None
        if not self.prompt.handshake and not self.scenario.agents:
            return []
        _, steps, wanted = self._apart(await self._now())
        self._note_steps(steps, agent, turn, position)
        return [
            (one, row)
            for one, answer in zip(self.scenario.agents, wanted, strict=True)
            for row in answer.named
            if self._is_new(one.name, str(next(iter(row.values()))))
        ]

    async def goal_met(self) -> bool:
        self.missing = await self._missing()
        return not self.missing

    async def _missing(self) -> tuple[str, ...]:
        """The checks of the goal that do not hold; where all do, the tests that fail."""
        answers = await self._now()
        if answers.broken:
            return (answers.broken,)
        goal, *_ = self._apart(answers)
        told = tuple(filter(None, map(missed, self.prompt.goal, goal)))
        if told:
            return told
        if self.failed is None:
            self.failed = await self._failed()
        return self.failed

    async def _failed(self) -> tuple[str, ...]:
        sandbox, known = self.database.sandbox, self.prompt.variables
        told = [await failure(sandbox, test, known) for test in self.scenario.tests]
        return tuple(filter(None, told))

    @property
    def handshake(self) -> tuple[HandshakeStep, ...]:
        names = [step.name for step in self.prompt.handshake]
        return tuple(self.reached.get(name) or HandshakeStep(name, reached=False) for name in names)

    async def _now(self) -> Answers:
        """All that is ever asked of this world, at once."""
        if self.answers is None:
            checks = (*self.prompt.goal, *self.prompt.handshake)
            wanted = (fill(one.spawned, self.prompt.variables) for one in self.scenario.agents)
            questions = [Question(check.query) for check in checks]
            questions += [Question(query, FEW) for query in wanted]
            self.answers = await self.database.ask(questions)
        return self.answers

    def _apart(
        self, answers: Answers
    ) -> tuple[Sequence[Answer], Sequence[Answer], Sequence[Answer]]:
        """Those for the goal, for the handshake and for the agents."""
        goal, steps = len(self.prompt.goal), len(self.prompt.handshake)
        given = answers.answers or (Answer(),) * (goal + steps + len(self.scenario.agents))
        return given[:goal], given[goal : goal + steps], given[goal + steps :]

    def _note_steps(self, answers: Sequence[Answer], agent: str, turn: int, position: int) -> None:
        """A step is in order when those before it were reached earlier, or by the same call."""
        in_order = True
        for step, answer in zip(self.prompt.handshake, answers, strict=True):
            if step.name not in self.reached and not missed(step, answer):
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
