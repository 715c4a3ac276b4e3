"""A trial as text and as JSON: what was asked, what each turn did, how it ended and why."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from agenteval.core.plain import shortened, visible
from agenteval.core.run import Run
from agenteval.core.trial import AgentPart, CallRecord, Message, Trial, Turn
from agenteval.report.tables import counted
from agenteval.report.transcripts import (
    ENDED,
    AgentShown,
    CallShown,
    TrialShown,
    TurnShown,
    told_messages,
)

SCHEMA = "agenteval.transcript/1"
MARK = "SIMULATED"
_IN = "    "


def lines(run: Run, shown: TrialShown, *, whole_prompt: bool) -> Iterator[str]:
    """One line each, of whatever a model wrote: nothing in it moves the cursor."""
    yield from map(_shown, _lines(run, shown, whole_prompt=whole_prompt))


def _shown(line: str) -> str:
    """Return one line; a tab stays, as it is of a text and not of a name."""
    return visible(line).replace("\n", "\u240a")


def _lines(run: Run, shown: TrialShown, *, whole_prompt: bool) -> Iterator[str]:
    trial = shown.trial
    simulated = f"  {MARK}" if run.model.simulated else ""
    yield f"{trial.scenario} #{trial.number} of {run.model.name}{simulated}"
    arm = f", arm {run.arm.name}" if run.arm else ""
    yield f"run {run.id}, seed {trial.seed}{arm}, {trial.seconds:.1f} s of the model's"
    yield from _why(shown)
    yield from _prompt(trial.prompt, whole=whole_prompt)
    yield from _turns(shown.turns)
    for agent in shown.agents:
        yield from _agent(agent, whole_prompt=whole_prompt)


def ended(shown: TrialShown) -> Iterator[str]:
    """How it ended and why, and how many of its calls were denied."""
    yield from map(_shown, _why(shown))
    trial = shown.trial
    calls = [*trial.calls, *(call for part in trial.agents for call in part.calls)]
    denied = sum(not call.verdict.allowed for call in calls)
    yield f"{counted(len(calls), 'tool call')}, {denied} denied"


def of_agent(shown: TrialShown, part: AgentPart, *, whole_prompt: bool) -> Iterator[str]:
    """The part of one sub-agent, with those that it led to."""
    for one in agents_of(shown):
        if one.part == part:
            yield from map(_shown, _agent(one, whole_prompt=whole_prompt))


def agents_of(shown: TrialShown | AgentShown) -> Iterator[AgentShown]:
    """All sub-agents below, each before those that it led to."""
    asked = (agent for turn in shown.turns for call in turn.calls for agent in call.agents)
    for agent in (*asked, *shown.agents):
        yield agent
        yield from agents_of(agent)


def _why(shown: TrialShown) -> Iterator[str]:
    trial = shown.trial
    yield f"{trial.outcome}: {shown.ended}"
    own = trial.reason if not trial.goal else trial.reason.partition("not met: ")[0]
    if own.strip("; "):
        yield from _indented(own.strip("; "))
    for check in trial.goal:
        found = (
            "" if check.expected is None and check.found is None else f" (found {check.found!r})"
        )
        yield f"{_IN}held: {check.name}{found}" if check.held else f"{_IN}missed: {check.failure}"
    if trial.goal_turn is not None:
        yield f"{_IN}the goal first held after turn {trial.goal_turn + 1}"
    for name, reached, where in shown.steps:
        state = "reached" if reached else "not reached"
        yield f"{_IN}handshake, {state}: {name}{f' ({where})' if where else ''}"


def _prompt(prompt: Sequence[Message], *, whole: bool) -> Iterator[str]:
    for role, said in told_messages(prompt):
        if whole or (role == "user" and said == prompt[-1].content):
            yield ""
            yield f"{role}:"
            yield from _indented(said)
        else:
            yield ""
            yield f"{role}: {len(said):,} characters, with --whole"


def _turns(turns: Sequence[TurnShown]) -> Iterator[str]:
    for turn in turns:
        yield ""
        yield f"turn {turn.number}: {turn.cost}"
        if turn.reasoning:
            yield f"{_IN}thought:"
            yield from _indented(turn.reasoning, 2)
        if turn.text:
            yield from _indented(turn.text)
        for call in turn.calls:
            yield from _call(call)
        for one in turn.malformed:
            yield f"{_IN}{one.kind}, to blame: {one.blame} ({one.why})"


def _call(call: CallShown) -> Iterator[str]:
    tool = "" if call.tool == "bash" else f" {call.tool}"
    yield f"{_IN}{call.state}{tool}"
    yield from _indented(f"{call.before}{call.marked}{call.after}", 2)
    if call.classes:
        also = f", also {', '.join(call.classes[1:])}" if call.classes[1:] else ""
        at = f" at {shortened(call.marked, 60)!r}" if call.marked else ""
        then = f", then {call.followed}" if call.followed else ""
        yield f"{_IN * 2}^ {call.classes[0]}{at}{also}{then}"
    for line in call.reply.splitlines():
        yield f"{_IN * 2}| {line}"
    if call.cut:
        yield f"{_IN * 2}| ({call.cut} more characters)"
    for agent in call.agents:
        yield from _agent(agent, whole_prompt=False)


def _agent(shown: AgentShown, *, whole_prompt: bool) -> Iterator[str]:
    part = shown.part
    yield ""
    because = f"; {shown.reason}" if shown.reason else ""
    yield f"sub-agent {part.label}, {shown.denials} denied; {ENDED[part.ending]}{because}"
    yield from _prompt(part.prompt, whole=whole_prompt)
    yield from _turns(shown.turns)
    for agent in shown.agents:
        yield from _agent(agent, whole_prompt=whole_prompt)


def _indented(text: str, deep: int = 1) -> Iterator[str]:
    return (f"{_IN * deep}{line}".rstrip() for line in text.splitlines())


def document(run: Run, trial: Trial) -> dict[str, Any]:
    """Nothing is cut. Its keys stay, and are told in docs/json.md."""
    return {
        "schema": SCHEMA,
        "run": run.id,
        "model": run.model.name,
        "simulated": run.model.simulated,
        "arm": run.arm.name if run.arm else None,
        "scenario": trial.scenario,
        "number": trial.number,
        "seed": trial.seed,
        "outcome": trial.outcome,
        "ending": trial.ending,
        "reason": trial.reason,
        "cause": trial.cause,
        "seconds": trial.seconds,
        "goal": [asdict(check) for check in trial.goal],
        "goal_turn": trial.goal_turn,
        "handshake": [asdict(step) for step in trial.handshake],
        **_acted(trial),
        "agents": [agent_document(part) for part in trial.agents],
    }


def agent_document(part: AgentPart) -> dict[str, Any]:
    return {
        "name": part.label,
        "parent": part.parent,
        "turn": part.turn,
        "position": part.position,
        "ending": part.ending,
        "reason": part.reason,
        **_acted(part),
    }


def _acted(part: Trial | AgentPart) -> dict[str, Any]:
    return {
        "prompt": [{"role": role, "content": said} for role, said in told_messages(part.prompt)],
        "turns": [_turn(at, turn, part.calls) for at, turn in enumerate(part.turns)],
    }


def _turn(at: int, turn: Turn, calls: Sequence[CallRecord]) -> dict[str, Any]:
    return {
        "text": turn.text,
        "reasoning": turn.reasoning,
        "finish_reason": turn.finish_reason,
        "seconds": turn.seconds,
        "usage": asdict(turn.usage),
        "malformed": [asdict(one) for one in turn.malformed],
        "calls": [_call_document(call) for call in calls if call.turn == at],
    }


def _call_document(record: CallRecord) -> dict[str, Any]:
    ran = record.execution
    return {
        "position": record.position,
        "tool": record.call.name,
        "arguments": record.call.json_arguments,
        "allowed": record.verdict.allowed,
        "findings": [
            {"class": one.failure_class, "evidence": one.evidence._asdict(), "hint": one.hint}
            for one in record.verdict.findings
        ],
        "reply": record.reply,
        "exit_code": ran.exit_code if ran else None,
        "limit": ran.limit if ran else "",
        "seconds": ran.seconds if ran else None,
    }
