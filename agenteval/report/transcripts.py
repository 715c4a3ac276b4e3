"""A trial as it is read: turn by turn, each denied call with its evidence marked."""

from collections.abc import Sequence
from dataclasses import dataclass

from agenteval.core.call import ToolCall, Verdict
from agenteval.core.garble import Garble
from agenteval.core.recovery import trial_recovery
from agenteval.core.trial import CallRecord, Trial

REPLY_SHOWN = 1500  # characters; a report is read, the store keeps the whole
TRIALS_SHOWN = 100  # of one run, so that the page of a long run still opens


@dataclass(frozen=True, slots=True)
class CallShown:
    """One call: its text cut where the evidence of the primary class begins and ends.

    `named` says that the evidence is the name of the tool; `followed` what came after a denial.
    """

    tool: str
    named: bool
    before: str
    marked: str
    after: str
    classes: tuple[str, ...]
    hint: str
    followed: str
    reply: str
    cut: int  # characters of the reply left out
    state: str  # "denied", "allowed", or how an allowed call failed


@dataclass(frozen=True, slots=True)
class TurnShown:
    """`garbles` are those of the whole turn, its calls in their order."""

    number: int  # from 1
    text: str
    calls: tuple[CallShown, ...]
    garbles: tuple[Garble, ...]


@dataclass(frozen=True, slots=True)
class TrialShown:
    trial: Trial
    denials: int
    turns: tuple[TurnShown, ...]


def shown_trials(trials: Sequence[Trial]) -> tuple[TrialShown, ...]:
    """The trials of a run, those with most denials first when not all can be shown."""
    worst = sorted(range(len(trials)), key=lambda at: _denials(trials[at]), reverse=True)
    kept = [trials[at] for at in sorted(worst[:TRIALS_SHOWN])]
    return tuple(TrialShown(trial, _denials(trial), _turns(trial)) for trial in kept)


def _denials(trial: Trial) -> int:
    return sum(not record.verdict.allowed for record in trial.calls)


def _turns(trial: Trial) -> tuple[TurnShown, ...]:
    followed = {
        (one.denial.turn, one.denial.position): str(one.recovery)
        for one in trial_recovery(trial).aftermaths
    }
    calls: dict[int, list[CallShown]] = {}
    for record in trial.calls:
        shown = _call(record, followed.get((record.turn, record.position), ""))
        calls.setdefault(record.turn, []).append(shown)
    return tuple(
        TurnShown(at + 1, turn.text, tuple(calls.get(at, ())), turn.garbles)
        for at, turn in enumerate(trial.turns)
    )


def _call(record: CallRecord, followed: str) -> CallShown:
    before, marked, after = marked_text(record.call, record.verdict)
    primary = record.verdict.primary
    return CallShown(
        tool=record.call.name,
        named=primary is not None and primary.evidence.text == record.call.name,
        before=before,
        marked=marked,
        after=after,
        classes=tuple(finding.failure_class for finding in record.verdict.findings),
        hint=primary.hint if primary else "",
        followed=followed,
        reply=record.reply[:REPLY_SHOWN],
        cut=max(0, len(record.reply) - REPLY_SHOWN),
        state=_state(record),
    )


def marked_text(call: ToolCall, verdict: Verdict) -> tuple[str, str, str]:
    """The text of a call before, in and after the evidence; no mark where it does not match."""
    text = call.raw if call.command is None else call.command
    if verdict.primary is None:
        return text, "", ""
    evidence = verdict.primary.evidence
    if text[evidence.start : evidence.end] != evidence.text:
        return text, "", ""
    return text[: evidence.start], evidence.text, text[evidence.end :]


def _state(record: CallRecord) -> str:
    if not record.verdict.allowed:
        return "denied"
    if record.execution is None:
        return "allowed"
    if record.execution.limit:
        return f"ended by {record.execution.limit}"
    return f"exit {record.execution.exit_code}" if record.execution.exit_code else "allowed"
