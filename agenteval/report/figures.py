"""The charts of a page, and the recovery from denials, which two of its tables and a chart show.

A chart is positions on its canvas and a table of its numbers. Void trials are excluded from every
rate of recovery. They are included in the cumulative incidence: a denial there is followed until
our side or the server broke the trial.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import floor, inf, isnan, log10
from statistics import median

from agenteval.report.speed import UNKNOWN, measured
from agenteval.report.tables import (
    NOTHING,
    Cell,
    Head,
    Row,
    Table,
    counted,
    figure_rows,
    figure_table,
    head,
    heads,
    marked_heads,
    own_per_100,
    own_share,
    report_texts,
    row,
    share,
    titled_table,
)
from agenteval.report.view import RecoveryFigures, ScenarioView, Turns, View, Views
from agenteval.stats.comparison import gap
from agenteval.stats.incidence import Followed, Incidence, incidence
from agenteval.stats.rates import Estimand, Layout, Rate, clustered
from agenteval.trial.call import Outcome
from agenteval.trial.recovery import DenialRecovery, Recovery, TrialRecovery
from agenteval.trial.summary import TrialSummary
from agenteval.trial.tally import Score

WITHIN = (1, 2, 3, 5)  # turns
RECOVERED = "recovered"
_Denials = Sequence[Sequence[DenialRecovery]]  # of each trial


def recovery_figures(
    scored: Score,
    layout: Layout,
    *,
    ends: Collection[Outcome],
    denial_kind: str = "",
) -> RecoveryFigures:
    """Return the figures of recovery of one run.

    `ends` are the outcomes whose incidence is required: all outcomes of any model of the view.
    `denial_kind` is the arm's kind of denial text, empty where that is not known.
    """
    trials = scored.recoveries
    denials = [trial.answerable for trial in trials]
    recovered = [denial for denial in chain.from_iterable(denials) if _is_recovered(denial)]
    share_of = partial(_share, layout, denials)
    by_turns = {turns: share_of(partial(_is_recovered, turns=turns)) for turns in WITHIN}
    kinds = {kind: share_of(partial(_is_of_kind, kind)) for kind in Recovery}
    del kinds[Recovery.NO_CHANCE]  # of all denials, and not of the answerable ones alone
    all_denials = [trial.aftermaths for trial in trials]
    left_out = {Outcome.VOID, Outcome.NOT_OBSERVABLE} - {*ends}
    shown_ends = [end for end in Outcome if end not in left_out]
    return RecoveryFigures(
        kinds=kinds,
        no_chance=_share(layout, all_denials, partial(_is_of_kind, Recovery.NO_CHANCE)),
        at_once=by_turns[1],
        recovered_within=by_turns,
        at_all=share_of(_is_recovered),
        unrecovered={end: _unrecovered(scored, denials, layout, end) for end in shown_ends},
        turns=median(denial.turns or 0 for denial in recovered) if recovered else None,
        calls=median(denial.calls or 0 for denial in recovered) if recovered else None,
        longest_run=max((trial.longest_run for trial in trials), default=0),
        turns_burned=clustered([trial.turns_burned for trial in trials], layout),
        after_denied=clustered([trial.after_denied for trial in trials], layout),
        after_allowed=clustered([trial.after_allowed for trial in trials], layout),
        dependence=_dependence(trials, layout),
        incidence=_incidence(scored, layout.estimand, ends),
        by_content=_by_content(denials, layout, denial_kind),
    )


def _is_of_kind(kind: Recovery, denial: DenialRecovery) -> bool:
    return denial.recovery is kind


def _is_recovered(denial: DenialRecovery, turns: float = inf) -> bool:
    return denial.turns is not None and denial.turns <= turns


def _share(
    layout: Layout,
    denials: _Denials,
    counts: Callable[[DenialRecovery], bool],
) -> Rate:
    """Return the share of denials for which `counts` is true."""
    return clustered([(sum(map(counts, trial)), len(trial)) for trial in denials], layout)


# The content of a denial of these classes does not depend on the arm: that there is no such tool,
# or why the arguments do not fit.
_CONTENT = {"hallucinated-tool": "no such tool", "malformed-arguments": "no such arguments"}


def _by_content(
    denials: _Denials,
    layout: Layout,
    kind: str,
) -> dict[str, dict[str, Rate]]:
    usual = f"denial: {kind}" if kind else "denial"
    by_content: dict[str, list[list[DenialRecovery]]] = {}
    for content in (usual, *_CONTENT.values()):
        by_content[content] = [
            [denial for denial in trial if _CONTENT.get(denial.failure_class, usual) == content]
            for trial in denials
        ]
    rates = {}
    for content, of_content in by_content.items():
        if any(of_content):
            at_once = _share(
                layout,
                of_content,
                partial(_is_recovered, turns=1),
            )
            at_all = _share(layout, of_content, _is_recovered)
            rates[content] = {"at_once": at_once, "at_all": at_all}
    return rates


def _dependence(trials: Sequence[TrialRecovery], layout: Layout) -> dict[str, float] | None:
    denied = [trial.after_denied for trial in trials]
    allowed = [trial.after_allowed for trial in trials]
    if not all(any(size for _, size in column) for column in (denied, allowed)):
        return None
    difference, low, high = gap(denied, allowed, layout)
    return {"difference": difference, "low": low, "high": high}


def _incidence(
    scored: Score,
    about: Estimand,
    ends: Collection[Outcome],
) -> dict[str, dict[Turns, Incidence]]:
    """Return the incidence of recovery, then that of every outcome in `ends`."""
    scenarios, trials = [], []
    for trial in (*scored.counted, *scored.voids):
        followed = _followed(trial)
        if followed:
            scenarios.append(trial.scenario)
            trials.append(followed)
    layout = Layout(about, scenarios)
    by_end: dict[str, dict[Turns, Incidence]] = {}
    for end in (RECOVERED, *(str(end) for end in Outcome if end in ends)):
        by_end[end] = {turns: incidence(trials, end, turns, layout) for turns in WITHIN}
        by_end[end]["ever"] = incidence(trials, end, inf, layout)
    return by_end


def _followed(trial: TrialSummary) -> list[Followed]:
    end = "" if trial.outcome is Outcome.VOID else str(trial.outcome)
    return [
        Followed(denial.played, end) if denial.turns is None else Followed(denial.turns, RECOVERED)
        for denial in trial.recovery.answerable
    ]


def _unrecovered(
    scored: Score,
    denials: _Denials,
    layout: Layout,
    end: Outcome,
) -> Rate:
    """Return the share of denials without recovery, in trials with this outcome."""
    clusters = []
    for trial, of_trial in zip(scored.counted, denials, strict=True):
        unrecovered = sum(denial.turns is None for denial in of_trial)
        clusters.append((unrecovered if trial.outcome is end else 0, len(of_trial)))
    return clustered(clusters, layout)


# Its tables.

_FAILED_SHOWN = (1, 3, "ever")  # turns


def denial_tables(views: Views) -> Iterator[Table]:
    """Yield the tables of recovery; without a denial that of its contents would have no row."""
    columns = heads(views, [f"n={counted(view.recovery.at_all.n, 'denial')}" for view in views])
    rows = [
        row(kind, [share(view.recovery.kinds[kind]) for view in views])
        for kind in views[0].recovery.kinds
    ]
    yield titled_table(
        "reactions",
        columns,
        [*rows, *figure_rows("reactions", views)],
    )
    if any(view.recovery.by_content for view in views):
        yield _recovery_by_content(views)
    yield _way_back(views)
    yield figure_table("burden", views)


def _recovery_by_content(views: Views) -> Table:
    rates_by_content = [view.recovery.by_content for view in views]
    rows = []
    for content in dict.fromkeys(chain.from_iterable(rates_by_content)):
        for key, when in (("at_once", "next turn"), ("at_all", "ever")):
            cells = [
                own_share(of_run[content][key]) if content in of_run else NOTHING
                for of_run in rates_by_content
            ]
            rows.append(row(f"{content}, {when}", cells))
    return titled_table("recovery-by-content", heads(views), rows)


def _way_back(views: Views) -> Table:
    by_end = [view.recovery.incidence for view in views]
    rows: list[Row] = []
    for end, by_turns in by_end[0].items():
        is_recovery = end == RECOVERED
        if is_recovery or any(run[end]["ever"].count for run in by_end):
            for turns in by_turns:
                if is_recovery or turns in _FAILED_SHOWN:
                    cells = [_incidence_cell(run[end][turns]) for run in by_end]
                    rows.append(row(f"{end} {_turns_text(turns)}", cells))
    rows += figure_rows("way-back", views)
    counts = [counted(run[RECOVERED]["ever"].n, "denial") for run in by_end]
    columns = heads(views, [f"n={count}" for count in counts])
    return titled_table("way-back", columns, rows)


def _turns_text(turns: Turns) -> str:
    if turns == "ever":
        return "at last"
    return f"within {counted(turns, 'turn')}"


def _incidence_cell(incidence: Incidence, n: str = "") -> Cell:
    if isnan(incidence.value):
        return NOTHING
    interval = f"[{100 * incidence.low:.1f}, {100 * incidence.high:.1f}]"
    value = f"{100 * incidence.value:.1f}%"
    return Cell(
        value,
        str(incidence.count),
        interval,
        n,
        zero=not incidence.count,
    )


# Charts.

SERIES = 6  # colours that the stylesheet has
# The ends of the axes, on a canvas of 520 by 260.
_LEFT, _TOP, _RIGHT, _BOTTOM = 46.0, 10.0, 500.0, 214.0


def scale(reach: float) -> tuple[float, float]:
    """Return the distance of ticks and the end of a scale.

    There are four to ten ticks of 1, 2 or 5 times ten^k.
    """
    reach = reach or 1.0
    power = 10.0 ** floor(log10(reach))
    step = next(part * power for part in (0.1, 0.2, 0.5, 1.0) if reach <= 10 * part * power)
    # Counted and not divided: 0.3 / 0.1 is less than 3.
    ticks = 1
    while ticks * step < reach * (1 - 1e-9):
        ticks += 1
    return step, ticks * step


def ticks(step: float, end: float) -> list[float]:
    return [round(at * step, 9) for at in range(round(end / step) + 1)]


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with its vertical interval and its label."""

    x: float
    y: float
    low: float
    high: float
    label: str


@dataclass(frozen=True, slots=True)
class Series:
    """The marks of one model; `joined` if a line connects them."""

    model: str
    colour: int
    marks: Sequence[Mark]

    @property
    def joined(self) -> bool:
        return len(self.marks) > 1

    @property
    def path(self) -> str:
        return " ".join(f"{mark.x:.1f},{mark.y:.1f}" for mark in self.marks)


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart. Ticks are a position and its text; `table` has all numbers, with n and interval."""

    id: str
    words: Mapping[str, str]  # title, and the labels of the axes x and y
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    series: Sequence[Series]
    table: Table


Points = Mapping[str, list[Mark]]  # of each model, in the units of the axes


def figures_of(view: View) -> list[Figure]:
    """Return the charts for which these runs have data."""
    figures = (_speed_and_errors(view.runs), _recovery(view.runs), _levels(view.runs))
    return [figure for figure in figures if figure]


def _drawn(
    name: str,
    points_by_model: Points,
    heads: Iterable[Head],
    rows: Sequence[Row],
) -> Figure | None:
    """Return the chart with the words of texts.toml; None where there is no point."""
    points = list(chain.from_iterable(points_by_model.values()))
    if not points:
        return None
    x_step, x_end = scale(max(point.x for point in points))
    # Between two turns, or two levels of concurrency, there is nothing to mark.
    if x_end > 1 and x_end == round(x_end):
        x_step = max(1.0, x_step)
    y_step, y_end = scale(max(max(point.high, point.y) for point in points))

    def x(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * value / x_end

    def y(value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * min(value, y_end) / y_end

    series = []
    for at, (model, of_model) in enumerate(points_by_model.items()):
        marks = [
            Mark(x(point.x), y(point.y), y(point.low), y(point.high), f"{model}: {point.label}")
            for point in of_model
        ]
        series.append(Series(model, at % SERIES, marks))
    return Figure(
        id=name,
        words=report_texts()[name]["chart"],
        x_ticks=[(x(at), f"{at:g}") for at in ticks(x_step, x_end)],
        y_ticks=[(y(at), f"{at:g}") for at in ticks(y_step, y_end)],
        series=series,
        table=titled_table(name, heads, rows),
    )


def _speed_and_errors(views: Views) -> Figure | None:
    points: Points = defaultdict(list)
    rows = []
    for view in views:
        total = view.errors.total
        speed = view.per_second(60 * view.useful)
        rows.append(row(view.label, (pace(view.useful, speed), own_per_100(total))))
        marks = points[view.label]
        if speed and total.n:
            label = f"{total.per_100()} errors per 100 calls, {speed:.1f} useful calls a minute"
            marks.append(_interval_mark(speed, total, label))
    columns = run_heads(views, "useful calls/min", "errors per 100 calls")
    return _drawn("speed", points, columns, rows)


def _interval_mark(x: float, rate: Rate | Incidence, label: str) -> Mark:
    """Return a mark in percent."""
    return Mark(x, 100 * rate.value, 100 * rate.low, 100 * rate.high, label)


def pace(count: int, speed: float | None) -> Cell:
    return Cell(UNKNOWN) if speed is None else replace(measured(speed), n=f"n={count:,}")


def run_heads(views: Views, *labels: str) -> tuple[Head, ...]:
    """Return columns that are no models; the first one is marked if any run was simulated."""
    return marked_heads(labels, simulated=any(view.errors.simulated for view in views))


def _recovery(views: Views) -> Figure | None:
    """Return the chart of the share of denials recovered from, by turns since the denial."""
    points: Points = defaultdict(list)
    cells: dict[Turns, list[Cell]] = defaultdict(list)
    for view in views:
        marks = points[view.label]
        for turns, recovered in view.recovery.incidence[RECOVERED].items():
            cells[turns].append(_incidence_cell(recovered, f"n={recovered.n}"))
            if turns != "ever" and not isnan(recovered.value):
                # A curve begins at the denial, from which nobody has recovered yet.
                if not marks:
                    marks.append(Mark(0, 0, 0, 0, "at the denial"))
                share = f"{100 * recovered.value:.0f} %"
                label = f"{share} within {turns} turns, n={recovered.n}"
                marks.append(_interval_mark(turns, recovered, label))
    rows = [
        row("at last" if turns == "ever" else f"{turns} turns", of_turns)
        for turns, of_turns in cells.items()
    ]
    columns = [head(view.label, simulated=view.errors.simulated) for view in views]
    return _drawn("recovery", points, columns, rows)


def _levels(views: Views) -> Figure | None:
    """Return the chart of useful calls by concurrency, of models played at several levels."""
    by_model: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for view in views:
        speed = view.per_second(60 * view.useful)
        if speed is not None:
            level = (view.run.concurrency, view.useful, speed)
            by_model[view.run.model.name].append(level)
    points: Points = defaultdict(list)
    rows = []
    for name, levels in by_model.items():
        if len({concurrency for concurrency, *_ in levels}) > 1:
            for concurrency, count, speed in sorted(levels):
                label = f"{speed:.1f} at {concurrency}"
                points[name].append(Mark(concurrency, speed, speed, speed, label))
                rows.append(row(f"{name}, {concurrency}", (pace(count, speed),)))
    return _drawn("levels", points, run_heads(views, "useful calls/min"), rows)


# The map of scenarios.

HeatRow = tuple[str, list[ScenarioView | None]]  # the name, and a cell for each run that played it


def heat_map(view: View) -> list[HeatRow]:
    """Return a row for each scenario, those completed least often first."""
    names = {name for run in view.runs for name in run.scenarios}
    rows = []
    for name in sorted(names):
        scenarios = [run.scenarios.get(name) for run in view.runs]
        rows.append((name, scenarios))
    return sorted(rows, key=_completed)


def _completed(row: HeatRow) -> float:
    _, scenarios = row
    rates = [scenario.completed for scenario in scenarios if scenario]
    trials = sum(rate.n for rate in rates)
    return sum(rate.count for rate in rates) / trials if trials else 1.0
