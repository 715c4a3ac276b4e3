"""The estimand: what an interval is about, and how trials are laid out for it.

About these scenarios, played again, a rate varies only as the trials of each scenario do: it is
stratified by scenario. About scenarios like these, a scenario is one draw: it is clustered by
scenario.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from agenteval.core.counts import Cluster
from agenteval.errors import UsageError

NOTHING: Cluster = (0, 0)


class Estimand(StrEnum):
    """The population of scenarios that a figure is about."""

    THESE = "these"
    LIKE = "like-these"

    @property
    def label(self) -> str:
        return "scenarios like these" if self is Estimand.LIKE else "these scenarios"


def estimand(about: str) -> Estimand:
    """Return the estimand that a caller names. Raises UsageError if there is none of that name."""
    if about not in {*Estimand}:
        raise UsageError(f"about={about!r}: one of {', '.join(Estimand)}")
    return Estimand(about)


@dataclass(frozen=True, slots=True)
class Layout:
    """The scenario of each trial, in the order of the trials, and the estimand.

    `scenarios` is empty where they are not known: then each trial is a draw by itself, whatever the
    estimand.
    """

    estimand: Estimand = Estimand.THESE
    scenarios: Sequence[str] = field(default=())

    @property
    def by_scenario(self) -> bool:
        """True if a scenario is one draw."""
        return self.estimand is Estimand.LIKE and any(self.scenarios)

    def grouped(self, clusters: Sequence[Cluster]) -> tuple[list[Cluster], list[int]]:
        """Return the draws and the stratum of each, without draws of size 0."""
        names = self.scenarios or [""] * len(clusters)
        if self.by_scenario:
            units = [unit for unit in summed(clusters, names) if unit[1]]
            return units, [0] * len(units)
        used = [cluster for cluster in clusters if cluster[1]]
        if len(used) < len(clusters):
            names = [name for cluster, name in zip(clusters, names, strict=True) if cluster[1]]
        return used, strata(names)


UNKNOWN = Layout()


def summed(clusters: Sequence[Cluster], scenarios: Sequence[str]) -> list[Cluster]:
    """Return the sums over the trials of each scenario, in the order of the scenarios' names."""
    sums: dict[str, Cluster] = {}
    for (count, size), name in zip(clusters, scenarios, strict=True):
        before = sums.get(name, NOTHING)
        sums[name] = before[0] + count, before[1] + size
    return [sums[name] for name in sorted(sums)]


def strata(scenarios: Sequence[str]) -> list[int]:
    """Return the stratum of each trial, which is its scenario.

    Scenarios played once, which show no spread, share one stratum. So runs that play each scenario
    once are judged as an unstratified sample.
    """
    return list(_strata(tuple(scenarios)))


@lru_cache(maxsize=8)  # a view asks about the same trials a hundred times
def _strata(scenarios: tuple[str, ...]) -> tuple[int, ...]:
    played = Counter(scenarios)
    numbers = {name: at for at, name in enumerate((n for n in played if played[n] > 1), 1)}
    return tuple(numbers.get(name, 0) for name in scenarios)


def met_strata(first: Sequence[str], second: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the strata of the trials of two runs: the scenarios both played more than once."""
    sides = Counter(first), Counter(second)
    both = [name for name in sides[0] if min(side[name] for side in sides) > 1]
    numbers = {name: at for at, name in enumerate(both, 1)}
    first_strata, second_strata = (
        [numbers.get(name, 0) for name in side] for side in (first, second)
    )
    return first_strata, second_strata


def these(scenarios: int) -> str:
    return f"these {scenarios} scenarios" if scenarios > 1 else "this scenario"


def verdict_about(about: Estimand, scenarios: int, *, logged: bool) -> str:
    """Return the sentences that state the estimand of a gate's verdict and the kind of bounds."""
    if logged:
        return (
            "The verdict is about sessions like those of the log. Nobody gave both models the same "
            "tasks: what they differ by may come of these alone."
        )
    if not scenarios:
        return "The verdict is about no scenario: nothing was seen of the candidate in any."
    if about is Estimand.LIKE:
        return (
            f"The verdict is about scenarios like these {scenarios}: bounds are clustered by "
            "scenario."
        )
    return (
        f"The verdict is about {these(scenarios)}, played again: bounds are stratified by "
        "scenario. Of other scenarios it says nothing."
    )
