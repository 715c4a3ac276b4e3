"""Whether two models differ in a figure: the difference with its interval, p by exchanging trials.

Trials are exchanged and not calls, because calls of one trial resemble each other. Errors spread
more evenly over trials than chance would are no evidence either, so calls are exchanged as well and
the larger p counts: the same floor that the design effect has. Where both models met the same
worlds (same scenario, number and seed), the two trials of a world are swapped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from agenteval.core.counts import Cluster
from agenteval.stats.exact import fisher, mcnemar
from agenteval.stats.exchange import EXCHANGES, exchanged, flipped
from agenteval.stats.means import Mean, per_trial
from agenteval.stats.rates import Rate, Z, clustered, design_effect, t_quantile
from agenteval.stats.ratio import Ratio, ratio

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POWER = 0.8
SETTLED = 0.05

Column = Sequence[Cluster]  # of each trial: how many, out of how many


@dataclass(frozen=True, slots=True)
class Difference:
    """`first` minus `second` with its 95 % interval, and the two-sided p of no difference.

    `paired` when both models met the same worlds. `effect` is how many times more the difference
    varies than it would over independent draws.
    """

    first: Rate
    second: Rate
    low: float
    high: float
    p: float
    paired: bool
    effect: float = 1.0

    @property
    def value(self) -> float:
        return self.first.value - self.second.value

    @property
    def ratio(self) -> Ratio:
        return ratio(self.first, self.second)

    @property
    def calls_needed(self) -> float:
        """Calls per model that would find this difference in 80 % of repetitions.

        Infinite when the rates are equal.
        """
        one, other, gap = self.first.value, self.second.value, self.value
        if not gap:
            return inf
        mean = (one + other) / 2
        spread = Z * sqrt(2 * mean * (1 - mean)) + NormalDist().inv_cdf(POWER) * sqrt(
            one * (1 - one) + other * (1 - other)
        )
        return ceil((spread / gap) ** 2 * self.effect)


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """The same of two means, without a ratio."""

    first: Mean
    second: Mean
    low: float
    high: float
    p: float
    paired: bool

    @property
    def value(self) -> float:
        return self.first.value - self.second.value


def compare(first: Column, second: Column, *, seed: int) -> Difference:
    """Two models whose trials have nothing to do with each other. Both must have made calls."""
    return compare_all([first], [second], seed=seed)[0]


def compare_paired(pairs: Sequence[tuple[Cluster, Cluster]], *, seed: int) -> Difference:
    """Two models in the same worlds, one pair for each. Both must have made calls."""
    first, second = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return compare_all([first], [second], seed=seed, paired=True)[0]


def compare_all(
    first: Sequence[Column], second: Sequence[Column], *, seed: int, paired: bool = False
) -> list[Difference]:
    """Two models in several figures at once, under the same exchanges of trials.

    Each column holds all trials of its model; with `paired`, place by place those of one world.
    """
    import numpy as np  # noqa: PLC0415 - half a second that a single run need not pay

    if paired:
        shares = np.array([*map(_shares_at_one_rate, first, second)]).T
        swapped, seen = flipped(shares, seed=seed).T, shares.sum(axis=0)
        return [*map(_paired, first, second, swapped, seen)]
    ours, theirs = (np.hstack([np.array(column) for column in side]) for side in (first, second))
    gaps = _gaps(*exchanged(ours, theirs, seed=seed))
    return [_unpaired(*columns, seed) for columns in zip(first, second, gaps, strict=True)]


def _unpaired(first: Column, second: Column, gaps: "NDArray[np.float64]", seed: int) -> Difference:
    import numpy as np  # noqa: PLC0415 - as above

    one, other = clustered(first), clustered(second)
    errors, gap = one.count + other.count, one.value - other.value
    counts = np.random.default_rng(seed).hypergeometric(
        errors, one.n + other.n - errors, one.n, size=EXCHANGES
    )
    p = max(_p_value(gaps, gap), _p_value(counts / one.n - (errors - counts) / other.n, gap))
    effects = [
        design_effect([cluster for cluster in side if cluster[1]]) for side in (first, second)
    ]
    effect = max(1.0, sum(effects) / 2)
    return Difference(one, other, *newcombe(one, other), p, paired=False, effect=effect)


def _paired(first: Column, second: Column, gaps: "NDArray[np.float64]", seen: float) -> Difference:
    one, other = clustered(first), clustered(second)
    p = _p_value(gaps, seen)
    low, high, effect = _paired_interval(first, second, one, other)
    return Difference(one, other, low, high, p, paired=True, effect=effect)


def compare_counts(one: Rate, other: Rate) -> Difference:
    """Two rates alone: which calls belong to one trial is not known, so all are independent."""
    p = fisher(one.count, one.n, other.count, other.n)
    return Difference(one, other, *newcombe(one, other), p, paired=False)


def compare_shares(
    first: Sequence[bool], second: Sequence[bool], *, paired: bool = False
) -> Difference:
    """Two models in what a trial did or did not: McNemar's test in the same worlds, else Fisher's.

    With `paired`, place by place the trials of one world.
    """
    one, other = Rate(sum(first), len(first)), Rate(sum(second), len(second))
    if not paired:
        return compare_counts(one, other)
    pairs = [*zip(first, second, strict=True)]
    p = mcnemar(pairs.count((True, False)), pairs.count((False, True)))
    columns = [(int(did), 1) for did in first], [(int(did), 1) for did in second]
    low, high, effect = _paired_interval(*columns, one, other)
    return Difference(one, other, low, high, p, paired=True, effect=effect)


def compare_means(
    first: Column, second: Column, *, seed: int, paired: bool = False
) -> MeanDifference:
    """Two models in their errors per trial."""
    import numpy as np  # noqa: PLC0415 - as above

    ours, theirs = (np.array([(count, 1) for count, _ in side]) for side in (first, second))
    if paired:
        gaps = flipped((ours - theirs)[:, :1] / len(ours), seed=seed)[:, 0]
    else:
        (gaps,) = _gaps(*exchanged(ours, theirs, seed=seed))
    one, other = per_trial(first), per_trial(second)
    p = _p_value(gaps, one.value - other.value)
    return MeanDifference(one, other, *newcombe(one, other), p, paired=paired)


def gap(first: Column, second: Column) -> tuple[float, float, float]:
    """The difference of two rates of the same trials, row by row, with its interval."""
    one, other = clustered(first), clustered(second)
    low, high, _ = _paired_interval(first, second, one, other)
    return one.value - other.value, low, high


def newcombe(one: Rate | Mean, other: Rate | Mean) -> tuple[float, float]:
    """The interval of a difference from the two intervals, squared and added (Newcombe 1998)."""
    gap = one.value - other.value
    low = gap - sqrt((one.value - one.low) ** 2 + (other.high - other.value) ** 2)
    high = gap + sqrt((one.high - one.value) ** 2 + (other.value - other.low) ** 2)
    return low, high


def _gaps(
    ours: "NDArray[np.float64]", theirs: "NDArray[np.float64]"
) -> "list[NDArray[np.float64]]":
    """Differences of pooled rates, for each pair of columns: counts and calls."""
    import numpy as np  # noqa: PLC0415 - as above

    # A side that made no call after an exchange has no rate: it counts as one without errors.
    sizes, others = np.maximum(ours[:, 1::2], 1), np.maximum(theirs[:, 1::2], 1)
    return list((ours[:, ::2] / sizes - theirs[:, ::2] / others).T)


def _p_value(exchanged_gaps: "NDArray[np.float64]", seen: float) -> float:
    as_far = int((abs(exchanged_gaps) >= abs(seen) - 1e-12).sum())
    return (1 + as_far) / (1 + len(exchanged_gaps))


def _shares(
    first: Column, second: Column, n: int, other_n: int, rates: tuple[float, float]
) -> list[float]:
    """What each world adds to the difference of two ratios, beyond what these rates expect."""
    rate, other_rate = rates
    return [
        (ours[0] - rate * ours[1]) / n - (theirs[0] - other_rate * theirs[1]) / other_n
        for ours, theirs in zip(first, second, strict=True)
    ]


def _shares_at_one_rate(first: Column, second: Column) -> list[float]:
    """The same when both models have the rate of all calls together.

    A world in which no call counts, or every one does, adds nothing: its trials are alike whichever
    way they are swapped, and what their sizes alone would add breaks every tie elsewhere.
    """
    sums = [[sum(at) for at in zip(*side, strict=True)] for side in (first, second)]
    (errors, calls), (other_errors, other_calls) = sums
    rate = (errors + other_errors) / (calls + other_calls)
    shares = _shares(first, second, calls, other_calls, (rate, rate))
    return [
        share if 0 < ours[0] + theirs[0] < ours[1] + theirs[1] else 0.0
        for share, ours, theirs in zip(shares, first, second, strict=True)
    ]


def _paired_interval(
    first: Column, second: Column, one: Rate, other: Rate
) -> tuple[float, float, float]:
    """Student's t over what each world adds to the difference of the two ratios; and the effect."""
    shares = _shares(first, second, one.n, other.n, (one.value, other.value))
    k, gap = len(shares), one.value - other.value
    spread = sum(share * share for share in shares)
    if k == 1 or not one.count or not other.count or not spread:
        return *newcombe(one, other), 1.0
    variance = k / (k - 1) * spread
    independent = sum(rate.value * (1 - rate.value) / rate.n for rate in (one, other))
    reach = t_quantile(k - 1) * sqrt(variance)
    return max(-1.0, gap - reach), min(1.0, gap + reach), variance / independent
