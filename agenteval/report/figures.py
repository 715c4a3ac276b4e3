"""The charts of a page, as positions on their canvas, each with its table of numbers.

Recovery from the denials of one run: its kinds, the turns to it, and the outcomes without it.

Void trials are excluded from every rate. They are included in the cumulative incidence: a denial
there is followed until our side or the server broke the trial.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import floor, inf, isfinite, isnan, log10
from statistics import median
from typing import Any

from agenteval.report.speed import UNKNOWN, measured
from agenteval.report.tables import (
    Cell,
    Head,
    Table,
    counted,
    head,
    heads,
    per_100,
    plain,
    row,
    share,
)
from agenteval.report.view import RecoveryFigures, RunView, View
from agenteval.stats.comparison import gap
from agenteval.stats.incidence import Followed, Incidence, incidence
from agenteval.stats.rates import NOTHING, Estimand, Layout, Rate, clustered
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
    back = [one for of_trial in denials for one in of_trial if one.turns is not None]
    share_of = partial(_share, denials, layout)
    ended = [
        (trial.outcome, sum([one.turns is None for one in of_trial]), len(of_trial))
        for trial, of_trial in zip(scored.counted, denials, strict=True)
    ]
    kinds = [kind for kind in Recovery if kind is not Recovery.NO_CHANCE]
    return RecoveryFigures(
        kinds=tuple((kind, share_of(_is(kind))) for kind in kinds),
        no_chance=_share([trial.aftermaths for trial in trials], layout, _is(Recovery.NO_CHANCE)),
        at_once=share_of(_back_within(1)),
        recovered_within=tuple((turns, share_of(_back_within(turns))) for turns in WITHIN),
        at_all=share_of(lambda one: one.turns is not None),
        unrecovered=tuple(
            (end, _unrecovered(ended, layout, end))
            for end in Outcome
            if end in ends or end not in {Outcome.VOID, Outcome.NOT_OBSERVABLE}
        ),
        turns=median(one.turns or 0 for one in back) if back else None,
        calls=median(one.calls or 0 for one in back) if back else None,
        longest_run=max((trial.longest_run for trial in trials), default=0),
        turns_burned=clustered([trial.turns_burned for trial in trials], layout),
        after_denied=clustered([trial.after_denied for trial in trials], layout),
        after_allowed=clustered([trial.after_allowed for trial in trials], layout),
        dependence=_dependence(trials, layout),
        incidence=_incidence(scored, layout.estimand, ends),
        by_told=tuple(_by_told(denials, layout, denial_kind)),
    )


# What a denial of these tells is no matter of the arm's kind: that there is no such tool, or why
# the arguments do not fit.
_CONTENT = {"hallucinated-tool": "no such tool", "malformed-arguments": "no such arguments"}


def _by_told(denials: Denials, layout: Layout, kind: str) -> Iterator[tuple[str, Rate, Rate]]:
    """Yield each content of denials, with the rates recovered from in the next turn and ever."""
    usual = f"denial: {kind}" if kind else "denial"
    for content in (usual, *_CONTENT.values()):
        denials_of_content = [
            [one for one in of_trial if _CONTENT.get(one.failure_class, usual) == content]
            for of_trial in denials
        ]
        if any(denials_of_content):
            ever = _share(denials_of_content, layout, lambda one: one.turns is not None)
            yield content, _share(denials_of_content, layout, _back_within(1)), ever


def _dependence(
    trials: Sequence[TrialRecovery], layout: Layout
) -> tuple[float, float, float] | None:
    columns = [one.after_denied for one in trials], [one.after_allowed for one in trials]
    known = all(any(size for _, size in column) for column in columns)
    return gap(*columns, layout) if known else None


def _incidence(
    scored: Score, about: Estimand, ends: Collection[Outcome]
) -> tuple[tuple[str, tuple[tuple[float, Incidence], ...]], ...]:
    """Return the incidence of recovery, then that of every outcome in `ends`."""
    denied = [
        (trial.scenario, followed)
        for trial in (*scored.counted, *scored.voids)
        if (followed := _followed(trial))
    ]
    layout = Layout(about, [scenario for scenario, _ in denied])
    trials = [followed for _, followed in denied]
    names = [RECOVERED, *(str(end) for end in Outcome if end in ends)]
    return tuple(
        (end, tuple((turns, incidence(trials, end, turns, layout)) for turns in (*WITHIN, inf)))
        for end in names
    )


def _followed(trial: TrialSummary) -> list[Followed]:
    end = "" if trial.outcome is Outcome.VOID else str(trial.outcome)
    return [
        Followed(one.played, end) if one.turns is None else Followed(one.turns, RECOVERED)
        for one in trial.recovery.answerable
    ]


def _share(denials: Denials, layout: Layout, counts: Callable[[DenialRecovery], bool]) -> Rate:
    """Return the share of denials for which `counts` is true."""
    clusters = [
        (sum(map(counts, of_trial)), len(of_trial)) if of_trial else NOTHING for of_trial in denials
    ]
    return clustered(clusters, layout)


def _is(kind: Recovery) -> Callable[[DenialRecovery], bool]:
    return lambda one: one.recovery is kind


def _back_within(turns: int) -> Callable[[DenialRecovery], bool]:
    return lambda one: one.turns is not None and one.turns <= turns


def _unrecovered(ended: Sequence[tuple[Outcome, int, int]], layout: Layout, end: Outcome) -> Rate:
    """Return the share of denials without recovery, in trials with this outcome."""
    return clustered(
        [(unrecovered if of is end else 0, size) for of, unrecovered, size in ended], layout
    )


FAILED_SHOWN = (1, 3, inf)  # turns


def denial_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    has_denials = any(view.recovery.by_told for view in views)
    between = (
        (_recovery_by_content(views),) if has_denials else ()
    )  # without a denial it has no row
    return _reactions(views), *between, _way_back(views), _burden(views)


def _recovery_by_content(views: Sequence[RunView]) -> Table:
    rates_by_content = [
        {content: rates for content, *rates in view.recovery.by_told} for view in views
    ]
    rows = [
        row(
            f"{content}, {when}",
            (
                share(one[content][at], own_n=True) if content in one else Cell("-")
                for one in rates_by_content
            ),
        )
        for content in dict.fromkeys(content for one in rates_by_content for content in one)
        for at, when in enumerate(("next turn", "ever"))
    ]
    note = (
        "Denials that were recovered from, by what they told: of a call, as the arm words it; that "
        "there is no such tool; why the arguments do not fit."
    )
    return Table("Recovery by what a denial told", note, heads(views), tuple(rows))


def _reactions(views: Sequence[RunView]) -> Table:
    after = [view.recovery for view in views]
    rows = [
        row(kind, (share(dict(one.kinds)[kind]) for one in after)) for kind, _ in after[0].kinds
    ]
    rows.append(row("no chance, of all", (share(one.no_chance, own_n=True) for one in after)))
    note = (
        "What became of a denied intent: denials, share and 95 % interval. No chance: the trial "
        "ended with that turn, or its goal was reached first."
    )
    return Table("After a denial", note, _columns(views), tuple(rows))


def _way_back(views: Sequence[RunView]) -> Table:
    after = [view.recovery for view in views]
    ends = [end for end, _ in after[0].incidence if any(_came(one, end) for one in after)]
    turns = [at for at, _ in after[0].incidence[0][1]]
    rows = [
        row(f"{end} {_turns_text(at)}", (_share_by(one, end, at) for one in after))
        for end in ends
        for at in turns
        if end == RECOVERED or at in FAILED_SHOWN
    ]
    rows += [
        row("turns to it, median", (plain(one.turns) for one in after)),
        row("calls to it, median", (plain(one.calls) for one in after)),
    ]
    note = (
        "Cumulative incidence by turns since the denial: its intent allowed or other work, or the "
        "end of the trial without. Ends exclude each other; trials that broke are followed until "
        "then."
    )
    return Table("The way back", note, heads(views, _followed_cell), tuple(rows))


def _came(after: RecoveryFigures, end: str) -> bool:
    return end == RECOVERED or dict(dict(after.incidence)[end])[inf].count > 0


def _turns_text(turns: float) -> str:
    if turns == inf:
        return "at last"
    return "within 1 turn" if turns == 1 else f"within {turns:g} turns"


def _share_by(after: RecoveryFigures, end: str, turns: float) -> Cell:
    share = dict(dict(after.incidence)[end])[turns]
    if isnan(share.value):
        return Cell("-")
    interval = f"[{100 * share.low:.1f}, {100 * share.high:.1f}]"
    return Cell(f"{100 * share.value:.1f}%", str(share.count), interval, zero=not share.count)


def _followed_cell(view: RunView) -> str:
    (_, by_turns), *_ = view.recovery.incidence
    return f"n={counted(by_turns[0][1].n, 'denial')}"


def _dependence_cell(after: RecoveryFigures) -> Cell:
    if after.dependence is None:
        return Cell("-")
    value, low, high = (100 * one for one in after.dependence)
    return Cell(f"{value:+.1f}", interval=f"[{low:.1f}, {high:.1f}]")


def _columns(views: Sequence[RunView]) -> tuple[Head, ...]:
    return heads(views, lambda view: f"n={counted(view.recovery.at_all.n, 'denial')}")


def _burden(views: Sequence[RunView]) -> Table:
    after = [view.recovery for view in views]
    rows = (
        row("turns burned on denials", (share(one.turns_burned, own_n=True) for one in after)),
        row("denied after a denial", (share(one.after_denied, own_n=True) for one in after)),
        row("denied after none", (share(one.after_allowed, own_n=True) for one in after)),
        row("difference of the two", (_dependence_cell(one) for one in after)),
        row("burned turns in a row, most", (plain(one.longest_run) for one in after)),
    )
    note = "Turns in which every call was denied; calls denied, by the turn before."
    return Table("What denials cost", note, heads(views), rows)


SERIES = 6  # colours that the stylesheet has
LEFT, TOP, RIGHT, BOTTOM = 46.0, 10.0, 500.0, 214.0  # between the axes, of a canvas of 520 by 260


def scale(reach: float) -> tuple[float, float]:
    """Return the distance of ticks and the end of a scale.

    There are four to ten ticks of 1, 2 or 5 times ten^k.
    """
    reach = reach or 1.0
    power = 10.0 ** floor(log10(reach))
    step = next(part * power for part in (0.1, 0.2, 0.5, 1.0) if reach <= 10 * part * power)
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
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    series: tuple[Series, ...]
    table: Table


@dataclass(frozen=True, slots=True)
class _Point:
    """A point to be drawn, in the units of its axes."""

    x: float
    y: float
    low: float
    high: float
    label: str


def figures_of(view: View) -> list[Figure]:
    """Return the charts for which these runs have data."""
    figures = (_speed_and_errors(view.runs), _recovery(view.runs), _levels(view.runs))
    return [figure for figure in figures if figure]


def _drawn(named: Sequence[tuple[str, Sequence[_Point]]], **texts: Any) -> Figure | None:
    """Return the chart of these points by model; None where there is no point."""
    points = [point for _, of in named for point in of]
    if not points:
        return None
    x_step, x_end = scale(max(point.x for point in points))
    x_step = max(1.0, x_step) if x_end > 1 and x_end == round(x_end) else x_step
    y_step, y_end = scale(max(max(point.high, point.y) for point in points))

    def x(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * value / x_end

    def y(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * min(value, y_end) / y_end

    series = tuple(
        Series(
            model,
            at % SERIES,
            tuple(Mark(x(p.x), y(p.y), y(p.low), y(p.high), f"{model}: {p.label}") for p in of),
            joined=len(of) > 1,
        )
        for at, (model, of) in enumerate(named)
    )
    return Figure(
        x_ticks=tuple((x(at), f"{at:g}") for at in _ticks(x_step, x_end)),
        y_ticks=tuple((y(at), f"{at:g}") for at in _ticks(y_step, y_end)),
        series=series,
        **texts,
    )


def _ticks(step: float, end: float) -> Iterator[float]:
    return (round(at * step, 9) for at in range(round(end / step) + 1))


def useful(view: RunView) -> tuple[int, float | None]:
    """Return the calls that were allowed and ran, and their number a minute if measured."""
    count = view.tallies.useful if view.tallies else 0
    seconds = view.run.effort.seconds if view.run.effort else None
    return count, 60 * count / seconds if seconds else None


def tokens_per_second(view: RunView) -> float | None:
    """Return the completion tokens a second of all requests together."""
    seconds = view.run.effort.seconds if view.run.effort else None
    return view.executions.completion_tokens / seconds if seconds and view.executions else None


def _speed_and_errors(views: Sequence[RunView]) -> Figure | None:
    named, rows = [], []
    for view in views:
        total, (count, speed) = view.errors.total, useful(view)
        rows.append(row(view.label, (pace(count, speed), per_100(total, own_n=True))))
        label = f"{total.per_100()} errors per 100 calls, {speed or 0:.1f} useful calls a minute"
        point = _Point(speed or 0.0, 100 * total.value, 100 * total.low, 100 * total.high, label)
        named.append((view.label, [point] if speed and total.n else []))
    heads = titled(views, "useful calls/min", "errors per 100 calls")
    note = (
        "A useful call was allowed and ran. Best is low and to the right. Speed is of the whole "
        "run at its concurrency, measured once: it has no interval."
    )
    return _drawn(
        named,
        id="speed",
        title="Errors against useful calls per minute",
        note=note,
        x_label="useful calls per minute",
        y_label="errors per 100 calls",
        table=Table("", note, heads, tuple(rows), "model"),
    )


def pace(count: int, speed: float | None) -> Cell:
    return Cell(UNKNOWN) if speed is None else replace(measured(speed), n=f"n={count:,}")


def titled(views: Sequence[RunView], *labels: str) -> tuple[Head, ...]:
    """Return columns that are no models; the first one is marked if any run was simulated."""
    simulated = any(view.errors.simulated for view in views)
    return tuple(head(label, simulated=simulated and not at) for at, label in enumerate(labels))


def _recovery(views: Sequence[RunView]) -> Figure | None:
    """Return the chart of the share of denials recovered from, by turns since the denial."""
    named = []
    turns = [at for at, _ in views[0].recovery.incidence[0][1]] if views else []
    rows: dict[float, list[Cell]] = {at: [] for at in turns}
    for view in views:
        points = []
        for at, recovered in dict(view.recovery.incidence)[RECOVERED]:
            if isnan(recovered.value):
                rows[at].append(Cell("-"))
                continue
            rows[at].append(_incidence_cell(recovered))
            if isfinite(at):
                points.append(_recovery_point(at, recovered))
        named.append((view.label, [_Point(0, 0, 0, 0, "at the denial"), *points] if points else []))
    note = (
        "Of the denials, how many were recovered from so many turns later: what was denied came "
        "again in an allowed form, or other work went on."
    )
    return _drawn(
        named,
        id="recovery",
        title="Recovery by turns since the denial",
        note=note,
        x_label="turns since the denial",
        y_label="% recovered",
        table=Table(
            "",
            note,
            tuple(head(view.label, simulated=view.errors.simulated) for view in views),
            tuple(
                row("at last" if at == inf else f"{at:g} turns", cells)
                for at, cells in rows.items()
            ),
            "within",
        ),
    )


def _recovery_point(turns: float, incidence: Incidence) -> _Point:
    label = f"{100 * incidence.value:.0f} % within {turns:g} turns, n={incidence.n}"
    return _Point(turns, 100 * incidence.value, 100 * incidence.low, 100 * incidence.high, label)


def _incidence_cell(incidence: Incidence) -> Cell:
    interval = f"[{100 * incidence.low:.1f}, {100 * incidence.high:.1f}]"
    value = f"{100 * incidence.value:.1f}%"
    return Cell(value, str(incidence.count), interval, f"n={incidence.n}", zero=not incidence.count)


def _levels(views: Sequence[RunView]) -> Figure | None:
    """Return the chart of useful calls by concurrency, of models played at several levels."""
    by_model: dict[str, list[tuple[int, int, float]]] = {}
    for view in views:
        count, speed = useful(view)
        if speed is not None:
            by_model.setdefault(view.run.model.name, []).append(
                (view.run.concurrency, count, speed)
            )
    swept = {name: sorted(of) for name, of in by_model.items() if len({at for at, *_ in of}) > 1}
    points = [
        (name, [_Point(at, speed, speed, speed, f"{speed:.1f} at {at}") for at, _, speed in of])
        for name, of in swept.items()
    ]
    rows = [
        row(f"{name}, {at}", (pace(count, speed),))
        for name, of in swept.items()
        for at, count, speed in of
    ]
    note = "Each level was measured once: a speed has no interval. `agenteval speed` has more."
    return _drawn(
        points,
        id="levels",
        title="Useful calls per minute by concurrency",
        note=note,
        x_label="trials at the same time",
        y_label="useful calls per minute",
        table=Table("", note, titled(views, "useful calls/min"), tuple(rows), "concurrency"),
    )


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


def heat_map(view: View) -> list[tuple[str, tuple[_HeatCell, ...]]]:
    """Return a row for each scenario, those completed least often first."""
    played = [{one.name: one for one in run.scenarios} for run in view.runs]
    nothing = _HeatCell(Rate(0, 0), Rate(0, 0))
    rows = [
        (
            name,
            tuple(
                _HeatCell(run[name].completed, run[name].errors) if name in run else nothing
                for run in played
            ),
        )
        for name in sorted({name for run in played for name in run})
    ]
    return sorted(rows, key=lambda row: _completed(row[1]))


def _completed(cells: Sequence[_HeatCell]) -> float:
    trials = sum(cell.completed.n for cell in cells)
    return sum(cell.completed.count for cell in cells) / trials if trials else 1.0
