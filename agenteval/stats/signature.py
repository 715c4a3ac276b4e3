"""Whether two models err in different kinds: the mix of their classes, whatever their rates.

A trial's errors tend to be of one kind, so whole trials with errors are exchanged between the two
models, never single errors. The distance of two mixes is biased upwards at small counts: it is
only told beside the distance that chance alone would give.
"""

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from agenteval.core.counts import ErrorCounts
from agenteval.stats.p_value import Tail, exchanged, itself
from agenteval.stats.score import EXCHANGES


@dataclass(frozen=True, slots=True)
class Kinds:
    """Two mixes of classes: 0 is the same and 1 nothing in common, for both measures.

    `distance` is their total variation, `divergence` that of Jensen and Shannon in bits; each
    stands beside its mean when trials are exchanged. `p` tells how often the G-squared of the two
    mixes is then larger than the one seen or, counted by half, the same. G-squared of the whole
    table (models by classes and allowed calls) is the sum of a part for the rate and a part for the
    kind.
    """

    distance: float
    by_chance: float
    divergence: float
    divergence_by_chance: float
    p: float
    g_rate: float
    g_kind: float


def compare_kinds(
    first: ErrorCounts, second: ErrorCounts, *, seed: int, exchanges: int = EXCHANGES
) -> Kinds | None:
    """None when one of the two made no error: it has no mix.

    Where it is not known which errors belong to one trial, single errors are exchanged, and p is
    that of the exact test of Fisher, Freeman and Halton: how often a table is as rare.
    """
    classes = sorted({*first.by_class, *second.by_class})
    ours, theirs = _mixes(first, classes), _mixes(second, classes)
    if not ours.size or not theirs.size:
        return None
    by_trial = first.by_trial and second.by_trial
    if not by_trial:
        ours, theirs = (_single_errors(side) for side in (ours, theirs))
    mixes = exchanged(ours, theirs, seed=seed, exchanges=exchanges)
    seen = ours.sum(axis=0), theirs.sum(axis=0)
    if by_trial:
        far = float(_g_squared(*seen))
        p = (
            Tail.of(np.append(_g_squared(*mixes), far)).p(far)
            + itself((len(ours), len(theirs))) / 2
        )
    else:
        as_far = int((_rarity(*mixes) >= _rarity(*seen) - 1e-9).sum())
        p = (1 + as_far) / (1 + exchanges)
    calls = np.array([[sum(first.calls)], [sum(second.calls)]])
    errors = np.array([[seen[0].sum()], [seen[1].sum()]])
    return Kinds(
        distance=float(_distance(*seen)),
        by_chance=float(_distance(*mixes).mean()),
        divergence=float(_divergence(*seen)),
        divergence_by_chance=float(_divergence(*mixes).mean()),
        p=min(p, 1.0),
        g_rate=float(_g_squared(*np.hstack([errors, calls - errors]))),
        g_kind=float(_g_squared(*seen)),
    )


def _mixes(counts: ErrorCounts, classes: list[str]) -> NDArray[np.int64]:
    """The errors by class of each trial that has any."""
    columns = np.array([[count for count, _ in counts.clusters(name)] for name in classes])
    mixes: NDArray[np.int64] = columns.T[columns.any(axis=0)] if classes else columns
    return mixes


def _single_errors(mixes: NDArray[np.int64]) -> NDArray[np.int64]:
    one_each: NDArray[np.int64] = np.repeat(
        np.eye(mixes.shape[1], dtype=np.int64), mixes.sum(axis=0), axis=0
    )
    return one_each


def _distance(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = [side / side.sum(axis=-1, keepdims=True) for side in (ours, theirs)]
    distance: NDArray[np.float64] = abs(shares[0] - shares[1]).sum(axis=-1) / 2
    return distance


def _divergence(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.float64]:
    one, other = (side / side.sum(axis=-1, keepdims=True) for side in (ours, theirs))
    bits: NDArray[np.float64] = _bits((one + other) / 2) - (_bits(one) + _bits(other)) / 2
    return bits


def _bits(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The entropy of a mix."""
    bits: NDArray[np.float64] = -_x_log_x(shares).sum(axis=-1) / log(2)
    return bits


def _g_squared(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the table of two models by classes: how far it is from classes that go with no model."""
    cells = sum(_x_log_x(side).sum(axis=-1) for side in (ours, theirs))
    totals = sum(_x_log_x(side.sum(axis=-1)) for side in (ours, theirs))
    both = ours + theirs
    g_squared: NDArray[np.float64] = 2 * (
        cells - totals - _x_log_x(both).sum(axis=-1) + _x_log_x(both.sum(axis=-1))
    )
    return g_squared


def _rarity(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Minus the logarithm of a table's chance, but for a constant: of its cells' factorials."""
    cells = np.rint(np.stack([ours, theirs])).astype(np.int64)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, cells.max() + 1)))])
    rarity: NDArray[np.float64] = factorials[cells].sum(axis=-1).sum(axis=0)
    return rarity


def _x_log_x(values: NDArray[np.float64]) -> NDArray[np.float64]:
    zeros_as_one = np.where(values > 0, values, 1.0)
    products: NDArray[np.float64] = values * np.log(zeros_as_one)
    return products
