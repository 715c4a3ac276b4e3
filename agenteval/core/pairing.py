"""The pairing of two runs: their trials of the same task instance."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from agenteval.core.summary import TrialSummary

Trials = tuple[TrialSummary, ...]
_Scenarios = Mapping[str, Sequence[TrialSummary]]


@dataclass(frozen=True, slots=True)
class Pairing:
    """The trials that are compared.

    If `paired`, trials at the same place are of one task instance. Else the two runs have no task
    instance in common, and their trials of the same scenarios are compared; `alike` is False if
    there are none.
    `left_out` counts the calls of each run that are not compared, `trials_left_out` the trials.
    """

    first: Trials
    second: Trials
    paired: bool
    left_out: tuple[int, int] = (0, 0)
    trials_left_out: tuple[int, int] = (0, 0)
    alike: bool = True

    @property
    def worlds(self) -> int:
        """The number of task instances that both runs played."""
        return len(self.first) if self.paired else 0


def pair(first: Sequence[TrialSummary], second: Sequence[TrialSummary]) -> Pairing:
    """Pair two runs by task instance: the same scenario, number and seed.

    A void trial is paired with none. If the two runs share some instances, those alone are
    compared, in the order of the first run. If they share none, the trials of the scenarios that
    both played are compared, unpaired, in the same proportions on both sides. Otherwise the run
    with more trials of easy scenarios would look better. If no scenario is known, as in a table,
    all trials are compared.
    """
    sides = (
        tuple(one for one in first if not one.void),
        tuple(one for one in second if not one.void),
    )
    first_by_world, second_by_world = ({one.world: one for one in side} for side in sides)
    shared = [world for world in first_by_world if world in second_by_world]
    if shared:
        compared = (
            tuple(first_by_world[world] for world in shared),
            tuple(second_by_world[world] for world in shared),
        )
        return _cut(sides, compared, paired=True)
    scenarios = [_by_scenario(side) for side in sides]
    if not all(any(names) for names in scenarios):
        return Pairing(*sides, paired=False)
    if not (numbers := _as_many(*scenarios)):
        return Pairing(*sides, paired=False, alike=False)
    own, other = (_first(side, at, numbers) for at, side in enumerate(scenarios))
    return _cut(sides, (own, other), paired=False)


def _by_scenario(trials: Trials) -> dict[str, list[TrialSummary]]:
    by_scenario: dict[str, list[TrialSummary]] = {}
    for one in trials:
        by_scenario.setdefault(one.scenario, []).append(one)
    return by_scenario


def _as_many(first: _Scenarios, second: _Scenarios) -> Mapping[str, tuple[int, int]]:
    """Return how many trials of each common scenario are compared: all, if in proportion."""
    there = {name: (len(first[name]), len(second[name])) for name in first if name in second}
    if len({Fraction(*numbers) for numbers in there.values()}) > 1:
        return {name: (min(numbers),) * 2 for name, numbers in there.items()}
    return there


def _first(side: _Scenarios, at: int, numbers: Mapping[str, tuple[int, int]]) -> Trials:
    """Return that many trials of each scenario: the lowest numbers, whatever their outcome."""
    ranked = (sorted(side[name], key=lambda one: one.number) for name in numbers)
    return tuple(
        one for of, most in zip(ranked, numbers.values(), strict=True) for one in of[: most[at]]
    )


def _cut(sides: tuple[Trials, Trials], compared: tuple[Trials, Trials], *, paired: bool) -> Pairing:
    calls = [(_calls(whole) - _calls(part)) for whole, part in zip(sides, compared, strict=True)]
    trials = [len(whole) - len(part) for whole, part in zip(sides, compared, strict=True)]
    left, out = (calls[0], calls[1]), (trials[0], trials[1])
    return Pairing(*compared, paired=paired, left_out=left, trials_left_out=out)


def _calls(trials: Iterable[TrialSummary]) -> int:
    return sum(one.calls for one in trials)
