"""Counts of one model from somebody's table: no call stands behind them, so no more is known."""

from dataclasses import dataclass

from agenteval.core.counts import ErrorCounts
from agenteval.core.run import ModelCard


@dataclass(frozen=True, slots=True)
class ImportedCounts:
    """`trials` names what each count belongs to, as scenario and trial; both may be empty."""

    id: str
    model: ModelCard
    imported: str  # ISO 8601, UTC
    source: str  # the file
    trials: tuple[tuple[str, str], ...]
    counts: ErrorCounts
