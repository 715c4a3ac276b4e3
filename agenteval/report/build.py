"""The builders of a view: of runs, of counts without runs, or of pairs to be compared.

All p of a view are adjusted as one family before any sentence is written, so that each sentence
can say what is settled. The sentences of a comparison, and the last lines of every report, are
here too.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from agenteval.classes.catalogue import failure_classes
from agenteval.report.figures import recovery_figures
from agenteval.report.pairs import COMPLETED, pairs_of, unlike
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
    seen_from_ahead,
    sentences,
)
from agenteval.report.tables import arrivals_of, counted, report_texts, void_of, with_voids
from agenteval.report.view import (
    ClassText,
    Errors,
    Groups,
    Handshake,
    Pair,
    RunView,
    ScenarioView,
    Step,
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


def _shares() -> Mapping[str, Mapping[str, str]]:
    """Return the words for each share that has a sentence, by its label."""
    shares: Mapping[str, Mapping[str, str]] = report_texts()["shares"]
    return shares


_Claim = tuple[int, str]  # of which pair, and what; -1 is of no pair
_NUMBER, _KINDS, _ARCHITECTURES = "number", "kinds", "architectures"
FEWEST = 5  # errors of a class: fewer settle nothing, whoever made them


def _as_one_family(view: View) -> View:
    """Adjust the p of all claims together, to bound the family-wise error rate of a report.

    A claim is anything that a sentence of this view can report as Settled.
    """
    claims = dict(_claims(view))
    adjusted = dict(zip(claims, holm(list(claims.values())), strict=True))
    pairs = []
    for at, pair in enumerate(view.pairs):
        of_pair = {what: p for (place, what), p in adjusted.items() if place == at}
        pairs.append(_adjusted(replace(pair, family_size=len(claims)), of_pair))
    groups = view.groups
    if groups:
        p = adjusted.get((-1, _ARCHITECTURES), 1.0)
        groups = replace(groups, adjusted=p, family_size=len(claims))
    return replace(view, pairs=tuple(pairs), groups=groups)


def _claims(view: View) -> Iterator[tuple[_Claim, float]]:
    for at, pair in enumerate(view.pairs):
        if not pair.silent:
            yield (at, _NUMBER), pair.difference.p
        if pair.kinds:
            yield (at, _KINDS), pair.kinds.p
        for of_class in pair.classes if view.compared else ():
            difference = of_class.difference
            if difference.first.count + difference.second.count >= FEWEST:
                yield (at, f"class {of_class.label}"), difference.p
        for label in _shares() if view.compared else (COMPLETED,):
            share = pair.share(label)
            if share:
                yield (at, label), share.p
    if view.groups and view.groups.others:
        yield (-1, _ARCHITECTURES), view.groups.others.p


def _adjusted(pair: Pair, adjusted: Mapping[str, float]) -> Pair:
    classes = [
        replace(of_class, adjusted=adjusted.get(f"class {of_class.label}", 1.0))
        for of_class in pair.classes
    ]
    figures = [replace(figure, adjusted=adjusted.get(figure.label)) for figure in pair.figures]
    return replace(
        pair,
        adjusted=adjusted.get(_NUMBER, 1.0),
        kinds_adjusted=adjusted.get(_KINDS, 1.0),
        classes=tuple(classes),
        figures=tuple(figures),
    )


def _compared_sentences(view: View) -> Iterator[str]:
    """Yield the sentences: number and kinds of errors, classes, outcomes, then architectures."""
    yield from count_sentences(view.pairs)
    for pair in view.pairs:
        if pair.classes:
            yield _classes(pair)
    for label, words in _shares().items():
        for pair in view.pairs:
            adjusted = pair.adjusted_share(label)
            share = pair.share(label)
            if share and adjusted is not None:
                yield _share_sentence(pair, share, words, adjusted)
    if view.groups:
        yield from _groups(view.groups)
    yield from new_run(view.pairs)


def _classes(pair: Pair) -> str:
    settled = [of_class for of_class in pair.classes if of_class.adjusted < SETTLED]
    class_count = counted(len(pair.classes), "class", "classes")
    if not settled:
        least = min(of_class.adjusted for of_class in pair.classes)
        return (
            f"{scoped(OPEN, pair.scope)}: whether {pair.both} differ in any single one of "
            f"{class_count} of errors; the smallest p is {p_text(least).removeprefix('= ')} "
            f"{after(pair.family_size)}. One class takes more calls than all together."
        )
    settled_lines = [
        f"{of_class.label} {100 * of_class.difference.first.value:.2f} against "
        f"{100 * of_class.difference.second.value:.2f} per 100 calls "
        f"(p {p_text(of_class.adjusted)})"
        for of_class in settled
    ]
    return (
        f"{scoped(SURE, pair.scope)}: {pair.both} differ in {len(settled)} of {class_count} of "
        f"errors, each p {after(pair.family_size)}: {'; '.join(settled_lines)}."
    )


def _share_sentence(
    pair: Pair,
    share: Difference,
    words: Mapping[str, str],
    adjusted: float,
) -> str:
    needed = more_needed(share, pair, adjusted, of=words["of"])
    if not share.value:
        return (
            f"{scoped(EQUAL, pair.scope)}: neither {pair.first} nor {pair.second} {words['did']} "
            f"than the other, {share.first} each.{needed}"
        )
    gap = seen_from_ahead(pair, share)
    verb = words["does"] if adjusted < SETTLED else words["did"]
    same = " in the same worlds" if share.paired else ""
    return (
        f"{lead(share.p, adjusted, pair.scope)}: {gap.ahead} {verb} than {gap.behind}, "
        f"{gap.rate} against {gap.other_rate}{same}: {100 * gap.size:.1f} points more "
        f"[{100 * gap.low:.1f}, {100 * gap.high:.1f}]; "
        f"{p_told(share.p, adjusted, pair.family_size)}.{needed}"
    )


def _groups(groups: Groups) -> Iterator[str]:
    """Yield sentences on each model, on the means of models, and on models in general."""
    lines = []
    for name, models in zip((groups.first, groups.second), groups.models, strict=True):
        mean = fmean(rate.value for _, rate in models)
        rates = [f"{100 * rate.value:.2f} {rate.percent} ({model})" for model, rate in models]
        lines.append(
            f"{name} models make {', '.join(rates)}, {100 * mean:.2f} on average of "
            f"{counted(len(models), 'model')} weighted alike"
        )
    start = f"Errors per 100 calls by architecture: {'; '.join(lines)}."
    n_first, n_second = map(len, groups.models)
    if groups.others is None:
        yield (
            f"{start} This is about these models only: with {n_first} against {n_second} nothing "
            f"is said of {groups.first} and {groups.second} models."
        )
    else:
        yield start
        yield _others(groups, groups.others)


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


# The last lines of a report: goals reached, fewer errors, and what is not known.

MORE_GOALS, FEWER_ERRORS = "reaches its goal more often than", "makes fewer errors than"
_Comparison = tuple[Pair, Difference, float | None]  # with its adjusted p


def _in_short(view: View) -> Iterator[str]:
    """Yield plain sentences: each model's goals and errors, then who is better, then unknowns.

    A difference of two models is that of their comparison. It is known if it is significant after
    correction for all claims of the report.
    """
    yield from map(_of_model, view.runs)
    goals: list[_Comparison] = []
    for pair in view.pairs:
        completed = pair.share(COMPLETED)
        if completed:
            goals.append((pair, completed, pair.adjusted_share(COMPLETED)))
    errors = [(pair, pair.difference, pair.adjusted) for pair in view.pairs]
    yield from _better(MORE_GOALS, "more of 100 trials", goals, fewer=False)
    yield from _better(FEWER_ERRORS, "fewer per 100 calls", errors, fewer=True)
    if view.simulated:
        yield "Simulated: these figures say that the tool works, and nothing of a real model."


def _better(
    does: str,
    unit: str,
    comparisons: Sequence[_Comparison],
    *,
    fewer: bool,
) -> Iterator[str]:
    """Yield a line for each significant difference, then one for all that are not."""
    unknown = []
    for pair, difference, adjusted in comparisons:
        if difference.value and adjusted is not None and adjusted < SETTLED:
            gap = seen_from_ahead(pair, difference, fewer=fewer)
            yield (
                f"{gap.ahead} {does} {gap.behind}: {100 * gap.size:.0f} {unit} "
                f"({100 * gap.low:.0f} to {100 * gap.high:.0f}){_where(pair)}."
            )
        else:
            unknown.append(pair.both)
    if unknown:
        who = does.removesuffix(" than").replace("reaches its", "reaches the")
        pairs = "" if len(unknown) == len(comparisons) else f", of {'; of '.join(unknown)}"
        yield f"Not known: who {who}{pairs}."


def _where(pair: Pair) -> str:
    if not any(pair.left_out):
        return ""
    if pair.difference.paired:
        return " where both met the same worlds"
    return " in what both played"


def _of_model(view: RunView) -> str:
    goals, errors = view.completed, view.errors.total
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
    view = _as_one_family(_view(sides, classes, fold, Estimand.THESE))
    lines = (*count_sentences(view.pairs), *new_run(view.pairs))
    return _with_lines(replace(view, title=title), lines)


def build_comparison(
    sides: Sequence[Side],
    *,
    classes: Sequence[ClassText] = (),
    fold: Fold | None = None,
    about: Estimand = Estimand.THESE,
) -> View:
    """Return the view that compares pairs: of runs, of counts, or of both."""
    view = _view(sides, classes, fold, about)
    view = _as_one_family(replace(view, groups=groups_of(sides, about), compared=True))
    return _with_lines(view, _compared_sentences(view))


def _with_lines(view: View, lines: Iterable[str]) -> View:
    return replace(
        view,
        sentences=(*caveats(view), *lines),
        short=tuple(_in_short(view)),
    )


def _view(
    sides: Sequence[Side],
    classes: Sequence[ClassText],
    fold: Fold | None,
    about: Estimand,
) -> View:
    labelled = []
    for side, label in zip(sides, _labels(sides), strict=True):
        errors = side.errors if fold is None else side.errors.folded(fold)
        labelled.append(replace(side, label=label, errors=errors))
    rows = _rows([side.errors for side in labelled], classes, fold)
    ends = {end for side in labelled if side.score for end in side.score.outcomes}
    models, views = [], []
    for side in labelled:
        errors_of_side = _errors(side, rows, about)
        models.append(errors_of_side)
        if side.run:
            views.append(_run_view(side, errors_of_side, about, ends))
    seed = next((side.run.seed for side in sides if side.run), 0)
    return View(
        title=_title(sides, scope(sides, about)),
        folded=fold is not None,
        rows=rows,
        models=tuple(models),
        pairs=pairs_of(labelled, about, seed=seed),
        warnings=(*warnings(labelled, views), *unlike(labelled)),
        runs=tuple(views),
        about=about,
        basis=basis(sides, about),
    )


def _labels(sides: Sequence[Side]) -> list[str]:
    """Return a label for each side: the model's name, or what distinguishes its runs.

    Where there are other models too, the label has both.
    """
    labels = [side.label for side in sides]
    places: dict[str, list[int]] = {}
    for at, name in enumerate(labels):
        places.setdefault(name, []).append(at)
    for name, of_name in places.items():
        if len(of_name) > 1:
            distinguished = _distinctions([sides[at] for at in of_name])
            for at, distinction in zip(of_name, distinguished, strict=True):
                alone = len(of_name) == len(sides)
                labels[at] = distinction if alone else f"{name} ({distinction})"
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
    counts: Sequence[ErrorCounts],
    classes: Sequence[ClassText],
    fold: Fold | None,
) -> tuple[ClassText, ...]:
    names = {name for counted in counts for name in counted.by_class}
    if fold is not None:
        classes = [ClassText(title, title) for title in dict.fromkeys(fold.values())]
    unlisted = sorted(names - {row.id for row in classes})
    return (*classes, *(ClassText(name, name) for name in unlisted))


def _errors(
    side: Side,
    rows: Sequence[ClassText],
    about: Estimand,
) -> Errors:
    counts, layout = side.errors, side.layout(about)

    def rate_of_class(name: str) -> Rate:
        return rate_of(counts.clusters(name), layout, by_trial=counts.by_trial)

    never = rate_of_class("")  # all classes that were never seen have the same rate
    rates = {row.id: rate_of_class(row.id) if row.id in counts.by_class else never for row in rows}
    influential = influence(counts.total()) if counts.by_trial else None
    return Errors(
        label=side.label,
        simulated=side.card.simulated,
        trials=len(counts.calls) if counts.by_trial else None,
        total=rate_of(counts.total(), layout, by_trial=counts.by_trial),
        rows=rates,
        influence=influential,
        largest=_trial_name(side, influential.at) if influential else "",
        with_voids=with_voids(side.score, about) if side.score else (),
        arm=Conditions.of(side.run).arm if side.run else "",
        cannot_occur=side.card.cannot_occur or (),
    )


def _trial_name(side: Side, at: int) -> str:
    if side.score:
        trial = side.score.counted[at]
        return f"{trial.scenario} #{trial.number}"
    return f"trial {at + 1}"


def _run_view(
    side: Side,
    errors: Errors,
    about: Estimand,
    outcomes: Collection[Outcome],
) -> RunView:
    run, scored = side.run_and_score
    layout = Layout(about, played(scored.counted))
    observed = scored.observed
    observed_layout = Layout(about, played(observed))
    shares: dict[Outcome, Rate] = {}
    for end in Outcome:
        if end not in {Outcome.VOID, Outcome.NOT_OBSERVABLE}:
            shares[end] = share_of([trial.outcome is end for trial in observed], observed_layout)
    denial_kind = run.arm.denials if run.arm else ""
    return RunView(
        run=run,
        score=scored,
        tallies=side.tallies,
        transcripts=side.transcripts,
        executions=executions(side.tallies) if side.tallies else None,
        arrivals=arrivals_of(side.tallies, layout) if side.tallies else None,
        errors=errors,
        any_denial=share_of([bool(errors) for errors in scored.errors.errors], layout),
        outcomes=shares,
        recovery=recovery_figures(scored, layout, ends=outcomes, denial_kind=denial_kind),
        scenarios=_by_scenario(scored),
        handshakes=tuple(map(_handshake, scored.funnels)),
        layout=layout,
    )


def _handshake(funnel: Funnel) -> Handshake:
    steps = [Step(name, Rate(count, funnel.trials)) for name, count in funnel.passed]
    return Handshake(funnel.scenario, tuple(steps), Rate(*funnel.in_order))


def _by_scenario(scored: Score) -> dict[str, ScenarioView]:
    trials: dict[str, list[tuple[TrialSummary, Cluster]]] = {}
    for trial, errors in zip(scored.counted, scored.errors.total(), strict=True):
        trials.setdefault(trial.scenario, []).append((trial, errors))
    scenarios = {}
    for name, of_scenario in sorted(trials.items()):
        ended = [trial.completed for trial, _ in of_scenario if trial.observed]
        completed = Rate(sum(ended), len(ended))
        scenarios[name] = ScenarioView(
            errors=clustered([errors for _, errors in of_scenario]),
            completed=completed,
            all_of=pass_all(completed, REPEATS),
            any_of=pass_any(completed, REPEATS),
        )
    return scenarios


def class_texts() -> tuple[ClassText, ...]:
    return tuple(ClassText(known.id, known.title, known.rationale) for known in failure_classes())
