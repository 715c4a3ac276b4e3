"""The pairing of two runs: which of their trials met the same world."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agenteval.core.summary import TrialSummary

Trials = tuple[TrialSummary, ...]


@dataclass(frozen=True, slots=True)
class Pairing:
    """The trials that are compared.

    `paired`: place by place those of one world. Else the two runs met no world in common, and all
    their trials stand beside each other. `left_out` counts the calls of each run that are not
    compared, as they were made in worlds that the other run did not play to an end.
    """

    first: Trials
    second: Trials
    paired: bool
    left_out: tuple[int, int] = (0, 0)

    @property
    def worlds(self) -> int:
        """How many worlds both met."""
        return len(self.first) if self.paired else 0


def pair(first: Sequence[TrialSummary], second: Sequence[TrialSummary]) -> Pairing:
    """Pair two runs by world: the same scenario, number and seed.

    A void trial meets no world. Where the two runs share some worlds, those alone are compared, in
    the order of the first run; where they share none, all trials are, unpaired.
    """
    ours, theirs = ({one.world: one for one in side if not one.void} for side in (first, second))
    met = [world for world in ours if world in theirs]
    if not met:
        return Pairing(tuple(ours.values()), tuple(theirs.values()), paired=False)
    compared = tuple(ours[world] for world in met), tuple(theirs[world] for world in met)
    left_out = (
        _calls(ours.values()) - _calls(compared[0]),
        _calls(theirs.values()) - _calls(compared[1]),
    )
    return Pairing(compared[0], compared[1], paired=True, left_out=left_out)


def _calls(trials: Iterable[TrialSummary]) -> int:
    return sum(one.calls for one in trials)
