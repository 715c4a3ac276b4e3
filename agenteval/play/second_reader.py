"""The cross-check parser of what is about to run: bashlex, in a process that can be killed.

It can only deny. bashlex fails on text that bash reads, and hangs on some: that is counted, and
the gate's reading stands.
"""

import asyncio
import json
import re
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, Self, cast

from agenteval.shell.facts import without_heredocs
from agenteval.trial.call import BashRun, Denied, ToolCall, Verdict

_CHILD = Path(__file__).with_name("second_reader_child.py")
_ANSWERS = ("agreed", "objected", "failed", "timed out", "known faults")
_START_SECONDS = 20.0  # to import bashlex on a busy machine
_LARGEST = 1 << 30  # bytes of an answer: more memory than the process may use
_KEPT = 1024  # readings
_LONGEST = 1000  # characters of a text whose reading is kept
_Answer = dict[str, Any]


class SecondReader:
    """Asks whether bashlex reads the same commands and words as the gate.

    It reads one text at a time, and none twice: the trials of a scenario run many equal commands,
    and the reading of a text depends on nothing else. A text that it could not read is read again.
    `counts` says how often it agreed, objected, failed and timed out, and how often it agreed only
    once its known faults were avoided.
    """

    def __init__(self, seconds: float = 0.5) -> None:
        self._seconds = seconds
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        self._known: dict[str, _Answer] = {}
        self.counts: Counter[str] = Counter(dict.fromkeys(_ANSWERS, 0))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def objection(self, run: BashRun) -> str:
        """Return both readings if bashlex reads other commands or words in what is to run; else "".

        A command that only another harness's rules could read is judged by them alone.
        """
        if not run.commands:
            return ""
        answer = await self._read(run.text)
        if "commands" not in answer:
            self.counts["timed out" if answer.get("late") else "failed"] += 1
            return ""
        gate_commands = sorted(list(words) for words in run.commands)
        bashlex_commands = sorted(answer["commands"])
        if gate_commands == bashlex_commands:
            self.counts["agreed"] += 1
            return ""
        if await self._is_known_fault(run):
            self.counts["known faults"] += 1
            return ""
        self.counts["objected"] += 1
        gate = json.dumps(gate_commands, ensure_ascii=False)
        bashlex = json.dumps(bashlex_commands, ensure_ascii=False)
        return f"the gate reads {gate}; bashlex reads {bashlex}"

    async def _is_known_fault(self, run: BashRun) -> bool:
        """Return True if it agrees once the text is rewritten to avoid its known faults."""
        other_text = _in_other_words(run.text)
        if other_text == run.text:
            return False
        answer = await self._read(other_text)
        bashlex_commands = answer.get("commands", ())
        gate_commands = map(_without_lines_inside, run.commands)
        return sorted(gate_commands) == sorted(bashlex_commands)

    async def _read(self, text: str) -> _Answer:
        if text in self._known:
            return self._known[text]
        async with self._turn:
            answer = await self._ask(text)
        if "commands" in answer and len(text) <= _LONGEST:
            if len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            self._known[text] = answer
        return answer

    async def _ask(self, text: str) -> _Answer:
        is_answered = False
        try:
            process = self._process or await self._start()
            async with asyncio.timeout(self._seconds):
                await _send(process, text)
                answer = await _receive(process)
            is_answered = True
        except TimeoutError:
            return {"late": True}
        except (OSError, EOFError):
            return {}
        finally:
            # An answer that is still to come would be taken for that to the next question.
            if not is_answered:
                await self.stop()
        return answer

    async def _start(self) -> Process:
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(_CHILD),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={},
            limit=_LARGEST,
        )
        async with asyncio.timeout(_START_SECONDS):
            await _receive(process)
        return process

    async def stop(self) -> None:
        """End the process; another question starts it again."""
        process = self._process
        self._process = None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        await process.wait()


Judge = Callable[[ToolCall], Verdict]


class Deny(Protocol):
    """The verdict on a call that is denied for an objection."""

    def __call__(self, call: ToolCall, *, objection: str) -> Verdict: ...


@contextmanager
def objecting(judge: Judge, deny: Deny) -> Iterator[Judge]:
    """Yield a judge that also has a second reader check each command to run, as a run does."""
    reader = SecondReader()
    with asyncio.Runner() as runner:

        def judge_twice(call: ToolCall) -> Verdict:
            verdict = judge(call)
            if isinstance(verdict, Denied) or not isinstance(verdict.runs, BashRun):
                return verdict
            objection = runner.run(reader.objection(verdict.runs))
            return deny(call, objection=objection) if objection else verdict

        try:
            yield judge_twice
        finally:
            runner.run(reader.stop())


_LIVE = re.compile(r"`|\$[\w({@*#?!$-]")
_TOKEN = re.compile(
    r"(?P<single>'[^']*+')|(?P<joined>\\\n)|(?P<escaped>\\(?s:.))|(?P<open>\$\()|(?P<bracket>[()])"
    r"|(?P<double>\")|(?P<comment>(?<![^\s;&|(])#[^\n]*+)|(?P<line>\n\s*+)"
)
_GOES_ON = re.compile(r"(?:[;&|({]|\b(?:do|then|else|elif|if|while|until))[ \t]*+\Z")


def _in_other_words(text: str) -> str:
    """Return a text that is the same to bash, without what bashlex reads wrongly.

    In `$( )` it drops what follows the end of a line and miscounts behind a joined one; it reads a
    here-document in a group as commands. A body in which something is expanded stays.
    """
    without_bodies, heredocs = without_heredocs(text)
    for heredoc in heredocs:
        if heredoc.expanded and _LIVE.search(text, *heredoc.body):
            return _without_lines(text)
    return _without_lines(without_bodies)


def _without_lines_inside(words: Sequence[str]) -> list[str]:
    return [_without_lines(word) if "$(" in word else word for word in words]


def _without_lines(text: str) -> str:
    """Return it without joined lines and comments; lines that end within `$( )` end by `;`."""
    written: list[str] = []
    # The $(, brackets and double quotes that are open.
    inside: list[str] = []
    at = 0
    while match := _TOKEN.search(text, at):
        written.append(text[at : match.start()])
        at = match.end()
        kind = match.lastgroup
        piece = match[0]
        is_quoted = inside[-1:] == ['"']
        if kind == "double" and is_quoted:
            inside.pop()
        elif kind in {"double", "open"} or (piece == "(" and not is_quoted):
            inside.append(piece)
        elif kind == "bracket" and inside and not is_quoted:
            inside.pop()
        elif is_quoted and kind in {"single", "comment"}:
            # Within double quotes a quote or a # is a plain character.
            at = match.start() + 1
            piece = piece[0]
        elif kind == "joined" or (kind == "comment" and "$(" in inside):
            piece = ""
        elif kind == "line" and not is_quoted and "$(" in inside:
            before = "".join(written[-4:])
            is_end = text.startswith(")", at) or _GOES_ON.search(before)
            piece = " " if is_end else "; "
        written.append(piece)
    return "".join((*written, text[at:]))


async def _send(process: Process, text: str) -> None:
    stdin = cast("StreamWriter", process.stdin)
    stdin.write(json.dumps(text).encode() + b"\n")
    await stdin.drain()


async def _receive(process: Process) -> _Answer:
    stdout = cast("StreamReader", process.stdout)
    line = await stdout.readuntil()
    return cast("_Answer", json.loads(line))
