"""Whether two models differ in a rate: the difference with its interval, p by exchanging trials.

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
from agenteval.stats.rates import Rate, Z, clustered, design_effect, t_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXCHANGES = 9_999
POWER = 0.8
SETTLED = 0.05


@dataclass(frozen=True, slots=True)
class Difference:
    """`first` minus `second` with its 95 % interval, and the two-sided p of no difference.

    `calls_needed` per model would give the difference seen 80 % power, at the clustering seen; it
    is infinite when the rates are equal. `paired` when both models met the same worlds.
    """

    first: Rate
    second: Rate
    low: float
    high: float
    p: float
    paired: bool
    calls_needed: float

    @property
    def value(self) -> float:
        return self.first.value - self.second.value


def compare(first: Sequence[Cluster], second: Sequence[Cluster], *, seed: int) -> Difference:
    """Two models whose trials have nothing to do with each other. Both must have made calls."""
    import numpy as np  # noqa: PLC0415 - half a second that a single run need not pay

    used = [np.array([cluster for cluster in side if cluster[1]]) for side in (first, second)]
    kinds, multiplicity = np.unique(np.vstack(used), axis=0, return_counts=True)
    rng = np.random.default_rng(seed)
    # Equal trials are interchangeable, so drawing how many of each kind is drawing them all.
    drawn = rng.multivariate_hypergeometric(
        multiplicity, len(used[0]), size=EXCHANGES, method="marginals"
    )
    one, other = clustered(first), clustered(second)
    errors = one.count + other.count
    counts = rng.hypergeometric(errors, one.n + other.n - errors, one.n, size=EXCHANGES)
    p = max(
        _p_value(_gap(drawn @ kinds, (multiplicity - drawn) @ kinds), one.value - other.value),
        _p_value(counts / one.n - (errors - counts) / other.n, one.value - other.value),
    )
    low, high = newcombe(one, other)
    return Difference(one, other, low, high, p, paired=False, calls_needed=_needed(first, second))


def compare_paired(pairs: Sequence[tuple[Cluster, Cluster]], *, seed: int) -> Difference:
    """Two models in the same worlds, one pair for each. Both must have made calls."""
    import numpy as np  # noqa: PLC0415 - as above

    kinds, multiplicity = np.unique(np.array(pairs), axis=0, return_counts=True)
    rng = np.random.default_rng(seed)
    kept = rng.binomial(multiplicity, 0.5, size=(EXCHANGES, len(kinds)))
    swapped = multiplicity - kept
    ours, theirs = kinds[:, 0], kinds[:, 1]
    exchanged = _gap(kept @ ours + swapped @ theirs, kept @ theirs + swapped @ ours)
    first, second = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    one, other = clustered(first), clustered(second)
    low, high = _paired_interval(pairs, one, other)
    p = _p_value(exchanged, one.value - other.value)
    return Difference(one, other, low, high, p, paired=True, calls_needed=_needed(first, second))


def newcombe(one: Rate, other: Rate) -> tuple[float, float]:
    """The interval of a difference from the two intervals, squared and added (Newcombe 1998)."""
    gap = one.value - other.value
    low = gap - sqrt((one.value - one.low) ** 2 + (other.high - other.value) ** 2)
    high = gap + sqrt((one.high - one.value) ** 2 + (other.value - other.low) ** 2)
    return low, high


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values adjusted so that any false claim among them stays at the level of one."""
    adjusted, floor = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = floor
    return adjusted


def _gap(ours: "NDArray[np.int64]", theirs: "NDArray[np.int64]") -> "NDArray[np.float64]":
    """Differences of pooled rates; columns are counts and calls."""
    import numpy as np  # noqa: PLC0415 - as above

    # A side that made no call after an exchange has no rate: it counts as one without errors.
    sizes, others = np.maximum(ours[:, 1], 1), np.maximum(theirs[:, 1], 1)
    gap: NDArray[np.float64] = ours[:, 0] / sizes - theirs[:, 0] / others
    return gap


def _p_value(exchanged: "NDArray[np.float64]", seen: float) -> float:
    as_far = int((abs(exchanged) >= abs(seen) - 1e-12).sum())
    return (1 + as_far) / (1 + len(exchanged))


def _paired_interval(
    pairs: Sequence[tuple[Cluster, Cluster]], one: Rate, other: Rate
) -> tuple[float, float]:
    """Student's t over what each world adds to the difference of the two ratios."""
    shares = [
        (ours[0] - one.value * ours[1]) / one.n - (theirs[0] - other.value * theirs[1]) / other.n
        for ours, theirs in pairs
    ]
    k = len(pairs)
    if k == 1 or not one.count or not other.count:
        return newcombe(one, other)
    reach = t_quantile(k - 1) * sqrt(k / (k - 1) * sum(share * share for share in shares))
    gap = one.value - other.value
    return (max(-1.0, gap - reach), min(1.0, gap + reach)) if reach else newcombe(one, other)


def _needed(first: Sequence[Cluster], second: Sequence[Cluster]) -> float:
    """Calls per model that would find this difference in 80 % of repetitions."""
    one, other = clustered(first), clustered(second)
    gap = one.value - other.value
    if not gap:
        return inf
    mean = (one.value + other.value) / 2
    spread = Z * sqrt(2 * mean * (1 - mean)) + NormalDist().inv_cdf(POWER) * sqrt(
        one.value * (1 - one.value) + other.value * (1 - other.value)
    )
    effects = [
        design_effect([cluster for cluster in side if cluster[1]]) for side in (first, second)
    ]
    return ceil((spread / gap) ** 2 * max(1.0, sum(effects) / 2))
