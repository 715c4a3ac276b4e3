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


def these(scenarios: int) -> str:
    return f"these {scenarios} scenarios" if scenarios > 1 else "this scenario"


def verdict_about(about: Estimand, scenarios: int, *, logged: bool) -> str:
    """What a gate's verdict speaks of, and how its bounds are made."""
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
