"""Every two models of a view compared, in the same worlds where they met the same ones."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

from agenteval import stats
from agenteval.core.counts import Cluster, ErrorCounts
from agenteval.core.outcome import Outcome
from agenteval.core.pairing import Pairing
from agenteval.core.recovery import TrialRecovery
from agenteval.core.scoring import Score
from agenteval.report.side import Side, compared
from agenteval.report.view import ClassPair, Figure, Pair
from agenteval.stats.comparison import (
    Difference,
    benjamini_hochberg,
    compare_all,
    compare_counts,
    compare_means,
    compare_shares,
    holm,
)
from agenteval.stats.rates import rate_of

COMPLETED = "trials completed"
HANDSHAKE = "handshakes completed"
RECOVERED = "recovered in the next turn"

# Of each trial: how many, out of how many.
OF_RECOVERY: dict[str, Callable[[TrialRecovery], Cluster]] = {
    RECOVERED: lambda one: (
        sum(after.turns == 1 for after in one.answerable),
        len(one.answerable),
    ),
    "recovered ever": lambda one: (
        sum(after.turns is not None for after in one.answerable),
        len(one.answerable),
    ),
    "turns burned on denials": lambda one: one.turns_burned,
    "denied after a denial": lambda one: one.after_denied,
    "denied after none": lambda one: one.after_allowed,
}


def figures_of(
    first: Side, second: Side, total: Difference, *, paired: bool, seed: int
) -> tuple[Figure, ...]:
    """All figures; of `paired` sides the trials stand in the order of their worlds."""
    per_trial = with_denial = None
    if first.errors.by_trial and second.errors.by_trial:
        ours, theirs = first.errors.total(), second.errors.total()
        per_trial = compare_means(ours, theirs, seed=seed, paired=paired)
        denied = [[errors > 0 for errors, _ in side] for side in (ours, theirs)]
        with_denial = compare_shares(*denied, paired=paired)
    return (
        Figure("errors per 100 calls", "per 100", total),
        Figure("errors per trial", "mean", per_trial),
        Figure("trials with a denial", "share", with_denial),
        *_endings(first.score, second.score, paired=paired),
        *_recoveries(first.score, second.score, paired=paired, seed=seed),
    )


def _endings(first: Score | None, second: Score | None, *, paired: bool) -> tuple[Figure, ...]:
    completed = handshakes = None
    if first and second:
        completed = _shares(first, second, _completed, paired=paired)
        handshakes = _shares(first, second, _handshakes, paired=paired)
    return Figure(COMPLETED, "share", completed), Figure(HANDSHAKE, "share", handshakes)


def _completed(score: Score) -> list[bool]:
    return [trial.outcome is Outcome.COMPLETED for trial in score.counted]


def _handshakes(score: Score) -> list[bool]:
    return [trial.depth == len(trial.handshake) for trial in score.counted if trial.handshake]


def _shares(
    first: Score, second: Score, did: Callable[[Score], list[bool]], *, paired: bool
) -> Difference | None:
    ours, theirs = did(first), did(second)
    if not ours or not theirs:
        return None
    return compare_shares(ours, theirs, paired=paired and len(ours) == len(theirs))


def _recoveries(
    first: Score | None, second: Score | None, *, paired: bool, seed: int
) -> Sequence[Figure]:
    shown: dict[str, Difference | None] = dict.fromkeys(OF_RECOVERY)
    if first and second:
        columns = {
            name: (_column(first, of), _column(second, of)) for name, of in OF_RECOVERY.items()
        }
        known = {name: both for name, both in columns.items() if all(map(_any, both))}
        if known:
            ours, theirs = zip(*known.values(), strict=True)
            shown |= dict(
                zip(known, compare_all(ours, theirs, seed=seed, paired=paired), strict=True)
            )
    return [Figure(name, "share", difference) for name, difference in shown.items()]


def _column(score: Score, of: Callable[[TrialRecovery], Cluster]) -> list[Cluster]:
    return [of(trial.recovery) for trial in score.counted]


def _any(column: list[Cluster]) -> bool:
    return any(size for _, size in column)


def pairs_of(sides: Sequence[Side], *, seed: int) -> tuple[Pair, ...]:
    """All pairs in which both models made calls where they are compared."""
    pairs = [
        _pair(one, other, found, seed)
        for first, second in combinations(sides, 2)
        for one, other, found in [compared(first, second)]
        if any(one.errors.calls) and any(other.errors.calls)
    ]
    adjusted = holm([pair.difference.p for pair in pairs])
    kinds_adjusted = holm([pair.kinds.p if pair.kinds else 1.0 for pair in pairs])
    return tuple(
        replace(pair, adjusted=p, kinds_adjusted=kinds_p)
        for pair, p, kinds_p in zip(pairs, adjusted, kinds_adjusted, strict=True)
    )


def _pair(first: Side, second: Side, found: Pairing, seed: int) -> Pair:
    """Of two sides as they are compared."""
    classes = sorted({*first.errors.by_class, *second.errors.by_class})
    total, *by_class = _differences(
        first.errors, second.errors, classes, paired=found.paired, seed=seed
    )
    adjusted = benjamini_hochberg([one.p for one in by_class])
    return Pair(
        first.label,
        second.label,
        total,
        adjusted=1.0,
        kinds=stats.signature.compare_kinds(first.errors, second.errors, seed=seed),
        kinds_adjusted=1.0,
        errors=(sum(first.errors.errors), sum(second.errors.errors)),
        figures=figures_of(first, second, total, paired=found.paired, seed=seed),
        classes=tuple(map(ClassPair, classes, by_class, adjusted)),
        by_trial=first.errors.by_trial and second.errors.by_trial,
        of_counts=not (first.run and second.run),
        simulated=first.card.simulated or second.card.simulated,
        left_out=found.left_out,
    )


def _differences(
    first: ErrorCounts, second: ErrorCounts, classes: Sequence[str], *, paired: bool, seed: int
) -> list[Difference]:
    """In total, then in each of the classes."""
    ours, theirs = (
        [side.total(), *(side.clusters(name) for name in classes)] for side in (first, second)
    )
    if first.by_trial and second.by_trial:
        return compare_all(ours, theirs, seed=seed, paired=paired)
    return [
        compare_counts(
            rate_of(one, by_trial=first.by_trial), rate_of(other, by_trial=second.by_trial)
        )
        for one, other in zip(ours, theirs, strict=True)
    ]
