"""One side of a comparison: a model's counts, and its trials if they come from a run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from agenteval.core.cards import ModelCard
from agenteval.core.counts import ErrorCounts
from agenteval.core.pairing import Pairing, pair
from agenteval.core.run import Run
from agenteval.core.scoring import Score, score, score_summaries
from agenteval.core.summary import TrialSummary, World, without
from agenteval.core.tally import Tallies
from agenteval.core.trial import Trial
from agenteval.report.view import Groups, Transcripts
from agenteval.stats.comparison import compare_models
from agenteval.stats.estimand import UNKNOWN, Estimand, Layout, these
from agenteval.stats.rates import Rate, rate_of

UNPAIRED = Pairing((), (), paired=False)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: the counts of a model.

    `run` and `score` are None for counts without a run. `tallies` and `transcripts` are None if
    they were not read.
    """

    label: str
    card: ModelCard
    errors: ErrorCounts
    run: Run | None = None
    score: Score | None = None
    scenarios: tuple[str, ...] = ()  # of each trial of the errors; none: not known
    tallies: Tallies | None = None
    transcripts: Transcripts | None = None

    def layout(self, about: Estimand) -> Layout:
        return Layout(about, self.scenarios if self.errors.by_trial else ())

    @property
    def run_and_score(self) -> tuple[Run, Score]:
        """The run and its score. Raises ValueError for counts without a run."""
        if self.run is None or self.score is None:
            raise ValueError(f"no run stands behind {self.label}")
        return self.run, self.score

    @classmethod
    def of_run(cls, run: Run) -> "Side":
        """Return the side of a run with its trials."""
        tallies = Tallies.of(run.trials) if run.trials else None
        return cls._of(run, score(run.trials), tallies, partial(_chosen, run.trials))

    @classmethod
    def of_stored(
        cls,
        run: Run,
        summaries: Iterable[TrialSummary],
        tallies: Tallies | None = None,
        transcripts: Transcripts | None = None,
    ) -> "Side":
        """Return the side of a run that was read without its trials."""
        return cls._of(run, score_summaries(summaries), tallies, transcripts)

    @classmethod
    def _of(
        cls, run: Run, score: Score, tallies: Tallies | None, transcripts: Transcripts | None
    ) -> "Side":
        if (
            run.source and not run.source.judged and not run.policies
        ):  # nothing tells which calls were errors
            score = replace(score, errors=score.errors.unknown())
        known = played(score.counted)
        return cls(
            *(run.model.name, run.model, score.errors, run, score, known, tallies, transcripts)
        )

    def without(self, classes: Sequence[str]) -> "Side":
        """Return the same side without errors of these classes."""
        by_class = {name: of for name, of in self.errors.by_class.items() if name not in classes}
        score = self.score and score_summaries(
            without((*self.score.counted, *self.score.voids), classes)
        )
        return replace(self, errors=replace(self.errors, by_class=by_class), score=score)

    @classmethod
    def of_counts(
        cls, card: ModelCard, counts: ErrorCounts, scenarios: Sequence[str] = ()
    ) -> "Side":
        return cls(card.name, card, counts, scenarios=tuple(scenarios))


def _chosen(trials: Sequence[Trial], worlds: Sequence[World]) -> Iterator[Trial]:
    by_world = {(one.scenario, one.number, one.seed): one for one in trials}
    return map(by_world.__getitem__, worlds)


def played(trials: Iterable[TrialSummary]) -> tuple[str, ...]:
    """Return the scenario of each trial."""
    return tuple(trial.scenario for trial in trials)


def compared(first: Side, second: Side) -> tuple[Side, Side, Pairing]:
    """Return both sides cut to the trials that are compared, in one order if these are paired.

    Counts without trials are compared whole.
    """
    if not first.score or not second.score:
        return first, second, UNPAIRED
    pairing = pair(first.score.counted, second.score.counted)
    return (
        _cut(first, first.score, pairing.first),
        _cut(second, second.score, pairing.second),
        pairing,
    )


def _cut(side: Side, score: Score, kept: Sequence[TrialSummary]) -> Side:
    places = {trial.world: at for at, trial in enumerate(score.counted)}
    chosen = side.errors.chosen([places[trial.world] for trial in kept])
    return replace(side, errors=chosen, score=score_summaries(kept), scenarios=played(kept))


def scope(sides: Sequence[Side], about: Estimand) -> str:
    """Return the label of the estimand; empty unless all sides have known scenarios."""
    return about.label if sides and all(any(side.layout(about).scenarios) for side in sides) else ""


def basis(sides: Sequence[Side], about: Estimand) -> str:
    """Return the sentences on the estimand of the intervals, and on the unit of a draw."""
    by_trial = [side for side in sides if side.errors.by_trial]
    names = {name for side in by_trial for name in side.scenarios if name}
    lines = []
    if names and about is Estimand.LIKE:
        lines.append(
            f"Intervals are about scenarios like these {len(names)}: clustered by scenario."
        )
    elif names:
        lines.append(
            f"Intervals are about {these(len(names))}, played again: "
            "stratified by scenario. Other scenarios may differ more."
        )
    if any(not any(side.scenarios) for side in by_trial):
        lines.append("Where scenarios are not known, intervals are clustered by trial.")
    if len(by_trial) < len(sides):
        lines.append("Where trials are not known, calls are taken as independent.")
    return " ".join(lines)


ARCHITECTURES = ("moe", "dense")


ENOUGH = 4  # models of each, from which on they speak of others


def groups_of(sides: Sequence[Side], about: Estimand) -> Groups | None:
    """Return models by architecture; None unless both have models that made calls.

    Also None for one model each, as the pair has all there is. Runs of one model are one model:
    another run is not another draw of its architecture.
    """
    called = [side for side in sides if any(side.errors.calls)]
    first, second = (
        _by_model([side for side in called if side.card.architecture == kind], about)
        for kind in ARCHITECTURES
    )
    if not first or not second or len(first) + len(second) == len(ARCHITECTURES):
        return None
    others = None
    if min(len(first), len(second)) >= ENOUGH:
        others = compare_models(*([rate for _, rate in of] for of in (first, second)))
    return Groups(*ARCHITECTURES, models=(first, second), others=others)


def _by_model(group: Sequence[Side], about: Estimand) -> tuple[tuple[str, Rate], ...]:
    """Return the rate of each model, all its runs together. Models may share a name."""
    models: dict[tuple[str, str], list[Side]] = {}
    for side in group:
        models.setdefault((side.card.name, side.card.served_id), []).append(side)
    return tuple((name, _rate(of, about)) for (name, _), of in models.items())


def _rate(runs: Sequence[Side], about: Estimand) -> Rate:
    clusters = [one for side in runs for one in side.errors.total()]
    layout = Layout(about, [name for side in runs for name in side.layout(about).scenarios])
    by_trial = all(side.errors.by_trial for side in runs)
    known = len(layout.scenarios) == len(clusters)
    return rate_of(clusters, layout if known else UNKNOWN, by_trial=by_trial)
