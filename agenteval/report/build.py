"""The builders of a view: of runs, of counts without runs, or of pairs to be compared.

All p of a view are adjusted as one family before any sentence is written, so that each sentence
can say what is settled. The sentences of a comparison, and the last lines of every report, are
here too.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from agenteval.classes.catalogue import failure_classes
from agenteval.report.figures import recovery_figures
from agenteval.report.pairs import COMPLETED, HANDSHAKE, RECOVERED, pairs_of, unlike
from agenteval.report.provenance import warnings
from agenteval.report.sentences import (
    EQUAL,
    OPEN,
    SURE,
    VOID_BUDGET,
    Side,
    after,
    basis,
    caveats,
    count_sentences,
    groups_of,
    lead,
    more_needed,
    new_run,
    p_text,
    p_told,
    played,
    scope,
    scoped,
    sentences,
)
from agenteval.report.tables import arrivals_of, counted, void_of, with_voids
from agenteval.report.view import (
    ClassText,
    Errors,
    Groups,
    Handshake,
    Pair,
    RunView,
    ScenarioView,
    View,
)
from agenteval.stats.comparison import Difference, ModelsDifference
from agenteval.stats.limits import holm
from agenteval.stats.rates import (
    Estimand,
    Layout,
    Rate,
    clustered,
    pass_all,
    pass_any,
    rate_of,
    share_of,
)
from agenteval.stats.score import SETTLED
from agenteval.trial.call import Outcome
from agenteval.trial.run import Conditions, ModelCard, Run, distinctions
from agenteval.trial.summary import TrialSummary
from agenteval.trial.tally import Funnel, Score, executions
from agenteval.trial.trial import Cluster, ErrorCounts, influence

# Which differences are significant, and the sentences of a comparison.


@dataclass(frozen=True, slots=True)
class _Words:
    """The words for a figure: the verb if it is significant, the verb if not, and the unit of n."""

    does: str
    did: str
    of: str


_WORDS = {
    COMPLETED: _Words("completes more trials", "completed more trials", "trials"),
    HANDSHAKE: _Words(
        "completes more handshakes", "completed more handshakes", "trials with a handshake"
    ),
    RECOVERED: _Words(
        "recovers more often in the turn after a denial",
        "recovered more often in the turn after a denial",
        "denials",
    ),
}

Claim = tuple[int, str]  # of which pair, and what; -1 is of no pair
NUMBER, KINDS, ARCHITECTURES = "number", "kinds", "architectures"
FEWEST = 5  # errors of a class: fewer settle nothing, whoever made them


def _as_one_family(view: View) -> View:
    """Adjust the p of all claims together, to bound the family-wise error rate of a report.

    A claim is anything that a sentence of this view can report as Settled.
    """
    claims = dict(_claims(view))
    adjusted = dict(zip(claims, holm(list(claims.values())), strict=True))
    family_size = len(claims)
    pairs = tuple(_adjusted(pair, at, adjusted, family_size) for at, pair in enumerate(view.pairs))
    groups = view.groups and replace(
        view.groups, adjusted=adjusted.get((-1, ARCHITECTURES), 1.0), family_size=family_size
    )
    return replace(view, pairs=pairs, groups=groups)


def _claims(view: View) -> Iterator[tuple[Claim, float]]:
    for at, pair in enumerate(view.pairs):
        if not pair.silent:
            yield (at, NUMBER), pair.difference.p
        if pair.kinds:
            yield (at, KINDS), pair.kinds.p
        for one in pair.classes if view.compared else ():
            if one.difference.first.count + one.difference.second.count >= FEWEST:
                yield (at, f"class {one.id}"), one.difference.p
        for label in _WORDS if view.compared else (COMPLETED,):
            if figure := _figure(pair, label):
                yield (at, label), figure.p
    if view.groups and view.groups.others:
        yield (-1, ARCHITECTURES), view.groups.others.p


def _adjusted(pair: Pair, at: int, adjusted: Mapping[Claim, float], family_size: int) -> Pair:
    return replace(
        pair,
        adjusted=adjusted.get((at, NUMBER), 1.0),
        kinds_adjusted=adjusted.get((at, KINDS), 1.0),
        classes=tuple(
            replace(one, adjusted=adjusted.get((at, f"class {one.id}"), 1.0))
            for one in pair.classes
        ),
        figures=tuple(replace(one, adjusted=adjusted.get((at, one.label))) for one in pair.figures),
        family_size=family_size,
    )


def _compared_sentences(view: View) -> tuple[str, ...]:
    """Return the sentences: number and kinds of errors, classes, outcomes, then architectures."""
    by_class = [_classes(pair) for pair in view.pairs if pair.classes]
    groups = _groups(view.groups) if view.groups else []
    lines = (*count_sentences(view.pairs), *by_class, *_figures(view.pairs), *groups)
    return (*lines, *new_run(view.pairs))


def _classes(pair: Pair) -> str:
    settled = [one for one in pair.classes if one.adjusted < SETTLED]
    both, class_count = (
        f"{pair.first} and {pair.second}",
        counted(len(pair.classes), "class", "classes"),
    )
    if not settled:
        least = min(one.adjusted for one in pair.classes)
        return (
            f"{scoped(OPEN, pair.scope)}: whether {both} differ in any single one of {class_count} "
            f"of errors; the smallest p is {p_text(least).removeprefix('= ')} "
            f"{after(pair.family_size)}. One class takes more calls than all together."
        )
    settled_lines = [
        f"{one.id} {100 * one.difference.first.value:.2f} against "
        f"{100 * one.difference.second.value:.2f} per 100 calls (p {p_text(one.adjusted)})"
        for one in settled
    ]
    return (
        f"{scoped(SURE, pair.scope)}: {both} differ in {len(settled)} of {class_count} of errors, "
        f"each p {after(pair.family_size)}: {'; '.join(settled_lines)}."
    )


def _figures(pairs: tuple[Pair, ...]) -> list[str]:
    """Return one sentence for each figure and pair."""
    return [
        _figure_sentence(pair, figure.difference, words, figure.adjusted)
        for label, words in _WORDS.items()
        for pair in pairs
        for figure in pair.figures
        if figure.label == label
        and isinstance(figure.difference, Difference)
        and figure.adjusted is not None
    ]


def _figure(pair: Pair, label: str) -> Difference | None:
    difference = next(one.difference for one in pair.figures if one.label == label)
    return difference if isinstance(difference, Difference) else None


def _figure_sentence(pair: Pair, figure: Difference, words: _Words, adjusted: float) -> str:
    if not figure.value:
        return (
            f"{scoped(EQUAL, pair.scope)}: neither {pair.first} nor {pair.second} {words.did} "
            f"than the other, {figure.first} each."
            f"{more_needed(figure, pair, adjusted, of=words.of)}"
        )
    more, less, rates, low, high = (
        (pair.first, pair.second, (figure.first, figure.second), figure.low, figure.high)
        if figure.value > 0
        else (pair.second, pair.first, (figure.second, figure.first), -figure.high, -figure.low)
    )
    same = " in the same worlds" if figure.paired else ""
    return (
        f"{lead(figure.p, adjusted, pair.scope)}: {more} "
        f"{words.does if adjusted < SETTLED else words.did} than {less}, "
        f"{rates[0]} against {rates[1]}{same}: {100 * abs(figure.value):.1f} points more "
        f"[{100 * low:.1f}, {100 * high:.1f}]; {p_told(figure.p, adjusted, pair.family_size)}."
        f"{more_needed(figure, pair, adjusted, of=words.of)}"
    )


def _groups(groups: Groups) -> list[str]:
    """Return sentences on each model, on the means of models, and on models in general."""
    means = [fmean(rate.value for _, rate in of) for of in groups.models]
    lines = [
        f"{name} models make {', '.join(f'{_per_100(rate)} ({model})' for model, rate in of)}, "
        f"{100 * mean:.2f} on average of {counted(len(of), 'model')} weighted alike"
        for name, of, mean in zip((groups.first, groups.second), groups.models, means, strict=True)
    ]
    rates = f"Errors per 100 calls by architecture: {'; '.join(lines)}."
    n_first, n_second = map(len, groups.models)
    if groups.others is None:
        few = (
            f"This is about these models only: with {n_first} against {n_second} nothing is said "
            f"of {groups.first} and {groups.second} models."
        )
        return [f"{rates} {few}"]
    return [rates, _others(groups, groups.others)]


def _others(groups: Groups, gap: ModelsDifference) -> str:
    n_first, n_second = map(len, groups.models)
    claim = f"{groups.first} and {groups.second} models in general differ in their errors"
    settled = groups.adjusted < SETTLED
    more = "" if settled else " Only more models can settle it."
    return (
        f"{lead(gap.p, groups.adjusted, '')}: {'' if settled else 'whether '}{claim}, each model "
        f"one draw: {100 * gap.value:+.2f} [{100 * gap.low:.1f}, {100 * gap.high:.1f}] per 100 "
        f"calls; {p_told(gap.p, groups.adjusted, groups.family_size)}; n={n_first} and {n_second} "
        f"models.{more}"
    )


def _per_100(rate: Rate) -> str:
    return f"{100 * rate.value:.2f} {rate.percent}"


# The last lines of a report: goals reached, fewer errors, and what is not known.

MORE_GOALS, FEWER_ERRORS = "reaches its goal more often than", "makes fewer errors than"


def _in_short(view: View) -> tuple[str, ...]:
    """Return plain sentences: each model's goals and errors, then who is better, then unknowns.

    A difference of two models is that of their comparison. It is known if it is significant after
    correction for all claims of the report.
    """
    lines = [_of_model(run) for run in view.runs]
    goals = [gap for gap in map(_goal_gap, view.pairs) if gap]
    errors = [_error_gap(pair) for pair in view.pairs]
    lines += _better(MORE_GOALS, "more of 100 trials", goals)
    lines += _better(FEWER_ERRORS, "fewer per 100 calls", errors)
    if view.simulated:
        lines.append(
            "Simulated: these figures say that the tool works, and nothing of a real model."
        )
    return tuple(lines)


@dataclass(frozen=True, slots=True)
class _Gap:
    """The difference of a pair, positive where the first is better, with its adjusted p."""

    pair: Pair
    by: float
    low: float
    high: float
    adjusted: float

    @property
    def is_settled(self) -> bool:
        return self.adjusted < SETTLED and self.by != 0


def _goal_gap(pair: Pair) -> _Gap | None:
    figure = next((figure for figure in pair.figures if figure.label == COMPLETED), None)
    if figure is None or not isinstance(figure.difference, Difference):
        return None
    gap = figure.difference
    adjusted = 1.0 if figure.adjusted is None else figure.adjusted
    return _Gap(pair, gap.value, gap.low, gap.high, adjusted)


def _error_gap(pair: Pair) -> _Gap:
    gap = pair.difference
    return _Gap(pair, -gap.value, -gap.high, -gap.low, pair.adjusted)


def _better(does: str, unit: str, gaps: Sequence[_Gap]) -> Iterator[str]:
    """Yield a line for each significant difference, then one for all that are not."""
    for gap in gaps:
        if gap.is_settled:
            yield _settled_line(gap, does, unit)
    unknown = [f"{gap.pair.first} and {gap.pair.second}" for gap in gaps if not gap.is_settled]
    if unknown:
        who = does.removesuffix(" than").replace("reaches its", "reaches the")
        pairs = "" if len(unknown) == len(gaps) else f", of {'; of '.join(unknown)}"
        yield f"Not known: who {who}{pairs}."


def _settled_line(gap: _Gap, does: str, unit: str) -> str:
    pair = gap.pair
    better, worse, low, high = pair.first, pair.second, gap.low, gap.high
    if gap.by < 0:
        better, worse, low, high = pair.second, pair.first, -gap.high, -gap.low
    same = ""
    if any(pair.left_out):
        same = " in what both played"
        if pair.difference.paired:
            same = " where both met the same worlds"
    return (
        f"{better} {does} {worse}: {100 * abs(gap.by):.0f} {unit} "
        f"({100 * low:.0f} to {100 * high:.0f}){same}."
    )


def _of_model(view: RunView) -> str:
    goals = dict(view.outcomes)[Outcome.COMPLETED]
    errors = view.errors.total
    if not view.score.counted:
        return f"{view.label}: no trial counts, nothing is known."
    voids = ""
    if view.score.void_share > VOID_BUDGET:  # more than a gate usually passes
        voids = f"; {void_of(len(view.score.voids), view.played)} and left out"
    line = f"{view.label}: whether goals were reached is not observable in logs"
    if goals.n:
        line = (
            f"{view.label} reached its goal in {goals.count} of {counted(goals.n, 'trial')} "
            f"({100 * goals.low:.0f} to {100 * goals.high:.0f} %{voids})"
        )
    if not errors.n:
        return f"{line}, and made no tool call."
    return (
        f"{line}, with {100 * errors.value:.1f} errors per 100 tool calls "
        f"({100 * errors.low:.1f} to {100 * errors.high:.1f})."
    )


# The view.

TITLE = "Tool-call errors by failure class"
REPEATS = 3  # the k of pass^k and pass@k: few enough for the usual five trials
Fold = Mapping[str, str]  # class to row of a coarser taxonomy, in the order of its rows


def build_view(
    runs: Sequence[Run | Side],
    *,
    classes: Sequence[ClassText] = (),
    fold: Fold | None = None,
    about: Estimand = Estimand.THESE,
) -> View:
    """Return the view of these runs, in their order.

    `classes` gives the rows their order and text; an observed class that is not listed comes after
    them. `fold` replaces them by the rows of a coarser taxonomy.
    """
    sides = [Side.of_run(run) if isinstance(run, Run) else run for run in runs]
    view = _as_one_family(_view(sides, classes, fold, about))
    return _with_lines(view, sentences(view.runs, view.pairs))


def build_counts_view(
    title: str,
    models: Mapping[str, ErrorCounts],
    *,
    classes: Sequence[ClassText] = (),
    fold: Fold | None = None,
) -> View:
    """Return the view of counts without runs, such as a published table."""
    sides = [Side.of_counts(ModelCard(name, name), counts) for name, counts in models.items()]
    view = replace(_view(sides, classes, fold, Estimand.THESE), title=title)
    view = _as_one_family(view)
    return _with_lines(view, (*count_sentences(view.pairs), *new_run(view.pairs)))


def build_comparison(
    sides: Sequence[Side],
    *,
    classes: Sequence[ClassText] = (),
    fold: Fold | None = None,
    about: Estimand = Estimand.THESE,
) -> View:
    """Return the view that compares pairs: of runs, of counts, or of both."""
    view = _view(sides, classes, fold, about)
    view = replace(view, groups=groups_of(sides, about), compared=True)
    view = _as_one_family(view)
    return _with_lines(view, _compared_sentences(view))


def _with_lines(view: View, lines: Sequence[str]) -> View:
    return replace(view, sentences=(*caveats(view), *lines), short=_in_short(view))


def _view(
    sides: Sequence[Side], classes: Sequence[ClassText], fold: Fold | None, about: Estimand
) -> View:
    labelled = [
        replace(side, label=label, errors=side.errors if fold is None else side.errors.folded(fold))
        for side, label in zip(sides, _labels(sides), strict=True)
    ]
    rows = _rows([side.errors for side in labelled], classes, fold)
    models = tuple(_errors(side, rows, about) for side in labelled)
    ends = {end for side in labelled if side.score for end in side.score.outcomes}
    views = tuple(
        _run_view(side, errors, about, ends)
        for side, errors in zip(labelled, models, strict=True)
        if side.run
    )
    return View(
        title=_title(sides, scope(sides, about)),
        folded=fold is not None,
        rows=rows,
        models=models,
        pairs=pairs_of(labelled, about, seed=_seed(sides)),
        warnings=(*warnings(labelled, views), *unlike(labelled)),
        sentences=(),
        runs=views,
        about=about,
        basis=basis(sides, about),
    )


def _seed(sides: Sequence[Side]) -> int:
    return next((side.run.seed for side in sides if side.run), 0)


def _labels(sides: Sequence[Side]) -> list[str]:
    """Return a label for each side: the model's name, or what distinguishes its runs.

    Where there are other models too, the label has both.
    """
    names = [side.label for side in sides]
    labels = list(names)
    for name in {name for name in names if names.count(name) > 1}:
        at = [place for place, one in enumerate(names) if one == name]
        for place, distinction in zip(at, _distinctions([sides[one] for one in at]), strict=True):
            labels[place] = distinction if len(at) == len(sides) else f"{name} ({distinction})"
    return labels


def _title(sides: Sequence[Side], subject: str) -> str:
    """Return the title, with the model's name if all sides have the same: no label has it then."""
    names = {side.label for side in sides}
    title = f"{TITLE}, {subject}" if subject else TITLE
    return f"{title}, {names.pop()}" if len(names) == 1 < len(sides) else title


def _distinctions(sides: Sequence[Side]) -> list[str]:
    """Return texts that distinguish sides: their conditions if these suffice, else their ids."""
    if runs := [side.run for side in sides if side.run]:
        labels = distinctions([Conditions.of(run) for run in runs])
        if len(set(labels)) == len(sides):
            return labels
    return [side.run.id if side.run else f"counts {at + 1}" for at, side in enumerate(sides)]


def _rows(
    counts: Sequence[ErrorCounts], classes: Sequence[ClassText], fold: Fold | None
) -> tuple[ClassText, ...]:
    names = {name for counted in counts for name in counted.by_class}
    if fold is not None:
        classes = [ClassText(title, title) for title in dict.fromkeys(fold.values())]
    unlisted = sorted(names - {row.id for row in classes})
    return (*classes, *(ClassText(name, name) for name in unlisted))


def _errors(side: Side, rows: Sequence[ClassText], about: Estimand) -> Errors:
    counts, layout = side.errors, side.layout(about)
    rates = {
        name: rate_of(counts.clusters(name), layout, by_trial=counts.by_trial)
        for name in (*counts.by_class, "")
    }
    return Errors(
        label=side.label,
        simulated=side.card.simulated,
        trials=len(counts.calls) if counts.by_trial else None,
        total=rate_of(counts.total(), layout, by_trial=counts.by_trial),
        rows=tuple(rates.get(row.id, rates[""]) for row in rows),  # never seen: all the same
        influence=(influential := influence(counts.total()) if counts.by_trial else None),
        largest=_called(side, influential.at) if influential else "",
        with_voids=with_voids(side.score, about) if side.score else None,
        arm=Conditions.of(side.run).arm if side.run else "",
        cannot_occur=side.card.cannot_occur or (),
    )


def _called(side: Side, at: int) -> str:
    if side.score:
        trial = side.score.counted[at]
        return f"{trial.scenario} #{trial.number}"
    return f"trial {at + 1}"


def _run_view(
    side: Side, errors: Errors, about: Estimand, outcomes: Collection[Outcome]
) -> RunView:
    run, scored = side.run_and_score
    ends = [one for one in Outcome if one not in {Outcome.VOID, Outcome.NOT_OBSERVABLE}]
    layout, observed = Layout(about, played(scored.counted)), scored.observed
    observed_layout = Layout(about, played(observed))
    return RunView(
        run=run,
        score=scored,
        tallies=side.tallies,
        transcripts=side.transcripts,
        executions=executions(side.tallies) if side.tallies else None,
        arrivals=arrivals_of(side.tallies, layout) if side.tallies else None,
        served=side.tallies.served if side.tallies else None,
        errors=errors,
        any_denial=share_of([bool(errors) for errors in scored.errors.errors], layout),
        outcomes=tuple(
            (end, share_of([one.outcome is end for one in observed], observed_layout))
            for end in ends
        ),
        recovery=recovery_figures(
            scored, layout, ends=outcomes, denial_kind=run.arm.denials if run.arm else ""
        ),
        scenarios=_by_scenario(scored),
        handshakes=tuple(map(_handshake, scored.funnels)),
        layout=layout,
    )


def _handshake(funnel: Funnel) -> Handshake:
    steps = [(name, Rate(count, funnel.trials)) for name, count in funnel.passed]
    return Handshake(funnel.scenario, tuple(steps), Rate(*funnel.in_order))


def _by_scenario(scored: Score) -> tuple[ScenarioView, ...]:
    trials: dict[str, list[tuple[TrialSummary, Cluster]]] = {}
    for trial, errors in zip(scored.counted, scored.errors.total(), strict=True):
        trials.setdefault(trial.scenario, []).append((trial, errors))
    return tuple(_scenario(name, trials[name]) for name in sorted(trials))


def _scenario(name: str, played: Sequence[tuple[TrialSummary, Cluster]]) -> ScenarioView:
    ended = [one.completed for one, _ in played if one.observed]
    completed = Rate(sum(ended), len(ended))
    return ScenarioView(
        name=name,
        errors=clustered([errors for _, errors in played]),
        completed=completed,
        all_of=pass_all(completed, REPEATS),
        any_of=pass_any(completed, REPEATS),
    )


def class_texts() -> tuple[ClassText, ...]:
    return tuple(ClassText(one.id, one.title, one.rationale) for one in failure_classes())
