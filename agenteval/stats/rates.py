"""A rate: count, n and a 95 % interval together, the interval widened for calls of one trial.

Calls of one trial resemble each other, so n calls tell less than n independent ones would. The
design effect says how much less: n / deff calls are left. As it was itself estimated from only so
many trials, of which few bear errors, it is widened before. On what is left stands Wilson's
interval; docs/validation.md has its coverage.

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
    """`count` of `n`, from so many clusters (trials), worth `effective` independent draws.

    The interval reaches up to `least` at least, and down to as far from 1. Without clusters all
    draws are independent. An n of 0 has value nan and the interval [0, 1].
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
        """As a share: "12.0% [7.8, 18.0] n=158"."""
        return f"{100 * self.value:.1f}% {self.percent} n={self.n}" if self.n else "- n=0"

    def per_100(self) -> str:
        """As errors per 100 calls: "12.03 [7.8, 18.0] n=158"."""
        return f"{100 * self.value:.2f} {self.percent} n={self.n}" if self.n else "- n=0"


def clustered(clusters: Sequence[Cluster], layout: Layout = UNKNOWN) -> Rate:
    """The rate of all trials together, as a ratio of sums. Trials of size 0 are left out.

    A few trials with errors cannot show how much these resemble each other, and may not make a rate
    surer than none does: with one error the interval is no narrower, with a few it reaches as far.
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
    one = [*none[:at], (1, sizes[at]), *none[at + 1 :]]
    wide = wilson(0.0, n / _relied_on(none, strata, 0, even))[1]
    wide += wilson(1 / n, n / even)[0]
    high = wilson(1 / n, n / _relied_on(one, strata, 1, even))[1]
    return Rate(count, n, len(used), effective, min(max(wide, high), 1.0))


def _relied_on(
    clusters: Sequence[Cluster], strata: Sequence[int], bearing: int, least: float
) -> float:
    """The design effect of an interval, on Student's t."""
    sharper = (t_quantile(_precision(clusters, strata).df) / Z) ** 2
    effect = design_effect(clusters, strata) * sharper
    return widened(effect, bearing, least=least)


def rate_of(clusters: Sequence[Cluster], layout: Layout = UNKNOWN, *, by_trial: bool) -> Rate:
    """The rate of clusters that are trials; else of calls of which nothing more is known."""
    if by_trial:
        return clustered(clusters, layout)
    return Rate(sum(count for count, _ in clusters), sum(size for _, size in clusters))


def widened(effect: float, bearing: int, *, least: float = 1.0) -> float:
    """A design effect as it may be relied on: never below `least`, larger where few bear errors.

    Estimated from few such trials it is mostly too low: the intervals of 20 trials with an
    intraclass correlation of 0.3 would cover 90 % and not 95.
    """
    return least + max(effect - least, 0.0) * (1 + 2 / bearing if bearing else 1)


def design_effect(clusters: Sequence[Cluster], strata: Sequence[int] = ()) -> float:
    """How many times more the rate varies than it would over independent calls.

    By linearisation of the ratio. From one cluster, or when all or none count, nothing can be
    learned about it: then the planned effect for clusters of this size.
    """
    count, n = sum([count for count, _ in clusters]), sum([size for _, size in clusters])
    shown = _precision(clusters, strata).share
    if not shown or count in {0, n}:
        return planned_effect(clusters, PLANNED_ICC)
    rate = count / n
    around = [count - rate * size for count, size in clusters]
    return varied(around, strata or [0] * len(clusters)) / shown / (n * rate * (1 - rate))


def _precision(clusters: Sequence[Cluster], strata: Sequence[int]) -> Precision:
    sizes = [size for _, size in clusters]
    return Precision.of(sizes, strata or [0] * len(sizes), icc=PLANNED_ICC)


def planned_effect(clusters: Sequence[Cluster], icc: float) -> float:
    """The design effect of clusters of these sizes whose draws resemble each other so much."""
    sizes = [size for _, size in clusters]
    return 1 + icc * (sum([size * size for size in sizes]) / sum(sizes) - 1)


def t_quantile(df: float) -> float:
    """Student's t at the same level as Z; one cluster is treated as two, its honest best case."""
    return quantiles.t_quantile((1 + LEVEL) / 2, max(df, 1))


def wilson(rate: float, n: float) -> tuple[float, float]:
    """Wilson's interval for a rate seen in n draws; n need not be whole.

    It ends at 0 and at 1 exactly where nothing and where all counts: centre and reach are then
    equal, and their difference would be what rounding leaves of it.
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
    """pass^k; None when fewer than k trials were made."""
    if completed.n < k:
        return None
    value = comb(completed.count, k) / comb(completed.n, k)
    return _repeated(k, completed.n, value, completed.low**k, completed.high**k)


def pass_any(completed: Rate, k: int) -> Repeated | None:
    """pass@k; None when fewer than k trials were made."""
    if completed.n < k:
        return None
    value = 1 - comb(completed.n - completed.count, k) / comb(completed.n, k)
    low, high = (1 - (1 - bound) ** k for bound in completed.interval)
    return _repeated(k, completed.n, value, low, high)


def _repeated(k: int, n: int, value: float, low: float, high: float) -> Repeated:
    return Repeated(k, n, value, min(low, value), max(high, value))


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
        low = max(0.0, self.value + half - reach) if self.count else 0.0
        return low, self.value + half + reach

    def __str__(self) -> str:
        """As "0.95 [0.57, 1.59] n=20"."""
        if not self.n:
            return "- n=0"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}] n={self.n}"


def per_trial(clusters: Sequence[Cluster], layout: Layout = UNKNOWN) -> Mean:
    """Errors per trial, from each trial's errors and calls. A trial without a call has no error."""
    count, n = sum(count for count, _ in clusters), len(clusters)
    if not n:
        return Mean(0, 0, 0.0)
    used, strata = layout.grouped([(count, 1) for count, _ in clusters])
    known = _precision(used, strata)
    dispersion = _dispersion(used, strata, clusters, known.share)
    return Mean(count, n, n / (max(1.0, dispersion) * (t_quantile(known.df) / Z) ** 2))


def _dispersion(
    used: Sequence[Cluster], strata: Sequence[int], clusters: Sequence[Cluster], shown: float
) -> float:
    """How many times more the counts vary than independent errors would.

    One draw, or none with an error, tells nothing about it: then as much as is planned for.
    """
    count, n = sum(count for count, _ in used), sum(size for _, size in used)
    if not shown or not count:
        calls = sum(size for _, size in clusters)
        mean_size = sum(size * size for _, size in clusters) / calls if calls else 1.0
        return 1 + PLANNED_ICC * (mean_size - 1)
    return varied([one - count / n * size for one, size in used], strata) / shown / count


def share_of(did: Sequence[bool], layout: Layout = UNKNOWN) -> Rate:
    """The share of trials that did: of one value a trial, so that only scenarios are clusters."""
    if layout.by_scenario:
        return clustered([(int(one), 1) for one in did], layout)
    return Rate(sum(did), len(did))
