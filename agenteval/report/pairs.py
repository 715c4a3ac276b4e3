"""Every two models of a view compared, in the same worlds where they met the same ones."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from agenteval import stats
from agenteval.core.counts import ErrorCounts
from agenteval.core.pairing import Pairing
from agenteval.report.figures import figures_of
from agenteval.report.side import Side, compared
from agenteval.report.view import ClassPair, Pair
from agenteval.stats.comparison import (
    Difference,
    benjamini_hochberg,
    compare_all,
    compare_counts,
    holm,
)
from agenteval.stats.rates import rate_of


def pairs_of(sides: Sequence[Side], *, seed: int) -> tuple[Pair, ...]:
    """All pairs in which both models made calls where they are compared."""
    pairs = [
        _pair(one, other, found, seed)
        for first, second in combinations(sides, 2)
        for one, other, found in [compared(first, second)]
        if any(one.errors.calls) and any(other.errors.calls)
    ]
    adjusted = holm([pair.difference.p for pair in pairs])
    kinds_adjusted = holm([pair.kinds.p if pair.kinds else 1.0 for pair in pairs])
    return tuple(
        replace(pair, adjusted=p, kinds_adjusted=kinds_p)
        for pair, p, kinds_p in zip(pairs, adjusted, kinds_adjusted, strict=True)
    )


def _pair(first: Side, second: Side, found: Pairing, seed: int) -> Pair:
    """Of two sides as they are compared."""
    classes = sorted({*first.errors.by_class, *second.errors.by_class})
    total, *by_class = _differences(
        first.errors, second.errors, classes, paired=found.paired, seed=seed
    )
    adjusted = benjamini_hochberg([one.p for one in by_class])
    return Pair(
        first.label,
        second.label,
        total,
        adjusted=1.0,
        kinds=stats.signature.compare_kinds(first.errors, second.errors, seed=seed),
        kinds_adjusted=1.0,
        errors=(sum(first.errors.errors), sum(second.errors.errors)),
        figures=figures_of(first, second, total, paired=found.paired, seed=seed),
        classes=tuple(map(ClassPair, classes, by_class, adjusted)),
        by_trial=first.errors.by_trial and second.errors.by_trial,
        of_counts=not (first.run and second.run),
        simulated=first.card.simulated or second.card.simulated,
        left_out=found.left_out,
    )


def _differences(
    first: ErrorCounts, second: ErrorCounts, classes: Sequence[str], *, paired: bool, seed: int
) -> list[Difference]:
    """In total, then in each of the classes."""
    ours, theirs = (
        [side.total(), *(side.clusters(name) for name in classes)] for side in (first, second)
    )
    if first.by_trial and second.by_trial:
        return compare_all(ours, theirs, seed=seed, paired=paired)
    return [
        compare_counts(
            rate_of(one, by_trial=first.by_trial), rate_of(other, by_trial=second.by_trial)
        )
        for one, other in zip(ours, theirs, strict=True)
    ]
