"""The mapping of rows to trials, turns and calls: every field comes back as it was."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from agenteval.core.call import Allowed, Denied, Finding, ToolCall, Verdict
from agenteval.core.malformed import Blame, MalformedCall, Repair
from agenteval.core.outcome import Ending, Outcome
from agenteval.core.scenario import GoalCheck
from agenteval.core.span import Span
from agenteval.core.summary import summarize
from agenteval.core.trial import (
    AgentPart,
    CallRecord,
    Execution,
    HandshakeStep,
    Timing,
    Trial,
    Turn,
    Usage,
)
from agenteval.errors import Cause
from agenteval.store.kept_texts import NO_PROMPTS, Prompts, as_written, call_fields, written_call
from agenteval.store.summaries import INTERRUPTED, Values, summary_values

if TYPE_CHECKING:  # an ORM, which those that read by plain SQL do without
    from agenteval.store.rows import CallRow, TrialRow, TurnRow

_UNDERIVED = dict.fromkeys(("derived", "offending", "shape"), "")  # as all but calls out of logs
_GAPS = ("gap_mean", "gap_median", "gap_p95", "gap_longest")


def turn_values(trial_id: int, number: int, turn: Turn, *, agent: str) -> Values:
    usage, timing = turn.usage, turn.timing
    return {
        "trial_id": trial_id,
        "agent": agent,
        "number": number,
        "text": turn.text,
        "finish_reason": turn.finish_reason,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cached_tokens": usage.cached_tokens,
        "seconds": turn.seconds,
        "first_piece": timing.first if timing else None,
        "pieces": timing.pieces if timing else 0,
        **dict(zip(_GAPS, timing.gaps if timing else (0.0,) * len(_GAPS), strict=True)),
        "garbles": [asdict(one) for one in turn.malformed],
        "repairs": [asdict(repair) for repair in turn.repairs],
        "repeats": turn.repeats,
        "model": turn.model,
        "ended": turn.ended,
        "reasoning": turn.reasoning,
        "raw": turn.raw,
        "calls": [call_fields(call) for call in turn.calls],
    }


def _turn_value(row: "TurnRow") -> Turn:
    return Turn(
        text=row.text,
        calls=tuple(map(written_call, row.calls)),
        finish_reason=row.finish_reason,
        usage=Usage(
            row.prompt_tokens, row.completion_tokens, row.reasoning_tokens, row.cached_tokens
        ),
        raw=row.raw,
        seconds=row.seconds,
        timing=_timing(row),
        malformed=tuple(map(malformed_value, row.garbles)),
        repairs=tuple(Repair(**repair) for repair in row.repairs),
        repeats=row.repeats,
        model=row.model,
        ended=row.ended,
        reasoning=row.reasoning,
    )


def _timing(row: "TurnRow") -> Timing | None:
    if row.first_piece is None:
        return None
    gaps = (row.gap_mean, row.gap_median, row.gap_p95, row.gap_longest)
    return Timing(row.first_piece, row.pieces, *gaps)


@as_written()
def malformed_value(stored: dict[str, Any]) -> MalformedCall:
    return MalformedCall(**(stored | {"blame": Blame(stored["blame"])}))


def call_values(
    trial_id: int, record: CallRecord, *, agent: str, policy: str, taxonomy: str
) -> Values:
    call, ran = record.call, record.execution
    is_reply = ran is not None and ran.output == record.reply  # nearly always: it is kept once
    return {
        "trial_id": trial_id,
        "agent": agent,
        "turn": record.turn,
        "position": record.position,
        "call_id": call.id,
        "name": call.name,
        "raw": call.raw,
        "arguments": None if call.arguments is None else dict(call.arguments),
        "garbled": call.malformed,
        **verdict_values(record.verdict),
        "objection": record.objection,
        "policy": policy,
        "taxonomy": taxonomy,
        "reply": record.reply,
        "exit_code": ran.exit_code if ran else None,
        "output": "" if is_reply else ran.output if ran else None,
        "output_is_reply": is_reply,
        "seconds": ran.seconds if ran else None,
        "limit": ran.limit if ran else "",
        "cut": ran.cut if ran else False,
        "harness": record.harness,
        **_UNDERIVED,
    }


def call_value(row: "CallRow") -> CallRecord:
    return CallRecord(
        turn=row.turn,
        position=row.position,
        call=ToolCall(row.call_id, row.name, row.raw, row.arguments, row.garbled),
        verdict=_verdict(row),
        reply=row.reply,
        execution=_execution(row),
        objection=row.objection,
        harness=row.harness,
    )


def verdict_values(verdict: Verdict) -> Values:
    primary = verdict.primary
    return {
        "allowed": verdict.allowed,
        "failure_class": primary.failure_class if primary else "",
        "findings": [_finding_fields(finding) for finding in verdict.findings],
    }


def _finding_fields(finding: Finding) -> Values:
    shown = {"evidence": finding.evidence._asdict(), "facets": list(finding.facets)}
    return finding._asdict() | shown


def _verdict(row: "CallRow") -> Verdict:
    return Allowed() if row.allowed else Denied.explained([*map(_finding, row.findings)])


@as_written()
def _finding(stored: dict[str, Any]) -> Finding:
    return Finding(
        failure_class=stored["failure_class"],
        evidence=Span(**stored["evidence"]),
        hint=stored["hint"],
        facets=tuple(stored["facets"]),
    )


def _execution(row: "CallRow") -> Execution | None:
    if row.output is None or row.seconds is None:
        return None
    output = row.reply if row.output_is_reply or row.output == row.reply else row.output
    return Execution(row.exit_code, output, row.seconds, row.limit, row.cut)


@as_written()
def trial_value(
    row: "TrialRow", turns: "list[TurnRow]", calls: "list[CallRow]", prompts: Prompts = NO_PROMPTS
) -> Trial:
    """A stored trial; one that was in flight when the run died comes back void, with the reason."""
    ended = bool(row.outcome)
    return Trial(
        scenario=row.scenario,
        number=row.number,
        seed=row.seed,
        turns=tuple(_turn_value(turn) for turn in turns if not turn.agent),
        calls=tuple(call_value(call) for call in calls if not call.agent),
        ending=Ending(row.ending) if ended else Ending.BROKEN,
        outcome=Outcome(row.outcome) if ended else Outcome.VOID,
        reason=row.reason if ended else INTERRUPTED,
        cause=_cause_of(row.outcome, row.cause),
        retries=row.retries,
        stretched=row.stretched,
        handshake=tuple(HandshakeStep(**step) for step in row.handshake),
        goal=tuple(GoalCheck(**check) for check in row.goal),
        goal_turn=row.goal_turn,
        seconds=row.seconds,
        agents=tuple(_agents(row, turns, calls, prompts)),
        prompt=tuple(prompts.get("", ())),
    )


def ended_values(trial: Trial) -> Values:
    """Return the columns that the row of a trial gets when the trial has ended."""
    return {
        "ending": trial.ending,
        "seconds": trial.seconds,
        **summary_values(summarize(trial)),
        "agents": [_agent_fields(part) for part in trial.agents],
    }


def _agent_fields(part: AgentPart) -> Values:
    """Return a sub-agent's fields in its trial's row; its turns and calls are rows of their own."""
    return {
        "name": part.name,
        "number": part.number,
        "parent": part.parent,
        "depth": part.depth,
        "ending": part.ending,
        "reason": part.reason,
        "turn": part.turn,
        "position": part.position,
    }


def _agents(
    row: "TrialRow", turns: "list[TurnRow]", calls: "list[CallRow]", prompts: Prompts
) -> Iterator[AgentPart]:
    for part in _kept_agents(row) if row.outcome else _agents_in_flight(turns):
        yield replace(
            part,
            turns=tuple(_turn_value(turn) for turn in turns if turn.agent == part.label),
            calls=tuple(call_value(call) for call in calls if call.agent == part.label),
            prompt=tuple(prompts.get(part.label, ())),
        )


def _kept_agents(row: "TrialRow") -> Iterator[AgentPart]:
    for stored in row.agents:
        yield AgentPart(**(stored | {"ending": Ending(stored["ending"])}))


def _agents_in_flight(turns: "list[TurnRow]") -> Iterator[AgentPart]:
    """Yield the sub-agents of a trial that never ended; nobody knows who called them."""
    for label in dict.fromkeys(turn.agent for turn in turns if turn.agent):
        name, _, number = label.rpartition("/")
        yield AgentPart(name, int(number), parent=0, depth=0, ending=Ending.BROKEN)


def _cause_of(outcome: str, cause: str) -> Cause | None:
    """Return the cause of a stored trial; without an outcome it was in flight when the run died."""
    if not outcome:
        return Cause.INTERRUPTED
    return Cause(cause) if cause else None
