"""What a judge in the sandbox is told, and how its answers, which may be anybody's, are read."""

import json
import marshal
import secrets
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from inspect import getsource
from typing import Any, Final

from agenteval.core.scenario import Answer, Answers, Question, Schema
from agenteval.core.trial import Execution
from agenteval.sandbox.inside import hidden, program_help, subject, wire

# What any process of a test may show: it tells nothing of the test.
PUBLIC: Final = getsource(subject)
FLAT = int | float | str | None


@dataclass(frozen=True, slots=True)
class Order:
    """What goes past the runner to a judge, and what opens the judge's words again."""

    key: bytes
    content: bytes

    def opened(self, said: bytes) -> bytes:
        return hidden.sealed(self.key, said)


def _order(content: dict[str, Any]) -> Order:
    key = secrets.token_bytes(32)
    return Order(key, marshal.dumps(content | {"key": key}, wire.PORTABLE))


def question_order(database: str, questions: Sequence[Question], schema: Schema) -> Order:
    """What inside/inquiry.py acts on."""
    asked = [(question.query, question.rows) for question in questions]
    return _order({"database": database, "questions": asked, "schema": list(schema)})


def program_order(source: str, argument: str, word: str) -> Order:
    """What inside/judging.py acts on."""
    return _order({"source": source, "argument": argument, "word": word} | _texts())


@cache
def _texts() -> dict[str, str]:
    return {"help": getsource(program_help), "subject": getsource(subject)}


def new_word() -> str:
    """What only a program that came to its end can say."""
    return f"\n{secrets.token_hex(16)}\n"


def vouched(execution: Execution, word: str) -> Execution:
    """The execution without the word; one that did not say it has failed, whatever its code."""
    code, output = execution.exit_code, execution.output
    if output.endswith(word):
        output = output.removesuffix(word)
    elif code == 0:
        code, output = 1, f"{output}\nit ended before its last line"
    return Execution(code, output, execution.seconds, execution.limit, cut=execution.cut)


def answers(execution: Execution, count: int) -> Answers:
    """What the judge said. One that crashed, hung or talked nonsense: a world that is broken."""
    if execution.limit or execution.exit_code != 0:
        return Answers(broken=f"the database cannot be asked: {_ending(execution)}")
    try:
        said = json.loads(execution.output)
        if broken := said.get("broken"):
            return Answers(broken=str(broken)[:500])
        given = tuple(_answer(**one) for one in said["answers"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        given = ()
    if len(given) != count:
        return Answers(broken="the database cannot be asked: what it answers is no answer")
    return Answers(given)


def _answer(
    names: Sequence[str] = (), rows: Sequence[Sequence[FLAT]] = (), error: str = ""
) -> Answer:
    cells = tuple(map(tuple, rows))
    if (cells and not names) or any(len(row) != len(names) for row in cells):
        raise ValueError("not a value for each column")
    if not all(isinstance(cell, FLAT) for row in cells for cell in row):
        raise ValueError("not a plain value")
    return Answer(tuple(map(str, names)), cells, str(error)[:500])


def _ending(execution: Execution) -> str:
    code = execution.exit_code
    if execution.limit or code is None:
        return f"it took too much ({execution.limit})"
    if code == 128 + signal.SIGXCPU:
        return "it took too much (cpu)"
    return f"signal {code - 128}" if code > 128 else f"exit code {code}"
