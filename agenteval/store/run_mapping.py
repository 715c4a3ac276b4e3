"""Between rows and runs, their looks, crashes and replaced trials, and imported counts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import JSON, Column, func
from sqlmodel import Field, Session, SQLModel, col, or_, select

from agenteval.core.arm_card import ArmCard
from agenteval.core.counts import ErrorCounts
from agenteval.core.outcome import Ending, Outcome
from agenteval.core.run import Crash, Effort, Look, ModelCard, Run
from agenteval.core.summary import ImportedCounts
from agenteval.core.trial import Trial
from agenteval.errors import Cause
from agenteval.store.rows import CrashRow, LookRow, RunRow, TrialRow, TurnRow
from agenteval.store.summaries import INTERRUPTED, options_value


def run_row(run: Run) -> RunRow:
    return RunRow(
        id=run.id,
        model=run.model.name,
        simulated=run.model.simulated,
        started=run.started,
        seed=run.seed,
        trials_planned=run.trials_planned,
        max_turns=run.max_turns,
        concurrency=run.concurrency,
        sandbox=run.sandbox,
        prefork=run.prefork,
        protocol=run.protocol,
        taxonomy=run.taxonomy,
        complete=run.complete,
        seconds=run.effort.seconds if run.effort else None,
        joules=run.effort.joules if run.effort else None,
        second_reader=dict(run.second_reader),
        card=asdict(run.model),
        policies=dict(run.policies),
        options=asdict(run.options) if run.options else {},
        scenarios=dict(run.scenarios),
        arm=asdict(run.arm) if run.arm else {},
        per_token=run.per_token,
    )


def run_value(
    row: RunRow,
    trials: tuple[Trial, ...],
    looks: tuple[Look, ...] = (),
    replaced: Mapping[str, int] | None = None,
) -> Run:
    return Run(
        id=row.id,
        model=ModelCard(**row.card),
        started=row.started,
        seed=row.seed,
        trials_planned=row.trials_planned,
        max_turns=row.max_turns,
        concurrency=row.concurrency,
        sandbox=row.sandbox,
        prefork=row.prefork,
        protocol=row.protocol,
        taxonomy=row.taxonomy,
        policies=row.policies,
        complete=row.complete,
        second_reader=row.second_reader,
        trials=trials,
        looks=looks,
        options=options_value(row.options),
        scenarios=row.scenarios,
        arm=ArmCard(**row.arm) if row.arm else None,
        per_token=row.per_token,
        replaced=replaced or {},
        effort=None if row.seconds is None else Effort(row.seconds, row.joules),
    )


def look_row(run_id: str, look: Look) -> LookRow:
    return LookRow(run_id=run_id, **asdict(look))


def look_value(row: LookRow) -> Look:
    return Look(**row.model_dump(exclude={"id", "run_id"}))


IN_FORCE = col(TrialRow.replaced).is_(False)


def set_aside(session: Session, run_id: str, *, voids: bool) -> Sequence[tuple[str, int]]:
    """Mark the trials in flight and, if wanted, the void ones as replaced; which they are."""
    open_ones = TrialRow.outcome == ""
    wanted = or_(open_ones, TrialRow.outcome == Outcome.VOID) if voids else open_ones
    query = select(TrialRow).where(TrialRow.run_id == run_id, IN_FORCE, wanted)
    rows = session.exec(query).all()
    for row in rows:
        row.replaced = True
        if not row.outcome:
            row.ending, row.outcome = Ending.BROKEN, Outcome.VOID
            row.reason, row.cause = INTERRUPTED, Cause.INTERRUPTED
    aside = [(row.scenario, row.number) for row in rows]
    session.commit()
    return aside


def replaced(session: Session, run_id: str) -> Mapping[str, int]:
    """How many trials were played again, by the cause of their void."""
    query = select(TrialRow.cause, func.count()).where(TrialRow.run_id == run_id, ~IN_FORCE)
    return dict(session.exec(query.group_by(TrialRow.cause)).all())


NO_REQUEST = ("", Cause.OURS, Cause.INTERRUPTED, Cause.CONTEXT_CUT)  # what no failed request ended


def crashes(session: Session, run_id: str) -> tuple[Crash, ...]:
    query = select(CrashRow).where(CrashRow.run_id == run_id).order_by(col(CrashRow.id))
    return tuple(Crash(row.at, row.said) for row in session.exec(query))


def requests(session: Session, run_id: str) -> int:
    """Those that were answered, those sent again, and those that made a trial void."""
    of_run = TrialRow.run_id == run_id
    turns = select(func.count(col(TurnRow.id))).join(TrialRow).where(of_run)
    again = select(func.coalesce(func.sum(TrialRow.retries), 0)).where(of_run)
    failed = select(func.count()).where(of_run, col(TrialRow.cause).not_in(NO_REQUEST))
    return sum(int(session.exec(query).one()) for query in (turns, again, failed))


class ImportedRow(SQLModel, table=True):
    """A table of its own: older databases get it when they are opened, and stay as they are."""

    __tablename__ = "imported"

    id: str = Field(primary_key=True)
    imported: str
    source: str
    card: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    trials: list[Any] = Field(sa_column=Column(JSON, nullable=False))
    by_trial: bool
    calls: list[int] = Field(sa_column=Column(JSON, nullable=False))
    by_class: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))


def imported_row(imported: ImportedCounts) -> ImportedRow:
    counts = imported.counts
    return ImportedRow(
        id=imported.id,
        imported=imported.imported,
        source=imported.source,
        card=asdict(imported.model),
        trials=[list(trial) for trial in imported.trials],
        by_trial=counts.by_trial,
        calls=list(counts.calls),
        by_class={name: list(errors) for name, errors in counts.by_class.items()},
    )


def imported_value(row: ImportedRow) -> ImportedCounts:
    by_class = {name: tuple(errors) for name, errors in row.by_class.items()}
    return ImportedCounts(
        id=row.id,
        model=ModelCard(**row.card),
        imported=row.imported,
        source=row.source,
        trials=tuple((scenario, trial) for scenario, trial in row.trials),
        counts=ErrorCounts(tuple(row.calls), by_class, by_trial=row.by_trial),
    )
