"""The world monitor: a trial's sandbox from outside: goal, handshake, requested agents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agenteval.core.call import ToolCall
from agenteval.core.chance import Value
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.scenario import Agent, Answer, Answers, GoalCheck, Question, Scenario
from agenteval.core.trial import Execution, HandshakeStep
from agenteval.engine.world_queries import Database, evaluate, evaluate_trace, run_test

Row = Mapping[str, Value]
FEW = 100  # rows; a world that asks for more agents than that is refused them anyway


@dataclass(slots=True)
class WorldMonitor:
    """Records first observations; `goal_turn` is the turn after which the goal first held.

    `answers` and `tested` are valid while nothing has run since.
    """

    scenario: Scenario
    prompt: Prompt
    database: Database
    answers: Answers | None = None
    tested: tuple[GoalCheck, ...] | None = None
    goal_turn: int | None = None
    succeeded: list[str] = field(default_factory=list)  # calls that ran well, as they were written
    reached: dict[str, HandshakeStep] = field(default_factory=dict)
    requested: set[tuple[str, str]] = field(default_factory=set)

    def ran(self, call: ToolCall, execution: Execution) -> None:
        if execution.exit_code == 0:
            self.succeeded.append(call.raw if call.command is None else call.command)

    async def after(self, agent: str, turn: int, position: int) -> list[tuple[Agent, Row]]:
        """Check the effects of this call; return the requests for agents that are new."""
        self.answers = self.tested = None
        if not self.prompt.handshake and not self.scenario.agents:
            return []
        _, steps, requests = self._split(await self._now())
        self._note_steps(steps, agent, turn, position)
        return [
            (spawned, row)
            for spawned, answer in zip(self.scenario.agents, requests, strict=True)
            for row in answer.named
            if self._is_new(spawned.name, str(next(iter(row.values()))))
        ]

    async def note_goal(self, turn: int) -> None:
        """Check the goal after this turn, unless it held before or the database is untouched."""
        is_known = self.goal_turn is not None or not await self.database.is_touched()
        if not is_known and all(check.held for check in await self._checked()):
            await self.judged(turn)

    async def judged(self, turn: int) -> tuple[GoalCheck, ...]:
        """Return every check of the goal, every trace and every test, as of this turn."""
        traced = (evaluate_trace(trace, self.succeeded) for trace in self.prompt.traces)
        checks = (*await self._checked(), *traced, *await self._tested())
        if self.goal_turn is None and all(check.held for check in checks):
            self.goal_turn = turn
        return checks

    async def _checked(self) -> tuple[GoalCheck, ...]:
        goal, *_ = self._split(await self._now())
        return tuple(map(evaluate, self.prompt.goal, goal))

    async def _tested(self) -> tuple[GoalCheck, ...]:
        if self.tested is None:
            sandbox, variables = self.database.sandbox, self.prompt.variables
            tests = [await run_test(sandbox, test, variables) for test in self.scenario.tests]
            self.tested = tuple(tests)
        return self.tested

    @property
    def handshake(self) -> tuple[HandshakeStep, ...]:
        names = (step.name for step in self.prompt.handshake)
        return tuple(self.reached.get(name) or HandshakeStep(name, reached=False) for name in names)

    async def _now(self) -> Answers:
        """Return the answers to all queries of this database, made at once."""
        if self.answers is None:
            checks = (*self.prompt.goal, *self.prompt.handshake)
            questions = [Question(check.query) for check in checks]
            questions += [Question(query, FEW) for query in self.prompt.requests]
            self.answers = await self.database.ask(questions)
        return self.answers

    def _split(self, answers: Answers) -> tuple[Sequence[Answer], ...]:
        """Return the answers for the goal, for the handshake and for the agents."""
        goal, steps = len(self.prompt.goal), len(self.prompt.handshake)
        none = Answer(error=answers.broken)
        by_query = answers.answers or (none,) * (goal + steps + len(self.scenario.agents))
        return by_query[:goal], by_query[goal : goal + steps], by_query[goal + steps :]

    def _note_steps(self, answers: Sequence[Answer], agent: str, turn: int, position: int) -> None:
        """Record new steps; in order are those after all earlier ones, or by the same call."""
        in_order = True
        for step, answer in zip(self.prompt.handshake, answers, strict=True):
            if step.name not in self.reached and evaluate(step, answer).held:
                done = HandshakeStep(step.name, True, agent, turn, position, in_order)  # noqa: FBT003
                self.reached[step.name] = done
            in_order = in_order and step.name in self.reached

    def _is_new(self, agent: str, request: str) -> bool:
        new = (agent, request) not in self.requested
        self.requested.add((agent, request))
        return new
