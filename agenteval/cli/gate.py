"""`agenteval gate`: may the candidate replace the baseline?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agenteval.cli import options as o
from agenteval.errors import UsageError

if TYPE_CHECKING:
    from agenteval.report.gate.view import GateView

Candidate = Annotated[
    str | None, typer.Option(help="The run to judge: an id, `last`, or another store's file.")
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Say what each line of the rules means and how often it passes whom, by simulation.",
    ),
]
Init = Annotated[bool, typer.Option("--init", help="Write a gate.toml with comments here.")]
Out = Annotated[
    Path | None, typer.Option(help="A folder for gate.json, gate.md and gate.xml (JUnit).")
]
Markdown = Annotated[Path | None, typer.Option(help="Write Markdown to this file.")]
Junit = Annotated[
    Path | None, typer.Option("--junit", "--junit-xml", help="Write JUnit XML to this file.")
]


def gate(  # noqa: PLR0913 -- each is an option of the command line
    *,
    baseline: o.Baseline = None,
    candidate: Candidate = None,
    rules: o.RulesFile = None,
    store: o.Store = o.DEFAULT_STORE,
    allow_simulated: o.AllowSimulated = False,
    explain: Explain = False,
    init: Init = False,
    as_json: o.AsJson = False,
    out: Out = None,
    markdown: Markdown = None,
    junit: Junit = None,
) -> None:
    """Hold a candidate's run against a baseline's, by rules that were written before.

    Exit code: 0 PASS, 1 FAIL, 3 INCONCLUSIVE, 2 for bad input.

    Examples:
    - `agenteval gate --baseline 20261121-101500-mine --candidate last`

    - `agenteval gate --baseline baseline.db --candidate last --rules gate.toml --junit gate.xml`

    - `agenteval gate --explain --baseline 20261121-101500-mine`
    """
    if init:
        _init()
    elif explain:
        from agenteval.cli.explaining import explain_rules  # noqa: PLC0415 -- start-up time

        explain_rules(baseline, rules, store, as_json=as_json)
    else:
        from agenteval.cli.gating import EXIT_CODES  # noqa: PLC0415 -- as above

        view = _view(baseline, candidate, rules, store, allow_simulated=allow_simulated)
        _show(view, as_json=as_json)
        _write(view, out=out, markdown=markdown, junit=junit)
        raise typer.Exit(EXIT_CODES[view.verdict])


def _init() -> None:
    from agenteval.config.gate import FILE  # noqa: PLC0415 -- as above
    from agenteval.config.paths import shipped  # noqa: PLC0415 -- as above

    path = Path(FILE)
    if path.exists():
        raise UsageError(f"{path} is there already; change it, or remove it first")
    path.write_text((shipped() / FILE).read_text(encoding="utf-8"), encoding="utf-8")
    typer.echo(f"Wrote {path}. What it means for your runs: agenteval gate --explain")


def _view(
    baseline: str | None,
    candidate: str | None,
    rules: Path | None,
    store: str,
    *,
    allow_simulated: bool,
) -> "GateView":
    from agenteval.cli.gating import check_comparable, rules_at, run_summary  # noqa: PLC0415 -- as above
    from agenteval.report.gate.view import gate_view  # noqa: PLC0415 -- as above
    from agenteval.stats.gate import LEVEL, judge_gate  # noqa: PLC0415 -- as above

    if baseline is None or candidate is None:
        raise UsageError("give --baseline RUN and --candidate RUN (see agenteval gate --help)")
    asked, source = rules_at(rules)
    before, after = run_summary(baseline, store), run_summary(candidate, store)
    check_comparable(before, after, allow_simulated=allow_simulated)
    level = after.looks[-1].level if after.looks else LEVEL
    return gate_view(judge_gate(before, after, asked, level=level), before, after, rules=source)


def _show(view: "GateView", *, as_json: bool) -> None:
    if as_json:
        from agenteval.report.gate import json  # noqa: PLC0415 -- as above

        typer.echo(json.dumps(view))
        return
    from rich.console import Console  # noqa: PLC0415 -- as above

    from agenteval.report.gate import console  # noqa: PLC0415 -- as above

    console.render(view, Console(highlight=False))


def _write(
    view: "GateView", *, out: Path | None, markdown: Path | None, junit: Path | None
) -> None:
    from agenteval.report.gate import json as as_json  # noqa: PLC0415 -- as above
    from agenteval.report.gate import junit as as_junit  # noqa: PLC0415 -- as above
    from agenteval.report.gate import markdown as as_markdown  # noqa: PLC0415 -- as above

    wanted = [(markdown, as_markdown.dumps), (junit, as_junit.dumps)]
    if out is not None:
        wanted += [
            (out / "gate.json", as_json.dumps),
            (out / "gate.md", as_markdown.dumps),
            (out / "gate.xml", as_junit.dumps),
        ]
    for path, dumps in wanted:
        if path is not None:
            _write_text(path, dumps(view))


def _write_text(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
