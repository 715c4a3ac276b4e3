"""The module that a scenario's program imports as `agenteval_test`: ways to run the model's code.

The program knows what is right, so no code of the model's may run in it: that runs in processes of
its own, which are given inputs and nothing else. scenarios/README.md says how to write a test.
"""

import json
import linecache
import os
import select as waiting
import subprocess
import sys
import time
import traceback
from typing import Any, NamedTuple

SECONDS = 10.0  # for one answer
LONGEST = 4 << 20  # bytes of one answer
known: dict[str, Any] = {}  # the variables of the trial
_subject = ""
_modules: dict[str, "_Subject"] = {}


class Raised(Exception):  # noqa: N818 - it is the model's code that is in error
    """The model's code raised: `kinds` are the names of the exception's classes, its own first."""

    def __init__(self, kinds: list[str], said: str) -> None:
        super().__init__(f"{kinds[0]}: {said}")
        self.kinds = kinds


class Broken(Exception):  # noqa: N818 - as Raised
    """The process of the model's code ended, gave no answer in time, or no sensible one."""


class Ran(NamedTuple):
    """The result of a program: its exit code (negative: a signal), its output and its errors."""

    code: int
    output: str
    errors: str


def call(path: str, function: str, *arguments: Any, **options: Any) -> Any:
    """Return the result of a function of the module at `path`; JSON carries it and the arguments.

    All calls of one path go to one process, where the module was loaded once.
    """
    return _called(path, function, arguments, options)["value"]


def call_in_place(path: str, function: str, *arguments: Any) -> tuple[Any, list[Any]]:
    """Return the result of `call`, and the arguments as that process says they were afterwards."""
    answer = _called(path, function, arguments, {})
    return answer["value"], answer["arguments"]


def select(sql: str, *, database: str, before: Any = ()) -> tuple[list[str], list[list[Any]]]:
    """Return columns and rows of a query on a copy of the database, after the (statement, values).

    Each has a process and a copy of its own: a query that changes something spoils no other.
    """
    question = {
        "do": "select",
        "database": database,
        "before": list(before),
        "sql": sql,
    }
    process = _Subject()
    try:
        names, rows = process.answer(question)["value"]
    finally:
        process.end()
    return names, rows


def run(*words: str, seconds: float = SECONDS, given: str = "") -> Ran:
    """Run a Python program of the workspace with these words, and with `given` as its input."""
    try:
        done = subprocess.run(
            [sys.executable, "-B", *words],
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Broken(f"{words[0]}: not at its end after {seconds:g} s") from None
    return Ran(done.returncode, done.stdout, done.stderr)


def _called(path: str, function: str, arguments: Any, options: Any) -> Any:
    if path not in _modules:
        _modules[path] = _Subject()
    question = {
        "do": "call",
        "path": path,
        "function": function,
        "arguments": arguments,
        "options": options,
    }
    answer = _modules[path].answer(question)
    if answer.keys() != {"value", "arguments"}:
        raise Broken("an answer of another form")
    return answer


class _Subject:
    """One process of inside/subject.py, in a session of its own."""

    def __init__(self) -> None:
        source, self._to = os.pipe()
        self._from, sink = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-c", _subject],
            stdin=source,
            stdout=sink,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(source)
        os.close(sink)

    def answer(self, question: dict[str, Any]) -> Any:
        try:
            rest = json.dumps(question).encode() + b"\n"
            while rest:
                rest = rest[os.write(self._to, rest) :]
            answer = json.loads(self._line())
        except (OSError, ValueError, RecursionError) as error:
            raise Broken(f"no answer: {error}") from None
        if not isinstance(answer, dict):
            raise Broken("an answer of another form")
        if "raised" in answer:
            kinds = [*map(str, answer["raised"]), "?"]
            raise Raised(kinds, str(answer.get("said")))
        return answer

    def _line(self) -> bytes:
        line = b""
        until = time.monotonic() + SECONDS
        while not line.endswith(b"\n"):
            left = max(0.0, until - time.monotonic())
            ready, _, _ = waiting.select([self._from], [], [], left)
            if not ready:
                raise ValueError(f"none in {SECONDS:g} s")
            part = os.read(self._from, 1 << 16)
            if not part:
                raise ValueError("the process ended")
            if len(line) > LONGEST:
                raise ValueError("too long a one")
            line += part
        return line

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)


def begin(order: dict[str, Any]) -> bool:
    """Run the program; return True if it came to its end."""
    global _subject  # noqa: PLW0603 - what came with the order
    _subject = order["subject"]
    known.update(json.loads(order["argument"]))
    source = order["source"]
    name = "<program>"
    lines = source.splitlines(keepends=True)
    linecache.cache[name] = (len(source), None, lines, name)
    main = sys.modules["__main__"]
    try:
        exec(compile(source, name, "exec"), main.__dict__)  # noqa: S102
    except SystemExit:
        print("it ended by exit; what passes comes to its last line")
        return False
    except BaseException:  # noqa: BLE001 - whatever it is, the test has failed
        traceback.print_exc()
        return False
    return True
