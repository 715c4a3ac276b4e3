"""`agenteval scenarios` and `play`: what there is, what a model reads, and proof that it works."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from agenteval import config, report, workflows
from agenteval.cli import options, output
from agenteval.cli.options import (
    DEFAULT_ARM,
    Arm,
    AsJson,
    Context,
    PromptVariant,
    RulesPlace,
    SandboxName,
)
from agenteval.cli.output import say, say_text
from agenteval.trial.text import as_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenteval.prompt.prompt import Prompt
    from agenteval.trial.trial import Scenario
Seed = Annotated[int, Option(min=0, help="The trial's seed: it picks the variant.")]
app = typer.Typer(invoke_without_command=True, add_completion=False)


@app.callback()
def scenarios(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the scenarios: what each asks for, in how many steps, and which errors it invites.

    Examples:
    - `agenteval scenarios`

    - `agenteval scenarios show ralf/handshake --seed 7`

    - `agenteval scenarios world data/pantry-audit --seed 7`

    - `agenteval scenarios check`

    - `agenteval scenarios new home/shutters`
    """
    if context.invoked_subcommand is None:
        _list(workflows.author.scenarios([]), as_json=as_json)


@app.command()
def show(  # noqa: PLR0913 -- each is an option of the command line
    name: Annotated[str, Argument(help="A scenario by name, or its folder.")],
    *,
    seed: Seed = 0,
    arm: Arm = DEFAULT_ARM,
    prompt_variant: PromptVariant = None,
    rules: RulesPlace = "start",
    context: Context = "0",
) -> None:
    """Print exactly what a model reads at the start of the trial with this seed.

    What a sub-agent reads follows, with `<column>` where what asks for it will fill something in.

    Examples:
    - `agenteval scenarios show ralf/handshake`

    - `agenteval scenarios show my-scenarios/inbox --seed 7`
    """
    authoring = workflows.author
    setting = authoring.load_setting(arm, prompt_variant, rules, context)
    for number, read in enumerate(authoring.prompts(name, seed, setting)):
        if number:
            typer.echo()
        for whose, prompt in read:
            _show(whose, prompt)


def _show(whose: str, prompt: "Prompt") -> None:
    say(f"----- {whose}, system message -----")
    say_text(prompt.system)
    for message in prompt.history:
        called = "".join(f"{call.name} {call.raw}" for call in message.calls)
        say(f"----- {whose}, earlier, {message.role} -----")
        say_text(message.content or called)
    say(f"----- {whose}, first message of the user -----")
    say_text(prompt.task)


@app.command()
def world(
    name: Annotated[str, Argument(help="A scenario by name, or its folder.")],
    *,
    seed: Seed = 0,
    out: Annotated[Path | None, Option(help="Write its files into this new folder.")] = None,
) -> None:
    """Print what a world holds: its files, and the tables of its database with some rows.

    Examples:
    - `agenteval scenarios world ralf/handshake`

    - `agenteval scenarios world my-scenarios/inbox --seed 7 --out /tmp/inbox`
    """
    authoring = workflows.author
    for line in authoring.world(name, seed) if out is None else _written(name, seed, out):
        say_text(line)


def _written(name: str, seed: int, out: Path) -> "Iterator[str]":
    return (f"wrote {path}" for path in workflows.author.write_world(name, seed, out))


Worlds = Annotated[
    int,
    Option(
        min=0,
        max=1000,
        help="Try the worlds of so many seeds beside, such as 50, and cheats; 10 are played.",
    ),
]


@app.command()
def check(
    targets: options.Targets = None,
    *,
    worlds: Worlds = 0,
    sandbox: SandboxName = None,
    as_json: AsJson = False,
) -> None:
    """Prove that scenarios work, by playing them for real; exit 1 when one does not.

    The reference solution must reach the goal without a denial in the world of every variant, and
    be allowed under every arm. A player that slips once in each class of `invites`
    must be denied as exactly that class, and still arrive; one that does nothing, or only claims to
    be done, must not. The prompt may name only scripts, usages and tools that there are. The same
    seed must make the same world, and a trial find nothing of another.

    With --worlds, that many worlds are made and asked, the solution is played in ten of them, two
    other honest players must reach the goal, and who guesses on, lists every answer, answers by the
    prompt alone or empties the tests must not.

    Examples:
    - `agenteval scenarios check`

    - `agenteval scenarios check my-scenarios/inbox --worlds 50`

    - `agenteval scenarios check my-scenarios/inbox`
    """
    stages = workflows.stages.load_stages(targets or [])
    proofs = workflows.prove.check(stages, sandbox, worlds)
    with output.reader_may_go():
        if as_json:
            output.print_json([asdict(proof) for proof in proofs])
        else:
            for line in (line for proof in proofs for line in workflows.prove.lines_of(proof)):
                say(line)
    if any(proof.faults for proof in proofs):
        raise typer.Exit(1)


@app.command()
def new(
    name: Annotated[str, Argument(help="What to call it, with its group: home/shutters.")],
) -> None:
    """Write a small scenario that works into your own folders, to be made yours.

    It goes into scenarios/, fixtures/ and allowlists/ of the project: the nearest folder upwards
    with an agenteval.toml, else this one. Nothing is ever overwritten.

    Examples:
    - `agenteval scenarios new home/shutters`

    - `agenteval scenarios check home/shutters`
    """
    for path in workflows.author.write_new(name):
        say(f"wrote {path}")
    say(f"It works: agenteval scenarios check {as_word(name)}")


def play(  # noqa: PLR0913 -- each is an option of the command line
    scenario: Annotated[str, Argument(help="One scenario; with --replay as SCENARIO#N.")],
    *,
    seed: Seed = 0,
    arm: Arm = DEFAULT_ARM,
    prompt_variant: PromptVariant = None,
    rules: RulesPlace = "start",
    context: Context = "0",
    replay: Annotated[
        str | None,
        Option(metavar="RUN", help="Make the calls of this stored run's trial again."),
    ] = None,
    store: options.Store = options.DEFAULT_STORE,
    sandbox: SandboxName = None,
) -> None:
    """Be the model: read what it reads, type its calls, and see verdicts, hints and replies.

    At the end each check of the goal is told. Nothing is stored. With --replay the calls of a
    stored trial are made again in the same world, one at each Enter.

    Examples:
    - `agenteval play notes/tidy`

    - `agenteval play ralf/handshake --arm strict --seed 7`

    - `agenteval play ralf/handshake#2 --replay last`
    """
    terminal = workflows.author.Terminal(say_text, _typed, sandbox)
    if replay:
        (run,) = output.chosen([replay], store)
        trial = workflows.author.replayed(run, scenario, store, terminal)
    else:
        setting = config.prompts.load_setting(arm, prompt_variant, rules, context)
        trial = workflows.author.by_person(scenario, seed, setting, terminal)
    for line in report.transcripts.ended(report.transcripts.shown_trial(trial)):
        say(line)


def _typed(prompt: str) -> str:
    """A line of the terminal, with its editing and history; of a pipe, shown as it is read."""
    if sys.stdin.isatty():
        import readline  # noqa: F401, PLC0415 -- changes input(), and only a terminal needs it
    line = input(prompt)
    if not sys.stdin.isatty():
        say(line)
    return line


def _list(listed: "tuple[Scenario, ...]", *, as_json: bool) -> None:
    if as_json:
        output.print_json([_summary(scenario) for scenario in listed])
        return
    report.console.print_named((one.name, one.title, _steps_and_classes(one)) for one in listed)
    typer.echo(f"\n{len(listed)} scenarios. What a model reads: agenteval scenarios show NAME")


def _steps_and_classes(scenario: "Scenario") -> str:
    return f"{len(scenario.solution)} steps; invites {', '.join(scenario.invites) or 'nothing'}"


def _summary(scenario: "Scenario") -> dict[str, object]:
    return {
        "name": scenario.name,
        "title": scenario.title,
        "policy": scenario.policy,
        "fixture": scenario.fixture,
        "tools": scenario.tools,
        "variants": len(scenario.variants),
        "steps": len(scenario.solution),
        "handshake": [step.name for step in scenario.handshake],
        "agents": [agent.name for agent in scenario.agents],
        "invites": scenario.invites,
        "max_turns": scenario.max_turns,
    }
