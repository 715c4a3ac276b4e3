"""Every two models of a view compared, in the same worlds where they met the same ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from agenteval.core.counts import Cluster
from agenteval.report.view import Pair
from agenteval.stats.comparison import Difference, compare, compare_paired, holm

World = tuple[str, int, int]  # scenario, number, seed


@dataclass(frozen=True, slots=True)
class Side:
    """One model's errors by trial. `worlds` names those trials, `planned` the void ones too."""

    label: str
    clusters: Sequence[Cluster]
    worlds: Sequence[World] = ()
    planned: frozenset[World] = frozenset()


def pairs_of(sides: Sequence[Side], *, seed: int) -> tuple[Pair, ...]:
    """All pairs in which both models made calls."""
    able = [side for side in sides if any(size for _, size in side.clusters)]
    couples = list(combinations(able, 2))
    differences = [_difference(first, second, seed) for first, second in couples]
    adjusted = holm([difference.p for difference in differences])
    return tuple(
        Pair(first.label, second.label, difference, p)
        for (first, second), difference, p in zip(couples, differences, adjusted, strict=True)
    )


def _difference(first: Side, second: Side, seed: int) -> Difference:
    """A world that is void, or not reached yet, for one of the two is left out for both."""
    nested = first.planned <= second.planned or second.planned <= first.planned
    if not (first.planned and second.planned and nested):
        return compare(first.clusters, second.clusters, seed=seed)
    ours = dict(zip(first.worlds, first.clusters, strict=True))
    theirs = dict(zip(second.worlds, second.clusters, strict=True))
    met = [(ours[world], theirs[world]) for world in ours if world in theirs]
    if not all(any(size for _, size in side) for side in zip(*met, strict=True)) or not met:
        return compare(first.clusters, second.clusters, seed=seed)
    return compare_paired(met, seed=seed)
