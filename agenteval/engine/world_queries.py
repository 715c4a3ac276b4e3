"""Queries of a trial's sandbox: its SQLite database, read inside the sandbox, and its files."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agenteval.core.plain import shortened
from agenteval.core.prompt.variant import Variables
from agenteval.core.scenario import (
    Answer,
    Answers,
    Check,
    CodeTest,
    GoalCheck,
    Question,
    Schema,
    Trace,
)
from agenteval.core.trial import Execution
from agenteval.protocols import Sandbox

SUFFIXES = ("", "-wal")
SAID = 200  # characters of what a test says of its failure, or a check found


@dataclass(slots=True)
class Database:
    """The task's database as it is now: queried again only when its files were changed.

    `schema` is what the fixture declared there; `first` its stamp before any call ran.
    """

    sandbox: Sandbox
    path: str
    schema: Schema = ()
    last_questions: tuple[Question, ...] = ()
    answers: Answers | None = None
    stamp: str = ""
    first: str = ""

    async def begin(self) -> None:
        """Remember it as it is before the first call."""
        self.first = await self._stamp()

    async def is_touched(self) -> bool:
        """Return True if it may have changed since `begin`: a stamp costs a tenth of a query."""
        if self.first and self.first == await self._stamp():
            return False
        self.first = ""  # once touched, it stays touched
        return True

    async def ask(self, questions: Sequence[Question]) -> Answers:
        """Return the answers: the same value as before while nothing was changed."""
        batch = tuple(questions)
        stamp = await self._stamp()
        if self.answers is None or not stamp or (stamp, batch) != (self.stamp, self.last_questions):
            self.answers = await self.sandbox.ask(self.path, batch, self.schema)
            self.last_questions, self.stamp = batch, stamp
        return self.answers

    async def _stamp(self) -> str:
        return await self.sandbox.stamp([self.path + suffix for suffix in SUFFIXES])


def evaluate(check: Check, answer: Answer) -> GoalCheck:
    """Return the check with the value found in the database."""
    value = answer.first
    held = not answer.error and bool(answer.rows) and value == check.expect
    shown_value = shortened(value, SAID) if isinstance(value, str) else value
    return GoalCheck(check.name, held, check.expect, shown_value, answer.error)


def evaluate_trace(trace: Trace, commands: Iterable[str]) -> GoalCheck:
    """Return the check that a successful call is one of those that the trace requires."""
    ways = [call.split() for call in trace.calls]
    held = any(all(word in call for word in words) for call in commands for words in ways)
    said = f"no call that ran well has {' or '.join(map(repr, trace.calls))}"
    return GoalCheck(trace.name, held, said="" if held else said)


async def run_test(sandbox: Sandbox, test: CodeTest, variables: Variables) -> GoalCheck:
    """Run a test and return its check; if it fails, with the last line of its output."""
    ran = await run_program(sandbox, test, variables)
    if ran.exit_code == 0:
        return GoalCheck(test.name, held=True)
    said = ran.output.strip().rpartition("\n")[2] or f"exit code {ran.exit_code}"
    return GoalCheck(test.name, held=False, said=(ran.limit or said)[:SAID])


async def run_program(sandbox: Sandbox, program: CodeTest, variables: Variables) -> Execution:
    """Run it in the workspace, under the limits of a call, hidden from the model's own code."""
    return await sandbox.judge(program.source, json.dumps(variables))
