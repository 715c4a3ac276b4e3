"""Samples as cells: how many, mean, median and 95th percentile."""

from agenteval.report.tables import Cell, Head
from agenteval.stats.samples import Samples

SAMPLED = (Head("n"), Head("mean"), Head("median"), Head("p95"))


def cells(found: Samples | None) -> tuple[Cell, ...]:
    if found is None:
        return (Cell("0"), *(Cell("-"),) * 3)
    return (Cell(f"{found.n:,}"), *map(measured, (found.mean, found.median, found.p95)))


def measured(value: float) -> Cell:
    """A value that is never negative, to three digits or to the whole number."""
    if value >= 100:
        return Cell(f"{value:,.0f}")
    return Cell(f"{value:.1f}" if value >= 10 else f"{value:.2f}")
