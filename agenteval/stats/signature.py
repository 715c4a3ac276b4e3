"""Whether two models err in different kinds: the mix of their classes, whatever their rates.

A trial's errors tend to be of one kind, so whole trials with errors are exchanged between the two
models, never single errors; about scenarios like these whole scenarios, as each is one draw. The
distance of two mixes is biased upwards at small counts: it stands beside what chance alone gives.
"""

from dataclasses import dataclass
from math import log
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from agenteval.core.counts import ErrorCounts
from agenteval.stats.estimand import UNKNOWN, Layout, summed
from agenteval.stats.p_value import Sums, Tail, exchanged, flipped, itself
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
    first: ErrorCounts,
    second: ErrorCounts,
    *,
    seed: int,
    layouts: tuple[Layout, Layout] = (UNKNOWN, UNKNOWN),
    exchanges: int = EXCHANGES,
) -> Kinds | None:
    """None when one of the two made no error: it has no mix.

    Where it is not known which errors belong to one trial, single errors are exchanged, and p is
    that of the exact test of Fisher, Freeman and Halton: how often a table is as rare.
    """
    classes = sorted({*first.by_class, *second.by_class})
    ours, theirs = (
        _mixes(of, classes, layout) for of, layout in zip((first, second), layouts, strict=True)
    )
    if not ours.any() or not theirs.any():
        return None
    seen = ours.sum(axis=0), theirs.sum(axis=0)
    how = Drawing(seed=seed, exchanges=exchanges)
    if not (first.by_trial and second.by_trial):
        mixes = exchanged(_single_errors(ours), _single_errors(theirs), **how)
        as_far = int((_rarity(*mixes) >= _rarity(*seen) - 1e-9).sum())
        p = (1 + as_far) / (1 + exchanges)
    else:
        mixes, same = _drawn(ours, theirs, layouts, how)
        far = float(_g_squared(*seen))
        p = Tail.of(np.append(_g_squared(*mixes), far)).p(far) + same / 2
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


class Drawing(TypedDict):
    seed: int
    exchanges: int


def _drawn(
    ours: NDArray[np.int64],
    theirs: NDArray[np.int64],
    layouts: tuple[Layout, Layout],
    how: Drawing,
) -> tuple[Sums, float]:
    """The mixes of both sides after each exchange of draws, and how many exchanges change nothing.

    Where scenarios are the draws and both models played the same ones, each changes sides with its
    counterpart; else draws with errors change places as they come.
    """
    one, other = layouts
    if one.by_scenario and other.by_scenario and set(one.scenarios) == set(other.scenarios):
        apart = flipped((ours - theirs).astype(np.float64), **how)
        both = (ours + theirs).sum(axis=0)
        return ((both + apart) / 2, (both - apart) / 2), 0.5 ** (len(ours) - 1)
    ours, theirs = (side[side.any(axis=1)] for side in (ours, theirs))
    return exchanged(ours, theirs, **how), itself((len(ours), len(theirs)))


def _mixes(counts: ErrorCounts, classes: list[str], layout: Layout) -> NDArray[np.int64]:
    """The errors by class of each draw."""
    columns = [counts.clusters(name) for name in classes]
    if layout.by_scenario:
        columns = [tuple(summed(column, layout.scenarios)) for column in columns]
    mixes: NDArray[np.int64] = np.array([[count for count, _ in column] for column in columns])
    return mixes.T


def _single_errors(mixes: NDArray[np.int64]) -> NDArray[np.int64]:
    one_each: NDArray[np.int64] = np.repeat(
        np.eye(mixes.shape[1], dtype=np.int64), mixes.sum(axis=0), axis=0
    )
    return one_each


def _distance(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = [_shares(side) for side in (ours, theirs)]
    distance: NDArray[np.float64] = abs(shares[0] - shares[1]).sum(axis=-1) / 2
    return distance


def _shares(mix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of a mix; an exchange may leave one without an error."""
    shares: NDArray[np.float64] = mix / np.maximum(mix.sum(axis=-1, keepdims=True), 1)
    return shares


def _divergence(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.float64]:
    one, other = (_shares(side) for side in (ours, theirs))
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
