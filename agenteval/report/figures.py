"""The charts of a page, as positions on their canvas, each with its table of numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import floor, inf, isfinite, isnan, log10
from typing import Any

from agenteval.report.denial_recovery import RECOVERED
from agenteval.report.speed import UNKNOWN, measured
from agenteval.report.tables import Cell, Head, Table, head, per_100, row
from agenteval.report.view import RunView, View
from agenteval.stats.incidence import Incidence
from agenteval.stats.rates import Rate

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
        for at, share in dict(view.recovery.incidence)[RECOVERED]:
            if isnan(share.value):
                rows[at].append(Cell("-"))
                continue
            rows[at].append(_incidence_cell(share))
            if isfinite(at):
                label = f"{100 * share.value:.0f} % within {at:g} turns, n={share.n}"
                point = _Point(at, 100 * share.value, 100 * share.low, 100 * share.high, label)
                points.append(point)
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
