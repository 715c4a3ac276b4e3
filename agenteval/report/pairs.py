"""Comparisons of every two models of a view, paired where they met the same task instances.

`pairs_of` computes them and `pair_tables` draws them. `stack_lines` compares one model on two
serving stacks: what differs, and the layer that it points at.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, combinations
from math import inf, isfinite, isnan, nan
from operator import attrgetter
from typing import TypedDict

from agenteval.report.provenance import model_facts
from agenteval.report.sentences import Side, after, compared, p_text, played, scope
from agenteval.report.tables import (
    FAULTY,
    NOTHING,
    Cell,
    Head,
    Table,
    arrived,
    head,
    own_per_100,
    own_share,
    per_100,
    row,
    titled_table,
)
from agenteval.report.view import ClassPair, Figure, Pair, Unit, View
from agenteval.stats.comparison import (
    Difference,
    Layouts,
    MeanDifference,
    compare,
    compare_all,
    compare_counts,
    compare_means,
    compare_shares,
)
from agenteval.stats.limits import holm
from agenteval.stats.rates import Estimand, Layout, Mean, clustered, rate_of
from agenteval.stats.score import SETTLED, Ratio
from agenteval.trial.call import Blame
from agenteval.trial.recovery import TrialRecovery
from agenteval.trial.run import Run
from agenteval.trial.summary import Pairing, TrialSummary
from agenteval.trial.tally import Score, Tallies
from agenteval.trial.trial import Cluster, ErrorCounts

_CALLED, _PER_TRIAL = "errors per 100 calls", "errors per trial"
_WITH_DENIAL = "trials with a denial"
COMPLETED = "trials completed"
HANDSHAKE = "handshakes completed"
RECOVERED = "recovered in the next turn"


def _next_turn(trial: TrialRecovery) -> Cluster:
    """Return how many denials were recovered from in the next turn, of those that could be."""
    denials = trial.answerable
    return sum(denial.turns == 1 for denial in denials), len(denials)


def _ever(trial: TrialRecovery) -> Cluster:
    denials = trial.answerable
    return sum(denial.turns is not None for denial in denials), len(denials)


# Of each trial: how many, out of how many.
_OF_RECOVERY: Mapping[str, Callable[[TrialRecovery], Cluster]] = {
    RECOVERED: _next_turn,
    "recovered ever": _ever,
    "turns burned on denials": attrgetter("turns_burned"),
    "denied after a denial": attrgetter("after_denied"),
    "denied after none": attrgetter("after_allowed"),
}
_FIGURES = (_CALLED, _PER_TRIAL, _WITH_DENIAL, COMPLETED, HANDSHAKE, *_OF_RECOVERY)


class _CompareOptions(TypedDict):
    """The options of a comparison; with `paired`, equal positions have one task instance."""

    seed: int
    paired: bool
    layouts: Layouts


def _figures_of(
    first: Side,
    second: Side,
    total: Difference | None,
    how: _CompareOptions,
) -> tuple[Figure, ...]:
    """Return all figures; the trials of paired sides are in the order of their task instances.

    Without a `total`, as one side made no call, only outcomes are compared.
    """
    gaps: dict[str, Difference | MeanDifference | None] = dict.fromkeys(_FIGURES)
    gaps[_CALLED] = total
    if total and first.errors.by_trial and second.errors.by_trial:
        columns = first.errors.total(), second.errors.total()
        denied = [[errors > 0 for errors, _ in column] for column in columns]
        gaps[_PER_TRIAL] = compare_means(*columns, **how)
        gaps[_WITH_DENIAL] = compare_shares(*denied, **how)
    if first.score and second.score:
        scores = first.score, second.score
        observed = [score.observed for score in scores]
        asked = [[trial for trial in score.counted if trial.handshake] for score in scores]
        gaps[COMPLETED] = _shares(observed, attrgetter("completed"), how)
        gaps[HANDSHAKE] = _shares(asked, _is_through, how)
        if total:
            gaps |= _recoveries(scores, how)
    units: dict[str, Unit] = {_CALLED: "per 100", _PER_TRIAL: "mean"}
    return tuple(Figure(label, units.get(label, "share"), gap) for label, gap in gaps.items())


def _is_through(trial: TrialSummary) -> bool:
    return trial.depth == len(trial.handshake)


def _shares(
    trials: Sequence[Sequence[TrialSummary]],
    counts: Callable[[TrialSummary], bool],
    how: _CompareOptions,
) -> Difference | None:
    """Compare the shares of both sides' trials for which `counts` is true."""
    first, second = trials
    if not first or not second:
        return None
    about = how["layouts"][0].estimand
    return compare_shares(
        [*map(counts, first)],
        [*map(counts, second)],
        paired=how["paired"] and len(first) == len(second),
        layouts=(Layout(about, played(first)), Layout(about, played(second))),
        seed=how["seed"],
    )


def _recoveries(scores: Sequence[Score], how: _CompareOptions) -> Mapping[str, Difference]:
    """Return the differences in recovery for which both sides have data."""
    columns = {}
    for name, cluster_of in _OF_RECOVERY.items():
        both = [[*map(cluster_of, score.recoveries)] for score in scores]
        if all(any(size for _, size in column) for column in both):
            columns[name] = both
    if not columns:
        return {}
    first, second = zip(*columns.values(), strict=True)
    return dict(zip(columns, compare_all(first, second, **how), strict=True))


def pairs_of(
    sides: Sequence[Side],
    about: Estimand,
    *,
    seed: int,
) -> tuple[Pair, ...]:
    """Return all pairs that have calls or outcomes to compare, with p not adjusted yet."""
    pairs = []
    for both in combinations(sides, 2):
        first, second, pairing = compared(*both)
        scores = first.score, second.score
        if _have_calls(first, second) or all(score and score.counted for score in scores):
            pairs.append(_pair(first, second, pairing, about, seed))
    return tuple(pairs)


def _have_calls(first: Side, second: Side) -> bool:
    return any(first.errors.calls) and any(second.errors.calls)


def unlike(sides: Sequence[Side]) -> Iterator[str]:
    """Yield a line for each pair that has no scenario in common."""
    for first, second in combinations(sides, 2):
        _, _, pairing = compared(first, second)
        if not pairing.alike:
            both = f"{first.label} and {second.label}"
            yield f"{both} have no scenario in common: what they differ by may come of these alone."


def _pair(
    first: Side,
    second: Side,
    pairing: Pairing,
    about: Estimand,
    seed: int,
) -> Pair:
    """Return the pair of two sides that were cut to the compared trials.

    Without calls of both, only outcomes are compared.
    """
    layouts = first.layout(about), second.layout(about)
    how = _CompareOptions(seed=seed, paired=pairing.paired, layouts=layouts)
    has_calls = _have_calls(first, second)
    classes: list[ClassPair] = []
    kinds = None
    total = _unknown_difference(first, second, how)
    if has_calls:
        from agenteval.stats import signature  # noqa: PLC0415 -- start-up: numpy

        errors = first.errors, second.errors
        names = sorted({*first.errors.by_class, *second.errors.by_class})
        total, *by_class = _differences(*errors, names, how)
        classes = [*map(ClassPair, names, by_class)]
        kinds = signature.compare_kinds(*errors, seed=seed, layouts=layouts)
    return Pair(
        first.label,
        second.label,
        total,
        kinds,
        errors=(sum(first.errors.errors), sum(second.errors.errors)),
        figures=_figures_of(first, second, total if has_calls else None, how),
        classes=tuple(classes),
        by_trial=not has_calls or (first.errors.by_trial and second.errors.by_trial),
        of_counts=has_calls and not (first.run and second.run),
        simulated=first.card.simulated or second.card.simulated,
        left_out=pairing.left_out,
        scope=scope((first, second), about),
    )


def _unknown_difference(first: Side, second: Side, how: _CompareOptions) -> Difference:
    layout, other_layout = how["layouts"]
    return Difference(
        clustered(first.errors.total(), layout),
        clustered(second.errors.total(), other_layout),
        low=-1.0,
        high=1.0,
        ratio=Ratio(nan, 0.0, inf),
        p=1.0,
        paired=how["paired"],
        effect=1.0,
    )


def _differences(
    first: ErrorCounts,
    second: ErrorCounts,
    classes: Sequence[str],
    how: _CompareOptions,
) -> list[Difference]:
    """Return the difference in total, then in each of the classes."""
    columns = [first.total(), *map(first.clusters, classes)]
    other_columns = [second.total(), *map(second.clusters, classes)]
    if first.by_trial and second.by_trial:
        return compare_all(columns, other_columns, **how)
    layout, other_layout = how["layouts"]
    differences = []
    for column, other_column in zip(columns, other_columns, strict=True):
        rate = rate_of(column, layout, by_trial=first.by_trial)
        other_rate = rate_of(
            other_column,
            other_layout,
            by_trial=second.by_trial,
        )
        differences.append(compare_counts(rate, other_rate))
    return differences


# The tables of two models side by side, and of the kinds of errors of all pairs.


def pair_tables(view: View) -> Iterator[Table]:
    """Yield each pair's figures and classes, then the distances of the kinds of all pairs.

    There are none if the view does not compare pairs.
    """
    pairs = view.pairs if view.compared else ()
    for pair in pairs:
        yield _figures(pair)
        if pair.classes:
            yield _classes(pair)
    if any(pair.kinds for pair in pairs):
        yield _kinds(pairs)


def _figures(pair: Pair) -> Table:
    rows = []
    missing = []
    for figure in pair.figures:
        if figure.difference:
            rows.append(row(figure.label, _cells(figure.unit, figure.difference)))
        else:
            missing.append(figure.label)
    why = "Not observable in counts" if pair.of_counts else "Nothing to count in one of the two"
    basis = "In the same worlds" if pair.difference.paired else "In worlds of their own"
    return titled_table(
        "pair",
        _heads(pair, "ratio", "p"),
        rows,
        pair=pair,
        basis=basis if pair.by_trial else "Calls taken as independent",
        missing=f" {why}: {', '.join(missing)}." if missing else "",
    )


def _cells(unit: Unit, difference: Difference | MeanDifference) -> tuple[Cell, ...]:
    p = _p(difference.p)
    if isinstance(difference, MeanDifference):
        first, second = _mean(difference.first), _mean(difference.second)
        return first, second, _gap(difference, 1), NOTHING, p
    cell = own_per_100 if unit == "per 100" else own_share
    return (
        cell(difference.first),
        cell(difference.second),
        _gap(difference, 100),
        _ratio(difference.ratio),
        p,
    )


def _classes(pair: Pair) -> Table:
    rows = []
    for of_class in pair.classes:
        difference = of_class.difference
        cells = (
            per_100(difference.first),
            per_100(difference.second),
            _gap(difference, 100),
            _p(difference.p),
            _p(of_class.adjusted),
        )
        rows.append(row(of_class.label, cells))
    correction = after(pair.family_size)
    heads = _heads(pair, "p", "p adjusted")
    return titled_table(
        "pair-classes",
        heads,
        rows,
        pair=pair,
        correction=correction,
    )


def _kinds(pairs: Sequence[Pair]) -> Table:
    rows = []
    for pair in pairs:
        if kinds := pair.kinds:
            cells = (
                Cell(f"{kinds.distance:.2f}"),
                Cell(f"{kinds.by_chance:.2f}"),
                Cell(f"{kinds.divergence:.2f}"),
                Cell(f"{kinds.divergence_by_chance:.2f}"),
                Cell(f"{max(kinds.g_rate, 0):.2f} + {max(kinds.g_kind, 0):.2f}"),
                _p(kinds.p),
                _p(pair.kinds_adjusted),
            )
            rows.append(row(f"{pair.first}, {pair.second}", cells))
    names = ("total variation", "by chance", "Jensen-Shannon", "by chance")
    columns = (*names, "G-squared, rate + kind", "p of kind", "p adjusted")
    simulated = any(pair.simulated for pair in pairs)
    return titled_table("kinds", (head(name, simulated=simulated) for name in columns), rows)


def _heads(pair: Pair, *more: str) -> tuple[Head, ...]:
    return (
        head(pair.first, simulated=pair.simulated),
        head(pair.second, simulated=pair.simulated),
        head("difference"),
        *map(head, more),
    )


def _mean(mean: Mean) -> Cell:
    interval = f"[{mean.low:.2f}, {mean.high:.2f}]"
    return Cell(f"{mean.value:.2f}", str(mean.count), interval, f"n={mean.n}")


def _gap(difference: Difference | MeanDifference, scale: int) -> Cell:
    low, high = scale * difference.low, scale * difference.high
    return Cell(f"{scale * difference.value:+.2f}", interval=f"[{low:.1f}, {high:.1f}]")


def _ratio(ratio: Ratio) -> Cell:
    if isnan(ratio.value):
        return NOTHING
    interval = f"[{ratio.low:.2f}, {_finite(ratio.high)}]"
    return Cell(_finite(ratio.value), interval=interval)


def _finite(value: float) -> str:
    return f"{value:.2f}" if isfinite(value) else "∞"


def _p(p: float) -> Cell:
    return Cell(p_text(p).removeprefix("= "))


# One model on two serving stacks.

_SEED = 7  # of the exchanges that a p comes from
# What of a serving may make calls arrive otherwise, and what may make a model write otherwise.
_ARRIVAL = ("server", "tool parser", "reasoning parser", "tool calls", "tool choice", "replies")
_WRITING = ("quantization", "KV cache", "chat template", "sampling", "reasoning", "context")
_SAYS = "server says: "


def stack_lines(runs: tuple[Run, Run], view: View) -> Iterator[str]:
    """Yield the lines of a comparison of two runs of one model; `view` has the comparison."""
    facts = [model_facts(run.model) for run in runs]
    (pair,) = view.pairs or (None,)
    labels = [run.label for run in view.runs] or [run.id for run in runs]
    yield f"{runs[0].id} and {runs[1].id}: {' and '.join(labels)}"
    first, second = (run.model.served_id for run in runs)
    if first != second:
        yield (
            f"They are called {first} and {second}: whether the weights are the same, "
            "you must know."
        )
    names = dict.fromkeys(chain.from_iterable(facts))
    unlike = [name for name in names if facts[0].get(name) != facts[1].get(name)]
    yield from _differing(facts, names, unlike)
    if pair is None or pair.silent:
        yield "One of the two made no call where both were played: nothing to compare."
        return
    arrivals = _arrivals(runs)
    written = {"errors, of any class": pair.difference}
    written |= {of_class.label: of_class.difference for of_class in pair.classes}
    gaps = arrivals | written
    adjusted = holm([gap.p for gap in gaps.values()])
    yield "What came out otherwise, p after Holm for all of these lines:"
    settled = []
    for (name, gap), p in zip(gaps.items(), adjusted, strict=True):
        yield f"  {_gap_line(name, gap, p)}"
        if p < SETTLED:
            settled.append(name)
    yield from _pointing(settled, arrivals, unlike)


def _differing(
    facts: Sequence[Mapping[str, str]],
    names: Collection[str],
    unlike: Sequence[str],
) -> Iterator[str]:
    if unlike:
        yield "They are known to differ in:"
        for name in unlike:
            yield f"  {name}: {' | '.join(of_run.get(name, 'not told') for of_run in facts)}"
    else:
        yield "They are not known to differ in anything."
    alike = [name for name in names if name not in unlike]
    yield f"Alike: {', '.join(alike) or 'nothing that is known'}."
    known = {name.removeprefix(_SAYS) for name in names}
    if silent := [name for name in (*_ARRIVAL, *_WRITING) if name not in known]:
        yield f"Told by neither: {', '.join(silent)}."


def _arrivals(runs: tuple[Run, Run]) -> dict[str, Difference]:
    """Return the differences in malformed calls, in all and by layer to blame."""
    first, second = (arrived(Tallies.of(run.trials).counted) for run in runs)
    if not (any(first.faulty.calls) and any(second.faulty.calls)):
        return {}
    faulty = (side.faulty.clusters(FAULTY) for side in (first, second))
    gaps = {"calls that came broken": compare(*faulty, seed=_SEED)}
    for blame in Blame:
        columns = [side.blames.clusters(blame) for side in (first, second)]
        if any(count for count, _ in chain(*columns)):
            gaps[f"broken by {blame}"] = compare(*columns, seed=_SEED)
    return gaps


def _gap_line(name: str, gap: Difference, p: float) -> str:
    first, second = gap.first, gap.second
    low, high = 100 * gap.low, 100 * gap.high
    return (
        f"{name}: {100 * first.value:.2f} and {100 * second.value:.2f} per 100 calls, "
        f"{100 * gap.value:+.2f} [{low:.2f}, {high:.2f}], n={first.n} and {second.n}, p {p:.3g}"
    )


def _pointing(
    settled: Sequence[str],
    arrivals: Collection[str],
    unlike: Sequence[str],
) -> Iterator[str]:
    """Yield the layers that settled differences point at; what a model breaks, it wrote."""
    if not settled:
        yield "Where it points: nowhere yet, for no difference is settled."
    # Calls that the model itself broke came as it wrote them: the server is not to blame.
    of_model = f"broken by {Blame.MODEL}"
    came = [name for name in settled if name in arrivals and name != of_model]
    wrote = [name for name in settled if name not in came]
    for names, layer, facts in (
        (came, "the way of a reply through the server: its parser, template or version", _ARRIVAL),
        (wrote, "what the model was made to write: weights as served, prompt, sampling", _WRITING),
    ):
        differ = [name for name in unlike if name.removeprefix(_SAYS) in facts]
        clause = "nothing of that is known to differ: look at what was not told"
        if differ:
            clause = f"of that is known to differ: {', '.join(differ)}"
        if names:
            yield f"Where it points ({', '.join(names)}): {layer}; {clause}."
