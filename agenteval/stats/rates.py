"""A rate: count, n and a 95 % confidence interval, widened for clustering of calls in trials.

Calls of one trial are correlated, so n calls carry less information than n independent ones. The
design effect measures this: the effective sample is n / deff calls. As deff is itself estimated
from a limited number of trials, of which few bear errors, it is widened first. Wilson's interval is
computed on the effective sample; docs/validation.md has its coverage. It is written out because
statsmodels, which has it too (and is the oracle in the tests), takes four seconds to import.

In order: the variance of a sum of clusters (trials, or scenarios); the estimand, which says what
the clusters are; the rates, and the means per trial.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from itertools import compress
from math import comb, inf, nan, sqrt
from statistics import NormalDist
from typing import Self, TypeVar

from agenteval.errors import UsageError
from agenteval.stats import quantiles
from agenteval.trial.trial import Cluster

# Below it Student's t would take a rate for something without ends (docs/validation.md).
LEAST_DF = 4
_NOTHING = 1e-9
_Value = TypeVar("_Value")
_Values = Sequence[float]  # of each cluster
_Places = list[list[int]]  # of each stratum: where its clusters stand
Clusters = Sequence[Cluster]
Strata = Sequence[int]  # of each cluster; none of them: all are of one


# The variance of a sum of clusters, from how they vary in their strata.
# A large cluster pulls the rate that it is compared with, so the variance looks smaller than it is.
# By how much, and with how many degrees of freedom, follows from the cluster sizes and from the
# assumed intraclass correlation (Bell and McCaffrey 2002).


def degrees(strata: Strata) -> int:
    """Return the degrees of freedom: one less than the clusters of each stratum.

    A stratum of a single cluster counts as one.
    """
    return sum(max(k - 1, 1) for k in Counter(strata).values())


def total(clusters: Clusters) -> Cluster:
    """Return how many count in all clusters together, out of how many."""
    # Lists: a generator takes half as long again, and this is called for every figure.
    return sum([count for count, _ in clusters]), sum([size for _, size in clusters])


def varied(values: _Values, strata: Strata) -> float:
    """Return the variance of the sum of these values, from how they vary within their strata.

    The only value of a stratum varies around 0.
    """
    variance = 0.0
    for of_stratum in _by_stratum(values, strata):
        k = len(of_stratum)
        mean = sum(of_stratum) / k if k > 1 else 0.0
        squares = [(value - mean) ** 2 for value in of_stratum]
        variance += weight(k) * sum(squares)
    return variance


def evenness(clusters: Clusters, strata: Strata) -> float:
    """Return the variance within strata divided by that of one pooled sample; at most 1.

    One error and one call without an error are added to each stratum (Laplace), as a stratum that
    shows no spread might well have some.
    """
    count, n = total(clusters)
    if not 0 < count < n or len(set(strata)) < 2:
        return 1.0
    rate = count / n
    variance_within = 0.0
    for of_stratum in _by_stratum(clusters, strata):
        errors, size = total(of_stratum)
        variance_within += (errors + 1) * (size - errors + 1) / (size + 2)
    return min(variance_within / (n * rate * (1 - rate)), 1.0)


@dataclass(frozen=True, slots=True)
class Precision:
    """The precision of `varied` for clusters whose errors are compared with the pooled rate.

    On average it recovers this `share` of the variance, with `df` degrees of freedom
    (Satterthwaite). A share of 0 means that the clusters carry no information about the variance.
    """

    share: float
    df: float

    @classmethod
    def of(cls, sizes: _Values, strata: Strata, *, icc: float) -> Self:
        return cls.of_sides([(sizes, 1.0)], strata, icc=icc)

    @classmethod
    def of_sides(
        cls, sides: Iterable[tuple[_Values, float]], strata: Strata, *, icc: float
    ) -> Self:
        """Return the precision for a weighted sum of sides, each compared with its own rate.

        A side is the sizes of its clusters and its weight. A size is 0 where a side has no calls in
        the cluster of another.
        """
        hashable_sides = tuple((tuple(sizes), times) for sizes, times in sides)
        share, df = _share_and_df(hashable_sides, tuple(strata), icc)
        return cls(share, min(max(df, LEAST_DF), degrees(strata)))


@lru_cache(maxsize=64)  # all figures of a run have the same trials
def _share_and_df(
    sides: tuple[tuple[_Values, float], ...], strata: tuple[int, ...], icc: float
) -> tuple[float, float]:
    """Return share and degrees of freedom from the mean and variance of a quadratic form.

    These are the trace of its matrix and of the square of that. The matrix is a diagonal one
    centred in each stratum, and for each side p a' + a p'.
    """
    places = _places(strata)
    diagonals = []
    pulls = []
    for sizes, times in sides:
        variances = [times**2 * size * (1 + icc * (size - 1)) for size in sizes]
        diagonals.append(variances)
        pulls.append(_pull(sizes, variances, places))
    diagonal = [sum(variances) for variances in zip(*diagonals, strict=True)]
    whole = sum(diagonal)
    trace = whole + 2 * sum(_dot(p, a) for p, a in pulls)
    if trace < _NOTHING * whole:
        return 0.0, 0.0
    square = sum(_trace_of_square([diagonal[at] for at in of]) for of in places)
    for p, a in pulls:
        square += 4 * _weighed_products(diagonal, p, a, places)
        square += 2 * sum(_dot(a, q) * _dot(p, b) + _dot(a, b) * _dot(p, q) for q, b in pulls)
    # One cluster is all there is, but for rounding.
    if square <= 0:
        return 0.0, 0.0
    return trace / whole, trace * trace / square


def _weighed_products(diagonal: _Values, p: _Values, a: _Values, places: _Places) -> float:
    sums = []
    for of_stratum in places:
        products = [diagonal[at] * p[at] * a[at] for at in of_stratum]
        sums.append(weight(len(of_stratum)) * sum(products))
    return sum(sums)


def _pull(sizes: _Values, variances: _Values, places: _Places) -> tuple[_Values, _Values]:
    """Return the effect of each cluster on the others through the pooled rate: p and a."""
    n = sum(sizes)
    half = sum(variances) / 2
    a = _centred([size / n for size in sizes], places)
    own = _centred(variances, places)
    p = [half * share - variance for share, variance in zip(a, own, strict=True)]
    return p, a


def _centred(values: _Values, places: _Places) -> _Values:
    """Centre values on the mean of their stratum; their squares add up to the sum of `varied`."""
    centred = [*values]
    for of_stratum in places:
        k = len(of_stratum)
        if k == 1:
            continue
        mean = sum([values[at] for at in of_stratum]) / k
        times = sqrt(weight(k))
        for at in of_stratum:
            centred[at] = times * (values[at] - mean)
    return centred


def _trace_of_square(diagonal: _Values) -> float:
    """Return the trace of the square of a stratum's diagonal matrix, centred and weighed."""
    k = len(diagonal)
    squares = sum([variance * variance for variance in diagonal])
    if k == 1:
        return squares
    return (squares * (k - 2) * k + sum(diagonal) ** 2) / (k - 1) ** 2


def weight(k: int) -> float:
    """Return the weight of each square in the variance, for a stratum of `k` clusters."""
    return k / (k - 1) if k > 1 else 1.0  # Bessel's correction


def _dot(first: _Values, second: _Values) -> float:
    return sum([a * b for a, b in zip(first, second, strict=True)])


def _by_stratum(values: Sequence[_Value], strata: Strata) -> list[list[_Value]]:
    return [[values[place] for place in places] for places in _places(strata)]


def _places(strata: Strata) -> _Places:
    places: dict[int, list[int]] = defaultdict(list)
    for place, stratum in enumerate(strata):
        places[stratum].append(place)
    return list(places.values())


# The estimand.
# About these scenarios, played again, a rate varies only as the trials of each scenario do: it is
# stratified by scenario. About scenarios like these, a scenario is one draw: it is clustered by
# scenario.

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

    def grouped(self, clusters: Clusters) -> tuple[list[Cluster], list[int]]:
        """Return the draws and the stratum of each, without draws of size 0."""
        names = self.scenarios or [""] * len(clusters)
        if self.by_scenario:
            units = [unit for unit in summed(clusters, names) if unit[1]]
            return units, [0] * len(units)
        has_calls = [size > 0 for _, size in clusters]
        return [*compress(clusters, has_calls)], strata([*compress(names, has_calls)])


UNKNOWN = Layout()


def summed(clusters: Clusters, scenarios: Sequence[str]) -> list[Cluster]:
    """Return the sums over the trials of each scenario, in the order of the scenarios' names."""
    sums: dict[str, Cluster] = {}
    for (count, size), name in zip(clusters, scenarios, strict=True):
        sum_count, sum_size = sums.get(name, NOTHING)
        sums[name] = sum_count + count, sum_size + size
    return [sums[name] for name in sorted(sums)]


def strata(scenarios: Sequence[str]) -> list[int]:
    """Return the stratum of each trial, which is its scenario.

    Scenarios played once, which show no spread, share one stratum. So runs that play each scenario
    once are judged as an unstratified sample.
    """
    return _strata_of(scenarios, Counter(scenarios))


def met_strata(first: Sequence[str], second: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the strata of the trials of two runs: the scenarios both played more than once."""
    played_by_both = Counter(first) & Counter(second)
    return _strata_of(first, played_by_both), _strata_of(second, played_by_both)


def _strata_of(scenarios: Sequence[str], played: Counter[str]) -> list[int]:
    """Number the scenarios played more than once from 1 on; 0 is the stratum of all others."""
    repeated = [name for name, times in played.items() if times > 1]
    numbers = {name: number for number, name in enumerate(repeated, 1)}
    return [numbers.get(name, 0) for name in scenarios]


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


# The rates.

LEVEL = 0.95
POWER = 0.8
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
        effective = self.n if self.effective is None else self.effective
        low, high = wilson(self.value, effective)
        return min(low, 1 - self.least), max(high, self.least)

    @property
    def percent(self) -> str:
        """The interval in percent, as text: "[7.8, 18.0]"."""
        return f"[{100 * self.low:.1f}, {100 * self.high:.1f}]"

    def __str__(self) -> str:
        """Format as a share: "12.0% [7.8, 18.0] n=158"."""
        if not self.n:
            return "- n=0"
        return f"{100 * self.value:.1f}% {self.percent} n={self.n}"

    def per_100(self) -> str:
        """Format as errors per 100 calls: "12.03 [7.8, 18.0] n=158"."""
        if not self.n:
            return "- n=0"
        return f"{100 * self.value:.2f} {self.percent} n={self.n}"


def clustered(clusters: Clusters, layout: Layout = UNKNOWN) -> Rate:
    """Return the rate of all trials together, as a ratio of sums, without trials of size 0.

    A few trials with errors cannot show the correlation of errors, and must not make a rate more
    precise than no error does. So with one error the interval is no narrower, and with a few its
    upper end is at least as high.
    """
    used, strata = layout.grouped(clusters)
    if not used:
        return Rate(0, 0, clusters=0)
    count, n = total(used)
    with_errors = sum([errors > 0 for errors, _ in used])
    not_full = sum([errors < size for errors, size in used])
    bearing = min(with_errors, not_full)
    even = evenness(used, strata)

    def effective(clusters: Clusters, bearing: int) -> float:
        # With Student's t in place of z.
        by_t = (t_quantile(_precision(clusters, strata).df) / Z) ** 2
        effect = design_effect(clusters, strata) * by_t
        return n / widened(effect, bearing, least=even)

    rate = Rate(count, n, len(used), effective(used, bearing))
    if not 0 < bearing <= FEW:
        return rate
    no_error = [(0, size) for _, size in used]
    smallest = min(no_error)
    single_error = no_error.copy()
    single_error[no_error.index(smallest)] = (1, smallest[1])
    _, high_of_none = wilson(0.0, effective(no_error, 0))
    low_of_one, _ = wilson(1 / n, n / even)
    _, high_of_one = wilson(1 / n, effective(single_error, 1))
    # From the low end of one error on, the interval is as wide as that of none.
    least = min(max(high_of_none + low_of_one, high_of_one), 1.0)
    return replace(rate, least=least)


def rate_of(clusters: Clusters, layout: Layout = UNKNOWN, *, by_trial: bool) -> Rate:
    """Return the rate of clusters: of trials, or of calls that count as independent."""
    if by_trial:
        return clustered(clusters, layout)
    return Rate(*total(clusters))


def widened(effect: float, bearing: int, *, least: float = 1.0) -> float:
    """Return a conservative design effect: at least `least`, larger where few trials bear errors.

    Estimated from few such trials it is mostly too low: the intervals of 20 trials with an
    intraclass correlation of 0.3 would cover 90 % and not 95.
    """
    factor = 1 + 2 / bearing if bearing else 1
    return least + max(effect - least, 0.0) * factor


def design_effect(clusters: Clusters, strata: Strata = ()) -> float:
    """Return the variance inflation of the rate over that of independent calls.

    It is estimated by linearisation of the ratio. It cannot be estimated from one cluster, or when
    all or none count: then it is the planned effect for clusters of this size.
    """
    count, n = total(clusters)
    share = _precision(clusters, strata).share
    if not share or count in {0, n}:
        return planned_effect(clusters, PLANNED_ICC)
    rate = count / n
    strata = strata or [0] * len(clusters)
    return _variance(clusters, strata, rate, share) / (n * rate * (1 - rate))


def _variance(clusters: Clusters, strata: Strata, rate: float, share: float) -> float:
    """Return the variance of the errors around this rate, of which a `share` is observed."""
    around = [count - rate * size for count, size in clusters]
    return varied(around, strata) / share


def _precision(clusters: Clusters, strata: Strata) -> Precision:
    sizes = [size for _, size in clusters]
    return Precision.of(sizes, strata or [0] * len(sizes), icc=PLANNED_ICC)


def planned_effect(clusters: Clusters, icc: float) -> float:
    """Return the design effect of clusters of these sizes with intraclass correlation `icc`."""
    squares = sum([size * size for _, size in clusters])
    _, n = total(clusters)
    mean_size = squares / n  # weighted by calls (Kish 1965)
    return 1 + icc * (mean_size - 1)


def t_quantile(df: float) -> float:
    """Return Student's t at the level of Z; a df below 1 counts as 1, the best honest case."""
    return quantiles.t_quantile((1 + LEVEL) / 2, max(df, 1))


def wilson(rate: float, n: float) -> tuple[float, float]:
    """Return Wilson's interval for a rate observed in n draws; n need not be whole.

    It ends exactly at 0 where nothing counts, and at 1 where all do. Centre and reach are then
    equal, and their difference would be a rounding error.
    """
    shrinkage = 1 + Z * Z / n
    centre = (rate + Z * Z / (2 * n)) / shrinkage
    reach = Z * sqrt(rate * (1 - rate) / n + Z * Z / (4 * n * n)) / shrinkage
    low = max(0.0, centre - reach) if rate > 0 else 0.0
    high = min(1.0, centre + reach) if rate < 1 else 1.0
    return low, high


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
    # Without bias: the share of all choices of k trials that succeed (Chen et al. 2021).
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


# Means per trial, and shares of trials.


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
        # The score interval: means that lie within Z of their own standard errors.
        half = Z * Z / (2 * self.effective)
        reach = sqrt(half * (2 * self.value + half))
        low = max(0.0, self.value + half - reach) if self.count else 0.0
        return low, self.value + half + reach

    def __str__(self) -> str:
        """Format as "0.95 [0.57, 1.59] n=20"."""
        if not self.n:
            return "- n=0"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}] n={self.n}"


def per_trial(clusters: Clusters, layout: Layout = UNKNOWN) -> Mean:
    """Return the errors per trial, from each trial's errors and calls.

    A trial without a call has no error.
    """
    n = len(clusters)
    if not n:
        return Mean(0, 0, 0.0)
    count, _ = total(clusters)
    used, strata = layout.grouped([(errors, 1) for errors, _ in clusters])
    precision = _precision(used, strata)
    dispersion = _dispersion(used, strata, clusters, precision.share)
    by_t = (t_quantile(precision.df) / Z) ** 2
    return Mean(count, n, n / (max(1.0, dispersion) * by_t))


def _dispersion(used: Clusters, strata: Strata, clusters: Clusters, share: float) -> float:
    """Return the variance inflation of counts over that of independent errors.

    It cannot be estimated from one draw, or without an error: then it is the planned inflation.
    """
    count, n = total(used)
    if not share or not count:
        _, calls = total(clusters)
        return planned_effect(clusters, PLANNED_ICC) if calls else 1.0
    return _variance(used, strata, count / n, share) / count


def share_of(did: Sequence[bool], layout: Layout = UNKNOWN) -> Rate:
    """Return the share of trials with a true value: one draw a trial, so only scenarios cluster."""
    if layout.by_scenario:
        return clustered([(int(one), 1) for one in did], layout)
    return Rate(sum(did), len(did))
