"""Comparisons of every two models of a view, paired where they met the same task instances."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import inf, nan
from typing import TypedDict

from agenteval import stats
from agenteval.core.counts import Cluster, ErrorCounts
from agenteval.core.pairing import Pairing
from agenteval.core.recovery import TrialRecovery
from agenteval.core.scoring import Score
from agenteval.report.side import Side, compared, scope
from agenteval.report.view import ClassPair, Figure, Pair
from agenteval.stats.comparison import (
    Difference,
    Layouts,
    compare_all,
    compare_counts,
    compare_means,
    compare_shares,
)
from agenteval.stats.estimand import Estimand, Layout
from agenteval.stats.rates import clustered, rate_of
from agenteval.stats.score import Ratio

CALLED, PER_TRIAL = "errors per 100 calls", "errors per trial"
WITH_DENIAL = "trials with a denial"
COMPLETED = "trials completed"
HANDSHAKE = "handshakes completed"
RECOVERED = "recovered in the next turn"

# Of each trial: how many, out of how many.
OF_RECOVERY: dict[str, Callable[[TrialRecovery], Cluster]] = {
    RECOVERED: lambda one: _among(one, lambda turns: turns == 1),
    "recovered ever": lambda one: _among(one, lambda turns: turns is not None),
    "turns burned on denials": lambda one: one.turns_burned,
    "denied after a denial": lambda one: one.after_denied,
    "denied after none": lambda one: one.after_allowed,
}


def _among(trial: TrialRecovery, counts: Callable[[int | None], bool]) -> Cluster:
    """Return how many denials count, by their turns to recovery, of those that can be answered."""
    back = [after.turns for after in trial.answerable]
    return sum(map(counts, back)), len(back)


class _CompareOptions(TypedDict):
    """The options of a comparison; with `paired`, equal positions have one task instance."""

    seed: int
    paired: bool
    layouts: Layouts


def figures_of(
    first: Side, second: Side, total: Difference, how: _CompareOptions
) -> tuple[Figure, ...]:
    """Return all figures; the trials of paired sides are in the order of their task instances."""
    per_trial = with_denial = None
    if first.errors.by_trial and second.errors.by_trial:
        first_column, second_column = first.errors.total(), second.errors.total()
        per_trial = compare_means(first_column, second_column, **how)
        denied = [[errors > 0 for errors, _ in side] for side in (first_column, second_column)]
        with_denial = compare_shares(*denied, **how)
    return (
        Figure(CALLED, "per 100", total),
        Figure(PER_TRIAL, "mean", per_trial),
        Figure(WITH_DENIAL, "share", with_denial),
        *_endings(first.score, second.score, how),
        *_recoveries(first.score, second.score, how),
    )


def _endings(first: Score | None, second: Score | None, how: _CompareOptions) -> tuple[Figure, ...]:
    completed = handshakes = None
    if first and second:
        completed = _shares(first, second, _completed, how)
        handshakes = _shares(first, second, _handshakes, how)
    return Figure(COMPLETED, "share", completed), Figure(HANDSHAKE, "share", handshakes)


Did = Sequence[tuple[str, bool]]  # of each trial that can: its scenario, and whether it did


def _completed(score: Score) -> Did:
    return [(trial.scenario, trial.completed) for trial in score.observed]


def _handshakes(score: Score) -> Did:
    return [
        (trial.scenario, trial.depth == len(trial.handshake))
        for trial in score.counted
        if trial.handshake
    ]


def _shares(
    first: Score, second: Score, did: Callable[[Score], Did], how: _CompareOptions
) -> Difference | None:
    sides = did(first), did(second)
    if not all(sides):
        return None
    about = how["layouts"][0].estimand
    first_layout, second_layout = (
        Layout(about, [scenario for scenario, _ in side]) for side in sides
    )
    return compare_shares(
        *([reached for _, reached in side] for side in sides),
        paired=how["paired"] and len(sides[0]) == len(sides[1]),
        layouts=(first_layout, second_layout),
        seed=how["seed"],
    )


def _recoveries(
    first: Score | None, second: Score | None, how: _CompareOptions
) -> Sequence[Figure]:
    differences: dict[str, Difference | None] = dict.fromkeys(OF_RECOVERY)
    if first and second:
        columns = {
            name: (_column(first, of), _column(second, of)) for name, of in OF_RECOVERY.items()
        }
        comparable = {name: both for name, both in columns.items() if all(map(_any, both))}
        if comparable:
            first_columns, second_columns = zip(*comparable.values(), strict=True)
            differences |= dict(
                zip(comparable, compare_all(first_columns, second_columns, **how), strict=True)
            )
    return [Figure(name, "share", difference) for name, difference in differences.items()]


def _column(score: Score, of: Callable[[TrialRecovery], Cluster]) -> list[Cluster]:
    return [of(trial.recovery) for trial in score.counted]


def _any(column: list[Cluster]) -> bool:
    return any(size for _, size in column)


def pairs_of(sides: Sequence[Side], about: Estimand, *, seed: int) -> tuple[Pair, ...]:
    """Return all pairs that have calls or outcomes to compare, with p not adjusted yet."""
    pairs = []
    for first, second in combinations(sides, 2):
        first_cut, second_cut, pairing = compared(first, second)
        if any(first_cut.errors.calls) and any(second_cut.errors.calls):
            pairs.append(_pair(first_cut, second_cut, pairing, about, seed))
        elif (
            first_cut.score
            and second_cut.score
            and first_cut.score.counted
            and second_cut.score.counted
        ):
            pairs.append(_silent_pair(first_cut, second_cut, pairing, about, seed))
    return tuple(pairs)


def _silent_pair(first: Side, second: Side, pairing: Pairing, about: Estimand, seed: int) -> Pair:
    """Return the pair of two sides of which one made no call: only outcomes are compared."""
    layouts = first.layout(about), second.layout(about)
    how = _CompareOptions(seed=seed, paired=pairing.paired, layouts=layouts)
    rates = [clustered(one.errors.total(), one.layout(about)) for one in (first, second)]
    unknown = Ratio(nan, 0.0, inf)
    return Pair(
        first.label,
        second.label,
        Difference(rates[0], rates[1], -1.0, 1.0, unknown, 1.0, pairing.paired, 1.0),
        adjusted=1.0,
        kinds=None,
        kinds_adjusted=1.0,
        errors=(sum(first.errors.errors), sum(second.errors.errors)),
        figures=(
            *(Figure(name, "share", None) for name in (CALLED, PER_TRIAL, WITH_DENIAL)),
            *_endings(first.score, second.score, how),
            *(Figure(name, "share", None) for name in OF_RECOVERY),
        ),
        simulated=first.card.simulated or second.card.simulated,
        left_out=pairing.left_out,
        scope=scope((first, second), about),
    )


def unlike(sides: Sequence[Side]) -> Iterator[str]:
    """Yield a line for each pair that has no scenario in common."""
    for first, second in combinations(sides, 2):
        if not compared(first, second)[2].alike:
            both = f"{first.label} and {second.label}"
            yield f"{both} have no scenario in common: what they differ by may come of these alone."


def _pair(first: Side, second: Side, pairing: Pairing, about: Estimand, seed: int) -> Pair:
    """Return the pair of two sides that were cut to the compared trials."""
    layouts = first.layout(about), second.layout(about)
    how = _CompareOptions(seed=seed, paired=pairing.paired, layouts=layouts)
    classes = sorted({*first.errors.by_class, *second.errors.by_class})
    total, *by_class = _differences(first.errors, second.errors, classes, how)
    return Pair(
        first.label,
        second.label,
        total,
        adjusted=1.0,
        kinds=stats.signature.compare_kinds(
            first.errors, second.errors, seed=seed, layouts=layouts
        ),
        kinds_adjusted=1.0,
        errors=(sum(first.errors.errors), sum(second.errors.errors)),
        figures=figures_of(first, second, total, how),
        classes=tuple(
            ClassPair(name, one, 1.0) for name, one in zip(classes, by_class, strict=True)
        ),
        by_trial=first.errors.by_trial and second.errors.by_trial,
        of_counts=not (first.run and second.run),
        simulated=first.card.simulated or second.card.simulated,
        left_out=pairing.left_out,
        scope=scope((first, second), about),
    )


def _differences(
    first: ErrorCounts, second: ErrorCounts, classes: Sequence[str], how: _CompareOptions
) -> list[Difference]:
    """Return the difference in total, then in each of the classes."""
    first_columns, second_columns = (
        [side.total(), *(side.clusters(name) for name in classes)] for side in (first, second)
    )
    if first.by_trial and second.by_trial:
        return compare_all(first_columns, second_columns, **how)
    return [
        compare_counts(
            rate_of(one, how["layouts"][0], by_trial=first.by_trial),
            rate_of(other, how["layouts"][1], by_trial=second.by_trial),
        )
        for one, other in zip(first_columns, second_columns, strict=True)
    ]
