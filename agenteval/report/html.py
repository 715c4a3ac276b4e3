"""The view as one self-contained page: no script, nothing fetched, light and dark."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from agenteval.errors import unwritten
from agenteval.host import write_whole
from agenteval.report.console import in_short, standing_table
from agenteval.report.details import (
    Behind,
    CallList,
    behind,
    calls_beside,
    detail_tables,
    gather,
    prompts_of,
    read_trials,
    repeat_line,
)
from agenteval.report.figures import SERIES, figures_of, heat_map, scale
from agenteval.report.gate import UNITS, GateView, goals_told
from agenteval.report.sentences import LEADS
from agenteval.report.tables import MARK, MISSED, SAID, comparison_table, missed_of, void_lines
from agenteval.report.transcripts import shown_trial
from agenteval.report.view import RunView, View
from agenteval.stats.promotion import confidence_text
from agenteval.stats.rates import Rate
from agenteval.trial.text import as_name, visible


@dataclass(frozen=True, slots=True)
class Mark:
    """One model's rate in one class. Positions are percent of the scale, ends may lie beyond."""

    model: str
    colour: int  # which of the stylesheet's series
    rate: Rate
    left: float
    at: float
    right: float


@dataclass(frozen=True, slots=True)
class _Band:
    """One class, with a mark for each model."""

    label: str
    marks: tuple[Mark, ...]
    strong: bool = False


@dataclass(frozen=True, slots=True)
class _Chart:
    ticks: tuple[tuple[float, str], ...]  # position in percent, text
    bands: tuple[_Band, ...]


def signature_chart(view: View) -> _Chart:
    """Return the chart of the classes in which any model erred, and the total.

    The scale ends where their intervals do.
    """
    rates_by_class = [
        (row.id, [model.rows[at] for model in view.models])
        for at, row in enumerate(view.rows)
        if any(model.rows[at].count for model in view.models)
    ]
    totals = [model.total for model in view.models]
    rates = [rate for _, rates in [*rates_by_class, ("", totals)] for rate in rates]
    # Intervals of classes never seen are wide and tell little: they do not stretch the scale.
    step, end = scale(max((rate.high for rate in rates if rate.count), default=0.1))
    names = [model.label for model in view.models]
    bands = [_Band(label, _marks(names, rates, end)) for label, rates in rates_by_class]
    ticks = [100 * step * at / end for at in range(round(end / step) + 1)]
    return _Chart(
        ticks=tuple((tick, f"{100 * step * at:g}") for at, tick in enumerate(ticks)),
        bands=(*bands, _Band("total", _marks(names, totals, end), strong=True)),
    )


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


Step = tuple[str, tuple[tuple[str, int, Rate], ...]]  # and of each model, with its colour


def funnels(view: View) -> list[tuple[str, tuple[Step, ...]]]:
    """Return the steps of each scenario's handshake, with each model's rate of passing them."""
    names = sorted({one.scenario for run in view.runs for one in run.handshakes})
    return [(name, _steps(view.runs, name)) for name in names]


def _steps(views: Sequence[RunView], scenario: str) -> tuple[Step, ...]:
    passed: dict[str, list[tuple[str, int, Rate]]] = {}
    for at, view in enumerate(views):
        for one in view.handshakes:
            for step, rate in one.steps if one.scenario == scenario else ():
                passed.setdefault(step, []).append((view.label, at % SERIES, rate))
    return tuple((step, tuple(of)) for step, of in passed.items())


def write(view: View, path: Path, verdict: "PageVerdict | None" = None) -> None:
    """Write the page and the separate ones, and create their folders.

    A verdict comes first, if there is one. Raises as `unwritten` if a file cannot be written.
    """
    try:
        for name, text in pages(view, path.name, verdict):
            file = path if not name else path.parent / name
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, text)
    except OSError as error:
        cure = "name a file in a folder of yours. The run itself is stored: see agenteval show"
        raise unwritten(f"--report {path}", error, cure) from error


@dataclass(frozen=True, slots=True)
class PageVerdict:
    """A gate's verdict, and what to do about it."""

    gate: GateView
    meaning: str

    @property
    def goals(self) -> str:
        return goals_told(self.gate)

    @property
    def sure(self) -> str:
        return confidence_text(self.gate.judgement.level)


def page(view: View, verdict: PageVerdict | None = None) -> str:
    """Return the page without the separate ones."""
    return next(pages(view, "report.html", verdict))[1]


def pages(view: View, name: str, verdict: PageVerdict | None) -> Iterator[tuple[str, str]]:
    """Yield the page of this name, with "" as its file, and the separate ones with their files."""
    folder = f"{Path(name).stem}.trials"
    evidence = behind(view, folder)
    yield "", _main(view, evidence, verdict)
    calls = evidence.inline
    for other_page in evidence.pages:
        transcripts = []
        for line, trial in read_trials(other_page.run, other_page.lines):
            transcripts.append(shown_trial(trial, line.place))
            gather(calls, other_page.at, line, trial)
        prompts = prompts_of(transcripts)
        yield (
            other_page.file,
            _rendered("trials.html", beside=other_page, shown=transcripts, prompts=prompts),
        )
    for more in calls_beside(evidence.calls, calls):
        yield more.file, _rendered("calls.html", beside=more, main=name)


def _main(view: View, evidence: Behind, verdict: PageVerdict | None) -> str:
    return _rendered(
        "report.html",
        view=view,
        told=verdict,
        units=UNITS,
        said=SAID,
        leads=LEADS,
        legend=[row for row in view.rows if row.rationale],
        standing=standing_table(view),
        short=in_short(view),
        comparison=comparison_table(view),
        chart=signature_chart(view),
        figures=figures_of(view),
        funnels=funnels(view),
        heat=heat_map(view),
        details=detail_tables(view),
        repeated=[(run.label, repeat_line(run.run)) for run in view.runs],
        missed=(MISSED, [(run.label, of) for run in view.runs if (of := missed_of(run))]),
        voids=void_lines(view),
        behind=evidence,
        prompts=prompts_of([one for of in evidence.transcripts for one in of]),
        hrefs=_hrefs(view, evidence.calls),
        origins=_origins(view, evidence.calls),
    )


def _hrefs(view: View, calls: Sequence[CallList]) -> dict[tuple[str, int], str]:
    """Return the links to the calls behind each count of the comparison, by row and column."""
    columns = [model.label for model in view.models]
    calls_hrefs: dict[tuple[str, int], str] = {
        (as_name(one.failure_class), columns.index(one.run.label)): f"#{one.place}" for one in calls
    }
    trials = {
        ("goal reached, of trials", columns.index(run.label)): f"#run-{at}"
        for at, run in enumerate(view.runs)
    }
    totals = {("total", columns.index(one.run.label)): DENIED for one in calls}
    return calls_hrefs | trials | totals


DENIED = "#denied"


def _origins(view: View, calls: Sequence[CallList]) -> dict[tuple[str, int], str]:
    """Return the links of each model's line, by row and column.

    Goals and useful calls link to its trials, the rest to its denied calls.
    """
    with_denials = {one.run.label for one in calls}
    hrefs: dict[tuple[str, int], str] = {}
    for at, run in enumerate(view.runs):
        trials, denied = f"#run-{at}", DENIED if run.label in with_denials else ""
        for column, href in enumerate((trials, denied, denied, denied, trials)):
            hrefs[as_name(run.label), column] = href
    return hrefs


def _rendered(template: str, **values: Any) -> str:
    templates = templates_of("agenteval.report")
    styles, _, _ = templates.loader.get_source(templates, "report.css")  # type: ignore[union-attr]
    style = Markup(styles)  # noqa: S704 - our own file, and a stylesheet must not be escaped
    return templates.get_template(template).render(mark=MARK, style=style, **values)


@cache
def templates_of(*packages: str) -> Environment:
    """Return the environment of these packages' templates; the first package has precedence."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_visible,
    )


def _visible(value: object) -> object:
    """Escape control characters of every text of the page: a model's words cannot hide anything."""
    return visible(value) if type(value) is str else value
