"""The tables of two models side by side, and of the kinds of errors of all pairs."""

from collections.abc import Sequence
from math import isfinite, isnan

from agenteval.report.sentences import after, p_text
from agenteval.report.tables import Cell, Head, Table, head, per_100, row, share
from agenteval.report.view import Figure, Pair, View
from agenteval.stats.comparison import Difference, MeanDifference
from agenteval.stats.rates import Mean
from agenteval.stats.score import Ratio


def pair_tables(view: View) -> tuple[Table, ...]:
    """Return each pair's figures and classes, then the distances of the kinds of all pairs.

    There are none if the view does not compare pairs.
    """
    tables: list[Table] = []
    if not view.compared:
        return ()
    for pair in view.pairs:
        tables.append(_figures(pair))
        if pair.classes:
            tables.append(_classes(pair))
    if any(pair.kinds for pair in view.pairs):
        tables.append(_kinds(view.pairs))
    return tuple(tables)


def _figures(pair: Pair) -> Table:
    rows = [
        row(figure.label, _figure(figure, figure.difference))
        for figure in pair.figures
        if figure.difference
    ]
    missing = [figure.label for figure in pair.figures if not figure.difference]
    why = "Not observable in counts" if pair.of_counts else "Nothing to count in one of the two"
    note = (
        f"{_how(pair)}: first minus second with 95 % interval, ratio, and p of no difference, not "
        f"corrected.{f' {why}: ' + ', '.join(missing) + '.' if missing else ''}"
    )
    return Table(
        f"{pair.first} against {pair.second}", note, _heads(pair, "ratio", "p"), tuple(rows)
    )


def _how(pair: Pair) -> str:
    if not pair.by_trial:
        return "Calls taken as independent"
    return "In the same worlds" if pair.difference.paired else "In worlds of their own"


def _figure(figure: Figure, difference: Difference | MeanDifference) -> tuple[Cell, ...]:
    if isinstance(difference, MeanDifference):
        first, second = _mean(difference.first), _mean(difference.second)
        return first, second, _gap(difference, 1), Cell("-"), _p(difference.p)
    shown = per_100 if figure.unit == "per 100" else share
    first, second = (shown(rate, own_n=True) for rate in (difference.first, difference.second))
    return first, second, _gap(difference, 100), _ratio(difference.ratio), _p(difference.p)


def _classes(pair: Pair) -> Table:
    rows = [
        row(
            one.id,
            (
                per_100(one.difference.first),
                per_100(one.difference.second),
                _gap(one.difference, 100),
                _p(one.difference.p),
                _p(one.adjusted),
            ),
        )
        for one in pair.classes
    ]
    note = (
        "Errors per 100 calls; first minus second; p of no difference, and "
        f"{after(pair.family_size)}; a class with fewer than five errors is no claim."
    )
    heads = _heads(pair, "p", "p adjusted")
    return Table(f"{pair.first} against {pair.second}, by class", note, heads, tuple(rows))


def _kinds(pairs: Sequence[Pair]) -> Table:
    rows = [
        row(
            f"{pair.first}, {pair.second}",
            (
                Cell(f"{kinds.distance:.2f}"),
                Cell(f"{kinds.by_chance:.2f}"),
                Cell(f"{kinds.divergence:.2f}"),
                Cell(f"{kinds.divergence_by_chance:.2f}"),
                Cell(f"{max(kinds.g_rate, 0):.2f} + {max(kinds.g_kind, 0):.2f}"),
                _p(kinds.p),
                _p(pair.kinds_adjusted),
            ),
        )
        for pair in pairs
        if (kinds := pair.kinds)
    ]
    names = ("total variation", "by chance", "Jensen-Shannon", "by chance")
    columns = (*names, "G-squared, rate + kind", "p of kind", "p adjusted")
    simulated = any(pair.simulated for pair in pairs)
    note = "How far apart two mixes of classes are; 0 is the same, 1 nothing in common."
    heads = tuple(head(name, simulated=simulated) for name in columns)
    return Table("Which kinds of errors", note, heads, tuple(rows))


def _heads(pair: Pair, *more: str) -> tuple[Head, ...]:
    first, second = (head(label, simulated=pair.simulated) for label in (pair.first, pair.second))
    return (first, second, head("difference"), *map(head, more))


def _mean(mean: Mean) -> Cell:
    return Cell(
        f"{mean.value:.2f}", str(mean.count), f"[{mean.low:.2f}, {mean.high:.2f}]", f"n={mean.n}"
    )


def _gap(difference: Difference | MeanDifference, scale: int) -> Cell:
    low, high = scale * difference.low, scale * difference.high
    return Cell(f"{scale * difference.value:+.2f}", interval=f"[{low:.1f}, {high:.1f}]")


def _ratio(ratio: Ratio) -> Cell:
    if isnan(ratio.value):
        return Cell("-")
    value, high = (f"{one:.2f}" if isfinite(one) else "∞" for one in (ratio.value, ratio.high))
    return Cell(value, interval=f"[{ratio.low:.2f}, {high}]")


def _p(p: float) -> Cell:
    return Cell(p_text(p).removeprefix("= "))
