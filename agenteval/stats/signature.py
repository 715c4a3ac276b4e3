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

from agenteval.stats.permutation import (
    Counts,
    Sums,
    Tail,
    Values,
    exchanged,
    flipped,
    share_of_observed,
)
from agenteval.stats.rates import UNKNOWN, Layout, summed
from agenteval.stats.score import EXCHANGES
from agenteval.trial.trial import ErrorCounts

_ROUNDING = 1e-9  # of the sum of logarithms that a table's rarity is


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
    first_mixes = _mixes(first, classes, layouts[0])
    second_mixes = _mixes(second, classes, layouts[1])
    if not first_mixes.any() or not second_mixes.any():
        return None
    observed = first_mixes.sum(axis=0), second_mixes.sum(axis=0)
    g_squared = float(_g_squared(*observed))
    options = _ExchangeOptions(seed=seed, exchanges=exchanges)
    if first.by_trial and second.by_trial:
        mixes, unchanged = _exchange_draws(first_mixes, second_mixes, layouts, options)
        tail = Tail.of(np.append(_g_squared(*mixes), g_squared))
        p = tail.p(g_squared) + unchanged / 2  # by half, as ties count in a mid-p value
    else:
        mixes = exchanged(_single_errors(first_mixes), _single_errors(second_mixes), **options)
        is_as_rare = _rarity(*mixes) >= _rarity(*observed) - _ROUNDING
        p = (1 + int(is_as_rare.sum())) / (1 + exchanges)  # as Phipson and Smyth (2010)
    calls = np.array([[sum(first.calls)], [sum(second.calls)]])
    errors = np.array([[mix.sum()] for mix in observed])
    return Kinds(
        distance=float(_distance(*observed)),
        by_chance=float(_distance(*mixes).mean()),
        divergence=float(_divergence(*observed)),
        divergence_by_chance=float(_divergence(*mixes).mean()),
        p=min(p, 1.0),
        g_rate=float(_g_squared(*np.hstack([errors, calls - errors]))),
        g_kind=g_squared,
    )


class _ExchangeOptions(TypedDict):
    seed: int
    exchanges: int


def _exchange_draws(
    first: Counts,
    second: Counts,
    layouts: tuple[Layout, Layout],
    options: _ExchangeOptions,
) -> tuple[Sums, float]:
    """Return the mixes of both sides after each exchange, and the share that changes nothing.

    Where scenarios are the draws and both models played the same ones, each is exchanged with its
    counterpart; else draws with errors are exchanged at random.
    """
    by_scenario = all(layout.by_scenario for layout in layouts)
    first_scenarios, second_scenarios = (set(layout.scenarios) for layout in layouts)
    if by_scenario and first_scenarios == second_scenarios:
        gaps = flipped((first - second).astype(np.float64), **options)
        both = (first + second).sum(axis=0)
        mixes = (both + gaps) / 2, (both - gaps) / 2
        return mixes, 0.5 ** (len(first) - 1)
    first = first[first.any(axis=1)]
    second = second[second.any(axis=1)]
    unchanged = share_of_observed((len(first), len(second)))
    return exchanged(first, second, **options), unchanged


def _mixes(counts: ErrorCounts, classes: list[str], layout: Layout) -> Counts:
    """Return the errors by class of each draw: one row a draw, one column a class."""
    columns = []
    for name in classes:
        clusters = counts.clusters(name)
        if layout.by_scenario:
            clusters = tuple(summed(clusters, layout.scenarios))
        columns.append([count for count, _ in clusters])
    return np.array(columns).T


def _single_errors(mixes: Counts) -> Counts:
    """Return a row for each error, with a one in the column of its class."""
    of_each_class: Counts = np.eye(mixes.shape[1], dtype=np.int64)
    return of_each_class.repeat(mixes.sum(axis=0), axis=0)


def _distance(first: Values, second: Values) -> Values:
    gaps = abs(_shares(first) - _shares(second))
    return np.asarray(gaps.sum(axis=-1) / 2)


def _shares(mix: Values) -> Values:
    """Return the shares of the classes in a mix; all are 0 in a mix without an error."""
    errors = mix.sum(axis=-1, keepdims=True)
    return np.asarray(mix / np.maximum(errors, 1))


def _divergence(first: Values, second: Values) -> Values:
    first_shares = _shares(first)
    second_shares = _shares(second)
    within = (_entropy(first_shares) + _entropy(second_shares)) / 2
    return _entropy((first_shares + second_shares) / 2) - within


def _entropy(shares: Values) -> Values:
    """Return the entropy of a mix, in bits."""
    return -_x_log_x(shares) / log(2)


def _g_squared(first: Values, second: Values) -> Values:
    """Return G-squared of the table of two models by classes, for independence of the two."""
    both = first + second
    of_cells = _x_log_x(first) + _x_log_x(second)
    of_models = _sum_log_sum(first) + _sum_log_sum(second)
    of_classes = _x_log_x(both)
    return 2 * (of_cells - of_models - of_classes + _sum_log_sum(both))


def _rarity(first: Values, second: Values) -> Values:
    """Return minus the logarithm of a table's chance, but for a constant: its cells' factorials."""
    cells = np.rint(np.stack([first, second])).astype(np.int64)
    logarithms = np.log(np.arange(1, cells.max() + 1))
    log_factorials: Values = np.concatenate([[0.0], np.cumsum(logarithms)])
    of_models = log_factorials[cells].sum(axis=-1)
    return np.asarray(of_models.sum(axis=0))


def _x_log_x(values: Values) -> Values:
    """Return the sums over classes of x log x, which is 0 where x is."""
    logarithms = np.log(np.where(values > 0, values, 1.0))
    return np.asarray((values * logarithms).sum(axis=-1))


def _sum_log_sum(values: Values) -> Values:
    """Return x log x of the sums over classes."""
    return _x_log_x(values.sum(axis=-1)[..., None])
