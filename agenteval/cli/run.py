"""`agenteval run`: one or more models through scenarios, then the tables and the report."""

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from agenteval.cli import options as o
from agenteval.core.run import Options
from agenteval.errors import UsageError

if TYPE_CHECKING:
    from agenteval.cli.running import Plan

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
    profile: o.Profile = "strict",
    prompt_variant: o.PromptVariant = "plain",
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
    from agenteval.cli.output import check_report, show_runs  # noqa: PLC0415 -- start-up time
    from agenteval.cli.running import check_usable, run_models  # noqa: PLC0415
    from agenteval.cli.watching import close, watch_for  # noqa: PLC0415

    check_report(report)
    plan = replace(_plan(called, store, resume), quiet=as_json, retry_void=retry_void, power=power)
    watch = watch_for(gate, baseline, store, allow_simulated=allow_simulated)
    runs, interrupted = run_models(plan, watch)
    show_runs(runs, report=report, taxonomy=taxonomy, as_json=as_json, brief=True)
    fault = check_usable(runs, interrupted=interrupted)
    raise typer.Exit(fault or close(watch, runs, store, quiet=as_json))


def _plan(called: typer.Context, store: str, resume: str | None) -> "Plan":
    from agenteval.cli.resuming import agreed, stored_run  # noqa: PLC0415 -- start-up time
    from agenteval.cli.running import Plan  # noqa: PLC0415
    from agenteval.config.prompts import load_setting  # noqa: PLC0415

    asked = {name: called.params[name] for name in Options.__dataclass_fields__}
    several = {name: list(asked[name] or ()) for name in ("targets", "model")}
    options = Options(**(asked | several))
    begun = stored_run(resume, store) if resume else None
    if begun and (called.params["gate"] or called.params["baseline"]):
        raise UsageError("--gate and --baseline belong to a run from its start, not to --resume")
    if begun:
        options = agreed(begun, options, _given(called))
    if not options.model:
        raise UsageError("--model: name what is to be evaluated; `agenteval models` lists it")
    setting = load_setting(options.profile, options.prompt_variant, options.rules, options.context)
    return Plan(options, setting, store, resume=begun)


def _given(called: typer.Context) -> list[str]:
    """The options that stand on the command line itself."""
    sources = {name: called.get_parameter_source(name) for name in Options.__dataclass_fields__}
    return [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]
