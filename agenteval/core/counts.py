"""Errors counted by trial and by failure class: the input of every rate and comparison."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

Cluster = tuple[int, int]  # of one trial: how many, out of how many
Session = Sequence[str | None]  # the calls of one trial: the primary class of a denied one, or None


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """Calls and errors by trial. A call has one primary class, so classes add up to errors.

    `by_trial` is False for counts that cannot be assigned to single trials.
    """

    calls: tuple[int, ...]
    by_class: Mapping[str, tuple[int, ...]]
    by_trial: bool = True

    @classmethod
    def of(cls, sessions: Sequence[Session]) -> "ErrorCounts":
        return cls.added(
            [(len(session), Counter(call for call in session if call)) for session in sessions]
        )

    @classmethod
    def added(cls, trials: Sequence[tuple[int, Mapping[str, int]]]) -> "ErrorCounts":
        """Build the counts from each trial's calls and its errors by class."""
        classes = sorted({name for _, errors in trials for name in errors})
        return cls(
            calls=tuple(calls for calls, _ in trials),
            by_class={name: tuple(errors.get(name, 0) for _, errors in trials) for name in classes},
        )

    @property
    def errors(self) -> tuple[int, ...]:
        """Errors of each trial, all classes together."""
        return tuple(map(sum, zip(*self.by_class.values(), self._nothing(), strict=True)))

    def total(self) -> tuple[Cluster, ...]:
        return tuple(zip(self.errors, self.calls, strict=True))

    def clusters(self, failure_class: str) -> tuple[Cluster, ...]:
        counts = self.by_class.get(failure_class, self._nothing())
        return tuple(zip(counts, self.calls, strict=True))

    def folded(self, into: Mapping[str, str]) -> "ErrorCounts":
        """Return the same counts under coarser names; a class that `into` lacks keeps its own."""
        rows: dict[str, tuple[int, ...]] = {}
        for name, counts in self.by_class.items():
            row = into.get(name, name)
            before = rows.get(row, self._nothing())
            rows[row] = tuple(map(sum, zip(before, counts, strict=True)))
        return replace(self, by_class=rows)

    def chosen(self, places: Sequence[int]) -> "ErrorCounts":
        """The counts of the trials at these places, in this order."""
        by_class = {
            name: tuple(counts[at] for at in places) for name, counts in self.by_class.items()
        }
        return replace(self, calls=tuple(self.calls[at] for at in places), by_class=by_class)

    def unknown(self) -> "ErrorCounts":
        """Return as many trials without calls: which calls were errors is unknown."""
        return ErrorCounts(self._nothing(), {}, self.by_trial)

    def _nothing(self) -> tuple[int, ...]:
        return (0,) * len(self.calls)


@dataclass(frozen=True, slots=True)
class Influence:
    """The trial without which a rate changes most: its share, and the rate without it.

    `low` and `high` are the rates between which any one trial left out keeps it.
    """

    at: int
    errors: Cluster  # of the trial, of all
    calls: Cluster
    without: float
    low: float
    high: float

    @property
    def runs_away(self) -> bool:
        """Return True if one trial dominates the rate: 5 errors or more, and a third of all."""
        errors, total = self.errors
        return errors >= 5 and 3 * errors >= total


def influence(clusters: Sequence[Cluster]) -> Influence | None:
    """None where there is no error, or no call but those of one trial."""
    errors, calls = (sum(one[part] for one in clusters) for part in (0, 1))
    if not errors or any(size == calls for _, size in clusters):
        return None
    left = [(errors - count) / (calls - size) for count, size in clusters]
    at = max(range(len(left)), key=lambda place: abs(left[place] - errors / calls))
    count, size = clusters[at]
    return Influence(at, (count, errors), (size, calls), left[at], min(left), max(left))
