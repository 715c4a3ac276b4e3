"""`agenteval gate`, `plan`, `promote`, `trend`: may the candidate replace the baseline?"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from agenteval import config, report, workflows
from agenteval.cli import options, output
from agenteval.cli.options import (
    DEFAULT_STORE,
    EXIT_CODES,
    About,
    AllowSimulated,
    AsJson,
    Baseline,
    RulesFile,
    Store,
)
from agenteval.cli.output import print_json, say, write_text
from agenteval.errors import UsageError
from agenteval.trial.text import as_file_part, as_name

if TYPE_CHECKING:
    from agenteval.report.gate import GateView
    from agenteval.workflows.promote import Promotion
    from agenteval.workflows.runs import Trend
Candidate = Annotated[
    str | None, Option(help="The run to judge, as the baseline is named; or `last`.")
]
Explain = Annotated[
    bool, Option("--explain", help="What each line of the rules means, and whom it passes.")
]
Rescore = Annotated[
    bool,
    Option(
        "--rescore", help="Judge runs of an older taxonomy again first (see agenteval rescore)."
    ),
]
Init = Annotated[bool, Option("--init", help="Write a gate.toml with comments here.")]
Out = Annotated[Path | None, Option(help="A folder for gate.json, gate.md and gate.xml (JUnit).")]
VerdictPage = Annotated[Path | None, Option("--report", help="A page, the verdict on top.")]
Markdown = Annotated[Path | None, Option(help="Write Markdown to this file.")]
Junit = Annotated[
    Path | None, Option("--junit", "--junit-xml", help="Write JUnit XML to this file.")
]
Margin = Annotated[
    float | None, Option(help="Errors per 100 calls that a candidate may make more.")
]
Ratio = Annotated[
    float | None, Option(help="Instead: how many times as many it may make, such as 1.5.")
]
TrialsOf = Annotated[
    int | None,
    Option("--trials", min=1, help="Of each scenario. Default: as planned, 50 at most."),
]
SeedOf = Annotated[int | None, Option("--seed", min=0, help="Of the worlds. [1]")]
LevelOf = Annotated[
    str | None, Option("--concurrency", metavar="N", help="Trials at the same time. [4]")
]
Fresh = Annotated[bool, Option("--fresh", help="Play the baseline anew.")]

HELP = """Hold a candidate's run against a baseline's, by rules that were written before.

Exit code: 0 PASS, 1 FAIL, 3 INCONCLUSIVE, 2 for bad input.

Examples:
- `agenteval gate --baseline 20261121-101500-mine --candidate last`

- `agenteval gate --baseline baseline.db --candidate last --gate gate.toml --junit gate.xml`

- `agenteval gate --explain --baseline 20261121-101500-mine`
"""


def gate(  # noqa: PLR0913 -- each is an option of the command line
    *,
    baseline: Baseline = None,
    candidate: Candidate = None,
    rules: RulesFile = None,
    store: Store = DEFAULT_STORE,
    about: About = None,
    allow_simulated: AllowSimulated = False,
    across_arms: options.AcrossArms = False,
    rescore: Rescore = False,
    explain: Explain = False,
    init: Init = False,
    as_json: AsJson = False,
    out: Out = None,
    markdown: Markdown = None,
    junit: Junit = None,
    report_to: VerdictPage = None,
    github: options.GitHub = False,
) -> None:
    """Hold a candidate's run against a baseline's: HELP tells the rest."""
    if init:
        return _init()
    if explain:
        return _explain(baseline, rules, store, about, as_json=as_json)
    if baseline is None or candidate is None:
        raise UsageError("give --baseline RUN and --candidate RUN (see agenteval gate --help)")
    view = workflows.gate.judged(
        output.named(baseline, store),
        output.named(candidate, store),
        rules,
        store,
        allow_simulated=allow_simulated,
        rescored=rescore,
        about=about,
        across_arms=across_arms,
    )
    _show(view, as_json=as_json, github=github)
    _write(view, out=out, markdown=markdown, junit=junit)
    _write_page(view, report_to, store)
    raise typer.Exit(EXIT_CODES[view.verdict])


gate.__doc__ = HELP


def _init() -> None:
    path = config.gate.write_rules()
    say(f"Wrote {path}. What it means for your runs: agenteval gate --explain")


def _explain(
    baseline: str | None,
    rules: Path | None,
    store: str,
    about: About,
    *,
    as_json: bool,
) -> None:
    explained = workflows.promote.explain_rules(baseline, rules, store, about=about)
    if as_json:
        print_json(report.gate_explained.document(explained))
    else:
        report.gate_explained.render(explained, report.console.Terminal())


def _show(view: "GateView", *, as_json: bool, github: bool = False) -> None:
    if github:
        output.step_summary(report.files.gate_dumps(view))
    with output.reader_may_go():
        if as_json:
            output.print_json_text(report.gate.dumps(view))
        else:
            report.console.render_verdict(view, report.console.Terminal(highlight=False))


def _write(
    view: "GateView",
    *,
    out: Path | None,
    markdown: Path | None = None,
    junit: Path | None = None,
) -> None:
    if markdown is not None:
        write_text(markdown, report.files.gate_dumps(view))
    if junit is not None:
        write_text(junit, report.files.junit_text(view))
    if out is not None:
        write_text(out / "gate.json", report.gate.dumps(view))
        write_text(out / "gate.md", report.files.gate_dumps(view))
        write_text(out / "gate.xml", report.files.junit_text(view))


def plan(  # noqa: PLR0913 -- each is an option of the command line
    *,
    baseline: Baseline = None,
    margin: Margin = None,
    ratio: Ratio = None,
    about: About = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Say how many trials and calls would prove with 80 % power that a model is no worse.

    By simulation, with the rate and the clustering of a stored run, for a candidate that is as good
    as the baseline and meets the same worlds. Of a run that is simulated only the hours mean
    nothing.

    Examples:
    - `agenteval plan --baseline last --margin 3`

    - `agenteval plan --baseline 20261121-101500-mine --ratio 1.5`
    """
    if baseline is None or (margin is None) == (ratio is None):
        raise UsageError("give --baseline RUN and either --margin POINTS or --ratio TIMES")
    planned = workflows.promote.planned(baseline, store, margin=margin, ratio=ratio, about=about)
    if as_json:
        print_json(planned.document())
    else:
        told = workflows.promote.sentences(planned)
        report.console.Terminal(highlight=False).print(told, markup=False)


def promote(  # noqa: PLR0913 -- each is an option of the command line
    candidate: Annotated[str, typer.Argument(help="The model that may come, by its name.")],
    targets: options.Targets = None,
    *,
    over: Annotated[str, Option(help="The model that is there, by its name, or its run.")],
    gate: RulesFile = None,
    trials: TrialsOf = None,
    seed: SeedOf = None,
    concurrency: LevelOf = None,
    sandbox: options.SandboxName = None,
    fresh: Fresh = False,
    store: Store = DEFAULT_STORE,
    allow_simulated: AllowSimulated = False,
    report_to: VerdictPage = None,
    out: Out = None,
) -> None:
    """Play a candidate against a baseline, stop once it is certain, and give the verdict.

    The baseline's last whole run is taken, or one is played; it is played anew where a verdict
    takes more trials than it has. The candidate meets the same worlds. The report of both, with the
    verdict on top, is reports/verdict-RUN.html unless told otherwise.

    Exit code: 0 PASS, 1 FAIL, 3 INCONCLUSIVE, 2 for bad input.

    Examples:
    - `agenteval promote my-candidate --over my-model`

    - `agenteval promote sim/qwen3.6-35b --over sim/qwen3.5-27b --allow-simulated`
    """
    output.check_report(report_to)
    output.first_words(f"{candidate} over {over}")
    asked = {"targets": targets, "trials": trials, "seed": seed, "concurrency": concurrency}
    asked |= {"sandbox": sandbox}
    given = {name: value for name, value in asked.items() if value is not None}
    view = _promoted(
        workflows.promote.Promotion(candidate, over, given, gate, store, allow_simulated, fresh)
    )
    _tell(view, report_to or _usual_page(view), store)
    _write(view, out=out)
    raise typer.Exit(EXIT_CODES[view.verdict])


def _usual_page(view: "GateView") -> Path:
    return Path("reports", f"verdict-{as_file_part(view.candidate.id)}.html")


def _write_page(view: "GateView", page: Path | None, store: str) -> None:
    """The report of both runs with the verdict on top, if wanted."""
    if page is not None:
        report.html.write(workflows.views.of_verdict(view, store), page, view)


def _tell(view: "GateView", page: Path, store: str) -> None:
    """Write the page; the last two lines on the screen are the verdict and what it means."""
    _write_page(view, page, store)
    with output.reader_may_go():
        say(f"Verdict page: {page}")
        _show(view, as_json=False)


def _promoted(promotion: "Promotion") -> "GateView":
    with output.playing(quiet=False) as progress:
        return workflows.promote.promote(promotion, progress)


# `agenteval trend`.

TREND = "agenteval.trend/1"
WhatBy = Annotated[Literal["day", "week", "model", "version"], Option("--by", help="A point each.")]
Metrics = Annotated[
    bool, Option("--openmetrics", help="Print OpenMetrics, as Prometheus reads it.")
]
Simulated = Annotated[bool, Option("--simulated", help="Simulated runs, and no others.")]


def trend(  # noqa: PLR0913 -- each is an option of the command line
    *,
    by: WhatBy = "week",
    store: Store = DEFAULT_STORE,
    model: options.OfModel = None,
    simulated: Simulated = False,
    openmetrics: Metrics = False,
    as_json: AsJson = False,
) -> None:
    """Say how errors per 100 calls went over time: by day, week, model or version.

    Of all trials in the store, played and out of logs. A change is told only where it is settled.

    Examples:
    - `agenteval trend --by week --model qwen`

    - `agenteval trend --by version --openmetrics > agenteval.prom`
    """
    trend_found = workflows.runs.trend(store, by, model=model or "", simulated=simulated)
    if openmetrics:
        output.print_data(workflows.runs.openmetrics(trend_found))
    elif as_json:
        print_json(_trend_document(trend_found))
    else:
        for line in _trend_lines(trend_found):
            say(line)
        if not (trend_found.series or simulated):
            say("simulated runs are left out: --simulated asks for them")


def _trend_lines(trend: "Trend") -> Iterator[str]:
    if not trend.series:
        yield "no trials of which errors and time are known"
    labels = [one.label for series in trend.series.values() for one in series.points]
    width = max((len(as_name(label)) for label in labels), default=0)
    for model, series in trend.series.items():
        of = f"  {as_name(model)}" if len(trend.series) > 1 and trend.by != "model" else ""
        for one in series.points:
            label = as_name(one.label).ljust(width)
            yield f"{label}  errors per 100 calls {one.rate.per_100()}  trials {one.trials:,}{of}"
        for change in series.changes:
            gap = change.difference
            yield (
                f"settled: from {as_name(change.label)} on {100 * gap.second.value:.2f} errors per "
                f"100 calls, before {100 * gap.first.value:.2f}; p = {change.adjusted:.2g} after "
                f"correction for all boundaries of all models{of}"
            )
    if trend.left_out:
        yield f"trials left out, as their errors or time are not observable: {trend.left_out:,}"
    if trend.judged_since:
        yield (
            f"judgements left out, as of a session the one with most calls counts, then the last: "
            f"{trend.judged_since:,}"
        )


def _trend_document(trend: "Trend") -> dict[str, Any]:
    return {
        "schema": TREND,
        "by": trend.by,
        "points": [
            {
                "model": model,
                "label": one.label,
                "trials": one.trials,
                "errors": one.rate.count,
                "calls": one.rate.n,
                "low": one.rate.low,
                "high": one.rate.high,
            }
            for model, series in trend.series.items()
            for one in series.points
        ],
        "changes": [
            {"model": model, "from": one.label, "since": one.since, "p_adjusted": one.adjusted}
            for model, series in trend.series.items()
            for one in series.changes
        ],
        "left_out": trend.left_out,
        "judged_since": trend.judged_since,
    }
