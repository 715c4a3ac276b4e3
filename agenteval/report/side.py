"""One model as it is compared: its counts, and its trials where a run stands behind them."""

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
    """`run` and `score` are None for counts that no run gave; then nothing but them is known.

    `tallies` and `transcripts` are None where nobody asked for them.
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
    def known(self) -> tuple[Run, Score]:
        """Of a side that a run stands behind."""
        if self.run is None or self.score is None:
            raise ValueError(f"no run stands behind {self.label}")
        return self.run, self.score

    @classmethod
    def of_run(cls, run: Run) -> "Side":
        """A run with its trials."""
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
        """A run that was read without its trials."""
        return cls._of(run, score_summaries(summaries), tallies, transcripts)

    @classmethod
    def _of(
        cls, run: Run, found: Score, tallies: Tallies | None, transcripts: Transcripts | None
    ) -> "Side":
        if (
            run.source and not run.source.judged and not run.policies
        ):  # nothing tells which calls were errors
            found = replace(found, errors=found.errors.unknown())
        known = played(found.counted)
        return cls(
            *(run.model.name, run.model, found.errors, run, found, known, tallies, transcripts)
        )

    def without(self, classes: Sequence[str]) -> "Side":
        """The same with no error of these classes."""
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
    """The scenario of each trial."""
    return tuple(trial.scenario for trial in trials)


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
    return replace(side, errors=chosen, score=score_summaries(kept), scenarios=played(kept))


def scope(sides: Sequence[Side], about: Estimand) -> str:
    """What figures of these sides are about; nothing where no scenario is known."""
    return about.label if sides and all(any(side.layout(about).scenarios) for side in sides) else ""


def basis(sides: Sequence[Side], about: Estimand) -> str:
    """What the intervals of these sides are about, and what they take a draw to be."""
    by_trial = [side for side in sides if side.errors.by_trial]
    names = {name for side in by_trial for name in side.scenarios if name}
    told = []
    if names and about is Estimand.LIKE:
        told.append(
            f"Intervals are about scenarios like these {len(names)}: clustered by scenario."
        )
    elif names:
        told.append(
            f"Intervals are about {these(len(names))}, played again: "
            "stratified by scenario. Other scenarios may differ more."
        )
    if any(not any(side.scenarios) for side in by_trial):
        told.append("Where scenarios are not known, intervals are clustered by trial.")
    if len(by_trial) < len(sides):
        told.append("Where trials are not known, calls are taken as independent.")
    return " ".join(told)


ARCHITECTURES = ("moe", "dense")


ENOUGH = 4  # models of each, from which on they speak of others


def groups_of(sides: Sequence[Side], about: Estimand) -> Groups | None:
    """None unless there are models of both that made calls; of one each, the pair says it all.

    Runs of one model are one model: another run of it is no other draw of its architecture.
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
    """The rate of each model, all its runs together. One served name may stand for several."""
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
