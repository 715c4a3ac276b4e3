"""Whether two models err in different kinds: the mix of their classes, whatever their rates.

A trial's errors tend to be of one kind, so whole trials with errors are exchanged between the two
models, never single errors. The distance of two mixes is biased upwards at small counts: it is
only told beside the distance that chance alone would give.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agenteval.core.counts import ErrorCounts
from agenteval.stats.comparison import EXCHANGES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Kinds:
    """The total variation distance of two mixes of classes: 0 the same, 1 nothing in common.

    `by_chance` is its mean when trials are exchanged; `p` how often the G-squared of the two mixes
    is then as large as the one seen.
    """

    distance: float
    by_chance: float
    p: float


def compare_kinds(first: ErrorCounts, second: ErrorCounts, *, seed: int) -> Kinds | None:
    """None when one of the two made no error: it has no mix."""
    import numpy as np  # noqa: PLC0415 - half a second that a single run need not pay

    classes = sorted({*first.by_class, *second.by_class})
    ours, theirs = _mixes(first, classes), _mixes(second, classes)
    if not ours or not theirs:
        return None
    kinds, multiplicity = np.unique(np.array([*ours, *theirs]), axis=0, return_counts=True)
    drawn = np.random.default_rng(seed).multivariate_hypergeometric(
        multiplicity, len(ours), size=EXCHANGES, method="marginals"
    )
    exchanged = drawn @ kinds, (multiplicity - drawn) @ kinds
    seen = np.array(ours).sum(axis=0), np.array(theirs).sum(axis=0)
    as_far = int((_g_squared(*exchanged) >= _g_squared(*seen) - 1e-9).sum())
    return Kinds(
        distance=float(_distance(*seen)),
        by_chance=float(_distance(*exchanged).mean()),
        p=(1 + as_far) / (1 + EXCHANGES),
    )


def _mixes(counts: ErrorCounts, classes: list[str]) -> list[tuple[int, ...]]:
    """The errors by class of each trial that has any."""
    columns = [[count for count, _ in counts.clusters(name)] for name in classes]
    return [mix for mix in zip(*columns, strict=True) if any(mix)]


def _distance(ours: "NDArray[np.int64]", theirs: "NDArray[np.int64]") -> "NDArray[np.float64]":
    shares = [side / side.sum(axis=-1, keepdims=True) for side in (ours, theirs)]
    distance: NDArray[np.float64] = abs(shares[0] - shares[1]).sum(axis=-1) / 2
    return distance


def _g_squared(ours: "NDArray[np.int64]", theirs: "NDArray[np.int64]") -> "NDArray[np.float64]":
    """Of the table of two models by classes, without its parts that no exchange changes."""
    from scipy.special import xlogy  # noqa: PLC0415 - as numpy above

    cells = sum(xlogy(side, side).sum(axis=-1) for side in (ours, theirs))
    totals = (side.sum(axis=-1) for side in (ours, theirs))
    g_squared: NDArray[np.float64] = 2 * (cells - sum(xlogy(total, total) for total in totals))
    return g_squared
