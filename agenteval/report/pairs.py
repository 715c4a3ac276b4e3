"""Comparisons of every two models of a view, paired where they met the same task instances.

The tables of two models side by side, and of the kinds of errors of all pairs.

Comparison of one model on two serving stacks: their differences, and the likely cause.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, isfinite, isnan, nan
from typing import Final, TypedDict

from agenteval.classes.malformed import FAULTS
from agenteval.report.provenance import model_facts
from agenteval.report.sentences import Side, after, compared, p_text, scope
from agenteval.report.tables import (
    FAULTY,
    Arrived,
    Cell,
    Head,
    Table,
    arrived,
    head,
    per_100,
    row,
    share,
)
from agenteval.report.view import ClassPair, Figure, Pair, View
from agenteval.stats.comparison import (
    Difference,
    Layouts,
    MeanDifference,
    compare,
    compare_all,
    compare_counts,
    compare_means,
    compare_shares,
    holm,
)
from agenteval.stats.rates import Estimand, Layout, Mean, clustered, rate_of
from agenteval.stats.score import SETTLED, Ratio
from agenteval.trial.call import Blame
from agenteval.trial.recovery import TrialRecovery
from agenteval.trial.run import Run
from agenteval.trial.summary import Pairing
from agenteval.trial.tally import Score, Tallies
from agenteval.trial.trial import Cluster, ErrorCounts

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
    from agenteval.stats import signature  # noqa: PLC0415 -- start-up: numpy

    return Pair(
        first.label,
        second.label,
        total,
        adjusted=1.0,
        kinds=signature.compare_kinds(first.errors, second.errors, seed=seed, layouts=layouts),
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


def pair_tables(view: View) -> tuple[Table, ...]:
    """Return each pair's figures and classes, then the distances of the kinds of all pairs.

    There are none if the view does not compare pairs.
    """
    tables: list[Table] = []
    if not view.compared:
        return ()
    for pair in view.pairs:
        tables.append(_figures(pair))
        if pair.classes:
            tables.append(_classes(pair))
    if any(pair.kinds for pair in view.pairs):
        tables.append(_kinds(view.pairs))
    return tuple(tables)


def _figures(pair: Pair) -> Table:
    rows = [
        row(figure.label, _figure(figure, figure.difference))
        for figure in pair.figures
        if figure.difference
    ]
    missing = [figure.label for figure in pair.figures if not figure.difference]
    why = "Not observable in counts" if pair.of_counts else "Nothing to count in one of the two"
    note = (
        f"{_how(pair)}: first minus second with 95 % interval, ratio, and p of no difference, not "
        f"corrected.{f' {why}: ' + ', '.join(missing) + '.' if missing else ''}"
    )
    return Table(
        f"{pair.first} against {pair.second}", note, _heads(pair, "ratio", "p"), tuple(rows)
    )


def _how(pair: Pair) -> str:
    if not pair.by_trial:
        return "Calls taken as independent"
    return "In the same worlds" if pair.difference.paired else "In worlds of their own"


def _figure(figure: Figure, difference: Difference | MeanDifference) -> tuple[Cell, ...]:
    if isinstance(difference, MeanDifference):
        first, second = _mean(difference.first), _mean(difference.second)
        return first, second, _gap(difference, 1), Cell("-"), _p(difference.p)
    shown = per_100 if figure.unit == "per 100" else share
    first, second = (shown(rate, own_n=True) for rate in (difference.first, difference.second))
    return first, second, _gap(difference, 100), _ratio(difference.ratio), _p(difference.p)


def _classes(pair: Pair) -> Table:
    rows = [
        row(
            one.id,
            (
                per_100(one.difference.first),
                per_100(one.difference.second),
                _gap(one.difference, 100),
                _p(one.difference.p),
                _p(one.adjusted),
            ),
        )
        for one in pair.classes
    ]
    note = (
        "Errors per 100 calls; first minus second; p of no difference, and "
        f"{after(pair.family_size)}; a class with fewer than five errors is no claim."
    )
    heads = _heads(pair, "p", "p adjusted")
    return Table(f"{pair.first} against {pair.second}, by class", note, heads, tuple(rows))


def _kinds(pairs: Sequence[Pair]) -> Table:
    rows = [
        row(
            f"{pair.first}, {pair.second}",
            (
                Cell(f"{kinds.distance:.2f}"),
                Cell(f"{kinds.by_chance:.2f}"),
                Cell(f"{kinds.divergence:.2f}"),
                Cell(f"{kinds.divergence_by_chance:.2f}"),
                Cell(f"{max(kinds.g_rate, 0):.2f} + {max(kinds.g_kind, 0):.2f}"),
                _p(kinds.p),
                _p(pair.kinds_adjusted),
            ),
        )
        for pair in pairs
        if (kinds := pair.kinds)
    ]
    names = ("total variation", "by chance", "Jensen-Shannon", "by chance")
    columns = (*names, "G-squared, rate + kind", "p of kind", "p adjusted")
    simulated = any(pair.simulated for pair in pairs)
    note = "How far apart two mixes of classes are; 0 is the same, 1 nothing in common."
    heads = tuple(head(name, simulated=simulated) for name in columns)
    return Table("Which kinds of errors", note, heads, tuple(rows))


def _heads(pair: Pair, *more: str) -> tuple[Head, ...]:
    first, second = (head(label, simulated=pair.simulated) for label in (pair.first, pair.second))
    return (first, second, head("difference"), *map(head, more))


def _mean(mean: Mean) -> Cell:
    return Cell(
        f"{mean.value:.2f}", str(mean.count), f"[{mean.low:.2f}, {mean.high:.2f}]", f"n={mean.n}"
    )


def _gap(difference: Difference | MeanDifference, scale: int) -> Cell:
    low, high = scale * difference.low, scale * difference.high
    return Cell(f"{scale * difference.value:+.2f}", interval=f"[{low:.1f}, {high:.1f}]")


def _ratio(ratio: Ratio) -> Cell:
    if isnan(ratio.value):
        return Cell("-")
    value, high = (f"{one:.2f}" if isfinite(one) else "∞" for one in (ratio.value, ratio.high))
    return Cell(value, interval=f"[{ratio.low:.2f}, {high}]")


def _p(p: float) -> Cell:
    return Cell(p_text(p).removeprefix("= "))


SEED: Final = 7  # of the exchanges that a p comes from
# What of a serving may make calls arrive otherwise, and what may make a model write otherwise.
ARRIVAL: Final = (
    "server",
    "tool parser",
    "reasoning parser",
    "tool calls",
    "tool choice",
    "replies",
)
WRITING: Final = ("quantization", "KV cache", "chat template", "sampling", "reasoning", "context")
SAYS: Final = "server says: "


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure of both stacks; `arrival` if it is about the form in which calls arrived."""

    name: str
    difference: Difference
    adjusted: float
    arrival: bool

    @property
    def line(self) -> str:
        first, second = self.difference.first, self.difference.second
        gap = f"{100 * self.difference.value:+.2f}"
        low, high = 100 * self.difference.low, 100 * self.difference.high
        return (
            f"{self.name}: {100 * first.value:.2f} and {100 * second.value:.2f} per 100 calls, "
            f"{gap} [{low:.2f}, {high:.2f}], n={first.n} and {second.n}, p {self.adjusted:.3g}"
        )


def stack_lines(runs: tuple[Run, Run], view: View) -> Iterator[str]:
    """Yield the lines of a comparison of two runs of one model; `view` has the comparison."""
    facts = [dict(model_facts(run.model)) for run in runs]
    (pair,) = view.pairs or (None,)
    labels = [run.label for run in view.runs] or [run.id for run in runs]
    yield f"{runs[0].id} and {runs[1].id}: {' and '.join(labels)}"
    yield from _parameters(runs)
    unlike = [name for name in _names(facts) if len({one.get(name) for one in facts}) > 1]
    yield from _differing(facts, unlike)
    if pair is None or pair.silent:
        yield "One of the two made no call where both were played: nothing to compare."
        return
    measured = list(_measured(runs, pair))
    yield "What came out otherwise, p after Holm for all of these lines:"
    yield from (f"  {one.line}" for one in measured)
    yield from _pointing(measured, unlike)


def _names(facts: Sequence[dict[str, str]]) -> Sequence[str]:
    return list(dict.fromkeys(name for one in facts for name in one))


def _parameters(runs: tuple[Run, Run]) -> Iterator[str]:
    first, second = (run.model.served_id for run in runs)
    if first != second:
        yield (
            f"They are called {first} and {second}: whether the weights are the same, "
            "you must know."
        )


def _differing(facts: Sequence[dict[str, str]], unlike: Sequence[str]) -> Iterator[str]:
    if unlike:
        yield "They are known to differ in:"
        for name in unlike:
            yield f"  {name}: {' | '.join(one.get(name, 'not told') for one in facts)}"
    else:
        yield "They are not known to differ in anything."
    alike = [name for name in _names(facts) if name not in unlike]
    yield f"Alike: {', '.join(alike) or 'nothing that is known'}."
    known = {name.removeprefix(SAYS) for name in _names(facts)}
    if silent := [name for name in (*ARRIVAL, *WRITING) if name not in known]:
        yield f"Told by neither: {', '.join(silent)}."


def _measured(runs: tuple[Run, Run], pair: Pair) -> Iterator[Measured]:
    """Yield rates of malformed calls, by layer to blame, and of failure classes.

    Their p are adjusted as one family.
    """
    arrivals = [arrived(Tallies.of(run.trials), FAULTS) for run in runs]
    differences: list[tuple[str, Difference, bool]] = []
    if all(any(one.faulty.calls) for one in arrivals):
        differences += [
            (name, differences, True) for name, differences in _arrivals(arrivals[0], arrivals[1])
        ]
    differences += [("errors, of any class", pair.difference, False)]
    differences += [(one.id, one.difference, False) for one in pair.classes]
    adjusted = holm([difference.p for _, difference, _ in differences])
    for (name, difference, arrival), p in zip(differences, adjusted, strict=True):
        yield Measured(name, difference, p, arrival)


def _arrivals(first: Arrived, second: Arrived) -> Iterator[tuple[str, Difference]]:
    faulty = (each.faulty.clusters(FAULTY) for each in (first, second))
    yield "calls that came broken", compare(*faulty, seed=SEED)
    for blame in Blame:
        columns = [each.blames.clusters(blame) for each in (first, second)]
        if any(count for column in columns for count, _ in column):
            yield f"broken by {blame}", compare(*columns, seed=SEED)


def _pointing(measured: Sequence[Measured], unlike: Sequence[str]) -> Iterator[str]:
    settled = [one for one in measured if one.adjusted < SETTLED]
    if not settled:
        yield "Where it points: nowhere yet, for no difference is settled."
        return
    came = [one.name for one in settled if one.arrival and one.name != f"broken by {Blame.MODEL}"]
    wrote = [one.name for one in settled if one.name not in came]
    for names, layer, facts in (
        (came, "the way of a reply through the server: its parser, template or version", ARRIVAL),
        (wrote, "what the model was made to write: weights as served, prompt, sampling", WRITING),
    ):
        if names:
            differ = [one for one in unlike if one.removeprefix(SAYS) in facts]
            known = f"of that is known to differ: {', '.join(differ)}" if differ else (
                "nothing of that is known to differ: look at what was not told"
            )  # fmt: skip
            yield f"Where it points ({', '.join(names)}): {layer}; {known}."
