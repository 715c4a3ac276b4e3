"""What can and what cannot be said from runs and pairs of models, in plain words."""

from collections.abc import Sequence
from math import isinf

from agenteval.core.outcome import Outcome
from agenteval.report.view import Pair, RunView
from agenteval.stats.rates import Rate
from agenteval.stats.score import SETTLED
from agenteval.stats.signature import Kinds

EDGE = 0.1  # a p below this, yet not settled, is called the edge of chance


def sentences(views: Sequence[RunView], pairs: Sequence[Pair]) -> tuple[str, ...]:
    found = [*count_sentences(pairs)]
    found.extend(
        _each("The goal was reached in", [(view.label, _completed(view)) for view in views])
    )
    denied = [(view.label, view.aftermath.at_once) for view in views if view.aftermath.at_once.n]
    found.extend(_each("The turn after a denial recovered in", denied))
    return tuple(found)


def count_sentences(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """For each pair of models: which makes fewer errors, and whether their kinds differ."""
    among = len(pairs)
    numbers = [_number_sentence(pair, among=among) for pair in pairs]
    kinds = [_kinds_sentence(pair, pair.kinds, among=among) for pair in pairs if pair.kinds]
    return (*numbers, *kinds)


def _number_sentence(pair: Pair, *, among: int) -> str:
    gap = pair.difference
    if isinf(gap.calls_needed):
        return f"{pair.first} and {pair.second} make equally many errors: {_per_100(gap.first)}."
    fewer, more, low, high = (
        (pair.first, pair.second, -gap.high, -gap.low)
        if gap.value < 0
        else (pair.second, pair.first, gap.low, gap.high)
    )
    better, worse = sorted((gap.first, gap.second), key=lambda rate: rate.value)
    return (
        f"{fewer} makes fewer errors than {more}: {standing(gap.p, pair.adjusted, among)}. "
        f"{100 * better.value:.2f} against {100 * worse.value:.2f} per 100 calls"
        f"{' in the same worlds' if gap.paired else ''}, "
        f"difference {100 * abs(gap.value):.2f} [{100 * low:.1f}, {100 * high:.1f}], "
        f"n={better.n} and {worse.n}.{_more_calls(pair)}"
    )


def _kinds_sentence(pair: Pair, kinds: Kinds, *, among: int) -> str:
    return (
        f"{pair.first} and {pair.second} make different kinds of errors: "
        f"{standing(kinds.p, pair.kinds_adjusted, among)}. The distance of their mixes is "
        f"{kinds.distance:.2f}; chance alone would give {kinds.by_chance:.2f}."
    )


def standing(p: float, adjusted: float, among: int) -> str:
    corrected = (
        f", p {p_text(adjusted)} after correction for {among} comparisons" if among > 1 else ""
    )
    shown = f"(p {p_text(p)}{corrected})"
    if adjusted < SETTLED:
        return f"settled {shown}"
    return f"at the edge of chance, not settled {shown}" if p < EDGE else f"not settled {shown}"


def _more_calls(pair: Pair) -> str:
    """How many calls would settle it, where it is not and too few were made."""
    gap = pair.difference
    missing = gap.calls_needed - min(gap.first.n, gap.second.n)
    if pair.adjusted < SETTLED or missing <= 0:
        return ""
    return f" {missing:,.0f} more calls per model would give such a difference 80 % power."


def p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}" if p < 0.1 else f"= {p:.2f}"


def _per_100(rate: Rate) -> str:
    return f"{100 * rate.value:.2f} per 100 calls"


def _each(lead: str, rates: Sequence[tuple[str, Rate]]) -> list[str]:
    """One sentence that gives a rate for each model."""
    seen = [f"{rate} ({label})" for label, rate in rates if rate.n]
    return [f"{lead} {'; '.join(seen)}."] if seen else []


def _completed(view: RunView) -> Rate:
    return dict(view.outcomes)[Outcome.COMPLETED]
