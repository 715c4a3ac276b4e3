"""One model as it is compared: its counts, and its trials where a run stands behind them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agenteval.core.counts import Cluster, ErrorCounts
from agenteval.core.pairing import Pairing, pair
from agenteval.core.run import ModelCard, Run
from agenteval.core.scoring import Score, score, score_summaries
from agenteval.core.summary import TrialSummary
from agenteval.report.view import Groups
from agenteval.stats.comparison import Difference, compare, compare_counts
from agenteval.stats.estimand import Estimand, Layout
from agenteval.stats.rates import rate_of

UNPAIRED = Pairing((), (), paired=False)


@dataclass(frozen=True, slots=True)
class Side:
    """`run` and `score` are None for counts that no run gave; then nothing but them is known."""

    label: str
    card: ModelCard
    errors: ErrorCounts
    run: Run | None = None
    score: Score | None = None
    scenarios: tuple[str, ...] = ()  # of each trial of the errors; none: not known

    def layout(self, about: Estimand) -> Layout:
        return Layout(about, self.scenarios if self.errors.by_trial else ())

    @classmethod
    def of_run(cls, run: Run, summaries: Iterable[TrialSummary] | None = None) -> "Side":
        """`summaries` go with a run that was read without its trials."""
        found = score(run.trials) if summaries is None else score_summaries(summaries)
        return cls(run.model.name, run.model, found.errors, run, found, played(found.counted))

    @classmethod
    def of_counts(
        cls, card: ModelCard, counts: ErrorCounts, scenarios: Sequence[str] = ()
    ) -> "Side":
        return cls(card.name, card, counts, scenarios=tuple(scenarios))


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
    return about.told if sides and all(any(side.layout(about).scenarios) for side in sides) else ""


def _these(scenarios: int) -> str:
    return f"these {scenarios} scenarios" if scenarios > 1 else "this scenario"


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
            f"Intervals are about {_these(len(names))}, played again: "
            "stratified by scenario. Other scenarios may differ more."
        )
    if any(not any(side.scenarios) for side in by_trial):
        told.append("Where scenarios are not known, intervals are clustered by trial.")
    if len(by_trial) < len(sides):
        told.append("Where trials are not known, calls are taken as independent.")
    return " ".join(told)


ARCHITECTURES = ("moe", "dense")


def groups_of(sides: Sequence[Side], *, seed: int) -> Groups | None:
    """None unless there are models of both that made calls; of one each, the pair says it all.

    Runs of one served model are one model: another run of it is no other draw of its architecture.
    """
    called = [side for side in sides if any(side.errors.calls)]
    groups = [[side for side in called if side.card.architecture == a] for a in ARCHITECTURES]
    if not all(groups):
        return None
    models = [_by_model(group) for group in groups]
    if sum(map(len, models)) == len(ARCHITECTURES):
        return None
    return Groups(
        *ARCHITECTURES,
        models=(len(models[0]), len(models[1])),
        these=_measured(*groups, seed=seed),
        others=compare(*models, seed=seed),
    )


def _by_model(group: Sequence[Side]) -> list[Cluster]:
    """Errors and calls of each model, all its runs together."""
    models: dict[str, Cluster] = {}
    for side in group:
        count, size = models.get(side.card.served_id, (0, 0))
        errors, calls = sum(side.errors.errors), sum(side.errors.calls)
        models[side.card.served_id] = count + errors, size + calls
    return list(models.values())


def _measured(first: Sequence[Side], second: Sequence[Side], *, seed: int) -> Difference:
    clusters = [[one for side in group for one in side.errors.total()] for group in (first, second)]
    by_trial = [all(side.errors.by_trial for side in group) for group in (first, second)]
    if all(by_trial):
        return compare(*clusters, seed=seed)
    one, other = (rate_of(of, by_trial=by) for of, by in zip(clusters, by_trial, strict=True))
    return compare_counts(one, other)
