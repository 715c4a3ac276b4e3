"""One model as it is compared: its counts, and its trials where a run stands behind them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from agenteval.core.counts import ErrorCounts
from agenteval.core.run import ModelCard, Run
from agenteval.core.scoring import Score, score, score_tallies
from agenteval.core.tally import Tally, World


@dataclass(frozen=True, slots=True)
class Side:
    """`run` and `score` are None for counts that no run gave; then nothing but them is known."""

    label: str
    card: ModelCard
    errors: ErrorCounts
    run: Run | None = None
    score: Score | None = None

    @classmethod
    def of_run(cls, run: Run, tallies: Iterable[Tally] | None = None) -> "Side":
        """`tallies` go with a run that was read without its trials."""
        found = score(run.trials) if tallies is None else score_tallies(tallies)
        return cls(run.model.name, run.model, found.errors, run, found)

    @classmethod
    def of_counts(cls, card: ModelCard, counts: ErrorCounts) -> "Side":
        return cls(card.name, card, counts)

    @property
    def worlds(self) -> frozenset[World]:
        return self.score.worlds if self.score else frozenset()


def in_worlds_met(first: Side, second: Side) -> tuple[Side, Side] | None:
    """Both sides cut down to the worlds that both played to an end, in one order.

    None unless one of the two met all worlds of the other, or when no call was made in them. A
    world that is void, or not reached yet, for one of the two is left out for both.
    """
    alike = first.worlds <= second.worlds or second.worlds <= first.worlds
    if not alike or not first.score or not second.score:
        return None
    ours, theirs = _places(first.score), _places(second.score)
    met = [world for world in ours if world in theirs]
    cut = (
        _cut(first, first.score, [ours[world] for world in met]),
        _cut(second, second.score, [theirs[world] for world in met]),
    )
    return cut if all(any(side.errors.calls) for side in cut) else None


def _places(score: Score) -> dict[World, int]:
    return {trial.world: at for at, trial in enumerate(score.counted)}


def _cut(side: Side, score: Score, places: list[int]) -> Side:
    kept = [score.counted[at] for at in places]
    return replace(side, errors=side.errors.chosen(places), score=score_tallies(kept))
