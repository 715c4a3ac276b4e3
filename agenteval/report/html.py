"""The view as one self-contained page: no script, nothing fetched, light and dark."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from agenteval.core.plain import visible
from agenteval.errors import UsageError
from agenteval.report.details import detail_tables
from agenteval.report.gate_view import UNITS, GateView, goals_told
from agenteval.report.goals import missed_lines
from agenteval.report.sentences import LEADS
from agenteval.report.tables import MARK, MISSED, SAID, comparison_table
from agenteval.report.transcripts import TrialShown, shown_trial, worst_first
from agenteval.report.view import RunView, View
from agenteval.report.voids import void_lines
from agenteval.stats.rates import Rate


@dataclass(frozen=True, slots=True)
class Mark:
    """One model's rate in one class. Positions are percent of the scale; an end may be beyond."""

    model: str
    colour: int  # which of the stylesheet's series
    rate: Rate
    left: float
    at: float
    right: float


@dataclass(frozen=True, slots=True)
class Band:
    """One class, with a mark for each model."""

    label: str
    marks: tuple[Mark, ...]
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    ticks: tuple[tuple[float, str], ...]  # position in percent, text
    bands: tuple[Band, ...]


SERIES = 6  # colours that the stylesheet has


def signature_chart(view: View) -> Chart:
    """Classes in which any model erred, and the total. The scale ends where their intervals do."""
    shown = [
        (row.id, [model.rows[at] for model in view.models])
        for at, row in enumerate(view.rows)
        if any(model.rows[at].count for model in view.models)
    ]
    totals = [model.total for model in view.models]
    step, end = scale([rate for _, rates in [*shown, ("", totals)] for rate in rates])
    names = [model.label for model in view.models]
    bands = [Band(label, _marks(names, rates, end)) for label, rates in shown]
    ticks = [100 * step * at / end for at in range(round(end / step) + 1)]
    return Chart(
        ticks=tuple((tick, f"{100 * step * at:g}") for at, tick in enumerate(ticks)),
        bands=(*bands, Band("total", _marks(names, totals, end), strong=True)),
    )


def scale(rates: Sequence[Rate]) -> tuple[float, float]:
    """The distance of ticks and the end of the scale: four to ten ticks of 1, 2 or 5 times ten^k.

    Intervals of classes never seen are wide and tell little, so they do not stretch the scale.
    """
    reach = max((rate.high for rate in rates if rate.count), default=0.1)
    power = 10.0 ** floor(log10(reach))
    step = next(part * power for part in (0.1, 0.2, 0.5, 1.0) if reach <= 10 * part * power)
    ticks = 1
    while ticks * step < reach - 1e-9:
        ticks += 1
    return step, ticks * step


def _marks(names: Sequence[str], rates: Sequence[Rate], end: float) -> tuple[Mark, ...]:
    return tuple(
        Mark(
            name,
            at % SERIES,
            rate,
            left=100 * rate.low / end,
            at=100 * rate.value / end if rate.n else 0.0,
            right=min(100.0, 100 * rate.high / end),
        )
        for at, (name, rate) in enumerate(zip(names, rates, strict=True))
    )


def write(view: View, path: Path) -> None:
    """Write the page, making its folder. Raises UsageError where nothing can be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(view), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"--report {path}: cannot be written ({error.strerror}); name a file in a folder of "
            "yours. The run itself is stored: see agenteval show"
        ) from error


def page(view: View) -> str:
    return _rendered(
        "report.html",
        view=view,
        said=SAID,
        leads=LEADS,
        legend=[row for row in view.rows if row.rationale],
        comparison=comparison_table(view),
        chart=signature_chart(view),
        details=detail_tables(view),
        missed=(MISSED, missed_lines(view)),
        voids=void_lines(view),
        trials=[(run, _shown_trials(run)) for run in view.runs],
    )


INLINE = 100  # trials of one run in the page itself


def _shown_trials(view: RunView) -> list[TrialShown]:
    worst = worst_first(view.run.trials)
    return [shown_trial(trial) for trial in worst[:INLINE]]


def verdict_page(view: GateView, meaning: str) -> str:
    """A gate's verdict; `meaning` is what it asks to be done."""
    return _rendered(
        "verdict.html",
        view=view,
        meaning=meaning,
        goals=goals_told(view),
        sure=f"{100 * (1 - view.judgement.level):.4g}",
        units=UNITS,
    )


def _rendered(template: str, **shown: Any) -> str:
    templates = Environment(
        loader=PackageLoader("agenteval.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    styles, _, _ = templates.loader.get_source(templates, "report.css")  # type: ignore[union-attr]
    style = Markup(styles)  # noqa: S704 - our own file, and a stylesheet must not be escaped
    return templates.get_template(template).render(mark=MARK, style=style, **shown)


def _shown(value: object) -> object:
    """Every value of the page: a model's words stay where they are, and hide nothing."""
    return visible(value) if type(value) is str else value
