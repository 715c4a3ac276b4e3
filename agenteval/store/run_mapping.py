"""Between rows and runs, their looks, crashes and replaced trials, and imported counts."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import JSON, Column
from sqlmodel import Field, Session, SQLModel, col, or_, select

from agenteval.core.outcome import Ending, Outcome
from agenteval.core.run import Look, Run
from agenteval.core.summary import ImportedCounts
from agenteval.errors import Cause
from agenteval.store.rows import LookRow, RunRow, TrialRow
from agenteval.store.summaries import INTERRUPTED


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
        judged=dict(run.judged),
        options=asdict(run.options) if run.options else {},
        scenarios=dict(run.scenarios),
        arm=asdict(run.arm) if run.arm else {},
        source=asdict(run.source) if run.source else {},
        per_token=run.per_token,
    )


def look_row(run_id: str, look: Look) -> LookRow:
    return LookRow(run_id=run_id, **asdict(look))


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
