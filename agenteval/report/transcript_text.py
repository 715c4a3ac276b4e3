"""A trial as text and as JSON: its prompt, its turns, how it ended and why."""

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


def lines(run: Run, transcript: TrialShown, *, whole_prompt: bool) -> Iterator[str]:
    """Yield the trial as lines; nothing that a model wrote can move the cursor."""
    yield from map(_one_line, _lines(run, transcript, whole_prompt=whole_prompt))


def _one_line(line: str) -> str:
    """Return one line; a tab stays, as it is of a text and not of a name."""
    return visible(line).replace("\n", "\u240a")


def _lines(run: Run, transcript: TrialShown, *, whole_prompt: bool) -> Iterator[str]:
    trial = transcript.trial
    simulated = f"  {MARK}" if run.model.simulated else ""
    yield f"{trial.scenario} #{trial.number} of {run.model.name}{simulated}"
    arm = f", arm {run.arm.name}" if run.arm else ""
    yield f"run {run.id}, seed {trial.seed}{arm}, {trial.seconds:.1f} s of the model's"
    yield from _why(transcript)
    yield from _prompt(trial.prompt, whole=whole_prompt)
    yield from _turns(transcript.turns)
    for agent in transcript.agents:
        yield from _agent(agent, whole_prompt=whole_prompt)


def ended(transcript: TrialShown) -> Iterator[str]:
    """Yield how the trial ended and why, and how many of its calls were denied."""
    yield from map(_one_line, _why(transcript))
    trial = transcript.trial
    calls = [*trial.calls, *(call for part in trial.agents for call in part.calls)]
    denied = sum(not call.verdict.allowed for call in calls)
    yield f"{counted(len(calls), 'tool call')}, {denied} denied"


def of_agent(transcript: TrialShown, part: AgentPart, *, whole_prompt: bool) -> Iterator[str]:
    """Yield the lines of one sub-agent, with those that it started."""
    for one in _agents_below(transcript):
        if one.part == part:
            yield from map(_one_line, _agent(one, whole_prompt=whole_prompt))


def _agents_below(part_shown: TrialShown | AgentShown) -> Iterator[AgentShown]:
    """Yield all sub-agents below, each before those that it started."""
    agents = (agent for turn in part_shown.turns for call in turn.calls for agent in call.agents)
    for agent in (*agents, *part_shown.agents):
        yield agent
        yield from _agents_below(agent)


def _why(transcript: TrialShown) -> Iterator[str]:
    trial = transcript.trial
    yield f"{trial.outcome}: {transcript.ended}"
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
    for name, reached, where in transcript.steps:
        state = "reached" if reached else "not reached"
        yield f"{_IN}handshake, {state}: {name}{f' ({where})' if where else ''}"


def _prompt(prompt: Sequence[Message], *, whole: bool) -> Iterator[str]:
    for role, text in told_messages(prompt):
        if whole or (role == "user" and text == prompt[-1].content):
            yield ""
            yield f"{role}:"
            yield from _indented(text)
        else:
            yield ""
            yield f"{role}: {len(text):,} characters, with --whole"


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


def _agent(agent_shown: AgentShown, *, whole_prompt: bool) -> Iterator[str]:
    part = agent_shown.part
    yield ""
    because = f"; {agent_shown.reason}" if agent_shown.reason else ""
    yield f"sub-agent {part.label}, {agent_shown.denials} denied; {ENDED[part.ending]}{because}"
    yield from _prompt(part.prompt, whole=whole_prompt)
    yield from _turns(agent_shown.turns)
    for agent in agent_shown.agents:
        yield from _agent(agent, whole_prompt=whole_prompt)


def _indented(text: str, deep: int = 1) -> Iterator[str]:
    return (f"{_IN * deep}{line}".rstrip() for line in text.splitlines())


def document(run: Run, trial: Trial) -> dict[str, Any]:
    """Return a trial in full; its keys are stable and documented in docs/json.md."""
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
