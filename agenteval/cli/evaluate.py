"""`agenteval run`: one or more models through scenarios, then the tables and the report."""

from typing import TYPE_CHECKING

import typer

from agenteval import workflows
from agenteval.cli import options as o
from agenteval.cli import output
from agenteval.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenteval.core.run import Run
    from agenteval.workflows.interim_looks import InterimLooks
    from agenteval.workflows.stages import Plan

HELP = """\
Play scenarios with a served model and count its errors per 100 tool calls.

With --gate and --baseline a gate looks at planned points, and stops once it is certain. The exit
code is then the gate's: 0 PASS, 1 FAIL, 3 INCONCLUSIVE; 2 for bad input. Without a gate it is 0,
and 4 with either when a defect of agenteval or a slip of a scenario made trials void.

Examples:
- `agenteval run --model qwen3.6-35b scenarios/`

- `agenteval run -m my-model --base-url http://localhost:8080/v1 ralf/handshake --trials 20`

- `agenteval run -m sim/qwen3.6-35b -m sim/qwen3.5-27b` needs no server

- `agenteval run --resume last` goes on after a crash, `--retry-void` plays void trials again

- `agenteval run -m my-model --concurrency 1,2,4,8`, then `agenteval speed RUN...`

- `agenteval run -m my-model --trials 50 --gate gate.toml --baseline 20261121-101500-mine`
"""


def run(  # noqa: PLR0913 -- each is an option of the command line
    called: typer.Context,
    targets: o.Targets = None,
    *,
    model: o.Models = None,
    base_url: o.BaseUrl = None,
    trials: o.Trials = 5,
    seed: o.Seed = 1,
    concurrency: o.Concurrency = "4",
    power: o.Power = False,
    max_turns: o.MaxTurns = None,
    arm: o.Arm = o.ARM,
    prompt_variant: o.PromptVariant = None,
    rules: o.RulesPlace = "start",
    context: o.Context = "0",
    sandbox: o.SandboxName = None,
    prefork: o.Prefork = True,
    store: o.Store = o.DEFAULT_STORE,
    report: o.Report = None,
    taxonomy: o.Taxonomy = "full",
    as_json: o.AsJson = False,
    gate: o.Gate = None,
    baseline: o.Baseline = None,
    resume: o.Resume = None,
    retry_void: o.RetryVoid = False,
    allow_simulated: o.AllowSimulated = False,
) -> None:
    """Play scenarios with a served model: HELP tells the rest."""
    output.check_report(report)
    plan = _plan(called, store, resume, retry_void=retry_void, power=power)
    looks = workflows.interim_looks
    watch = looks.watch_for(gate, baseline, store, allow_simulated=allow_simulated)
    about = workflows.gating.declared(None)  # a slip in gate.toml is told before the run
    with output.playing(quiet=as_json) as progress:
        runs, interrupted = workflows.evaluate.run_models(plan, watch, progress)
    with output.reader_may_go():
        output.show_runs(
            runs, path=report, taxonomy=taxonomy, about=about, as_json=as_json, brief=True
        )
    raise typer.Exit(_exit_code(runs, watch, store, quiet=as_json, interrupted=interrupted))


run.__doc__ = HELP


def _plan(
    called: typer.Context, store: str, resume: str | None, *, retry_void: bool, power: bool
) -> "Plan":
    if resume and (called.params["gate"] or called.params["baseline"]):
        raise UsageError("--gate and --baseline belong to a run from its start, not to --resume")
    output.first_words(", ".join(called.params["model"] or ()) or resume or "")
    options = workflows.stages.options_of(called.params)
    sources = {name: called.get_parameter_source(name) for name in called.params}
    given = [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    return workflows.stages.plan_of(
        options, store, resume=resume, given=given, retry_void=retry_void, power=power
    )


def _exit_code(
    runs: "Sequence[Run]",
    watch: "InterimLooks | None",
    store: str,
    *,
    quiet: bool,
    interrupted: bool,
) -> int:
    """Say whose fault void trials were, or what the gate found of each run: the worst counts."""
    if faults := workflows.views.faults(runs):
        typer.echo("\n".join(faults), err=True)
    if interrupted and runs:
        typer.echo(f"Cut off. agenteval run --resume {runs[-1].id} goes on", err=True)
    if interrupted or faults:
        return 130 if interrupted else o.FAULT
    workflows.views.check_usable(runs)
    if watch is None:
        return 0
    ended = workflows.interim_looks.ended(watch, runs, store)
    typer.echo("\n".join(ended.lines), err=quiet)
    return o.EXIT_CODES[ended.verdict]
