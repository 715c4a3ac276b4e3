"""Makes the view of some runs, or of plain counts when there is nothing else to see."""

from collections.abc import Mapping, Sequence

from agenteval.core.counts import ErrorCounts
from agenteval.core.outcome import Outcome
from agenteval.core.run import Run
from agenteval.core.scoring import Funnel, Score, executions, score
from agenteval.report.aftermath import aftermath_of
from agenteval.report.garbles import arrivals_of
from agenteval.report.pairs import Side, pairs_of
from agenteval.report.sentences import count_sentences, sentences, warnings
from agenteval.report.view import (
    ClassText,
    Errors,
    Handshake,
    RunView,
    ScenarioView,
    View,
)
from agenteval.stats.rates import Rate, clustered
from agenteval.stats.repeats import pass_all, pass_any

REPEATS = 3  # the k of pass^k and pass@k: few enough for the usual five trials
Fold = Mapping[str, str]  # class to row of a coarser taxonomy, in the order of its rows


def build_view(
    runs: Sequence[Run], *, classes: Sequence[ClassText] = (), fold: Fold | None = None
) -> View:
    """The view of these runs, in their order.

    `classes` gives the rows their order and text; a class seen but not listed comes after them.
    `fold` shows the rows of a coarser taxonomy instead.
    """
    views = _run_views(runs, classes, fold)
    rows = _rows([view.score.errors for view in views], classes, fold)
    pairs = pairs_of([_side(view, fold) for view in views], seed=runs[0].seed if runs else 0)
    return View(
        title="Tool-call errors by failure class",
        folded=fold is not None,
        rows=rows,
        models=tuple(view.errors for view in views),
        pairs=pairs,
        warnings=warnings(views),
        sentences=sentences(views, pairs),
        runs=views,
    )


def build_counts_view(
    title: str,
    models: Mapping[str, ErrorCounts],
    *,
    classes: Sequence[ClassText] = (),
    fold: Fold | None = None,
    seed: int = 0,
) -> View:
    """The view of counts by trial alone, such as a published table: no run stands behind it."""
    rows = _rows(list(models.values()), classes, fold)
    pairs = pairs_of(
        [Side(name, _folded(counts, fold)) for name, counts in models.items()], seed=seed
    )
    return View(
        title=title,
        folded=fold is not None,
        rows=rows,
        models=tuple(
            _errors(name, counts, rows, fold, simulated=False) for name, counts in models.items()
        ),
        pairs=pairs,
        warnings=(),
        sentences=count_sentences(pairs),
    )


def _run_views(
    runs: Sequence[Run], classes: Sequence[ClassText], fold: Fold | None
) -> tuple[RunView, ...]:
    scores = [score(run.trials) for run in runs]
    rows = _rows([scored.errors for scored in scores], classes, fold)
    views = []
    for run, scored, label in zip(runs, scores, _labels(runs), strict=True):
        simulated = run.model.simulated
        errors = _errors(label, scored.errors, rows, fold, simulated=simulated)
        views.append(_run_view(run, scored, errors))
    return tuple(views)


def _labels(runs: Sequence[Run]) -> list[str]:
    """Each model's name, with the run's id where several runs have the same model."""
    names = [run.model.name for run in runs]
    return [
        f"{name} ({run.id})" if names.count(name) > 1 else name
        for name, run in zip(names, runs, strict=True)
    ]


def _rows(
    counts: Sequence[ErrorCounts], classes: Sequence[ClassText], fold: Fold | None
) -> tuple[ClassText, ...]:
    seen = {name for counted in counts for name in counted.by_class}
    if fold is not None:
        classes = [ClassText(title, title) for title in dict.fromkeys(fold.values())]
        seen = {fold.get(name, name) for name in seen}
    unlisted = sorted(seen - {row.id for row in classes})
    return (*classes, *(ClassText(name, name) for name in unlisted))


def _folded(counts: ErrorCounts, fold: Fold | None) -> ErrorCounts:
    return counts if fold is None else counts.folded(fold)


def _errors(
    label: str,
    counts: ErrorCounts,
    rows: Sequence[ClassText],
    fold: Fold | None,
    *,
    simulated: bool,
) -> Errors:
    shown = _folded(counts, fold)
    return Errors(
        label=label,
        simulated=simulated,
        trials=len(counts.calls),
        total=clustered(counts.total()),
        rows=tuple(clustered(shown.clusters(row.id)) for row in rows),
    )


def _run_view(run: Run, scored: Score, errors: Errors) -> RunView:
    ends = [outcome for outcome in Outcome if outcome is not Outcome.VOID]
    return RunView(
        run=run,
        score=scored,
        executions=executions(run.trials),
        arrivals=arrivals_of(run),
        errors=errors,
        any_denial=Rate(sum(map(bool, scored.errors.errors)), scored.trials),
        outcomes=tuple((end, Rate(scored.outcomes.get(end, 0), scored.trials)) for end in ends),
        aftermath=aftermath_of(scored),
        scenarios=_by_scenario(scored),
        handshakes=tuple(map(_handshake, scored.funnels)),
    )


def _handshake(funnel: Funnel) -> Handshake:
    steps = [(name, Rate(count, funnel.trials)) for name, count in funnel.passed]
    return Handshake(funnel.scenario, tuple(steps))


def _side(view: RunView, fold: Fold | None) -> Side:
    return Side(
        label=view.label,
        errors=_folded(view.score.errors, fold),
        worlds=tuple(one.world for one in view.score.counted),
        planned=view.score.worlds,
    )


def _by_scenario(scored: Score) -> tuple[ScenarioView, ...]:
    names = sorted({one.scenario for one in scored.counted})
    return tuple(_scenario(scored, name) for name in names)


def _scenario(scored: Score, name: str) -> ScenarioView:
    counted = zip(scored.counted, scored.errors.total(), strict=True)
    played = [(one.outcome, cluster) for one, cluster in counted if one.scenario == name]
    completed = Rate(sum(end is Outcome.COMPLETED for end, _ in played), len(played))
    return ScenarioView(
        name=name,
        errors=clustered([cluster for _, cluster in played]),
        completed=completed,
        all_of=pass_all(completed, REPEATS),
        any_of=pass_any(completed, REPEATS),
    )
