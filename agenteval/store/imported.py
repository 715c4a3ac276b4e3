"""Imported counts, beside the runs: what was in the table, and nothing it did not have."""

from dataclasses import asdict
from typing import Any

from sqlalchemy import JSON, Column
from sqlmodel import Field, SQLModel

from agenteval.core.counts import ErrorCounts
from agenteval.core.imported import ImportedCounts
from agenteval.core.run import ModelCard


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
