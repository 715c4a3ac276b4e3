"""The estimand: what an interval is about, and how trials are laid out for it.

About these scenarios, played again, a rate varies only as the trials of each scenario do: it is
stratified by scenario. About scenarios like these, a scenario is one draw: it is clustered by
scenario.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

from agenteval.core.counts import Cluster
from agenteval.errors import UsageError

NOTHING: Cluster = (0, 0)
Of = TypeVar("Of")


class Estimand(StrEnum):
    """What a figure is about."""

    THESE = "these"
    LIKE = "like-these"

    @property
    def told(self) -> str:
        return "scenarios like these" if self is Estimand.LIKE else "these scenarios"


def estimand(about: str) -> Estimand:
    """As a caller names it. Raises UsageError."""
    if about not in {*Estimand}:
        raise UsageError(f"about={about!r}: one of {', '.join(Estimand)}")
    return Estimand(about)


@dataclass(frozen=True, slots=True)
class Layout:
    """Of which scenario each trial is, in their order, and what is asked; empty: not known.

    Where scenarios are not known, each trial is a draw by itself, whatever is asked.
    """

    estimand: Estimand = Estimand.THESE
    scenarios: Sequence[str] = field(default=())

    @property
    def by_scenario(self) -> bool:
        """Whether a scenario is one draw."""
        return self.estimand is Estimand.LIKE and any(self.scenarios)

    def grouped(self, clusters: Sequence[Cluster]) -> tuple[list[Cluster], list[int]]:
        """The draws and the stratum of each, without those of size 0."""
        names = self.scenarios or [""] * len(clusters)
        if self.by_scenario:
            units = [unit for unit in summed(clusters, names) if unit[1]]
            return units, [0] * len(units)
        used = [one for one in clusters if one[1]]
        if len(used) < len(clusters):
            names = [name for one, name in zip(clusters, names, strict=True) if one[1]]
        return used, strata(names)


UNKNOWN = Layout()


def summed(clusters: Sequence[Cluster], scenarios: Sequence[str]) -> list[Cluster]:
    """The trials of each scenario added up, in the order of the scenarios' names."""
    found: dict[str, Cluster] = {}
    for (count, size), name in zip(clusters, scenarios, strict=True):
        before = found.get(name, NOTHING)
        found[name] = before[0] + count, before[1] + size
    return [found[name] for name in sorted(found)]


def strata(scenarios: Sequence[str]) -> list[int]:
    """The stratum of each trial: its scenario; those played once, which show no spread, share one.

    So that runs that play each scenario once are judged as before there were strata.
    """
    return list(_strata(tuple(scenarios)))


@lru_cache(maxsize=8)  # a view asks about the same trials a hundred times
def _strata(scenarios: tuple[str, ...]) -> tuple[int, ...]:
    played = Counter(scenarios)
    numbers = {name: at for at, name in enumerate((n for n in played if played[n] > 1), 1)}
    return tuple(numbers.get(name, 0) for name in scenarios)


def met_strata(first: Sequence[str], second: Sequence[str]) -> tuple[list[int], list[int]]:
    """The strata of the trials of two runs: the scenarios that both played more than once."""
    sides = Counter(first), Counter(second)
    both = [name for name in sides[0] if min(side[name] for side in sides) > 1]
    numbers = {name: at for at, name in enumerate(both, 1)}
    ours, theirs = ([numbers.get(name, 0) for name in side] for side in (first, second))
    return ours, theirs


def degrees(strata: Sequence[int]) -> int:
    """Of freedom: one less than the trials of each stratum, but of one that has a single trial."""
    return sum(k - 1 if k > 1 else 1 for k in Counter(strata).values())


def varied(values: Sequence[float], strata: Sequence[int]) -> float:
    """The variance of the sum of these values, from how they vary within their strata.

    The only value of a stratum varies around 0.
    """
    total = 0.0
    for of in _by_stratum(values, strata):
        k, mean = len(of), sum(of) / len(of)
        total += of[0] * of[0] if k == 1 else k / (k - 1) * sum([(v - mean) ** 2 for v in of])
    return total


def evenness(clusters: Sequence[Cluster], strata: Sequence[int]) -> float:
    """How many times more than independent draws of all are independent draws of the strata spread.

    At most 1, as what strata differ by is then no spread. One error and one call without are added
    to each stratum (Laplace), as one that shows no spread may well have some.
    """
    counts, sizes = [count for count, _ in clusters], [size for _, size in clusters]
    count, n = sum(counts), sum(sizes)
    if not 0 < count < n or len(set(strata)) < 2:
        return 1.0
    rate = count / n
    spread = 0.0
    ours = _by_stratum(counts, strata), _by_stratum(sizes, strata)
    for errors, size in zip(*(map(sum, of) for of in ours), strict=True):
        spread += (errors + 1) * (size - errors + 1) / (size + 2)
    return min(spread / (n * rate * (1 - rate)), 1.0)


def _by_stratum(values: Sequence[Of], strata: Sequence[int]) -> list[list[Of]]:
    return [[values[place] for place in places] for places in _places(tuple(strata))]


@lru_cache(maxsize=8)
def _places(strata: tuple[int, ...]) -> Sequence[Sequence[int]]:
    """Of each stratum: where its trials stand."""
    found: dict[int, list[int]] = defaultdict(list)
    for place, stratum in enumerate(strata):
        found[stratum].append(place)
    return list(found.values())


def these(scenarios: int) -> str:
    return f"these {scenarios} scenarios" if scenarios > 1 else "this scenario"
