"""The figures of two models side by side: how many errors, how trials ended, what denials cost."""

from collections.abc import Callable, Sequence

from agenteval.core.counts import Cluster
from agenteval.core.outcome import Outcome
from agenteval.core.recovery import TrialRecovery
from agenteval.core.scoring import Score
from agenteval.report.side import Side
from agenteval.report.view import Figure
from agenteval.stats.comparison import (
    Difference,
    compare_all,
    compare_means,
    compare_shares,
)

COMPLETED = "trials completed"
HANDSHAKE = "handshakes completed"
RECOVERED = "recovered in the next turn"

# Of each trial: how many, out of how many.
OF_RECOVERY: dict[str, Callable[[TrialRecovery], Cluster]] = {
    RECOVERED: lambda one: (
        sum(after.recovery.recovered for after in one.aftermaths),
        len(one.aftermaths),
    ),
    "recovered ever": lambda one: (
        sum(after.turns is not None for after in one.aftermaths),
        len(one.aftermaths),
    ),
    "turns burned on denials": lambda one: one.turns_burned,
    "denied after a denied call": lambda one: one.after_denied,
    "denied after an allowed one": lambda one: one.after_allowed,
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
