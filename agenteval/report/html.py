"""The view as one self-contained page: no script, nothing fetched, light and dark."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from agenteval.errors import unwritten
from agenteval.host import write_whole
from agenteval.report.console import standing_table
from agenteval.report.details import (
    CallList,
    Evidence,
    calls_beside,
    detail_tables,
    evidence_of,
    gather,
    prompts_of,
    read_trials,
    repeat_line,
)
from agenteval.report.figures import SERIES, figures_of, heat_map, scale, ticks
from agenteval.report.gate import UNITS, GateView
from agenteval.report.sentences import LEADS
from agenteval.report.tables import MARK, MISSED, SAID, comparison_table, missed_of, void_lines
from agenteval.report.transcripts import shown_trial
from agenteval.report.view import View
from agenteval.stats.rates import Rate
from agenteval.trial.text import as_name, visible


@dataclass(frozen=True, slots=True)
class _Chart:
    """The rates of all models on one scale, from 0 to `end`: of classes, and last in total."""

    end: float
    ticks: Sequence[float]
    bands: Sequence[tuple[str, Sequence[Rate]]]


def _signature_chart(view: View) -> _Chart:
    """Return the chart of the classes in which any model erred, and the total.

    The scale ends where their intervals do.
    """
    bands = []
    for row in view.rows:
        rates = [model.rows[row.id] for model in view.models]
        if any(rate.count for rate in rates):
            bands.append((row.id, rates))
    bands.append(("total", [model.total for model in view.models]))
    # Intervals of classes never seen are wide and tell little: they do not stretch the scale.
    reach = [rate.high for _, rates in bands for rate in rates if rate.count]
    step, end = scale(max(reach, default=0.1))
    return _Chart(end, ticks(step, end), bands)


_Passed = tuple[str, int, Rate]  # of a step: the model, its colour, and the rate of passing it


def _funnels(view: View) -> list[tuple[str, Mapping[str, list[_Passed]]]]:
    """Return the steps of each scenario's handshake, with each model's rate of passing them."""
    funnels: dict[str, dict[str, list[_Passed]]] = {}
    for at, run in enumerate(view.runs):
        for handshake in run.handshakes:
            funnel = funnels.setdefault(handshake.scenario, defaultdict(list))
            for step in handshake.steps:
                funnel[step.name].append((run.label, at % SERIES, step.passed))
    return sorted(funnels.items())


def write(view: View, path: Path, verdict: GateView | None = None) -> None:
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


def page(view: View, verdict: GateView | None = None) -> str:
    """Return the page without the separate ones."""
    return next(pages(view, "report.html", verdict))[1]


def pages(
    view: View,
    name: str,
    verdict: GateView | None,
) -> Iterator[tuple[str, str]]:
    """Yield the page of this name, with "" as its file, and the separate ones with their files."""
    evidence = evidence_of(view, f"{Path(name).stem}.trials")
    yield "", _main(view, evidence, verdict)
    calls = evidence.inline
    for other_page in evidence.pages:
        transcripts = []
        for line, trial in read_trials(other_page.run, other_page.lines):
            transcripts.append(shown_trial(trial, line.place))
            gather(calls, other_page.at, line, trial)
        prompts = prompts_of(transcripts)
        text = _rendered(
            "trials.html",
            beside=other_page,
            shown=transcripts,
            prompts=prompts,
        )
        yield other_page.file, text
    for more in calls_beside(evidence.calls, calls):
        yield more.file, _rendered("calls.html", beside=more, main=name)


def _main(view: View, evidence: Evidence, verdict: GateView | None) -> str:
    return _rendered(
        "report.html",
        view=view,
        gate=verdict,
        units=UNITS,
        said=SAID,
        leads=LEADS,
        legend=[row for row in view.rows if row.rationale],
        standing=standing_table(view),
        comparison=comparison_table(view),
        chart=_signature_chart(view),
        figures=figures_of(view),
        funnels=_funnels(view),
        heat=heat_map(view),
        details=detail_tables(view),
        repeated=[(run.label, repeat_line(run.run)) for run in view.runs],
        missed_title=MISSED,
        missed={run.label: lines for run in view.runs if (lines := missed_of(run))},
        voids=void_lines(view),
        behind=evidence,
        prompts=prompts_of(chain.from_iterable(evidence.transcripts)),
        hrefs=_hrefs(view, evidence.calls),
        origins=_origins(view, evidence.calls),
    )


_DENIED = "#denied"


def _hrefs(view: View, calls: Sequence[CallList]) -> dict[tuple[str, int], str]:
    """Return the links to the calls behind each count of the comparison, by row and column."""
    columns = {model.label: at for at, model in enumerate(view.models)}
    hrefs: dict[tuple[str, int], str] = {}
    for call_list in calls:
        column = columns[call_list.run.label]
        hrefs[as_name(call_list.failure_class), column] = f"#{call_list.place}"
        hrefs["total", column] = _DENIED
    for at, run in enumerate(view.runs):
        hrefs["goal reached, of trials", columns[run.label]] = f"#run-{at}"
    return hrefs


def _origins(view: View, calls: Sequence[CallList]) -> dict[tuple[str, int], str]:
    """Return the links of each model's line, by row and column.

    Goals and useful calls link to its trials, the rest to its denied calls.
    """
    with_denials = {call_list.run.label for call_list in calls}
    hrefs: dict[tuple[str, int], str] = {}
    for at, run in enumerate(view.runs):
        trials = f"#run-{at}"
        denied = _DENIED if run.label in with_denials else ""
        name = as_name(run.label)
        hrefs |= {(name, column): denied for column in range(1, 4)}
        hrefs[name, 0] = trials
        hrefs[name, 4] = trials
    return hrefs


def _rendered(template: str, **values: Any) -> str:
    templates = templates_of("agenteval.report")
    styles, _, _ = templates.loader.get_source(templates, "report.css")  # type: ignore[union-attr]
    style = Markup(styles)  # noqa: S704 - our own file, and a stylesheet must not be escaped
    return templates.get_template(template).render(
        mark=MARK,
        style=style,
        **values,
    )


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
