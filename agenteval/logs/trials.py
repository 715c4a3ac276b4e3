"""A session of a log as a trial: what was recorded, what an allow list decides, and its shape.

The allow list of a session is given, quoted in its denials, found next to the log, or implied by a
mode alone; `Known` says which. `LogJudge` judges by it.
"""

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath

from agenteval.classes.catalogue import failure_classes
from agenteval.classes.judge import deny, judge_many
from agenteval.config.allowlists import load_any
from agenteval.config.trust import roots
from agenteval.dialects.registry import dialect_of, dialects
from agenteval.errors import UsageError
from agenteval.policy.policy import UNKNOWN_WORLD, Policy, Stopping, ToolRule, World
from agenteval.shell.gate import Span
from agenteval.store.write import Judged, LoggedRecord
from agenteval.trial.call import BASH, Allowed, Ending, Finding, Outcome, ToolCall, Verdict
from agenteval.trial.redaction import Redactor
from agenteval.trial.session import (
    APART,
    CARRIED_OUT,
    ERRORS,
    LoggedCall,
    LoggedTurn,
    Recorded,
    Session,
)
from agenteval.trial.trial import CallRecord, Execution, Trial, Turn

QUOTED = "quoted in denials"
BESIDE = "beside the log"
GIVEN = "--allowlist"
MODE = "of the mode that the log names"
# Where programs without a dialect of their own keep rules, by the reader of those they come of:
# they are of commands alone, as other tools have other names there.
_ALIKE = {"qwen-code": ("claude-code:.qwen/settings.json", "claude-code:{home}/settings.json")}
_COMMANDS = frozenset((BASH,))
# Folders in a program's home
_LOGS = frozenset(("sessions", "archived_sessions", "projects"))


@dataclass(frozen=True, slots=True)
class Known:
    """An allow list that is known of a session, for calls of these tools (None: all)."""

    policy: Policy
    where: str
    tools: frozenset[str] | None = None

    def covers(self, call: ToolCall) -> bool:
        return self.tools is None or call.name.lower() in self.tools


def quoted(session: Session, format_name: str) -> Known | None:
    """Return the rules that a session's denials quote, where that program's do."""
    dialect = dialects().get(format_name)
    if dialect is None or dialect.quoted is None:
        return None
    policy = dialect.quoted(
        session.version,
        session.agent,
        session.rules,
    )
    tools = frozenset(rule["permission"] for rule in session.rules) - {"*"}
    return Known(policy, QUOTED, tools)


def _rules_next_to(session: Session, format_name: str) -> Known | None:
    """Return the first readable rules of the project's folder, or of the program's own."""
    folders = Path(session.path).parents
    homes = (str(folder.parent) for folder in folders if folder.name in _LOGS)
    return _rules_at(
        format_name,
        session.project,
        session.agent,
        next(homes, ""),
    )


@cache
def _rules_at(
    format_name: str,
    project: str,
    agent: str,
    home: str,
) -> Known | None:
    if "/" in agent:
        return None
    dialect = dialects().get(format_name)
    for place in dialect.beside if dialect else _ALIKE.get(format_name, ()):
        reader, _, name = place.partition(":")
        path = Path(project, name.format(agent=agent, home=home))
        is_known = bool(home) if "{home}" in name else PurePosixPath(project).is_absolute()
        try:
            if is_known and path.exists():
                policy = load_any(f"{reader}:{path}", roots=roots())
                return Known(policy, f"{BESIDE}: {path}", None if dialect else _COMMANDS)
        except (UsageError, OSError, ValueError):
            # Another version's file: what was recorded still counts
            continue
    return None


@cache
def alone(format_name: str, mode: str) -> Known | None:
    """Return the rules of the mode alone, if the program has a mode that decides by itself."""
    dialect = dialects().get(format_name)
    if dialect is None or dialect.unruled is None or not mode:
        return None
    policy = in_mode(dialect.unruled, mode)
    return (
        None
        if policy is dialect.unruled
        else Known(
            policy,
            f"{MODE}: {mode}",
            _COMMANDS,
        )
    )


def in_mode(policy: Policy, mode: str) -> Policy:
    """Return the list as its harness takes it in the mode that a log names."""
    return _in_mode(policy, mode) if mode else policy


# Each session may quote a list of its own
@lru_cache(maxsize=8)
def _in_mode(policy: Policy, mode: str) -> Policy:
    dialect = dialect_of(policy)
    return dialect.in_mode(policy, mode) if dialect else policy


def _stops_at(
    policy: Policy,
    call: ToolCall,
    verdict: Verdict,
    root: str,
) -> str:
    """Return the part of a denied call that the list stops at, if its engine reports it.

    Otherwise return the evidence of the verdict.
    """
    primary = verdict.primary
    if primary is None:
        return ""
    if policy.engine is None or call.command is None or not isinstance(policy.engine, Stopping):
        return primary.evidence.text
    start = root or UNKNOWN_WORLD.root
    return (
        policy.engine.stops_at(
            call.command,
            start,
            start,
        )
        or primary.evidence.text
    )


# Characters of what the model read of a call
KEPT = 4_000
_NOTHING = Policy("as recorded", tools={BASH: ToolRule(BASH)})
_NO_TOOL = Policy("as recorded")
# The classes that a command shows by itself, whatever the list: the taxonomy has them in a row.
_IDS = [failure_class.id for failure_class in failure_classes()]
_SHAPES = frozenset(_IDS[_IDS.index("template-residue") : _IDS.index("tool-as-command")])
PLAIN = "plain"
# Commands whose verdicts are kept: agents repeat theirs
DISTINCT = 1 << 16


@dataclass(slots=True)
class LogJudge:
    """Makes trials of one format's sessions. An `allowlist`, if given, judges them.

    Without one, the recorded verdicts count, and the known list of a session is compared with them.
    That list is quoted in its denials, found in the project's folder or the program's home, or
    implied by the mode alone.
    """

    format: str
    allowlist: Policy | None = None
    redactor: Redactor | None = None
    _pool: dict[tuple[str, str], Known] = field(default_factory=dict)

    def judged(self, session: Session) -> Judged:
        allow_list = self._allow_list(session)
        root = session.project if PurePosixPath(session.project).is_absolute() else ""
        judge = _judge_of(allow_list.policy, root) if allow_list else None
        records: list[LoggedRecord] = []
        turns: list[Turn] = []
        for turn in session.turns:
            logged_calls = [call for call in turn.calls if call.recorded not in APART]
            for position, logged in enumerate(logged_calls):
                covering = allow_list if allow_list and allow_list.covers(logged.call) else None
                place = (len(turns), position)
                records.append(
                    self._record(
                        logged,
                        place,
                        covering,
                        judge,
                        root,
                    )
                )
            turns.append(_turn(turn, logged_calls))
        judged = Judged(
            session=session,
            trial=_trial(
                session,
                turns,
                [logged.record for logged in records],
            ),
            records=records,
            policies={allow_list.policy.name: allow_list.policy.digest} if allow_list else {},
            policy=allow_list.where if allow_list else "",
            differ=sum(map(differs, records)),
        )
        return _redact(judged, self.redactor) if self.redactor else judged

    def _record(
        self,
        logged: LoggedCall,
        place: tuple[int, int],
        allow_list: Known | None,
        judge: Callable[[ToolCall], Verdict] | None,
        root: str,
    ) -> LoggedRecord:
        call = _as_recorded(logged)
        verdict = None
        derived = stopped = ""
        if judge and allow_list:
            verdict = judge(call)
            derived = "allowed" if verdict.allowed else "denied"
            stopped = _stops_at(allow_list.policy, call, verdict, root)
        execution = None
        if logged.recorded in CARRIED_OUT and logged.exit_code is not None:
            is_cut = len(logged.said) > KEPT
            execution = Execution(
                logged.exit_code,
                "",
                logged.seconds or 0.0,
                cut=is_cut,
            )
        record = CallRecord(
            *place,
            call=call,
            verdict=self._in_force(
                call,
                logged.recorded,
                verdict,
                allow_list,
            ),
            reply=logged.said[:KEPT],
            execution=execution,
            harness=str(logged.recorded),
        )
        return LoggedRecord(record, derived, stopped, _shape(call))

    def _in_force(
        self, call: ToolCall, recorded: Recorded, verdict: Verdict | None, allow_list: Known | None
    ) -> Verdict:
        if verdict is not None and (self.allowlist is not None or recorded is Recorded.UNKNOWN):
            return verdict
        if recorded not in ERRORS:
            return Allowed()
        if verdict is not None and not verdict.allowed:
            return verdict
        policy = allow_list.policy if allow_list and recorded is Recorded.DENIED else _NOTHING
        if recorded is Recorded.INVALID_TOOL:
            policy = _NO_TOOL
        elif call.name not in policy.tools:
            tools = {**policy.tools, call.name: ToolRule(call.name)}
            policy = replace(policy, tools=tools)
        return deny(call, policy)

    def _allow_list(self, session: Session) -> Known | None:
        if self.allowlist is not None:
            return Known(in_mode(self.allowlist, session.mode), GIVEN)
        key = (session.project, session.agent)
        if session.rules and (quoted_list := quoted(session, self.format)):
            self._pool[key] = quoted_list
        allow_list = self._pool.get(key) or _rules_next_to(session, self.format)
        if allow_list is None:
            return alone(self.format, session.mode)
        policy = in_mode(allow_list.policy, session.mode)
        return replace(allow_list, policy=policy)


def differs(logged: LoggedRecord) -> bool:
    """Return True if the verdict of the list differs from what was recorded."""
    recorded = Recorded(logged.record.harness)
    ran = logged.derived == "denied" and recorded in CARRIED_OUT
    return ran or (logged.derived == "allowed" and recorded is Recorded.DENIED)


@lru_cache(maxsize=8)
def _judge_of(policy: Policy, root: str) -> Callable[[ToolCall], Verdict]:
    world = World(root=root) if root else UNKNOWN_WORLD
    return judge_many(policy, world, distinct=DISTINCT)


_judge_shape = judge_many(_NOTHING, distinct=DISTINCT)


def _shape(call: ToolCall) -> str:
    if call.command is None:
        return ""
    primary = _judge_shape(call).primary
    return primary.failure_class if primary and primary.failure_class in _SHAPES else PLAIN


def _as_recorded(logged: LoggedCall) -> ToolCall:
    """Return the call, malformed where the program could not take it."""
    call = logged.call
    if logged.recorded is not Recorded.MALFORMED or call.malformed:
        return call
    why = logged.said[:200] or "invalid arguments"
    return replace(call, arguments=None, malformed=why)


def _turn(turn: LoggedTurn, logged_calls: Sequence[LoggedCall]) -> Turn:
    return Turn(
        text=turn.text,
        calls=tuple(map(_as_recorded, logged_calls)),
        finish_reason=turn.finish,
        usage=turn.usage,
        raw="",
        seconds=0.0,
        model=turn.model,
        ended=turn.at,
    )


def _trial(
    session: Session,
    turns: Sequence[Turn],
    records: Sequence[CallRecord],
) -> Trial:
    """Return the session as a trial.

    Its seed is negative, which no trial of a run has: so it is paired with no trial of another run.
    """
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


def _redact(judged: Judged, redactor: Redactor) -> Judged:
    """Return everything that is stored of a session, redacted."""
    text = redactor.text
    session = judged.session
    trial = judged.trial
    return replace(
        judged,
        session=replace(
            session,
            agent=text(session.agent),
            project=text(session.project),
            path=text(session.path),
            rules=[],
        ),
        trial=replace(
            trial,
            scenario=text(trial.scenario),
            turns=tuple(_redact_turn(turn, redactor) for turn in trial.turns),
        ),
        records=[_redact_record(record, redactor) for record in judged.records],
        policy=text(judged.policy),
    )


def _redact_turn(turn: Turn, redactor: Redactor) -> Turn:
    calls = tuple(_redact_call(call, redactor) for call in turn.calls)
    return replace(
        turn,
        text=redactor.text(turn.text),
        calls=calls,
    )


def _redact_record(logged: LoggedRecord, redactor: Redactor) -> LoggedRecord:
    record = logged.record
    record = replace(
        record,
        call=_redact_call(record.call, redactor),
        reply=redactor.text(record.reply),
        verdict=_redact_verdict(record.verdict, redactor),
    )
    return logged._replace(record=record, offending=redactor.text(logged.offending))


def _redact_call(call: ToolCall, redactor: Redactor) -> ToolCall:
    arguments = None if call.arguments is None else redactor.value(call.arguments)
    raw = redactor.text(call.raw)
    if arguments is not None and call.command is None:
        raw = json.dumps(arguments)
    name = redactor.text(call.name)
    return ToolCall(
        call.id,
        name,
        raw,
        arguments,
        redactor.text(call.malformed),
    )


def _redact_verdict(verdict: Verdict, redactor: Redactor) -> Verdict:
    if not verdict.findings:
        return verdict
    findings = tuple(_redact_finding(finding, redactor) for finding in verdict.findings)
    return type(verdict)(findings)  # type: ignore[arg-type]


def _redact_finding(finding: Finding, redactor: Redactor) -> Finding:
    evidence = finding.evidence
    shown = redactor.text(evidence.text)
    if shown != evidence.text:
        evidence = Span(0, 0, shown)
    return finding._replace(evidence=evidence, hint=redactor.text(finding.hint))
