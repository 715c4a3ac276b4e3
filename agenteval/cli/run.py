"""`agenteval run`, `show`, `compare`, `import`: runs played, then shown alone and side by side."""

import gc
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from agenteval import logs, report, workflows
from agenteval._version import __version__
from agenteval.cli import options as o
from agenteval.cli import output
from agenteval.cli.options import (
    DEFAULT_STORE,
    RUN_WORDS,
    About,
    AsJson,
    GitHub,
    Store,
    Taxonomy,
    at_store,
)
from agenteval.cli.output import say, say_text, show_view, write_report
from agenteval.errors import UsageError
from agenteval.trial.text import as_file_part, as_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenteval.report.sentences import Side
    from agenteval.report.view import View
    from agenteval.stats.rates import Rate
    from agenteval.store.sql import Part
    from agenteval.store.summaries import Listed
    from agenteval.trial.run import Run
    from agenteval.workflows.gate import InterimLooks
    from agenteval.workflows.runs import Listing
    from agenteval.workflows.stages import Plan
REPORTS = Path("reports")


def _report_of(runs: "Sequence[Run]") -> Path:
    """Return where the report of these runs is written if nothing else is given."""
    name = runs[0].id if len(runs) == 1 else f"comparison-{runs[-1].id}"
    return REPORTS / f"{as_file_part(name)}.html"


@dataclass(frozen=True, slots=True)
class Form:
    """A form of showing runs: printed, in a report at `path`, and in a job's summary if wanted."""

    path: Path | None
    taxonomy: str
    about: str | None
    github: bool
    as_json: bool
    brief: bool = True


@output.reader_may_go()
def show_runs(runs: "Sequence[Side]", form: Form) -> None:
    """Print the runs, how fast those of a sweep were served, and where their report is, if any."""
    view = workflows.views.view_of(runs, form.taxonomy, form.about)
    if form.path is not None:
        write_report(view, form.path)
    if form.github:
        output.step_summary(report.files.markdown_text(view))
    if form.as_json:
        said = workflows.views.as_compared(runs, view, form.taxonomy, form.about)
        output.print_json_text(report.json.dumps(said))
    else:
        show_view(view, as_json=False, brief=form.brief)
        if len({side.run.concurrency for side in runs if side.run}) > 1:
            output.show_speed(workflows.views.speeds(workflows.views.whole(runs)), as_json=False)
        if form.path is not None:
            say(f"Report: {form.path}")


# `agenteval run`.

_SAME = "the same command goes on"
HELP = """\
Play scenarios with a served model and count its errors per 100 tool calls.

With --gate and --baseline a gate looks at planned points, and stops once it is certain. The exit
code is then the gate's: 0 PASS, 1 FAIL, 3 INCONCLUSIVE; 2 for bad input. Without a gate it is 0.
With either it is 4 when a defect of agenteval or a slip of a scenario made trials void, and 5 when
more trials of a model are void than --void-limit: then its figures say little.

Examples:
- `agenteval run --model qwen3.6-35b scenarios/`

- `agenteval run -m my-model --base-url http://localhost:8080/v1 ralf/handshake --trials 20`

- `agenteval run -m sim/qwen3.6-35b -m sim/qwen3.5-27b` needs no server

- `agenteval run -m my-model --harness opencode`, with the real program as the agent

- `agenteval run --resume last` goes on after a crash, `--retry-void` plays void trials again

- `agenteval run -m my-model --concurrency 1,2,4,8`, then `agenteval speed RUN...`

- `agenteval run -m my-model --store postgresql://HOST/runs --shard 1/8`, and so on to 8/8

- `agenteval run -m my-model --store postgresql://HOST/runs --executor ray --concurrency 64`

- `agenteval run -m my-model --trials 50 --gate gate.toml --baseline 20261121-101500-mine`
"""


def run(  # noqa: PLR0913 -- each is an option of the command line
    called: typer.Context,
    targets: o.Targets = None,
    *,
    model: o.Models = None,
    base_url: o.BaseUrls = None,
    trials: o.Trials = 5,
    seed: o.Seed = 1,
    concurrency: o.Concurrency = "4",
    power: o.Power = False,
    max_turns: o.MaxTurns = None,
    arm: o.Arm = o.DEFAULT_ARM,
    harness: o.Harness = None,
    allowlist: o.Policy = "",
    prompt_variant: o.PromptVariant = None,
    rules: o.RulesPlace = "start",
    context: o.Context = "0",
    sandbox: o.SandboxName = None,
    prefork: o.Prefork = True,
    store: Store = DEFAULT_STORE,
    report: o.Report = None,
    github: GitHub = False,
    taxonomy: Taxonomy = "full",
    as_json: AsJson = False,
    gate: o.Gate = None,
    baseline: o.Baseline = None,
    resume: o.Resume = None,
    retry_void: o.RetryVoid = False,
    shard: o.Shard = None,
    executor: o.Executor = "local",
    job: o.Job = "",
    lease: o.Lease = 60,
    allow_simulated: o.AllowSimulated = False,
    void_limit: o.VoidLimit = 20,
) -> None:
    """Play scenarios with a served model: HELP tells the rest."""
    with _cut_off(resume):
        watch, (sides, interrupted) = _played(called, _plan(called, report), gate)
        _show(called, sides, report)
        raise typer.Exit(_code(called, sides, watch, interrupted=interrupted))


run.__doc__ = HELP


@contextmanager
def _cut_off(resumed: str | None) -> "Iterator[None]":
    """Report Ctrl-C where no run answers it: before a run begins, or pressed again and again."""
    try:
        yield
    except KeyboardInterrupt:
        again = "`agenteval run --resume last` goes on where a run had begun; else start it again"
        say(f"Cut off: {_SAME if resumed else at_store(again)}", err=True)
        raise typer.Exit(130) from None


def _played(
    called: typer.Context,
    plan: "Plan",
    gate: "Path | None",
) -> "tuple[InterimLooks | None, tuple[Sequence[Side], bool]]":
    """Return the interim looks, the runs, and if Ctrl-C ended them early."""
    # The path of the gate is given by itself: among the options of `called` it is still a text.
    output.collect_rarely(_RARELY)
    options = called.params
    watch = workflows.gate.watch_for(
        gate,
        options["baseline"],
        options["store"],
        allow_simulated=options["allow_simulated"],
    )
    with output.playing(quiet=options["as_json"]) as progress:
        if options["executor"] == "ray":
            return watch, workflows.ray.run_models(plan, progress)
        return watch, workflows.evaluate.run_models(plan, watch, progress)


_RARELY = 20_000  # objects between two rounds of gc: at each 5,000 a call takes 5 % more, at 700 10


def _options_on_command_line(called: typer.Context) -> list[str]:
    """Return the options that the user gave himself, not those of an environment or a default."""
    sources = {name: called.get_parameter_source(name) for name in called.params}
    return [name for name, one in sources.items() if one and one.name == "COMMANDLINE"]


def _part(called: typer.Context) -> "Part | None":
    options = called.params
    if options["shard"] is None and options["executor"] == "local":
        for name in ("job", "lease"):
            if name in _options_on_command_line(called):
                raise UsageError(f"--{name}: of shards; give --shard K/N too, such as 1/8")
        return None
    workflows.evaluate.check_alone(**options)
    shard = "1/1" if options["shard"] is None else options["shard"]
    return workflows.evaluate.part_of(shard, options["job"], options["lease"], __version__)


def _plan(called: typer.Context, report: "Path | None") -> "Plan":
    options = called.params
    part = _part(called)
    if options["resume"] and (options["gate"] or options["baseline"]):
        raise UsageError("--gate and --baseline belong to a run from its start, not to --resume")
    output.check_report(report)
    if options["github"]:
        output.summary_file()
    workflows.gate.declared(None)  # its slips are told before anything is played
    output.first_words(", ".join(options["model"] or ()) or options["resume"] or "")
    return workflows.stages.plan_of(
        workflows.stages.options_of(options),
        options["store"],
        resume=options["resume"],
        given_names=_options_on_command_line(called),
        retry_void=options["retry_void"],
        power=options["power"],
        part=part,
    )


def _show(called: typer.Context, sides: "Sequence[Side]", report: "Path | None") -> None:
    if not sides:
        return
    options = called.params
    form = Form(
        path=report or _report_of([side.run_and_score[0] for side in sides]),
        taxonomy=options["taxonomy"],
        about=workflows.gate.declared(None),
        github=options["github"],
        as_json=options["as_json"],
    )
    show_runs(sides, form)


def _code(
    called: typer.Context,
    sides: "Sequence[Side]",
    watch: "InterimLooks | None",
    *,
    interrupted: bool,
) -> int:
    """Return the exit code: of what broke trials, else of the gate's verdict."""
    options = called.params
    code = _broken(sides, options["void_limit"], options["resume"], interrupted=interrupted)
    if code or watch is None:
        return code
    runs = [side.run_and_score[0] for side in sides]
    ended = workflows.gate.ended(watch, runs, options["store"])
    with output.reader_may_go():
        say_text(at_store("\n".join(ended.lines)), err=options["as_json"])
    return o.EXIT_CODES[ended.verdict]


def _how_on(sides: "Sequence[Side]", resumed: str | None) -> str:
    if sides:
        return f"`agenteval run --resume {as_word(sides[-1].run_and_score[0].id)}` goes on"
    if resumed:
        return _SAME
    return "no run had begun and nothing is stored: the same command starts it"


def _broken(
    sides: "Sequence[Side]",
    limit: float,
    resumed: str | None,
    *,
    interrupted: bool,
) -> int:
    """Say what broke trials, and return its exit code; 0 where a verdict may stand."""
    if faults := workflows.views.faults(sides):
        say_text("\n".join(faults), err=True)
    if interrupted:
        say(at_store(f"Cut off: {_how_on(sides, resumed)}"), err=True)
    if interrupted or faults:
        return 130 if interrupted else o.FAULT
    if void_lines := workflows.views.voids_beyond(sides, limit / 100):
        run = sides[0].run_and_score[0].id if len(sides) == 1 else "RUN"
        again = at_store(f"`agenteval run --resume {as_word(run)} --retry-void` plays them again")
        say_text("\n".join((*void_lines, again)), err=True)
    return o.TOO_VOID if void_lines else 0


# `agenteval show`.

ARTICLE = "article"
SCHEMA = "agenteval.runs/1"
RunIds = Annotated[
    list[str] | None,
    Argument(help=f"{RUN_WORDS}; or `article`. Without any: the list of runs."),
]
OfModel = Annotated[str | None, Option("--model", "-m", help="List: models with this in it.")]
OfLabel = Annotated[str | None, Option("--label", help="List: runs with this label.")]
Since = Annotated[
    str | None,
    Option(metavar="DATE", help="List: runs of this day (UTC) and later, 2026-11-22."),
]
Details = Annotated[
    bool, Option("--details", help="All tables: scenarios, handshakes, provenance.")
]
ReportFile = Annotated[
    Path | None,
    Option("--report", help="Write the whole report: FILE.html, .md, .csv or .json."),
]


def show(  # noqa: PLR0913 -- each is an option of the command line
    runs: RunIds = None,
    *,
    store: Store = DEFAULT_STORE,
    path: ReportFile = None,
    github: GitHub = False,
    taxonomy: Taxonomy = "full",
    about: About = None,
    details: Details = False,
    model: OfModel = None,
    label: OfLabel = None,
    since: Since = None,
    as_json: AsJson = False,
) -> None:
    """Show stored runs side by side, or list them.

    Examples:
    - `agenteval show`

    - `agenteval show --model qwen --since 2026-11-01`

    - `agenteval show qwen3.6-35b qwen3.5-27b` shows the last run of each

    - `agenteval show 20261121-101500-mine 20261121-110200-yours --report compare.html`

    - `agenteval show article` is the published comparison, judged again from its calls
    """
    gc.disable()  # as below
    if runs == [ARTICLE]:
        _show_article(path, as_json=as_json)
    elif ARTICLE in (runs or ()):
        raise UsageError(f"`agenteval show {ARTICLE}` stands alone: it is no run of this store")
    elif runs:
        form = Form(path, taxonomy, about, github=github, as_json=as_json, brief=not details)
        show_runs(workflows.views.sides(output.chosen(runs, store), store), form)
    else:
        _list(store, model=model, label=label, since=since, as_json=as_json)


def _list(
    store: str,
    *,
    model: str | None,
    label: str | None,
    since: str | None,
    as_json: bool,
) -> None:
    # Before the first run there is no store yet, and that is no mistake of the user's.
    usual = store == DEFAULT_STORE
    listing = workflows.runs.listing(store, or_none=usual, model=model, label=label, since=since)
    if as_json:
        output.print_json(_document(listing))
    else:
        _print(listing, filtered=bool(model or label or since))


def _show_article(path: Path | None, *, as_json: bool) -> None:
    view = logs.measured.view_of_article()
    if path is not None:
        write_report(view, path)
    show_view(view, as_json=as_json)


def _print(listing: "Listing", *, filtered: bool) -> None:
    if not listing.runs:
        more = "such runs" if filtered else "runs yet"
        told = f"No {more} in {listing.store_name}. Try: agenteval run --model sim/qwen3.6-35b"
        say(at_store(told))
    for run in listing.runs:
        simulated = f" {report.tables.MARK}" if run.simulated else ""
        state = "" if run.complete else "  not finished"
        played = f"{len(run.outcomes)} of {run.trials_planned} trials"
        say(f"{run.id}  {run.model}{simulated}  {played}{state}")
        for line in _about(run):
            say(f"    {line}")
    for one in () if filtered else listing.imported:
        say(f"{one.id}  {one.model}  counts of {one.calls} calls, from {one.source}")


def _about(run: "Listed") -> "Iterator[str]":
    """Yield the facts that distinguish a run from the others."""
    errors, goals = workflows.runs.errors_of(run), workflows.runs.reached(run)
    scenarios = run.scenarios[0] if len(run.scenarios) == 1 else f"{len(run.scenarios)} scenarios"
    summary = ", ".join(filter(None, (scenarios, run.arm, f"seed {run.seed}")))
    if run.source:
        summary = f"sessions out of logs of {run.source}; goal reached: not observable"
    elif run.counted:
        summary += f"; goal reached in {goals.count} of {goals.n}"
    yield summary + (f"; gate {run.verdict}" if run.verdict else "")
    if errors.n:
        yield f"errors per 100 calls: {errors.per_100()}"
    if void := len(run.outcomes) - run.counted:
        yield f"{void} void"
    if run.labels:
        yield f"labels: {', '.join(run.labels)}"
    if run.note:
        yield f"note: {run.note}"


def _document(listing: "Listing") -> dict[str, Any]:
    """Return the JSON document. Its keys are stable, and docs/json.md describes them."""
    return {
        "schema": SCHEMA,
        "runs": [_run(run) for run in listing.runs],
        "imported": [asdict(table) for table in listing.imported],
    }


def _run(run: "Listed") -> dict[str, Any]:
    return {
        "id": run.id,
        "model": run.model,
        "simulated": run.simulated,
        "started": run.started,
        "complete": run.complete,
        "trials": len(run.outcomes),
        "trials_planned": run.trials_planned,
        "seed": run.seed,
        "arm": run.arm,
        "source": run.source,
        "scenarios": list(run.scenarios),
        "void": len(run.outcomes) - run.counted,
        "errors": _rate(workflows.runs.errors_of(run)),
        "reached": _rate(workflows.runs.reached(run)),
        "verdict": run.verdict,
        "labels": list(run.labels),
        "note": run.note,
    }


def _rate(rate: "Rate") -> dict[str, Any]:
    return {"count": rate.count, "n": rate.n, "low": rate.low, "high": rate.high}


# `agenteval compare`.

Names = Annotated[
    list[str],
    Argument(help=f"{RUN_WORDS}; imported counts, or CSV files of counts: two models."),
]


def compare(  # noqa: PLR0913 -- each is an option of the command line
    runs: Names,
    *,
    store: Store = DEFAULT_STORE,
    report: ReportFile = None,
    taxonomy: Taxonomy = "full",
    about: About = None,
    across_arms: o.AcrossArms = False,
    stacks: Annotated[
        bool, Option("--stacks", help="Two servings of one model: where a difference points.")
    ] = False,
    github: GitHub = False,
    as_json: AsJson = False,
) -> None:
    """Compare models pair by pair: how many errors, which kinds, recovery and outcome.

    Runs that met the same worlds (same scenarios, same --seed) are compared world by world.

    Examples:
    - `agenteval compare qwen3.6-35b qwen3.5-27b` compares the last run of each

    - `agenteval compare 20261121-101500-mine last --report compare.html`

    - `agenteval compare published.csv`

    - `agenteval compare --stacks on-vllm on-llama-cpp`
    """
    gc.disable()  # a third of the time of a large run, and nothing here is to be collected
    named = [output.named(run, store) for run in runs]
    if stacks:
        _print_stacks(named, store, about)
        return
    found = workflows.views.models_of(named, store, calls=as_json or report is not None)
    view = workflows.views.compared(found, taxonomy, about, across_arms=across_arms)
    _tell(view, report, github=github, as_json=as_json)


def _tell(view: "View", path: Path | None, *, github: bool, as_json: bool) -> None:
    if path is not None:
        write_report(view, path)
    if github:
        output.step_summary(report.files.markdown_text(view))
    show_view(view, as_json=as_json)
    if path is not None and not as_json:
        say(f"Report: {path}")


def _print_stacks(named: "Sequence[str]", store: str, about: str | None) -> None:
    runs, view = workflows.views.stacks(named, store, about)
    for line in report.pairs.stack_lines(runs, view):
        say(line)


# `agenteval import`.

imports = o.group("Read what was measured elsewhere.")


@imports.callback()
def main() -> None:
    """Read what was measured elsewhere."""


@imports.command()
def counts(
    file: Annotated[Path, Argument(help="A CSV file.")],
    *,
    store: Store = DEFAULT_STORE,
) -> None:
    """Store the counts of a published table, one entry for each model.

    The columns are model, calls, class and errors; trial and scenario where they are known. A line
    is one class of one trial, or of one model where trials are not known; every line repeats the
    calls. Nothing else can be seen of such counts: no recovery, no outcome.

    Examples:
    - `agenteval import counts published.csv`

    - `agenteval compare published.csv` compares without storing
    """
    for one in logs.measured.import_counts(file, store):
        calls, errors = sum(one.counts.calls), sum(one.counts.errors)
        say(f"{one.id}  {errors} errors in {calls} calls")
