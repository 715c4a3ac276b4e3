"""`agenteval gate`, `plan`, `promote`: may the candidate replace the baseline; what shows it?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agenteval import config, report, workflows
from agenteval.cli import options as o
from agenteval.cli import output
from agenteval.core.plain import as_file_part
from agenteval.errors import UsageError

if TYPE_CHECKING:
    from agenteval.report.gate_view import GateView
    from agenteval.workflows.promoting import Promotion

Candidate = Annotated[
    str | None, typer.Option(help="The run to judge, as the baseline is named; or `last`.")
]
Explain = Annotated[
    bool, typer.Option("--explain", help="What each line of the rules means, and whom it passes.")
]
Rescore = Annotated[
    bool,
    typer.Option(
        "--rescore", help="Judge runs of an older taxonomy again first (see agenteval rescore)."
    ),
]
Init = Annotated[bool, typer.Option("--init", help="Write a gate.toml with comments here.")]
Out = Annotated[
    Path | None, typer.Option(help="A folder for gate.json, gate.md and gate.xml (JUnit).")
]
VerdictPage = Annotated[Path | None, typer.Option("--report", help="A page, the verdict on top.")]
Markdown = Annotated[Path | None, typer.Option(help="Write Markdown to this file.")]
Junit = Annotated[
    Path | None, typer.Option("--junit", "--junit-xml", help="Write JUnit XML to this file.")
]
Margin = Annotated[
    float | None, typer.Option(help="Errors per 100 calls that a candidate may make more.")
]
Ratio = Annotated[
    float | None, typer.Option(help="Instead: how many times as many it may make, such as 1.5.")
]

TrialsOf = Annotated[
    int | None,
    typer.Option("--trials", min=1, help="Of each scenario. Default: as planned, 50 at most."),
]
SeedOf = Annotated[int | None, typer.Option("--seed", min=0, help="Of the worlds. [1]")]
LevelOf = Annotated[
    str | None, typer.Option("--concurrency", metavar="N", help="Trials at the same time. [4]")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Play the baseline anew.")]


HELP = """Hold a candidate's run against a baseline's, by rules that were written before.

Exit code: 0 PASS, 1 FAIL, 3 INCONCLUSIVE, 2 for bad input.

Examples:
- `agenteval gate --baseline 20261121-101500-mine --candidate last`

- `agenteval gate --baseline baseline.db --candidate last --gate gate.toml --junit gate.xml`

- `agenteval gate --explain --baseline 20261121-101500-mine`
"""


def gate(  # noqa: PLR0913 -- each is an option of the command line
    *,
    baseline: o.Baseline = None,
    candidate: Candidate = None,
    rules: o.RulesFile = None,
    store: o.Store = o.DEFAULT_STORE,
    about: o.About = None,
    allow_simulated: o.AllowSimulated = False,
    across_arms: o.AcrossArms = False,
    rescore: Rescore = False,
    explain: Explain = False,
    init: Init = False,
    as_json: o.AsJson = False,
    out: Out = None,
    markdown: Markdown = None,
    junit: Junit = None,
    report_to: VerdictPage = None,
    github: o.GitHub = False,
) -> None:
    """Hold a candidate's run against a baseline's: HELP tells the rest."""
    if init:
        return _init()
    if explain:
        return _explain(baseline, rules, store, about, as_json=as_json)
    if baseline is None or candidate is None:
        raise UsageError("give --baseline RUN and --candidate RUN (see agenteval gate --help)")
    view = workflows.gating.judged(
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
    raise typer.Exit(o.EXIT_CODES[view.verdict])


gate.__doc__ = HELP


def _init() -> None:
    path = config.gate_rules.write_rules()
    output.say(f"Wrote {path}. What it means for your runs: agenteval gate --explain")


def _explain(
    baseline: str | None, rules: Path | None, store: str, about: o.About, *, as_json: bool
) -> None:
    explained = workflows.explaining.explain_rules(baseline, rules, store, about=about)
    if as_json:
        output.print_json(report.gate_explained.document(explained))
    else:
        report.gate_explained.render(explained, report.console.Terminal())


def _show(view: "GateView", *, as_json: bool, github: bool = False) -> None:
    if github:
        output.step_summary(report.markdown.gate_dumps(view))
    with output.reader_may_go():
        if as_json:
            output.print_json_text(report.gate_json.dumps(view))
        else:
            report.console.render_verdict(view, report.console.Terminal(highlight=False))


def _write(
    view: "GateView", *, out: Path | None, markdown: Path | None = None, junit: Path | None = None
) -> None:
    if markdown is not None:
        output.write_text(markdown, report.markdown.gate_dumps(view))
    if junit is not None:
        output.write_text(junit, report.junit.dumps(view))
    if out is not None:
        output.write_text(out / "gate.json", report.gate_json.dumps(view))
        output.write_text(out / "gate.md", report.markdown.gate_dumps(view))
        output.write_text(out / "gate.xml", report.junit.dumps(view))


def plan(  # noqa: PLR0913 -- each is an option of the command line
    *,
    baseline: o.Baseline = None,
    margin: Margin = None,
    ratio: Ratio = None,
    about: o.About = None,
    store: o.Store = o.DEFAULT_STORE,
    as_json: o.AsJson = False,
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
    planned = workflows.explaining.planned(baseline, store, margin=margin, ratio=ratio, about=about)
    if as_json:
        output.print_json(planned.document())
    else:
        told = workflows.explaining.sentences(planned)
        report.console.Terminal(highlight=False).print(told, markup=False)


def promote(  # noqa: PLR0913 -- each is an option of the command line
    candidate: Annotated[str, typer.Argument(help="The model that may come, by its name.")],
    targets: o.Targets = None,
    *,
    over: Annotated[str, typer.Option(help="The model that is there, by its name, or its run.")],
    gate: o.RulesFile = None,
    trials: TrialsOf = None,
    seed: SeedOf = None,
    concurrency: LevelOf = None,
    sandbox: o.SandboxName = None,
    fresh: Fresh = False,
    store: o.Store = o.DEFAULT_STORE,
    allow_simulated: o.AllowSimulated = False,
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
        workflows.promoting.Promotion(candidate, over, given, gate, store, allow_simulated, fresh)
    )
    _tell(view, report_to or _usual_page(view), store)
    _write(view, out=out)
    raise typer.Exit(o.EXIT_CODES[view.verdict])


def _usual_page(view: "GateView") -> Path:
    return Path("reports", f"verdict-{as_file_part(view.candidate.id)}.html")


def _write_page(view: "GateView", page: Path | None, store: str) -> None:
    """The report of both runs with the verdict on top, if wanted."""
    if page is not None:
        told = report.html.PageVerdict(view, view.meaning)
        report.html.write(workflows.views.of_verdict(view, store), page, told)


def _tell(view: "GateView", page: Path, store: str) -> None:
    """Write the page; the last two lines on the screen are the verdict and what it means."""
    _write_page(view, page, store)
    with output.reader_may_go():
        output.say(f"Verdict page: {page}")
        _show(view, as_json=False)


def _promoted(promotion: "Promotion") -> "GateView":
    with output.playing(quiet=False) as progress:
        return workflows.promoting.promote(promotion, progress)
