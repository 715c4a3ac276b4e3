"""Errors per trial: a mean of counts, with an interval that fits counts that vary more than chance.

Calls per trial are an outcome of their own, as retries add calls: so errors are counted per trial
as well. The score interval of a Poisson mean stands on so many trials as they are worth, which is
fewer where trials differ more than chance would have it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan, sqrt

from agenteval.core.counts import Cluster
from agenteval.stats.rates import PLANNED_ICC, Z, t_quantile


@dataclass(frozen=True, slots=True)
class Mean:
    """`count` errors in `n` trials, which are worth `effective` trials of independent errors."""

    count: int
    n: int
    effective: float

    @property
    def value(self) -> float:
        return self.count / self.n if self.n else nan

    @property
    def low(self) -> float:
        return self.interval[0]

    @property
    def high(self) -> float:
        return self.interval[1]

    @property
    def interval(self) -> tuple[float, float]:
        if not self.n:
            return 0.0, inf
        half = Z * Z / (2 * self.effective)
        reach = sqrt(half * (2 * self.value + half))
        return max(0.0, self.value + half - reach), self.value + half + reach

    def __str__(self) -> str:
        """As "0.95 [0.57, 1.59] n=20"."""
        if not self.n:
            return "- n=0"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}] n={self.n}"


def per_trial(clusters: Sequence[Cluster]) -> Mean:
    """Errors per trial, from each trial's errors and calls. A trial without a call has no error."""
    count, n = sum(count for count, _ in clusters), len(clusters)
    if not n:
        return Mean(0, 0, 0.0)
    widened = max(1.0, _dispersion(clusters)) * (t_quantile(n - 1) / Z) ** 2
    return Mean(count, n, n / widened)


def _dispersion(clusters: Sequence[Cluster]) -> float:
    """How many times more the counts vary than independent errors would.

    One trial, or none with an error, tells nothing about it: then as much as is planned for.
    """
    count, n = sum(count for count, _ in clusters), len(clusters)
    if n == 1 or not count:
        calls = sum(size for _, size in clusters)
        mean_size = sum(size * size for _, size in clusters) / calls if calls else 1.0
        return 1 + PLANNED_ICC * (mean_size - 1)
    mean = count / n
    return sum((count - mean) ** 2 for count, _ in clusters) / (n - 1) / mean
