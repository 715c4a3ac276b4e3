"""Samples as cells: how many, mean, median and 95th percentile."""

from agenteval.report.tables import Cell, Head
from agenteval.stats.samples import Samples

SAMPLED = (Head("n"), Head("mean"), Head("median"), Head("p95"))


def cells(found: Samples | None) -> tuple[Cell, ...]:
    if found is None:
        return (Cell("0"), *(Cell("-"),) * 3)
    return (Cell(f"{found.n:,}"), *map(measured, (found.mean, found.median, found.p95)))


def measured(value: float) -> Cell:
    """A value that is never negative: three digits, and all of those before the point."""
    digits = next((digits for digits, least in enumerate((100, 10, 1)) if value >= least), 3)
    return Cell(f"{value:,.{digits}f}")
