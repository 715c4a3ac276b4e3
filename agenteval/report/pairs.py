"""Every two models of a view compared, in the same worlds where they met the same ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from agenteval.core.counts import Cluster, ErrorCounts
from agenteval.core.tally import World
from agenteval.report.view import Pair
from agenteval.stats.comparison import Difference, compare, compare_paired, holm
from agenteval.stats.signature import compare_kinds


@dataclass(frozen=True, slots=True)
class Side:
    """One model's errors. `worlds` names its trials in their order, `planned` the void ones too."""

    label: str
    errors: ErrorCounts
    worlds: Sequence[World] = ()
    planned: frozenset[World] = frozenset()


def pairs_of(sides: Sequence[Side], *, seed: int) -> tuple[Pair, ...]:
    """All pairs in which both models made calls."""
    couples = list(combinations([side for side in sides if any(side.errors.calls)], 2))
    differences = [_difference(first, second, seed) for first, second in couples]
    kinds = [compare_kinds(first.errors, second.errors, seed=seed) for first, second in couples]
    adjusted = holm([difference.p for difference in differences])
    kinds_adjusted = holm([one.p if one else 1.0 for one in kinds])
    return tuple(
        Pair(first.label, second.label, difference, p, kind, kinds_p)
        for (first, second), difference, p, kind, kinds_p in zip(
            couples, differences, adjusted, kinds, kinds_adjusted, strict=True
        )
    )


def _difference(first: Side, second: Side, seed: int) -> Difference:
    """A world that is void, or not reached yet, for one of the two is left out for both."""
    met = _worlds_met(first, second)
    if any(not any(size for _, size in side) for side in zip(*met, strict=True)) or not met:
        return compare(first.errors.total(), second.errors.total(), seed=seed)
    return compare_paired(met, seed=seed)


def _worlds_met(first: Side, second: Side) -> list[tuple[Cluster, Cluster]]:
    """Both models' calls in each common world; none unless one met all that the other did."""
    if not (first.planned <= second.planned or second.planned <= first.planned):
        return []
    ours = dict(zip(first.worlds, first.errors.total(), strict=False))
    theirs = dict(zip(second.worlds, second.errors.total(), strict=False))
    return [(ours[world], theirs[world]) for world in ours if world in theirs]
