"""A rate: count, n and a 95 % confidence interval, widened for clustering of calls in trials.

Calls of one trial are correlated, so n calls carry less information than n independent ones. The
design effect measures this: the effective sample is n / deff calls. As deff is itself estimated
from a limited number of trials, of which few bear errors, it is widened first. Wilson's interval is
computed on the effective sample; docs/validation.md has its coverage.

Wilson's formula is written out because statsmodels, which has it too (and is the oracle in the
tests), takes four seconds to import.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, inf, nan, sqrt
from operator import lt
from statistics import NormalDist

from agenteval.core.counts import Cluster
from agenteval.stats import quantiles
from agenteval.stats.cluster_variance import Precision, evenness, varied
from agenteval.stats.estimand import UNKNOWN, Layout

LEVEL = 0.95
PLANNED_ICC = 0.1  # resemblance within a trial, assumed where the counts cannot show it
FEW = 4  # draws with errors
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of `count` out of `n`, from `clusters` (trials), worth `effective` independent draws.

    The upper end of the interval is at least `least`, and the lower end at most 1 - `least`.
    Without clusters all draws are independent. An n of 0 has value nan and the interval [0, 1].
    """

    count: int
    n: int
    clusters: int | None = None
    effective: float | None = None
    least: float = 0.0

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
            return 0.0, 1.0
        low, high = wilson(self.value, self.n if self.effective is None else self.effective)
        return min(low, 1 - self.least), max(high, self.least)

    @property
    def percent(self) -> str:
        """The interval in percent, as text: "[7.8, 18.0]"."""
        return f"[{100 * self.low:.1f}, {100 * self.high:.1f}]"

    def __str__(self) -> str:
        """Format as a share: "12.0% [7.8, 18.0] n=158"."""
        return f"{100 * self.value:.1f}% {self.percent} n={self.n}" if self.n else "- n=0"

    def per_100(self) -> str:
        """Format as errors per 100 calls: "12.03 [7.8, 18.0] n=158"."""
        return f"{100 * self.value:.2f} {self.percent} n={self.n}" if self.n else "- n=0"


def clustered(clusters: Sequence[Cluster], layout: Layout = UNKNOWN) -> Rate:
    """Return the rate of all trials together, as a ratio of sums, without trials of size 0.

    A few trials with errors cannot show the correlation of errors, and must not make a rate more
    precise than no error does. So with one error the interval is no narrower, and with a few its
    upper end is at least as high.
    """
    used, strata = layout.grouped(clusters)
    if not used:
        return Rate(0, 0, clusters=0)
    counts, sizes = zip(*used, strict=True)
    count, n = sum(counts), sum(sizes)
    bearing = min(len(counts) - counts.count(0), sum(map(lt, counts, sizes)))
    even = evenness(used, strata)
    effective = n / _relied_on(used, strata, bearing, even)
    if not 0 < bearing <= FEW:
        return Rate(count, n, len(used), effective)
    at = sizes.index(min(sizes))
    none = [(0, size) for size in sizes]
    single_error = [*none[:at], (1, sizes[at]), *none[at + 1 :]]
    wide = wilson(0.0, n / _relied_on(none, strata, 0, even))[1]
    wide += wilson(1 / n, n / even)[0]
    high = wilson(1 / n, n / _relied_on(single_error, strata, 1, even))[1]
    return Rate(count, n, len(used), effective, min(max(wide, high), 1.0))


def _relied_on(
    clusters: Sequence[Cluster], strata: Sequence[int], bearing: int, least: float
) -> float:
    """Return the widened design effect of an interval, with Student's t in place of z."""
    sharper = (t_quantile(_precision(clusters, strata).df) / Z) ** 2
    effect = design_effect(clusters, strata) * sharper
    return widened(effect, bearing, least=least)


def rate_of(clusters: Sequence[Cluster], layout: Layout = UNKNOWN, *, by_trial: bool) -> Rate:
    """Return the rate of clusters: of trials, or of calls that count as independent."""
    if by_trial:
        return clustered(clusters, layout)
    return Rate(sum(count for count, _ in clusters), sum(size for _, size in clusters))


def widened(effect: float, bearing: int, *, least: float = 1.0) -> float:
    """Return a conservative design effect: at least `least`, larger where few trials bear errors.

    Estimated from few such trials it is mostly too low: the intervals of 20 trials with an
    intraclass correlation of 0.3 would cover 90 % and not 95.
    """
    return least + max(effect - least, 0.0) * (1 + 2 / bearing if bearing else 1)


def design_effect(clusters: Sequence[Cluster], strata: Sequence[int] = ()) -> float:
    """Return the variance inflation of the rate over that of independent calls.

    It is estimated by linearisation of the ratio. It cannot be estimated from one cluster, or when
    all or none count: then it is the planned effect for clusters of this size.
    """
    count, n = sum([count for count, _ in clusters]), sum([size for _, size in clusters])
    share = _precision(clusters, strata).share
    if not share or count in {0, n}:
        return planned_effect(clusters, PLANNED_ICC)
    rate = count / n
    around = [count - rate * size for count, size in clusters]
    return varied(around, strata or [0] * len(clusters)) / share / (n * rate * (1 - rate))


def _precision(clusters: Sequence[Cluster], strata: Sequence[int]) -> Precision:
    sizes = [size for _, size in clusters]
    return Precision.of(sizes, strata or [0] * len(sizes), icc=PLANNED_ICC)


def planned_effect(clusters: Sequence[Cluster], icc: float) -> float:
    """Return the design effect of clusters of these sizes with intraclass correlation `icc`."""
    sizes = [size for _, size in clusters]
    return 1 + icc * (sum([size * size for size in sizes]) / sum(sizes) - 1)


def t_quantile(df: float) -> float:
    """Return Student's t at the level of Z; a df below 1 counts as 1, the best honest case."""
    return quantiles.t_quantile((1 + LEVEL) / 2, max(df, 1))


def wilson(rate: float, n: float) -> tuple[float, float]:
    """Return Wilson's interval for a rate observed in n draws; n need not be whole.

    It ends exactly at 0 where nothing counts, and at 1 where all do. Centre and reach are then
    equal, and their difference would be a rounding error.
    """
    centre = (rate + Z * Z / (2 * n)) / (1 + Z * Z / n)
    reach = Z * sqrt(rate * (1 - rate) / n + Z * Z / (4 * n * n)) / (1 + Z * Z / n)
    low = max(0.0, centre - reach) if rate > 0 else 0.0
    return low, min(1.0, centre + reach) if rate < 1 else 1.0


@dataclass(frozen=True, slots=True)
class Repeated:
    """The chance that k trials succeed, all of them (pass^k) or any of them (pass@k)."""

    k: int
    n: int
    value: float
    low: float
    high: float


def pass_all(completed: Rate, k: int) -> Repeated | None:
    """Return pass^k; None when fewer than k trials were made."""
    if completed.n < k:
        return None
    value = comb(completed.count, k) / comb(completed.n, k)
    return _repeated(k, completed.n, value, completed.low**k, completed.high**k)


def pass_any(completed: Rate, k: int) -> Repeated | None:
    """Return pass@k; None when fewer than k trials were made."""
    if completed.n < k:
        return None
    value = 1 - comb(completed.n - completed.count, k) / comb(completed.n, k)
    low, high = (1 - (1 - bound) ** k for bound in completed.interval)
    return _repeated(k, completed.n, value, low, high)


def _repeated(k: int, n: int, value: float, low: float, high: float) -> Repeated:
    return Repeated(k, n, value, min(low, value), max(high, value))


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of `count` errors in `n` trials, worth `effective` trials of independent errors."""

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
        low = max(0.0, self.value + half - reach) if self.count else 0.0
        return low, self.value + half + reach

    def __str__(self) -> str:
        """Format as "0.95 [0.57, 1.59] n=20"."""
        if not self.n:
            return "- n=0"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}] n={self.n}"


def per_trial(clusters: Sequence[Cluster], layout: Layout = UNKNOWN) -> Mean:
    """Return the errors per trial, from each trial's errors and calls.

    A trial without a call has no error.
    """
    count, n = sum(count for count, _ in clusters), len(clusters)
    if not n:
        return Mean(0, 0, 0.0)
    used, strata = layout.grouped([(count, 1) for count, _ in clusters])
    precision = _precision(used, strata)
    dispersion = _dispersion(used, strata, clusters, precision.share)
    return Mean(count, n, n / (max(1.0, dispersion) * (t_quantile(precision.df) / Z) ** 2))


def _dispersion(
    used: Sequence[Cluster], strata: Sequence[int], clusters: Sequence[Cluster], share: float
) -> float:
    """Return the variance inflation of counts over that of independent errors.

    It cannot be estimated from one draw, or without an error: then it is the planned inflation.
    """
    count, n = sum(count for count, _ in used), sum(size for _, size in used)
    if not share or not count:
        calls = sum(size for _, size in clusters)
        mean_size = sum(size * size for _, size in clusters) / calls if calls else 1.0
        return 1 + PLANNED_ICC * (mean_size - 1)
    return varied([one - count / n * size for one, size in used], strata) / share / count


def share_of(did: Sequence[bool], layout: Layout = UNKNOWN) -> Rate:
    """Return the share of trials with a true value: one draw a trial, so only scenarios cluster."""
    if layout.by_scenario:
        return clustered([(int(one), 1) for one in did], layout)
    return Rate(sum(did), len(did))
