"""`agenteval run`: one or more models through scenarios, then the tables and the report."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from agenteval import __version__, workflows
from agenteval.cli import options as o
from agenteval.cli import output
from agenteval.cli.shown_runs import Form, report_of, show_runs
from agenteval.core.plain import as_word
from agenteval.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from agenteval.core.run import Run
    from agenteval.report.side import Side
    from agenteval.store.shards import Part
    from agenteval.workflows.interim_looks import InterimLooks
    from agenteval.workflows.stages import Plan


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
    store: o.Store = o.DEFAULT_STORE,
    report: o.Report = None,
    github: o.GitHub = False,
    taxonomy: o.Taxonomy = "full",
    as_json: o.AsJson = False,
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
        output.say(f"Cut off: {_SAME if resumed else o.at_store(again)}", err=True)
        raise typer.Exit(130) from None


def _played(
    called: typer.Context, plan: "Plan", gate: "Path | None"
) -> "tuple[InterimLooks | None, tuple[Sequence[Side], bool]]":
    """Return the interim looks, the runs, and if Ctrl-C ended them early."""
    output.collect_rarely(_RARELY)
    options = called.params
    watch = workflows.interim_looks.watch_for(
        gate, options["baseline"], options["store"], allow_simulated=options["allow_simulated"]
    )
    with output.playing(quiet=options["as_json"]) as progress:
        if options["executor"] == "ray":
            return watch, workflows.ray_cluster.run_models(plan, progress)
        return watch, workflows.evaluate.run_models(plan, watch, progress)


_RARELY = 20_000  # objects between two rounds of gc: at each 5,000 a call takes 5 % more, at 700 10


def _options_on_command_line(called: typer.Context) -> list[str]:
    """Return the options that the user gave himself, not those of an environment or a default."""
    sources = {name: called.get_parameter_source(name) for name in called.params}
    return [name for name, one in sources.items() if one and one.name == "COMMANDLINE"]


def _part(
    called: typer.Context, shard: str | None, executor: str, job: str, lease: float
) -> "Part | None":
    if shard is None and executor == "local":
        if lonely := [
            name for name in ("job", "lease") if name in _options_on_command_line(called)
        ]:
            raise UsageError(f"--{lonely[0]}: of shards; give --shard K/N too, such as 1/8")
        return None
    workflows.sharding.check_alone(**called.params)
    return workflows.sharding.part_of("1/1" if shard is None else shard, job, lease, __version__)


def _plan(called: typer.Context, report: "Path | None") -> "Plan":
    options = called.params
    part = _part(called, *(options[name] for name in ("shard", "executor", "job", "lease")))
    if options["resume"] and (options["gate"] or options["baseline"]):
        raise UsageError("--gate and --baseline belong to a run from its start, not to --resume")
    output.check_report(report)
    if options["github"]:
        output.summary_file()
    workflows.gating.declared(None)  # its slips are told before anything is played
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
        path=report or report_of([side.run_and_score[0] for side in sides]),
        taxonomy=options["taxonomy"],
        about=workflows.gating.declared(None),
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
    given = called.params
    broken = _broken(sides, given["void_limit"], given["resume"], interrupted=interrupted)
    runs = [side.run_and_score[0] for side in sides]
    return broken or _verdict(runs, watch, given["store"], quiet=given["as_json"])


def _how_on(sides: "Sequence[Side]", resumed: str | None) -> str:
    if sides:
        return f"`agenteval run --resume {as_word(sides[-1].run_and_score[0].id)}` goes on"
    return (
        _SAME if resumed else "no run had begun and nothing is stored: the same command starts it"
    )


def _broken(
    sides: "Sequence[Side]", limit: float, resumed: str | None, *, interrupted: bool
) -> int:
    """Say what broke trials, and return its exit code; 0 where a verdict may stand."""
    if faults := workflows.views.faults(sides):
        output.say_text("\n".join(faults), err=True)
    if interrupted:
        output.say(o.at_store(f"Cut off: {_how_on(sides, resumed)}"), err=True)
    if interrupted or faults:
        return 130 if interrupted else o.FAULT
    if void_lines := workflows.views.voids_beyond(sides, limit / 100):
        run = sides[0].run_and_score[0].id if len(sides) == 1 else "RUN"
        again = o.at_store(f"`agenteval run --resume {as_word(run)} --retry-void` plays them again")
        output.say_text("\n".join((*void_lines, again)), err=True)
    return o.TOO_VOID if void_lines else 0


def _verdict(
    runs: "Sequence[Run]", watch: "InterimLooks | None", store: str, *, quiet: bool
) -> int:
    """Say what the gate found of each run: the worst counts."""
    if watch is None:
        return 0
    ended = workflows.interim_looks.ended(watch, runs, store)
    with output.reader_may_go():
        output.say_text(o.at_store("\n".join(ended.lines)), err=quiet)
    return o.EXIT_CODES[ended.verdict]
