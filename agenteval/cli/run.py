"""`agenteval run`: one or more models through scenarios, then the tables and the report."""

from agenteval.cli import options as o


def run(  # noqa: PLR0913 -- each is an option of the command line
    targets: o.Targets = None,
    *,
    model: o.Models,
    base_url: o.BaseUrl = None,
    trials: o.Trials = 5,
    seed: o.Seed = 1,
    concurrency: o.Concurrency = "4",
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
    allow_simulated: o.AllowSimulated = False,
) -> None:
    """Play scenarios with a served model and count its errors per 100 tool calls.

    With --gate and --baseline a gate looks at the run at the points that its rules plan, and stops
    it as soon as its verdict is certain.

    Examples:
    - `agenteval run --model qwen3.6-35b scenarios/`

    - `agenteval run -m my-model --base-url http://localhost:8080/v1 ralf/handshake --trials 20`

    - `agenteval run -m sim/qwen3.6-35b -m sim/qwen3.5-27b` needs no server

    - `agenteval run -m my-model --concurrency 1,2,4,8`, then `agenteval speed RUN...`

    - `agenteval run -m my-model --trials 50 --gate gate.toml --baseline 20261121-101500-mine`
    """
    from agenteval.cli.output import check_report, show_runs  # noqa: PLC0415 -- start-up time
    from agenteval.cli.running import Plan, check_usable, run_models  # noqa: PLC0415
    from agenteval.cli.watching import watch_for  # noqa: PLC0415
    from agenteval.config.prompts import load_setting  # noqa: PLC0415

    check_report(report)
    plan = Plan(
        targets or [],
        model,
        base_url,
        max_turns,
        load_setting(profile, prompt_variant, rules, context),
        sandbox,
        prefork,
        store,
        as_json,
        trials,
        seed,
        concurrency,
    )
    watch = watch_for(gate, baseline, store, allow_simulated=allow_simulated)
    runs, interrupted = run_models(plan, watch)
    show_runs(runs, report=report, taxonomy=taxonomy, as_json=as_json, brief=True)
    check_usable(runs, interrupted=interrupted)
