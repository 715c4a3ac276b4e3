"""A session of a log as a trial: what was recorded, what an allow list says of it, its shape."""

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePosixPath

from agenteval.core.call import BASH, Allowed, Finding, ToolCall, Verdict
from agenteval.core.logged import (
    APART,
    CARRIED_OUT,
    ERRORS,
    LoggedCall,
    LoggedTurn,
    Recorded,
    Session,
)
from agenteval.core.outcome import Ending, Outcome
from agenteval.core.policy.arguments import ToolRule
from agenteval.core.policy.policy import UNKNOWN_WORLD, Policy, World
from agenteval.core.redaction import Redactor
from agenteval.core.span import Span
from agenteval.core.trial import CallRecord, Execution, Trial, Turn
from agenteval.store.bound_rows import Judged, LoggedRecord
from agenteval.taxonomy.catalogue import failure_classes
from agenteval.taxonomy.judge import deny, judge_many
from agenteval.workflows.log_policies import GIVEN, Known, alone, beside, in_mode, quoted, stops_at

KEPT = 4_000  # characters of what the model read of a call
_NOTHING = Policy("as recorded", tools={BASH: ToolRule(BASH)})
_NO_TOOL = Policy("as recorded")
# The classes that a command shows by itself, whatever the list: the taxonomy has them in a row.
_IDS = [each.id for each in failure_classes()]
_SHAPES = frozenset(_IDS[_IDS.index("template-residue") : _IDS.index("tool-as-command")])
PLAIN = "plain"
DISTINCT = 1 << 16  # commands whose verdicts are kept: agents repeat theirs


@dataclass(slots=True)
class LogJudge:
    """Makes trials of one format's sessions. With an `allowlist` that is what judges them.

    Without one it is what was recorded that counts; a list that is known of a session, as its
    denials quote it, as it lies in the project's folder or the program's home, or as the mode alone
    decides, is asked beside it.
    """

    format: str
    allowlist: Policy | None = None
    redactor: Redactor | None = None
    _pool: dict[tuple[str, str], Known] = field(default_factory=dict)

    def judged(self, session: Session) -> Judged:
        known = self._known(session)
        root = session.project if PurePosixPath(session.project).is_absolute() else ""
        asked = _judge_of(known.policy, root) if known else None
        records: list[LoggedRecord] = []
        turns: list[Turn] = []
        for turn in session.turns:
            kept = [call for call in turn.calls if call.recorded not in APART]
            for position, one in enumerate(kept):
                by = known if known and known.covers(one.call) else None
                records.append(self._record(one, (len(turns), position), by, asked, root))
            turns.append(_turn(turn, kept))
        judged = Judged(
            session=session,
            trial=_trial(session, turns, [one.record for one in records]),
            records=records,
            policies={known.policy.name: known.policy.digest} if known else {},
            policy=known.where if known else "",
            differ=sum(map(differs, records)),
        )
        return _redacted(judged, self.redactor) if self.redactor else judged

    def _record(
        self,
        one: LoggedCall,
        place: tuple[int, int],
        known: Known | None,
        asked: Callable[[ToolCall], Verdict] | None,
        root: str,
    ) -> LoggedRecord:
        call = _as_recorded(one)
        verdict = asked(call) if asked and known else None
        shape = _shape(call)
        in_force = self._in_force(call, one.recorded, verdict, known)
        stopped = stops_at(known.policy, call, verdict, root) if verdict and known else ""
        reply, cut = one.said[:KEPT], len(one.said) > KEPT
        ran = one.recorded in CARRIED_OUT and one.exit_code is not None
        record = CallRecord(
            *place,
            call=call,
            verdict=in_force,
            reply=reply,
            execution=Execution(one.exit_code, "", one.seconds or 0.0, cut=cut) if ran else None,
            harness=str(one.recorded),
        )
        derived = "" if verdict is None else "allowed" if verdict.allowed else "denied"
        return LoggedRecord(record, derived, stopped, shape)

    def _in_force(
        self, call: ToolCall, recorded: Recorded, verdict: Verdict | None, known: Known | None
    ) -> Verdict:
        if verdict is not None and (self.allowlist is not None or recorded is Recorded.UNKNOWN):
            return verdict
        if recorded not in ERRORS:
            return Allowed()
        if verdict is not None and not verdict.allowed:
            return verdict
        policy = known.policy if known and recorded is Recorded.DENIED else _NOTHING
        if recorded is Recorded.INVALID_TOOL:
            policy = _NO_TOOL
        elif call.name not in policy.tools:
            policy = replace(policy, tools={**policy.tools, call.name: ToolRule(call.name)})
        return deny(call, policy)

    def _known(self, session: Session) -> Known | None:
        if self.allowlist is not None:
            return Known(in_mode(self.allowlist, session.mode), GIVEN)
        key = (session.project, session.agent)
        if session.rules and (found := quoted(session, self.format)):
            self._pool[key] = found
        known = self._pool.get(key) or beside(session, self.format)
        if known is None:
            return alone(self.format, session.mode)
        return replace(known, policy=in_mode(known.policy, session.mode))


def differs(one: LoggedRecord) -> bool:
    """Whether the list says something else than was recorded."""
    recorded = Recorded(one.record.harness)
    ran = one.derived == "denied" and recorded in CARRIED_OUT
    return ran or (one.derived == "allowed" and recorded is Recorded.DENIED)


@lru_cache(maxsize=8)
def _judge_of(policy: Policy, root: str) -> Callable[[ToolCall], Verdict]:
    return judge_many(policy, World(root=root) if root else UNKNOWN_WORLD, distinct=DISTINCT)


_ask_shape = judge_many(_NOTHING, distinct=DISTINCT)


def _shape(call: ToolCall) -> str:
    if call.command is None:
        return ""
    primary = _ask_shape(call).primary
    return primary.failure_class if primary and primary.failure_class in _SHAPES else PLAIN


def _as_recorded(one: LoggedCall) -> ToolCall:
    """The call, malformed where the program could not take it."""
    call = one.call
    if one.recorded is not Recorded.MALFORMED or call.malformed:
        return call
    return replace(call, arguments=None, malformed=one.said[:200] or "invalid arguments")


def _turn(turn: LoggedTurn, kept: Sequence[LoggedCall]) -> Turn:
    return Turn(
        text=turn.text,
        calls=tuple(_as_recorded(one) for one in kept),
        finish_reason=turn.finish,
        usage=turn.usage,
        raw="",
        seconds=0.0,
        model=turn.model,
        ended=turn.at,
    )


def _trial(session: Session, turns: Sequence[Turn], records: Sequence[CallRecord]) -> Trial:
    """No seed of a world is negative: a session meets no trial of another run in its world."""
    project = PurePosixPath(session.project.replace("\\", "/")).name or "unknown project"
    seed = zlib.crc32(f"{session.id}\0{session.part}\0{session.model}".encode(errors="replace"))
    return Trial(
        scenario=f"{project}: {session.agent}" if session.agent else project,
        number=0,
        seed=-1 - (seed & 0x7FFFFFF0),
        turns=tuple(turns),
        calls=tuple(records),
        ending=Ending.STOPPED,
        outcome=Outcome.NOT_OBSERVABLE,
    )


def _redacted(judged: Judged, redactor: Redactor) -> Judged:
    """All that is stored of it, with what must not be there taken out."""
    one, text = judged.session, redactor.text
    session = replace(
        one, agent=text(one.agent), project=text(one.project), path=text(one.path), rules=[]
    )
    trial = replace(
        judged.trial,
        scenario=text(judged.trial.scenario),
        turns=tuple(
            replace(
                turn, text=text(turn.text), calls=tuple(_clean(c, redactor) for c in turn.calls)
            )
            for turn in judged.trial.turns
        ),
    )
    records = [
        one._replace(
            record=replace(
                one.record,
                call=_clean(one.record.call, redactor),
                reply=text(one.record.reply),
                verdict=_clean_verdict(one.record.verdict, redactor),
            ),
            offending=text(one.offending),
        )
        for one in judged.records
    ]
    return replace(
        judged, session=session, trial=trial, records=records, policy=text(judged.policy)
    )


def _clean(call: ToolCall, redactor: Redactor) -> ToolCall:
    arguments = None if call.arguments is None else redactor.value(call.arguments)
    raw = redactor.text(call.raw)
    if arguments is not None and call.command is None:
        raw = json.dumps(arguments)
    return ToolCall(
        call.id, redactor.text(call.name), raw, arguments, redactor.text(call.malformed)
    )


def _clean_verdict(verdict: Verdict, redactor: Redactor) -> Verdict:
    if not verdict.findings:
        return verdict
    return type(verdict)(tuple(_clean_finding(one, redactor) for one in verdict.findings))  # type: ignore[arg-type]


def _clean_finding(finding: Finding, redactor: Redactor) -> Finding:
    shown = redactor.text(finding.evidence.text)
    span = finding.evidence
    if shown != span.text:
        span = Span(0, 0, shown)
    return finding._replace(evidence=span, hint=redactor.text(finding.hint))
