"""Runs as they are stored: summarized, without their trials, or whole; by plain SQL.

First the mapping between rows and trials, turns and calls: every field comes back as it was. Then
what is read of a run. Who asks has a `Query`, from `store.sql.opened`, so that a SQLite file is
read without an ORM: importing one takes longer than most commands may.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, NamedTuple

import msgspec

from agenteval.errors import Cause, UsageError
from agenteval.shell.gate import Span
from agenteval.store.location import Query, Values, resolve_name
from agenteval.store.summaries import (
    INTERRUPTED,
    known_runs,
    summaries,
    summary_values,
    tables_known,
)
from agenteval.store.tables import blank_row, columns_but, read_rows
from agenteval.store.texts import (
    NO_PROMPTS,
    Messages,
    Prompts,
    as_written,
    call_fields,
    messages_of,
    prompts_of,
    written_call,
)
from agenteval.trial.call import (
    Allowed,
    Denied,
    Ending,
    Finding,
    MalformedCall,
    Outcome,
    Repair,
    ToolCall,
    Verdict,
)
from agenteval.trial.run import ArmCard, Crash, Effort, Look, ModelCard, Options, Run, Source
from agenteval.trial.summary import ImportedCounts, RunSummary, TrialSummary, World, summarize
from agenteval.trial.trial import (
    AgentPart,
    CallRecord,
    ErrorCounts,
    Execution,
    GoalCheck,
    HandshakeStep,
    Timing,
    Trial,
    Turn,
    Usage,
)

Row = Any  # with an attribute for each column that was read
# Columns of a turn, and of a sub-agent, that are the field of the same name.
_OF_TURN = ("text", "finish_reason", "seconds", "repeats", "model", "ended", "reasoning", "raw")
_OF_AGENT = ("name", "number", "parent", "depth", "ending", "reason", "turn", "position")
_TOKENS = tuple(field.name for field in fields(Usage))
_GAPS = ("gap_mean", "gap_median", "gap_p95", "gap_longest")


def turn_values(
    trial_id: int,
    number: int,
    turn: Turn,
    *,
    agent: str,
) -> Values:
    values = blank_row("turn") | {name: getattr(turn, name) for name in _OF_TURN}
    if timing := turn.timing:
        values["first_piece"] = timing.first
        values["pieces"] = timing.pieces
        values |= {name: getattr(timing, name) for name in _GAPS}
    return values | {
        "trial_id": trial_id,
        "agent": agent,
        "number": number,
        **asdict(turn.usage),
        "garbles": [asdict(call) for call in turn.malformed],
        "repairs": [asdict(repair) for repair in turn.repairs],
        "calls": [call_fields(call) for call in turn.calls],
    }


def _turn_value(row: Row) -> Turn:
    # The column `raw` is not always read.
    values: dict[str, Any] = {
        name: getattr(
            row,
            name,
            "",
        )
        for name in _OF_TURN
    }
    tokens = [getattr(row, name) for name in _TOKENS]
    timing = None
    if row.first_piece is not None:
        gaps = [getattr(row, name) for name in _GAPS]
        timing = Timing(row.first_piece, row.pieces, *gaps)
    return Turn(
        **values,
        calls=tuple(map(written_call, row.calls)),
        usage=Usage(*tokens),
        timing=timing,
        malformed=tuple(map(malformed_value, row.garbles)),
        repairs=tuple(Repair(**repair) for repair in row.repairs),
    )


@as_written()
def malformed_value(stored: dict[str, Any]) -> MalformedCall:
    return msgspec.convert(stored, MalformedCall)


def call_values(
    trial_id: int,
    record: CallRecord,
    *,
    agent: str,
    policy: str,
    taxonomy: str,
) -> Values:
    values = blank_row("call")
    if record.execution:
        values |= asdict(record.execution)
        # Nearly always: then it is stored once.
        values["output_is_reply"] = record.execution.output == record.reply
        if values["output_is_reply"]:
            values["output"] = ""
    written = call_fields(record.call)
    written["call_id"] = written.pop("id")
    return values | {
        "trial_id": trial_id,
        "agent": agent,
        "turn": record.turn,
        "position": record.position,
        **written,
        **verdict_values(record.verdict),
        "objection": record.objection,
        "policy": policy,
        "taxonomy": taxonomy,
        "reply": record.reply,
        "harness": record.harness,
    }


def call_value(row: Row) -> CallRecord:
    findings = [_finding(stored) for stored in row.findings]
    return CallRecord(
        turn=row.turn,
        position=row.position,
        call=ToolCall(
            row.call_id,
            row.name,
            row.raw,
            row.arguments,
            row.garbled,
        ),
        verdict=Allowed() if row.allowed else Denied.explained(findings),
        reply=row.reply,
        execution=_execution(row),
        objection=row.objection,
        harness=row.harness,
    )


def verdict_values(verdict: Verdict) -> Values:
    primary = verdict.primary
    findings = []
    for finding in verdict.findings:
        shown = {"evidence": finding.evidence._asdict(), "facets": list(finding.facets)}
        findings.append(finding._asdict() | shown)
    return {
        "allowed": verdict.allowed,
        "failure_class": primary.failure_class if primary else "",
        "findings": findings,
    }


@as_written()
def _finding(stored: dict[str, Any]) -> Finding:
    return Finding(
        failure_class=stored["failure_class"],
        evidence=Span(**stored["evidence"]),
        hint=stored["hint"],
        facets=tuple(stored["facets"]),
    )


def _execution(row: Row) -> Execution | None:
    if row.output is None or row.seconds is None:
        return None
    return Execution(
        row.exit_code,
        row.reply if row.output_is_reply else row.output,
        row.seconds,
        row.limit,
        row.cut,
    )


@as_written()
def trial_value(
    row: Row,
    turns: Sequence[Row],
    calls: Sequence[Row],
    prompts: Prompts = NO_PROMPTS,
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
    # The turns and calls of a sub-agent are rows of their own.
    agents = [{name: getattr(part, name) for name in _OF_AGENT} for part in trial.agents]
    return {
        "ending": trial.ending,
        "seconds": trial.seconds,
        **summary_values(summarize(trial)),
        "agents": agents,
    }


def _agents(
    row: Row,
    turns: Sequence[Row],
    calls: Sequence[Row],
    prompts: Prompts,
) -> Iterator[AgentPart]:
    parts = _stored_agents(row) if row.outcome else _agents_in_flight(turns)
    for part in parts:
        yield replace(
            part,
            turns=tuple(_turn_value(turn) for turn in turns if turn.agent == part.label),
            calls=tuple(call_value(call) for call in calls if call.agent == part.label),
            prompt=tuple(prompts.get(part.label, ())),
        )


def _stored_agents(row: Row) -> Iterator[AgentPart]:
    for stored in row.agents:
        yield AgentPart(**(stored | {"ending": Ending(stored["ending"])}))


def _agents_in_flight(turns: Sequence[Row]) -> Iterator[AgentPart]:
    """Yield the sub-agents of a trial that never ended; nobody knows who called them."""
    for label in dict.fromkeys(turn.agent for turn in turns if turn.agent):
        name, _, number = label.rpartition("/")
        yield AgentPart(
            name,
            int(number),
            parent=0,
            depth=0,
            ending=Ending.BROKEN,
        )


def _cause_of(outcome: str, cause: str) -> Cause | None:
    """Return the cause of a stored trial; without an outcome it was in flight when the run died."""
    if not outcome:
        return Cause.INTERRUPTED
    return Cause(cause) if cause else None


# Columns of a run that are not the field of the same name.
RUN_OTHERWISE = ("model", "simulated", "seconds", "joules", "card", "options", "arm", "source")
# A trial without what only its summary has.
_NOT_OF_A_TRIAL = (
    *("run_id", "shard", "replaced", "calls", "errors", "executed", "crashed", "prompt_tokens"),
    *("agent_calls", "agent_errors", "counting", "recovery"),
)
_IN_FORCE = "WHERE run_id = :run AND NOT replaced"
_OF_NUMBER = f"{_IN_FORCE} AND scenario = :scenario AND number = :number"
_LOOKS = """SELECT number, planned, trials, level, verdict, baseline, rules, at, data, judged
    FROM look WHERE run_id = :run ORDER BY number"""
_CRASHES = "SELECT at, said FROM crash WHERE run_id = :run ORDER BY id"
_REPLACED = "SELECT cause, count(*) FROM trial WHERE run_id = :run AND replaced GROUP BY cause"
TOGETHER = 200  # trials whose rows are read at a time
_TURNS = """SELECT count(*) FROM turn JOIN trial ON trial.id = turn.trial_id
    WHERE trial.run_id = :run"""
_TRIALS = "SELECT cause, retries FROM trial WHERE run_id = :run"
_ENDLESS = 2**31 - 1  # as far as both databases count
# What no failed request ended.
_NO_REQUEST = ("", Cause.OURS, Cause.INTERRUPTED, Cause.CONTEXT_CUT)


class Part(NamedTuple):
    """A part of a trial: turns of each agent from `first` up to `end`, and at most `most` calls."""

    first: int = 0
    end: int = _ENDLESS
    most: int = _ENDLESS


WHOLE = Part()


def load_summary(query: Query, word: str) -> RunSummary:
    """Return the summary of a run or a table, by a word for it. Raises as `resolve_name`."""
    runs, tables = known_runs(query), tables_known(query)
    found = resolve_name(word, runs, tables, where="the store")
    if found in tables:
        return _of_table(imported(query, found))
    return RunSummary.of(_run(query, found), summaries(query, found))


def summarized(query: Query, word: str, *, where: str) -> tuple[Run, tuple[TrialSummary, ...]]:
    """A run without its trials, and their summaries. Raises UsageError."""
    found = named(query, word, where=where)
    return without_trials(query, found), summaries(query, found)


def load(
    query: Query,
    word: str,
    *,
    where: str,
    raw: bool = True,
) -> Run:
    """A whole run, by what names it; the bytes of its replies only if `raw`. Raises UsageError."""
    run = named(query, word, where=where)
    trials = _trials(query, run, has_raw=raw)
    return replace(without_trials(query, run), trials=tuple(trials))


def named(query: Query, word: str, *, where: str) -> str:
    """The id of a run, and of nothing else. Raises UsageError."""
    tables = tables_known(query)
    run = resolve_name(word, known_runs(query), tables, where=where)
    if run in tables:
        raise UsageError(
            f"{run} holds imported counts: no run stands behind them. `agenteval compare` "
            "compares them with others, and a gate can have them as its baseline"
        )
    return run


def without_trials(query: Query, run: str) -> Run:
    """Return the run of this id, with what is stored of it apart from its trials."""
    return replace(
        _run(query, run),
        replaced=replayed(query, run),
        requests=_requests(query, run),
        crashes=tuple(Crash(*row) for row in query(_CRASHES, run=run)),
    )


def replayed(query: Query, run: str) -> Mapping[str, int]:
    """Return the number of void trials that were played again, by the cause of the void."""
    return {str(cause): int(count) for cause, count in query(_REPLACED, run=run)}


@as_written()
def _run(query: Query, run: str) -> Run:
    (row,) = read_rows(query, "run", "WHERE id = :run", run=run)
    for name in ("policies", "judged", "scenarios", "second_reader", "options"):
        if not isinstance(getattr(row, name), dict):
            raise TypeError(f"{name} is no table")
    columns = {name: getattr(row, name) for name in columns_but("run", *RUN_OTHERWISE)}
    return Run(
        **columns,
        model=ModelCard(**row.card),
        options=_options(row.options),
        arm=ArmCard(**row.arm) if row.arm else None,
        source=Source(**row.source) if row.source else None,
        effort=None if row.seconds is None else Effort(row.seconds, row.joules),
        looks=tuple(Look(*look) for look in query(_LOOKS, run=run)),
    )


def _options(stored: dict[str, Any]) -> Options | None:
    """Return the options; None of a run from before they were kept."""
    if not stored:
        return None
    # Once an arm was called a profile.
    arm = {"arm": stored["profile"]} if "profile" in stored else {}
    options = msgspec.convert(arm | stored, Options)
    if options.trials < 1:
        raise ValueError(f"{options.trials!r} trials")
    return options


def _requests(query: Query, run: str) -> int:
    """Count the requests: those answered, those sent again, and those that made a trial void."""
    requests = int(query(_TURNS, run=run)[0][0])
    for cause, retries in query(_TRIALS, run=run):
        requests += retries
        if cause not in _NO_REQUEST:
            requests += 1
    return requests


def transcripts(query: Query, run: str, worlds: Sequence[World]) -> Iterator[Trial]:
    """Yield the trials in force of the run with this id, in the order of these task instances."""
    for start in range(0, len(worlds), TOGETHER):
        rows: list[Any] = []
        for scenario, number, _ in worlds[start : start + TOGETHER]:
            rows += _trial_rows(
                query,
                _OF_NUMBER,
                run=run,
                scenario=scenario,
                number=number,
            )
        messages = messages_of(query, run, _digests(rows))
        yield from _build_trials(query, rows, messages, has_raw=False)


def _trials(query: Query, run: str, *, has_raw: bool) -> Iterator[Trial]:
    rows = _trial_rows(query, f"{_IN_FORCE} ORDER BY scenario, number", run=run)
    return _build_trials(
        query,
        rows,
        messages_of(query, run),
        has_raw=has_raw,
    )


def _trial_rows(query: Query, condition: str, **values: Any) -> list[Any]:
    return list(read_rows(query, "trial", condition, but=_NOT_OF_A_TRIAL, **values))


def _digests(rows: Sequence[Any]) -> set[str]:
    """Return the digests of the messages that agents of these trials began with."""
    digests: set[str] = set()
    for row in rows:
        digests.update(*row.prompts.values())
    return digests


def trial_of_row(query: Query, number: int) -> Trial:
    """Return the trial of the row with this number, without prompts and the bytes of replies."""
    (row,) = _trial_rows(query, "WHERE id = :number", number=number)
    # Nothing is counted of them, and so they are not read.
    row.prompts = {}
    (trial,) = _build_trials(query, [row], {}, has_raw=False)
    return trial


def _build_trials(
    query: Query,
    rows: Sequence[Any],
    messages: Messages,
    *,
    has_raw: bool,
) -> Iterator[Trial]:
    """Build the trials, some at a time: their rows are three times as large as the trials."""
    unread = () if has_raw else ("raw",)  # the largest column
    for start in range(0, len(rows), TOGETHER):
        batch = rows[start : start + TOGETHER]
        ids = [row.id for row in batch]
        turns = _rows_by_trial(query, "turn", ids, but=unread)
        calls = _rows_by_trial(query, "call", ids)
        for row in batch:
            prompts = prompts_of(row.prompts, messages)
            yield trial_value(
                row,
                turns.pop(row.id, []),
                calls.pop(row.id, []),
                prompts,
            )


def load_trial(
    query: Query,
    run: str,
    scenario: str,
    number: int,
    part: Part = WHOLE,
) -> Trial | None:
    """Return a trial in force of the run with this id, or a part of it; None if there is none."""
    rows = _trial_rows(
        query,
        _OF_NUMBER,
        run=run,
        scenario=scenario,
        number=number,
    )
    if not rows:
        return None
    row = rows[0]
    limits = {"trial": row.id, "low": part.first, "high": part.end, "most": part.most}
    within = "WHERE trial_id = :trial AND {0} >= :low AND {0} < :high ORDER BY id LIMIT :most"
    turns = list(read_rows(query, "turn", within.format("number"), **limits))
    calls = list(read_rows(query, "call", within.format("turn"), **limits))
    prompts = prompts_of(
        row.prompts,
        messages_of(
            query,
            run,
            _digests(rows),
        ),
    )
    return trial_value(row, turns, calls, prompts)


def _rows_by_trial(
    query: Query,
    table: str,
    trials: Sequence[int],
    *,
    but: Sequence[str] = (),
) -> dict[int, list[Any]]:
    grouped: dict[int, list[Any]] = defaultdict(list)
    condition = f"WHERE trial_id IN ({', '.join(map(str, trials))}) ORDER BY id"
    for row in read_rows(query, table, condition, but=but):
        grouped[row.trial_id].append(row)
    return grouped


@as_written()
def imported(query: Query, table: str) -> ImportedCounts:
    """The imported counts of this id."""
    (row,) = read_rows(query, "imported", "WHERE id = :id", id=table)
    classes = {name: tuple(errors) for name, errors in row.by_class.items()}
    counts = ErrorCounts(tuple(row.calls), classes, by_trial=row.by_trial)
    trials = tuple((scenario, trial) for scenario, trial in row.trials)
    return ImportedCounts(
        row.id,
        ModelCard(**row.card),
        row.imported,
        row.source,
        trials,
        counts,
    )


def _of_table(table: ImportedCounts) -> RunSummary:
    """Raises UsageError for counts of which it is not known what belongs together."""
    if not table.counts.by_trial or not all(scenario for scenario, _ in table.trials):
        raise UsageError(
            f"{table.id}: its table does not name the scenario and trial of each line; as calls of "
            "one trial resemble each other, no bound would hold. Import a table with these "
            "columns, or see `agenteval compare`"
        )
    return RunSummary.of_table(table)
