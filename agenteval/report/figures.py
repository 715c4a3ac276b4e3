"""The charts of a page, and the recovery from denials, which two of its tables and a chart show.

A chart is positions on its canvas and a table of its numbers. Void trials are excluded from every
rate of recovery. They are included in the cumulative incidence: a denial there is followed until
our side or the server broke the trial.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import floor, inf, isfinite, isnan, log10
from operator import itemgetter
from statistics import median

from agenteval.report.speed import UNKNOWN, measured
from agenteval.report.tables import (
    NOTHING,
    Cell,
    Head,
    Table,
    counted,
    figure_rows,
    head,
    heads,
    own_per_100,
    own_share,
    row,
    share,
    titled_table,
)
from agenteval.report.view import RecoveryFigures, RunView, View
from agenteval.stats.comparison import gap
from agenteval.stats.incidence import Followed, Incidence, incidence
from agenteval.stats.rates import Estimand, Layout, Rate, clustered
from agenteval.trial.call import Outcome
from agenteval.trial.recovery import DenialRecovery, Recovery, TrialRecovery
from agenteval.trial.summary import TrialSummary
from agenteval.trial.tally import Score

WITHIN = (1, 2, 3, 5)  # turns
RECOVERED = "recovered"
Denials = Sequence[Sequence[DenialRecovery]]  # of each trial


def recovery_figures(
    scored: Score, layout: Layout, *, ends: Collection[Outcome], denial_kind: str = ""
) -> RecoveryFigures:
    """Return the figures of recovery of one run.

    `ends` are the outcomes whose incidence is required: all outcomes of any model of the view.
    `denial_kind` is the arm's kind of denial text, empty where that is not known.
    """
    trials = scored.recoveries
    denials = [trial.answerable for trial in trials]
    recovered = [denial for of_trial in denials for denial in of_trial if _is_recovered(denial)]
    share_of = partial(_share, denials, layout)
    kinds = [(kind, share_of(_of_kind(kind))) for kind in Recovery]
    no_chance = _share([trial.aftermaths for trial in trials], layout, _of_kind(Recovery.NO_CHANCE))
    by_turns = [(turns, share_of(_recovered_within(turns))) for turns in WITHIN]
    left_out = {Outcome.VOID, Outcome.NOT_OBSERVABLE} - {*ends}
    unrecovered = [
        (end, _unrecovered(scored, denials, layout, end)) for end in Outcome if end not in left_out
    ]
    return RecoveryFigures(
        kinds=tuple((kind, rate) for kind, rate in kinds if kind is not Recovery.NO_CHANCE),
        no_chance=no_chance,
        at_once=dict(by_turns)[1],
        recovered_within=tuple(by_turns),
        at_all=share_of(_is_recovered),
        unrecovered=tuple(unrecovered),
        turns=median(denial.turns or 0 for denial in recovered) if recovered else None,
        calls=median(denial.calls or 0 for denial in recovered) if recovered else None,
        longest_run=max((trial.longest_run for trial in trials), default=0),
        turns_burned=clustered([trial.turns_burned for trial in trials], layout),
        after_denied=clustered([trial.after_denied for trial in trials], layout),
        after_allowed=clustered([trial.after_allowed for trial in trials], layout),
        dependence=_dependence(trials, layout),
        incidence=tuple(_incidence(scored, layout.estimand, ends)),
        by_told=tuple(_by_content(denials, layout, denial_kind)),
    )


# The content of a denial of these classes does not depend on the arm: that there is no such tool,
# or why the arguments do not fit.
_CONTENT = {"hallucinated-tool": "no such tool", "malformed-arguments": "no such arguments"}


def _by_content(denials: Denials, layout: Layout, kind: str) -> Iterator[tuple[str, Rate, Rate]]:
    """Yield each content of denials, with the rates recovered from in the next turn and ever."""
    usual = f"denial: {kind}" if kind else "denial"
    for content in (usual, *_CONTENT.values()):
        denials_of_content = [
            [one for one in of_trial if _CONTENT.get(one.failure_class, usual) == content]
            for of_trial in denials
        ]
        if any(denials_of_content):
            next_turn = _share(denials_of_content, layout, _recovered_within(1))
            yield content, next_turn, _share(denials_of_content, layout, _is_recovered)


def _dependence(
    trials: Sequence[TrialRecovery], layout: Layout
) -> tuple[float, float, float] | None:
    denied = [trial.after_denied for trial in trials]
    allowed = [trial.after_allowed for trial in trials]
    if not all(any(size for _, size in column) for column in (denied, allowed)):
        return None
    return gap(denied, allowed, layout)


def _incidence(
    scored: Score, about: Estimand, ends: Collection[Outcome]
) -> Iterator[tuple[str, tuple[tuple[float, Incidence], ...]]]:
    """Yield the incidence of recovery, then that of every outcome in `ends`."""
    scenarios, trials = [], []
    for trial in (*scored.counted, *scored.voids):
        followed = _followed(trial)
        if followed:
            scenarios.append(trial.scenario)
            trials.append(followed)
    layout = Layout(about, scenarios)
    for end in (RECOVERED, *(str(end) for end in Outcome if end in ends)):
        by_turns = [(turns, incidence(trials, end, turns, layout)) for turns in (*WITHIN, inf)]
        yield end, tuple(by_turns)


def _followed(trial: TrialSummary) -> list[Followed]:
    end = "" if trial.outcome is Outcome.VOID else str(trial.outcome)
    return [
        Followed(one.played, end) if one.turns is None else Followed(one.turns, RECOVERED)
        for one in trial.recovery.answerable
    ]


def _share(denials: Denials, layout: Layout, counts: Callable[[DenialRecovery], bool]) -> Rate:
    """Return the share of denials for which `counts` is true."""
    return clustered([(sum(map(counts, trial)), len(trial)) for trial in denials], layout)


def _of_kind(kind: Recovery) -> Callable[[DenialRecovery], bool]:
    def is_of_kind(denial: DenialRecovery) -> bool:
        return denial.recovery is kind

    return is_of_kind


def _recovered_within(turns: int) -> Callable[[DenialRecovery], bool]:
    def is_recovered_within(denial: DenialRecovery) -> bool:
        return denial.turns is not None and denial.turns <= turns

    return is_recovered_within


def _is_recovered(denial: DenialRecovery) -> bool:
    return denial.turns is not None


def _unrecovered(scored: Score, denials: Denials, layout: Layout, end: Outcome) -> Rate:
    """Return the share of denials without recovery, in trials with this outcome."""
    clusters = []
    for trial, of_trial in zip(scored.counted, denials, strict=True):
        unrecovered = sum(denial.turns is None for denial in of_trial)
        clusters.append((unrecovered if trial.outcome is end else 0, len(of_trial)))
    return clustered(clusters, layout)


# Its tables.

FAILED_SHOWN = (1, 3, inf)  # turns


def denial_tables(views: Sequence[RunView]) -> Iterator[Table]:
    """Yield the tables of recovery; without a denial that of its contents would have no row."""
    columns = heads(views, (f"n={counted(view.recovery.at_all.n, 'denial')}" for view in views))
    kinds = [dict(view.recovery.kinds) for view in views]
    rows = [row(kind, (share(rates[kind]) for rates in kinds)) for kind in kinds[0]]
    yield titled_table("reactions", columns, [*rows, *figure_rows("reactions", views)])
    if any(view.recovery.by_told for view in views):
        yield _recovery_by_content(views)
    yield _way_back(views)
    yield titled_table("burden", heads(views), figure_rows("burden", views))


def _recovery_by_content(views: Sequence[RunView]) -> Table:
    rates_by_content = [
        {content: rates for content, *rates in view.recovery.by_told} for view in views
    ]
    contents = dict.fromkeys(content for of_run in rates_by_content for content in of_run)
    rows = []
    for content in contents:
        for at, when in enumerate(("next turn", "ever")):
            rates = [of_run.get(content) for of_run in rates_by_content]
            cells = (own_share(both[at]) if both else NOTHING for both in rates)
            rows.append(row(f"{content}, {when}", cells))
    return titled_table("recovery-by-content", heads(views), rows)


def _way_back(views: Sequence[RunView]) -> Table:
    by_end = [dict(view.recovery.incidence) for view in views]
    rows = []
    for end in by_end[0]:
        if end != RECOVERED and not any(dict(run[end])[inf].count for run in by_end):
            continue
        for at, (turns, _) in enumerate(by_end[0][end]):
            if end == RECOVERED or turns in FAILED_SHOWN:
                cells = (_incidence_cell(run[end][at][1]) for run in by_end)
                rows.append(row(f"{end} {_turns_text(turns)}", cells))
    rows += figure_rows("way-back", views)
    followed = (run[RECOVERED][0][1].n for run in by_end)
    columns = heads(views, (f"n={counted(denials, 'denial')}" for denials in followed))
    return titled_table("way-back", columns, rows)


def _turns_text(turns: float) -> str:
    if turns == inf:
        return "at last"
    return "within 1 turn" if turns == 1 else f"within {turns:g} turns"


def _incidence_cell(incidence: Incidence, n: str = "") -> Cell:
    if isnan(incidence.value):
        return NOTHING
    interval = f"[{100 * incidence.low:.1f}, {100 * incidence.high:.1f}]"
    value = f"{100 * incidence.value:.1f}%"
    return Cell(value, str(incidence.count), interval, n, zero=not incidence.count)


# Charts.

SERIES = 6  # colours that the stylesheet has
LEFT, TOP, RIGHT, BOTTOM = 46.0, 10.0, 500.0, 214.0  # between the axes, of a canvas of 520 by 260


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
    marks: tuple[Mark, ...]
    joined: bool

    @property
    def path(self) -> str:
        return " ".join(f"{mark.x:.1f},{mark.y:.1f}" for mark in self.marks)


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart. Ticks are a position and its text; `table` has all numbers, with n and interval."""

    id: str
    title: str
    note: str
    x_label: str
    y_label: str
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    series: Sequence[Series]
    table: Table


def figures_of(view: View) -> list[Figure]:
    """Return the charts for which these runs have data."""
    figures = (_speed_and_errors(view.runs), _recovery(view.runs), _levels(view.runs))
    return [figure for figure in figures if figure]


def _drawn(
    points_by_model: Mapping[str, Sequence[Mark]], table: Table, **texts: str
) -> Figure | None:
    """Return the chart of these points, in the units of its axes; None where there is no point."""
    points = list(chain.from_iterable(points_by_model.values()))
    if not points:
        return None
    x_step, x_end = scale(max(point.x for point in points))
    if x_end > 1 and x_end == round(x_end):
        x_step = max(1.0, x_step)
    y_step, y_end = scale(max(max(point.high, point.y) for point in points))

    def x(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * value / x_end

    def y(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * min(value, y_end) / y_end

    series = []
    for at, (model, of_model) in enumerate(points_by_model.items()):
        marks = [
            Mark(x(point.x), y(point.y), y(point.low), y(point.high), f"{model}: {point.label}")
            for point in of_model
        ]
        series.append(Series(model, at % SERIES, tuple(marks), joined=len(marks) > 1))
    return Figure(
        x_ticks=[(x(at), f"{at:g}") for at in _ticks(x_step, x_end)],
        y_ticks=[(y(at), f"{at:g}") for at in _ticks(y_step, y_end)],
        series=series,
        note=table.note,
        table=table,
        **texts,
    )


def _ticks(step: float, end: float) -> Iterator[float]:
    return (round(at * step, 9) for at in range(round(end / step) + 1))


def useful(view: RunView) -> tuple[int, float | None]:
    """Return the calls that were allowed and ran, and their number a minute if measured."""
    count = view.tallies.useful if view.tallies else 0
    seconds = view.run.effort.seconds if view.run.effort else None
    return count, 60 * count / seconds if seconds else None


def _speed_and_errors(views: Sequence[RunView]) -> Figure | None:
    points: dict[str, list[Mark]] = {}
    rows = []
    for view in views:
        total = view.errors.total
        count, speed = useful(view)
        rows.append(row(view.label, (pace(count, speed), own_per_100(total))))
        points[view.label] = []
        if speed and total.n:
            label = f"{total.per_100()} errors per 100 calls, {speed:.1f} useful calls a minute"
            value, low, high = 100 * total.value, 100 * total.low, 100 * total.high
            points[view.label].append(Mark(speed, value, low, high, label))
    columns = titled(views, "useful calls/min", "errors per 100 calls")
    return _drawn(
        points,
        titled_table("speed", columns, rows),
        id="speed",
        title="Errors against useful calls per minute",
        x_label="useful calls per minute",
        y_label="errors per 100 calls",
    )


def pace(count: int, speed: float | None) -> Cell:
    return Cell(UNKNOWN) if speed is None else replace(measured(speed), n=f"n={count:,}")


def titled(views: Sequence[RunView], *labels: str) -> tuple[Head, ...]:
    """Return columns that are no models; the first one is marked if any run was simulated."""
    simulated = any(view.errors.simulated for view in views)
    return tuple(head(label, simulated=simulated and not at) for at, label in enumerate(labels))


def _recovery(views: Sequence[RunView]) -> Figure | None:
    """Return the chart of the share of denials recovered from, by turns since the denial."""
    points: dict[str, list[Mark]] = {}
    cells: dict[float, list[Cell]] = defaultdict(list)
    for view in views:
        points[view.label] = []
        for turns, recovered in dict(view.recovery.incidence)[RECOVERED]:
            cells[turns].append(_incidence_cell(recovered, f"n={recovered.n}"))
            if isfinite(turns) and not isnan(recovered.value):
                points[view.label] = points[view.label] or [Mark(0, 0, 0, 0, "at the denial")]
                points[view.label].append(_recovery_mark(turns, recovered))
    rows = [
        row("at last" if turns == inf else f"{turns:g} turns", of_turns)
        for turns, of_turns in cells.items()
    ]
    columns = (head(view.label, simulated=view.errors.simulated) for view in views)
    return _drawn(
        points,
        titled_table("recovery", columns, rows),
        id="recovery",
        title="Recovery by turns since the denial",
        x_label="turns since the denial",
        y_label="% recovered",
    )


def _recovery_mark(turns: float, recovered: Incidence) -> Mark:
    label = f"{100 * recovered.value:.0f} % within {turns:g} turns, n={recovered.n}"
    return Mark(turns, 100 * recovered.value, 100 * recovered.low, 100 * recovered.high, label)


def _levels(views: Sequence[RunView]) -> Figure | None:
    """Return the chart of useful calls by concurrency, of models played at several levels."""
    by_model: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for view in views:
        count, speed = useful(view)
        if speed is not None:
            by_model[view.run.model.name].append((view.run.concurrency, count, speed))
    points: dict[str, list[Mark]] = {}
    rows = []
    for name, levels in by_model.items():
        if len({level for level, *_ in levels}) == 1:
            continue
        points[name] = []
        for level, count, speed in sorted(levels):
            points[name].append(Mark(level, speed, speed, speed, f"{speed:.1f} at {level}"))
            rows.append(row(f"{name}, {level}", (pace(count, speed),)))
    columns = titled(views, "useful calls/min")
    return _drawn(
        points,
        titled_table("levels", columns, rows),
        id="levels",
        title="Useful calls per minute by concurrency",
        x_label="trials at the same time",
        y_label="useful calls per minute",
    )


# The map of scenarios.

LEVELS = 10  # shades of the heat map


@dataclass(frozen=True, slots=True)
class _HeatCell:
    """One cell of the heat map: the trials completed, as a shade, and the errors."""

    completed: Rate
    errors: Rate

    @property
    def shade(self) -> int:
        return round(LEVELS * self.completed.value) if self.completed.n else -1

    @property
    def label(self) -> str:
        if not self.completed.n:
            return "not played"
        low, high = 100 * self.completed.low, 100 * self.completed.high
        done = f"completed {self.completed.count} of {self.completed.n} [{low:.0f}, {high:.0f}] %"
        errors = self.errors.per_100() if self.errors.n else "no call"
        return f"{done}; errors per 100 calls: {errors}"


def heat_map(view: View) -> list[tuple[str, list[_HeatCell]]]:
    """Return a row for each scenario, those completed least often first."""
    nothing = _HeatCell(Rate(0, 0), Rate(0, 0))
    rows: dict[str, list[_HeatCell]] = {}
    for at, run in enumerate(view.runs):
        for scenario in run.scenarios:
            cells = rows.setdefault(scenario.name, [nothing] * len(view.runs))
            cells[at] = _HeatCell(scenario.completed, scenario.errors)
    by_name = sorted(rows.items(), key=itemgetter(0))
    return sorted(by_name, key=_completed)


def _completed(named_cells: tuple[str, Sequence[_HeatCell]]) -> float:
    _, cells = named_cells
    trials = sum(cell.completed.n for cell in cells)
    return sum(cell.completed.count for cell in cells) / trials if trials else 1.0
