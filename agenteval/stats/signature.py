"""Comparison of two models by their mix of failure classes, whatever their error rates.

A trial's errors tend to be of one class, so the permutation test exchanges whole trials with errors
between the two models, never single errors. About scenarios like these it exchanges whole
scenarios, as each is one draw. The distance of two mixes is biased upwards at small counts, so it
is reported with its mean under the null hypothesis.
"""

from dataclasses import dataclass
from math import log
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from agenteval.stats.permutation import Sums, Tail, exchanged, flipped, itself
from agenteval.stats.rates import UNKNOWN, Layout, summed
from agenteval.stats.score import EXCHANGES
from agenteval.trial.trial import ErrorCounts


@dataclass(frozen=True, slots=True)
class Kinds:
    """The difference of two mixes of classes: 0 is equal and 1 disjoint, for both measures.

    `distance` is their total variation distance, `divergence` that of Jensen and Shannon in bits.
    Each has its mean over exchanges of trials. `p` is how often the G-squared of the two mixes is
    then larger than the observed one or, counted by half, equal. G-squared of the whole table
    (models by classes and allowed calls) is the sum of a part for the rate and one for the kind.
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
    """Compare the mixes of classes of two models; None when one of them made no error.

    Where it is not known which errors belong to one trial, single errors are exchanged, and p is
    that of the exact test of Fisher, Freeman and Halton: how often a table is as rare.
    """
    classes = sorted({*first.by_class, *second.by_class})
    first_mixes, second_mixes = (
        _mixes(of, classes, layout) for of, layout in zip((first, second), layouts, strict=True)
    )
    if not first_mixes.any() or not second_mixes.any():
        return None
    observed = first_mixes.sum(axis=0), second_mixes.sum(axis=0)
    how = _ExchangeOptions(seed=seed, exchanges=exchanges)
    if not (first.by_trial and second.by_trial):
        mixes = exchanged(_single_errors(first_mixes), _single_errors(second_mixes), **how)
        as_far = int((_rarity(*mixes) >= _rarity(*observed) - 1e-9).sum())
        p = (1 + as_far) / (1 + exchanges)
    else:
        mixes, same = _drawn(first_mixes, second_mixes, layouts, how)
        far = float(_g_squared(*observed))
        p = Tail.of(np.append(_g_squared(*mixes), far)).p(far) + same / 2
    calls = np.array([[sum(first.calls)], [sum(second.calls)]])
    errors = np.array([[observed[0].sum()], [observed[1].sum()]])
    return Kinds(
        distance=float(_distance(*observed)),
        by_chance=float(_distance(*mixes).mean()),
        divergence=float(_divergence(*observed)),
        divergence_by_chance=float(_divergence(*mixes).mean()),
        p=min(p, 1.0),
        g_rate=float(_g_squared(*np.hstack([errors, calls - errors]))),
        g_kind=float(_g_squared(*observed)),
    )


class _ExchangeOptions(TypedDict):
    seed: int
    exchanges: int


def _drawn(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    layouts: tuple[Layout, Layout],
    how: _ExchangeOptions,
) -> tuple[Sums, float]:
    """Return the mixes of both sides after each exchange, and the share that changes nothing.

    Where scenarios are the draws and both models played the same ones, each is exchanged with its
    counterpart; else draws with errors are exchanged at random.
    """
    first_layout, second_layout = layouts
    if (
        first_layout.by_scenario
        and second_layout.by_scenario
        and set(first_layout.scenarios) == set(second_layout.scenarios)
    ):
        gaps = flipped((first - second).astype(np.float64), **how)
        both = (first + second).sum(axis=0)
        return ((both + gaps) / 2, (both - gaps) / 2), 0.5 ** (len(first) - 1)
    first, second = (side[side.any(axis=1)] for side in (first, second))
    return exchanged(first, second, **how), itself((len(first), len(second)))


def _mixes(counts: ErrorCounts, classes: list[str], layout: Layout) -> NDArray[np.int64]:
    """Return the errors by class of each draw: one row a draw, one column a class."""
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


def _distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = [_shares(side) for side in (first, second)]
    distance: NDArray[np.float64] = abs(shares[0] - shares[1]).sum(axis=-1) / 2
    return distance


def _shares(mix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the shares of the classes in a mix; all are 0 in a mix without an error."""
    shares: NDArray[np.float64] = mix / np.maximum(mix.sum(axis=-1, keepdims=True), 1)
    return shares


def _divergence(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    one, other = (_shares(side) for side in (first, second))
    bits: NDArray[np.float64] = _bits((one + other) / 2) - (_bits(one) + _bits(other)) / 2
    return bits


def _bits(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entropy of a mix, in bits."""
    bits: NDArray[np.float64] = -_x_log_x(shares).sum(axis=-1) / log(2)
    return bits


def _g_squared(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return G-squared of the table of two models by classes, for independence of the two."""
    cells = sum(_x_log_x(side).sum(axis=-1) for side in (first, second))
    totals = sum(_x_log_x(side.sum(axis=-1)) for side in (first, second))
    both = first + second
    g_squared: NDArray[np.float64] = 2 * (
        cells - totals - _x_log_x(both).sum(axis=-1) + _x_log_x(both.sum(axis=-1))
    )
    return g_squared


def _rarity(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return minus the logarithm of a table's chance, but for a constant: its cells' factorials."""
    cells = np.rint(np.stack([first, second])).astype(np.int64)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, cells.max() + 1)))])
    rarity: NDArray[np.float64] = factorials[cells].sum(axis=-1).sum(axis=0)
    return rarity


def _x_log_x(values: NDArray[np.float64]) -> NDArray[np.float64]:
    zeros_as_one = np.where(values > 0, values, 1.0)
    products: NDArray[np.float64] = values * np.log(zeros_as_one)
    return products
