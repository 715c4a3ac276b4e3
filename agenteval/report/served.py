"""The table of how fast the models were served."""

from collections.abc import Sequence

from agenteval.core.served import Spread
from agenteval.report.tables import Cell, Table, heads, row
from agenteval.report.view import RunView

UNSEEN = Cell("not observable")


def served_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    """None where only the summaries of a run were read."""
    served = [view.served for view in views if view.served]
    if len(served) < len(views):
        return ()
    rows = (
        row("to the first piece, ms", (_cell(one.first_piece, 1000) for one in served)),
        row("gap between pieces, median, ms", (_cell(one.gap_median, 1000) for one in served)),
        row("gap between pieces, p95, ms", (_cell(one.gap_p95, 1000) for one in served)),
        row("completion tokens/s", (_cell(one.tokens_per_second, 1) for one in served)),
        row("reasoning, % of completion", (_cell(one.reasoning, 100) for one in served)),
        row("cached, % of prompt", (_cell(one.cached, 100) for one in served)),
    )
    note = (
        "Median of all requests, and the 5th and 95th percentile; tokens/s from request to end, as "
        "the server counts tokens."
    )
    return (Table("Speed as served", note, heads(views), rows),)


def _cell(seen: Spread | None, unit: float) -> Cell:
    if seen is None:
        return UNSEEN
    low, high = f"{unit * seen.low:.3g}", f"{unit * seen.high:.3g}"
    return Cell(f"{unit * seen.median:.3g}", interval=f"[{low}, {high}]", n=f"n={seen.n}")
