"""One model as it is compared: its counts, and its trials where a run stands behind them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agenteval.core.counts import ErrorCounts
from agenteval.core.pairing import Pairing, pair
from agenteval.core.run import ModelCard, Run
from agenteval.core.scoring import Score, score, score_summaries
from agenteval.core.summary import TrialSummary

UNPAIRED = Pairing((), (), paired=False)


@dataclass(frozen=True, slots=True)
class Side:
    """`run` and `score` are None for counts that no run gave; then nothing but them is known."""

    label: str
    card: ModelCard
    errors: ErrorCounts
    run: Run | None = None
    score: Score | None = None

    @classmethod
    def of_run(cls, run: Run, summaries: Iterable[TrialSummary] | None = None) -> "Side":
        """`summaries` go with a run that was read without its trials."""
        found = score(run.trials) if summaries is None else score_summaries(summaries)
        return cls(run.model.name, run.model, found.errors, run, found)

    @classmethod
    def of_counts(cls, card: ModelCard, counts: ErrorCounts) -> "Side":
        return cls(card.name, card, counts)


def compared(first: Side, second: Side) -> tuple[Side, Side, Pairing]:
    """Both sides cut down to the trials that are compared, in one order where these are paired.

    Counts without trials are compared whole.
    """
    if not first.score or not second.score:
        return first, second, UNPAIRED
    found = pair(first.score.counted, second.score.counted)
    return _cut(first, first.score, found.first), _cut(second, second.score, found.second), found


def _cut(side: Side, score: Score, kept: Sequence[TrialSummary]) -> Side:
    places = {trial.world: at for at, trial in enumerate(score.counted)}
    chosen = side.errors.chosen([places[trial.world] for trial in kept])
    return replace(side, errors=chosen, score=score_summaries(kept))
