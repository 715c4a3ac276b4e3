"""The sentences of a report: findings from runs and pairs of models, with their certainty.

A sentence about two models begins with its significance. The observed figures follow, then the
difference with its interval, p, n, and the size of run that would decide it. A significant finding
is in the present tense, one that was only observed in the past tense.
"""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING

from agenteval.core.counts import Influence
from agenteval.core.outcome import Outcome
from agenteval.report.tables import counted, void_of
from agenteval.report.view import Errors, Pair, RunView, View
from agenteval.stats.comparison import Difference
from agenteval.stats.criteria import CALLS
from agenteval.stats.estimand import Estimand
from agenteval.stats.rates import Rate
from agenteval.stats.score import SETTLED

if TYPE_CHECKING:  # numpy
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


SIZEABLE = {CALLS: 0.03}  # the margins of the shipped gate.toml: what else is counted has 0.1


def new_run(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Return the note on the numbers of `more_needed`, once if there are any."""
    errors = [pair.adjusted for pair in pairs if not pair.silent]
    figures = [one.adjusted or 0.0 for pair in pairs for one in pair.figures]
    if not any(p >= SETTLED for p in (*errors, *figures)):
        return ()
    return ("Do not add calls to this run until it is settled: what is told is of a new run.",)


def more_needed(gap: Difference, pair: Pair, adjusted: float, *, of: str) -> str:
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
        f"{_per_100(model.total)} errors per 100 calls with it, {100 * of.without:.2f} without "
        f"({100 * of.low:.2f} to {100 * of.high:.2f} where any one trial is left out); "
        f"{per_trial:.2f} errors per trial."
    )


def sentences(views: Sequence[RunView], pairs: Sequence[Pair]) -> tuple[str, ...]:
    lines = [*count_sentences(pairs)]
    lines.extend(
        _rates_sentence(
            "the goal was reached", views, [(view.label, _completed(view)) for view in views]
        )
    )
    denied = [(view.label, view.recovery.at_once) for view in views if view.recovery.at_once.n]
    lines.extend(_rates_sentence("the turn after a denial recovered", views, denied))
    return (*lines, *new_run(pairs))


def count_sentences(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Return for each pair of models which makes fewer errors, then if their kinds differ."""
    numbers = [_number_sentence(pair) for pair in pairs]
    kinds = [_kinds_sentence(pair, pair.kinds) for pair in pairs if pair.kinds]
    return (*numbers, *kinds)


def _number_sentence(pair: Pair) -> str:
    gap, family_size = pair.difference, pair.family_size
    if pair.silent:
        return (
            f"{scoped(OPEN, pair.scope)}: whether {pair.first} or {pair.second} makes fewer "
            f"errors. No call was made by {' and '.join(pair.silent)}."
        )
    if not gap.value:
        return (
            f"{scoped(EQUAL, pair.scope)}: {pair.first} and {pair.second} made "
            f"{_per_100(gap.first)} errors per 100 calls each; {_calls(pair)}."
            f"{more_needed(gap, pair, pair.adjusted, of=CALLS)}"
        )
    fewer, more, low, high = (
        (pair.first, pair.second, -gap.high, -gap.low)
        if gap.value < 0
        else (pair.second, pair.first, gap.low, gap.high)
    )
    better, worse = sorted((gap.first, gap.second), key=lambda rate: rate.value)
    verb = "makes" if pair.adjusted < SETTLED else "made"
    return (
        f"{lead(gap.p, pair.adjusted, pair.scope)}: {fewer} {verb} fewer errors than {more}, "
        f"{_per_100(better)} against {_per_100(worse)} per 100 calls: "
        f"{100 * abs(gap.value):.2f} fewer [{100 * low:.1f}, {100 * high:.1f}]; "
        f"{p_told(gap.p, pair.adjusted, family_size)}; {_calls(pair)}.{_per_trial(pair)}"
        f"{more_needed(gap, pair, pair.adjusted, of=CALLS)}"
    )


def _per_trial(pair: Pair) -> str:
    """Return a sentence if errors per trial contradict errors per call; else nothing."""
    means = next((one.difference for one in pair.figures if one.unit == "mean"), None)
    if means is None or means.value * pair.difference.value >= 0:
        return ""
    return (
        f" Per trial it is the other way round: {means.first.value:.2f} errors of {pair.first} "
        f"against {means.second.value:.2f} of {pair.second}."
    )


def _calls(pair: Pair) -> str:
    """Return the n of both, that of the model with fewer errors first."""
    gap = pair.difference
    ns = [rate.n for rate in sorted((gap.first, gap.second), key=lambda rate: rate.value)]
    note = "" if gap.paired else _independence_note(pair)
    return f"n={ns[0]} and {ns[1]} calls{_worlds(pair)}{note}"


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
    both = f"{pair.first} and {pair.second} make different kinds of errors"
    claim = both if settled else f"whether {both}"
    more = "" if settled else " Only more errors to compare can settle it."
    return (
        f"{lead(kinds.p, pair.kinds_adjusted, pair.scope)}: {claim}. Their mixes of classes lie "
        f"{kinds.distance:.2f} apart (0 is the same, 1 nothing in common), where chance alone "
        f"gives {kinds.by_chance:.2f}; {p_told(kinds.p, pair.kinds_adjusted, pair.family_size)}; "
        f"n={pair.errors[0]} and {pair.errors[1]} errors{_independence_note(pair)}.{more}"
    )


def _per_100(rate: Rate) -> str:
    return f"{100 * rate.value:.2f}"


def _rates_sentence(
    start: str, views: Sequence[RunView], rates: Sequence[tuple[str, Rate]]
) -> list[str]:
    """Return one sentence with a rate for each model, and the estimand of the intervals."""
    rate_texts = [f"{rate} ({label})" for label, rate in rates if rate.n]
    return (
        [f"For {views[0].layout.estimand.label}: {start} in {'; '.join(rate_texts)}."]
        if rate_texts
        else []
    )


def _completed(view: RunView) -> Rate:
    return dict(view.outcomes)[Outcome.COMPLETED]
