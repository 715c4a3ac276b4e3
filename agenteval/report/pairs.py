"""Every two models of a view compared, in the same worlds where they met the same ones."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from agenteval.core.counts import ErrorCounts
from agenteval.report.figures import figures_of
from agenteval.report.side import Side, in_worlds_met
from agenteval.report.view import ClassPair, Pair
from agenteval.stats.comparison import Difference, compare_all, compare_counts
from agenteval.stats.multiple import benjamini_hochberg, holm
from agenteval.stats.rates import rate_of
from agenteval.stats.signature import compare_kinds


def pairs_of(sides: Sequence[Side], *, seed: int) -> tuple[Pair, ...]:
    """All pairs in which both models made calls."""
    couples = list(combinations([side for side in sides if any(side.errors.calls)], 2))
    pairs = [_pair(first, second, seed) for first, second in couples]
    adjusted = holm([pair.difference.p for pair in pairs])
    kinds_adjusted = holm([pair.kinds.p if pair.kinds else 1.0 for pair in pairs])
    return tuple(
        replace(pair, adjusted=p, kinds_adjusted=kinds_p)
        for pair, p, kinds_p in zip(pairs, adjusted, kinds_adjusted, strict=True)
    )


def _pair(first: Side, second: Side, seed: int) -> Pair:
    met = in_worlds_met(first, second)
    ours, theirs = met or (first, second)
    classes = sorted({*ours.errors.by_class, *theirs.errors.by_class})
    total, *by_class = _differences(
        ours.errors, theirs.errors, classes, paired=bool(met), seed=seed
    )
    adjusted = benjamini_hochberg([one.p for one in by_class])
    return Pair(
        first.label,
        second.label,
        total,
        adjusted=1.0,
        kinds=compare_kinds(first.errors, second.errors, seed=seed),
        kinds_adjusted=1.0,
        errors=(sum(first.errors.errors), sum(second.errors.errors)),
        figures=figures_of(ours, theirs, total, paired=bool(met), seed=seed),
        classes=tuple(map(ClassPair, classes, by_class, adjusted)),
        by_trial=first.errors.by_trial and second.errors.by_trial,
        of_counts=not (first.run and second.run),
        simulated=first.card.simulated or second.card.simulated,
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
