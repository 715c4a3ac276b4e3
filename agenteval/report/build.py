"""Builders of the view: of runs, of counts without runs, or of both."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from agenteval.core.cards import ModelCard
from agenteval.core.counts import Cluster, ErrorCounts, influence
from agenteval.core.differing import distinctions
from agenteval.core.outcome import Outcome
from agenteval.core.run import Conditions, Run
from agenteval.core.scoring import Funnel, Score, executions
from agenteval.core.summary import TrialSummary
from agenteval.report.arrivals import arrivals_of
from agenteval.report.compared import as_one_family, compared_sentences
from agenteval.report.denial_recovery import recovery_figures
from agenteval.report.pairs import pairs_of, unlike
from agenteval.report.provenance import warnings
from agenteval.report.sentences import caveats, count_sentences, new_run, sentences
from agenteval.report.side import Side, basis, groups_of, played, scope
from agenteval.report.view import (
    ClassText,
    Errors,
    Handshake,
    RunView,
    ScenarioView,
    View,
)
from agenteval.report.voids import with_voids
from agenteval.stats.estimand import Estimand, Layout
from agenteval.stats.rates import Rate, clustered, pass_all, pass_any, rate_of, share_of

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
    view = _view(sides, classes, fold, about)
    view = as_one_family(view)
    return replace(view, sentences=(*caveats(view), *sentences(view.runs, view.pairs)))


def build_counts_view(
    title: str,
    models: Mapping[str, ErrorCounts],
    *,
    classes: Sequence[ClassText] = (),
    fold: Fold | None = None,
) -> View:
    """Return the view of counts without runs, such as a published table."""
    sides = [Side.of_counts(ModelCard(name, name), counts) for name, counts in models.items()]
    view = _view(sides, classes, fold, Estimand.THESE)
    view = as_one_family(view)
    lines = (*caveats(view), *count_sentences(view.pairs), *new_run(view.pairs))
    return replace(view, title=title, sentences=lines)


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
    view = as_one_family(view)
    return replace(view, sentences=(*caveats(view), *compared_sentences(view)))


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
