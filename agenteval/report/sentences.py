"""The sentences of a report, with their certainty, and the sides that they compare.

A sentence about two models begins with its significance. The observed figures follow, then the
difference with its interval, p, n, and the size of run that would decide it. A significant finding
is in the present tense, one that was only observed in the past tense. A `Side` is a model's
counts, and its trials if they come from a run.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from agenteval.report.tables import counted, void_of
from agenteval.report.view import Errors, Groups, Pair, Transcripts, View, Views
from agenteval.stats.comparison import Difference, compare_models
from agenteval.stats.criteria import CALLS
from agenteval.stats.rates import UNKNOWN, Estimand, Layout, Rate, rate_of, these
from agenteval.stats.score import SETTLED
from agenteval.trial.run import ModelCard, Run
from agenteval.trial.summary import Pairing, TrialSummary, World, pair, summarize, without
from agenteval.trial.tally import Score, Tallies, score_summaries
from agenteval.trial.trial import ErrorCounts, Influence, Trial

if TYPE_CHECKING:
    from agenteval.stats.signature import Kinds
# The words that a sentence begins with.
SURE, NEAR, OPEN = "Settled", "Marginal, not settled", "Not settled"
EQUAL = "No difference seen"
LEADS = (SURE, NEAR, OPEN, EQUAL)
MARGINAL = 0.1  # a p below this, yet not settled, is worth a second look


def lead(p: float, adjusted: float, about: str) -> str:
    """Return the start of a sentence: its significance after correction, and the scenarios."""
    word = SURE if adjusted < SETTLED else NEAR if p < MARGINAL else OPEN
    return scoped(word, about)


def scoped(word: str, about: str) -> str:
    return f"{word} for {about}" if about else word


def p_told(p: float, adjusted: float, family_size: int) -> str:
    if family_size < 2:
        return f"p {p_text(p)}"
    if p_text(p) == p_text(adjusted):
        return f"p {p_text(p)}, also {after(family_size)}"
    joined = "but" if p < SETTLED <= adjusted else "and"
    return f"p {p_text(p)}, {joined} {p_text(adjusted).removeprefix('= ')} {after(family_size)}"


def after(family_size: int) -> str:
    return f"after correction for {counted(family_size, 'claim')} of this report"


def p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}" if p < 0.1 else f"= {p:.2f}"


@dataclass(frozen=True, slots=True)
class _Gap:
    """A difference as the model that is ahead sees it: the interval is turned with it."""

    ahead: str
    behind: str
    rate: Rate  # of the model that is ahead
    other_rate: Rate
    size: float
    low: float
    high: float


def seen_from_ahead(
    pair: Pair,
    difference: Difference,
    *,
    fewer: bool = False,
) -> _Gap:
    """Return a difference from the model with the larger rate, or the smaller one if `fewer`."""
    ahead, behind = (pair.first, difference.first), (pair.second, difference.second)
    low, high = difference.low, difference.high
    # Of second minus first the interval has its ends exchanged, and negative.
    if difference.value < 0:
        low, high = -high, -low
    is_second_ahead = difference.value > 0 if fewer else difference.value < 0
    if is_second_ahead:
        ahead, behind = behind, ahead
    (name, rate), (other, other_rate) = ahead, behind
    return _Gap(name, other, rate, other_rate, abs(difference.value), low, high)


SIZEABLE = {CALLS: 0.03}  # the margins of the shipped gate.toml: what else is counted has 0.1


def new_run(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Return the note on the numbers of `more_needed`, once if there are any."""
    errors = [pair.adjusted for pair in pairs if not pair.silent]
    figures = [one.adjusted or 0.0 for pair in pairs for one in pair.figures]
    if not any(p >= SETTLED for p in (*errors, *figures)):
        return ()
    return ("Do not add calls to this run until it is settled: what is told is of a new run.",)


def more_needed(
    gap: Difference,
    pair: Pair,
    adjusted: float,
    *,
    of: str,
) -> str:
    """Return the size of a new run that would decide the difference; empty if it is decided.

    It is a range, as the observed difference is only an estimate. Below the size that matters, it
    is the run that would detect a difference of that size.
    """
    if adjusted < SETTLED:
        return ""
    observed, size = abs(gap.value), SIZEABLE.get(of, 0.1)

    def enough(gap_size: float) -> str:
        calls = gap.calls_for(gap_size, family_size=pair.family_size)
        return f"{calls:,} {of} per model{_in(gap, pair, gap_size)}"

    if observed < size:
        return (
            f" A new run of about {enough(size)} would show a difference of {100 * size:.0f} "
            f"points in four cases of five."
        )
    return (
        f" If the true difference is as seen, a new run of about {enough(observed)} would settle "
        f"it in four cases of five; if it is half as large, of about {enough(observed / 2)}."
    )


def _in(gap: Difference, pair: Pair, gap_size: float) -> str:
    """Return the number of scenarios of such a run, if each is one draw; else nothing."""
    of = gap.first.clusters
    if pair.scope != Estimand.LIKE.label or not of:
        return ""
    scenarios = ceil(gap.calls_for(gap_size, family_size=pair.family_size) * of / gap.first.n)
    return f" in {counted(scenarios, 'scenario')}"


VOID_BUDGET = 0.15  # of the shipped gate.toml: with more void trials nothing passes there
RARE = 0.1  # the share of trials that a run should be able to show


def caveats(view: View) -> Iterator[str]:
    """Yield caveats: too few trials, too many void ones, or one trial that dominates a rate."""
    for trials in sorted({model.trials for model in view.models if model.trials}):
        missed = (1 - RARE) ** trials
        if missed > SETTLED:
            whose = ", ".join(model.label for model in view.models if model.trials == trials)
            yield (
                f"{counted(trials, 'trial')} {'is' if trials == 1 else 'are'} too few to show what "
                f"one trial in ten does: {100 * missed:.0f} % of such runs have none of them "
                f"({whose})."
            )
    for run in view.runs:
        if run.score.void_share > VOID_BUDGET:
            yield (
                f"{run.label}: {void_of(len(run.score.voids), run.played)}; what is said of it is "
                "of the others alone."
            )
    for model in view.models:
        if model.influence and model.influence.runs_away:
            yield _runaway(model, model.influence)


def _runaway(model: Errors, of: Influence) -> str:
    errors, calls = of.errors, of.calls
    per_trial = errors[1] / model.trials if model.trials else 0.0
    return (
        f"One trial of {model.label} ({model.largest}) holds {errors[0]} of the "
        f"{counted(errors[1], 'error')} and {100 * calls[0] / calls[1]:.0f} % of the calls: "
        f"{100 * model.total.value:.2f} errors per 100 calls with it, {100 * of.without:.2f} "
        f"without ({100 * of.low:.2f} to {100 * of.high:.2f} where any one trial is left out); "
        f"{per_trial:.2f} errors per trial."
    )


def sentences(views: Views, pairs: Sequence[Pair]) -> tuple[str, ...]:
    goals = [(view.label, view.completed) for view in views]
    recoveries = [(view.label, view.recovery.at_once) for view in views]
    return (
        *count_sentences(pairs),
        *_rates_sentence("the goal was reached", views, goals),
        *_rates_sentence("the turn after a denial recovered", views, recoveries),
        *new_run(pairs),
    )


def count_sentences(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Return for each pair of models which makes fewer errors, then if their kinds differ."""
    numbers = [_number_sentence(pair) for pair in pairs]
    kinds = [_kinds_sentence(pair, pair.kinds) for pair in pairs if pair.kinds]
    return (*numbers, *kinds)


def _number_sentence(pair: Pair) -> str:
    difference = pair.difference
    if pair.silent:
        return (
            f"{scoped(OPEN, pair.scope)}: whether {pair.first} or {pair.second} makes fewer "
            f"errors. No call was made by {' and '.join(pair.silent)}."
        )
    needed = more_needed(difference, pair, pair.adjusted, of=CALLS)
    gap = seen_from_ahead(pair, difference, fewer=True)
    rate, other_rate = 100 * gap.rate.value, 100 * gap.other_rate.value
    note = "" if difference.paired else _independence_note(pair)
    calls = f"n={gap.rate.n} and {gap.other_rate.n} calls{_worlds(pair)}{note}"
    if not gap.size:
        return (
            f"{scoped(EQUAL, pair.scope)}: {pair.both} made {rate:.2f} errors per 100 calls each; "
            f"{calls}.{needed}"
        )
    verb = "makes" if pair.adjusted < SETTLED else "made"
    return (
        f"{lead(difference.p, pair.adjusted, pair.scope)}: {gap.ahead} {verb} fewer errors than "
        f"{gap.behind}, {rate:.2f} against {other_rate:.2f} per 100 calls: {100 * gap.size:.2f} "
        f"fewer [{100 * gap.low:.1f}, {100 * gap.high:.1f}]; "
        f"{p_told(difference.p, pair.adjusted, pair.family_size)}; {calls}.{_per_trial(pair)}"
        f"{needed}"
    )


def _per_trial(pair: Pair) -> str:
    """Return a sentence if errors per trial contradict errors per call; else nothing."""
    means = next((figure.difference for figure in pair.figures if figure.unit == "mean"), None)
    if means is None or means.value * pair.difference.value >= 0:
        return ""
    return (
        f" Per trial it is the other way round: {means.first.value:.2f} errors of {pair.first} "
        f"against {means.second.value:.2f} of {pair.second}."
    )


def _worlds(pair: Pair) -> str:
    same = " in the same worlds" if pair.difference.paired else ""
    if not any(pair.left_out):
        return same
    excluded = (
        f"{counted(calls, 'call')} of {name}"
        for name, calls in zip((pair.first, pair.second), pair.left_out, strict=True)
        if calls
    )
    both = same or " of the scenarios that both played, as many trials of each"
    return f"{both}, without {' and '.join(excluded)} where only one of them played"


def _independence_note(pair: Pair) -> str:
    return "" if pair.by_trial else ", taken as independent"


def _kinds_sentence(pair: Pair, kinds: "Kinds") -> str:
    settled = pair.kinds_adjusted < SETTLED
    both = f"{pair.both} make different kinds of errors"
    claim = both if settled else f"whether {both}"
    more = "" if settled else " Only more errors to compare can settle it."
    return (
        f"{lead(kinds.p, pair.kinds_adjusted, pair.scope)}: {claim}. Their mixes of classes lie "
        f"{kinds.distance:.2f} apart (0 is the same, 1 nothing in common), where chance alone "
        f"gives {kinds.by_chance:.2f}; {p_told(kinds.p, pair.kinds_adjusted, pair.family_size)}; "
        f"n={pair.errors[0]} and {pair.errors[1]} errors{_independence_note(pair)}.{more}"
    )


def _rates_sentence(
    start: str,
    views: Views,
    rates: Sequence[tuple[str, Rate]],
) -> Iterator[str]:
    """Yield one sentence with a rate for each model, and the estimand of the intervals."""
    rate_texts = [f"{rate} ({label})" for label, rate in rates if rate.n]
    if rate_texts:
        yield f"For {views[0].layout.estimand.label}: {start} in {'; '.join(rate_texts)}."


# The sides of a comparison.

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
        return cls.of_stored(
            run,
            map(summarize, run.trials),
            tallies,
            partial(_chosen, run.trials),
        )

    @classmethod
    def of_stored(
        cls,
        run: Run,
        summaries: Iterable[TrialSummary],
        tallies: Tallies | None = None,
        transcripts: Transcripts | None = None,
    ) -> "Side":
        """Return the side of a run that was read without its trials."""
        score = score_summaries(summaries)
        if run.source and not run.source.judged and not run.policies:
            # Nothing tells which calls were errors.
            score = replace(score, errors=score.errors.unknown())
        return cls(
            run.model.name,
            run.model,
            score.errors,
            run=run,
            score=score,
            scenarios=played(score.counted),
            tallies=tallies,
            transcripts=transcripts,
        )

    def without(self, classes: Sequence[str]) -> "Side":
        """Return the same side without errors of these classes."""
        by_class = {name: of for name, of in self.errors.by_class.items() if name not in classes}
        score = self.score and score_summaries(
            without((*self.score.counted, *self.score.voids), classes)
        )
        return replace(
            self,
            errors=replace(self.errors, by_class=by_class),
            score=score,
        )

    @classmethod
    def of_counts(
        cls,
        card: ModelCard,
        counts: ErrorCounts,
        scenarios: Sequence[str] = (),
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


def _cut(side: Side, score: Score, trials: Sequence[TrialSummary]) -> Side:
    places = {trial.world: at for at, trial in enumerate(score.counted)}
    chosen = side.errors.chosen([places[trial.world] for trial in trials])
    return replace(
        side,
        errors=chosen,
        score=score_summaries(trials),
        scenarios=played(trials),
    )


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


# Models by architecture.

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
