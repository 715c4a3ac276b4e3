"""Fakes for tests, ours and yours: trials and runs written as a few words.

    trial("uv run notes.py list", denied("ls -la"), says("Done."))

makes a trial of three turns: an allowed call, a denied one, and a turn that only talks.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agenteval.protocols import ToolSchema
from agenteval.shell.gate import Span
from agenteval.trial.call import BASH, Allowed, Denied, Ending, Finding, Outcome, ToolCall, Verdict
from agenteval.trial.run import ModelCard, Run
from agenteval.trial.trial import (
    AgentPart,
    CallRecord,
    Execution,
    HandshakeStep,
    Message,
    Timing,
    Trial,
    Turn,
    Usage,
)

ALLOWED = Allowed()
TIMING = Timing(
    0.2,
    17,
    gap_mean=0.05,
    gap_median=0.04,
    gap_p95=0.1,
    gap_longest=0.2,
)


@dataclass(frozen=True, slots=True)
class Said:
    """A turn of text without a tool call."""

    text: str


@dataclass(frozen=True, slots=True)
class Made:
    """A tool call to be made, with its verdict and the result of running it."""

    name: str
    arguments: dict[str, Any]
    verdict: Verdict = ALLOWED
    execution: Execution | None = None


Part = str | Said | Made | tuple[str | Made, ...]  # one turn; a tuple is several calls in one turn


def says(text: str) -> Said:
    return Said(text)


def denied(command: str, failure_class: str = "bare-binary", *, evidence: str = "") -> Made:
    """Return a bash call denied as `failure_class`, shown by `evidence` in it, or by all of it."""
    text = evidence or command
    start = command.index(text)
    finding = Finding(failure_class, Span(start, start + len(text), text), "Not like this.")
    return Made(BASH, {"command": command}, Denied((finding,)))


def tool(name: str, *, failure_class: str = "", **arguments: Any) -> Made:
    """Return a call of any tool; denied when a failure class is given."""
    finding = Finding(failure_class, Span(0, 0, name))
    verdict = Denied((finding,)) if failure_class else ALLOWED
    return Made(name, arguments, verdict)


def failing(command: str, exit_code: int | None = 1, *, limit: str = "") -> Made:
    """Return an allowed bash call whose execution fails, or is ended by a limit."""
    output = f"ended by {limit}" if limit else "error: no such note"
    execution = Execution(None if limit else exit_code, output, 0.1, limit)
    return Made(BASH, {"command": command}, execution=execution)


def trial(
    *parts: Part,
    number: int = 1,
    handshake: Iterable[tuple[str, bool]] = (),
    **fields: Any,
) -> Trial:
    """Return a finished trial with one turn for each part; any other field may be given by name."""
    turns: list[Turn] = []
    calls: list[CallRecord] = []
    for number_of_turn, part in enumerate(parts):
        items = part if isinstance(part, tuple) else (part,)
        turn, records = _turn(number_of_turn, items)
        turns.append(turn)
        calls += records
    ended: dict[str, Any] = {
        "scenario": "notes",
        "seed": 1000 + number,
        "ending": Ending.STOPPED,
        "outcome": Outcome.COMPLETED,
        "seconds": float(len(parts)),
    }
    steps = [HandshakeStep(name, reached, in_order=reached or None) for name, reached in handshake]
    return Trial(
        number=number,
        turns=tuple(turns),
        calls=tuple(calls),
        handshake=tuple(steps),
        **(ended | fields),
    )


def sub_agent(name: str, *parts: Part, number: int = 1, **fields: Any) -> AgentPart:
    """Return the part of a sub-agent, for the `agents` of a trial."""
    played = trial(*parts)
    settings: dict[str, Any] = {
        "parent": 0,
        "depth": 1,
        "ending": Ending.STOPPED,
        "turns": played.turns,
        "calls": played.calls,
    }
    return AgentPart(name, number, **(settings | fields))


class ScriptedModel:
    """Implements `protocols.Model`: replies with one turn for each part, then with plain text.

    An exception among the parts is raised in its place. `heard` keeps the messages of each ask.
    """

    def __init__(self, *parts: Part | Exception) -> None:
        self._parts = list(parts)
        self.heard: list[tuple[Message, ...]] = []

    async def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        *,
        seed: int,
    ) -> Turn:
        del tools, seed
        await asyncio.sleep(0)  # a served model is always waited for, and can be cut short there
        self.heard.append(tuple(messages))
        part = self._parts.pop(0) if self._parts else says("Done.")
        if isinstance(part, Exception):
            raise part
        return trial(part).turns[0]


def card(name: str = "test-model", **fields: Any) -> ModelCard:
    return ModelCard(name=name, served_id=fields.pop("served_id", name), **fields)


def run(*trials: Trial, model: ModelCard | None = None, run_id: str = "r1", **fields: Any) -> Run:
    """Return a complete run of these trials; any other field of Run may be given by name."""
    settings: dict[str, Any] = {
        "started": "2026-01-02T03:04:05Z",
        "seed": 7,
        "trials_planned": len(trials),
        "max_turns": 20,
        "concurrency": 4,
        "sandbox": "bubblewrap",
        "protocol": "1",
        "taxonomy": "1",
        "policies": {"notes": "sha256:0f0f"},
        "complete": True,
    }
    return Run(id=run_id, model=model or card(), trials=trials, **(settings | fields))


def _turn(number: int, items: Iterable[str | Said | Made]) -> tuple[Turn, list[CallRecord]]:
    records: list[CallRecord] = []
    texts: list[str] = []
    for place, item in enumerate(items):
        if isinstance(item, Said):
            texts.append(item.text)
            continue
        made = Made(BASH, {"command": item}) if isinstance(item, str) else item
        records.append(_record(number, place, made))
    reason = "tool_calls" if records else "stop"
    calls = tuple(record.call for record in records)
    usage = Usage(100, 20, cached_tokens=80)
    turn = Turn(" ".join(texts), calls, reason, usage, "{}", 1.0, TIMING)
    return turn, records


def _record(turn: int, place: int, part: Made) -> CallRecord:
    raw = json.dumps(part.arguments)
    call = ToolCall(f"call-{turn}-{place}", part.name, raw, part.arguments)
    if not part.verdict.allowed:
        return CallRecord(turn, place, call, part.verdict, "Denied. Not like this.")
    execution = part.execution
    if execution is None and part.name == BASH:
        execution = Execution(0, "ok", 0.1)
    reply = execution.output if execution else "ok"
    return CallRecord(
        turn,
        place,
        call,
        part.verdict,
        reply,
        execution,
    )
