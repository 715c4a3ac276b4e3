"""`agenteval scenarios`: what there is to play, what a model reads, and proof that it works."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from agenteval.cli import options as o

if TYPE_CHECKING:
    from agenteval.core.prompt.prompt import Prompt
    from agenteval.core.scenario import Scenario

app = typer.Typer(invoke_without_command=True, rich_markup_mode="markdown")


@app.callback()
def scenarios(context: typer.Context, *, as_json: o.AsJson = False) -> None:
    """List the scenarios: what each asks for, in how many steps, and which errors it invites.

    Examples:
    - `agenteval scenarios`

    - `agenteval scenarios show ralf/handshake --seed 7`

    - `agenteval scenarios check`

    - `agenteval scenarios new home/shutters`
    """
    if context.invoked_subcommand is None:
        _list(_load([]), as_json=as_json)


@app.command()
def show(  # noqa: PLR0913 -- each is an option of the command line
    name: Annotated[str, typer.Argument(help="A scenario by name, or its folder.")],
    *,
    seed: Annotated[int, typer.Option(min=0, help="The trial's seed: it picks the variant.")] = 0,
    profile: o.Profile = "strict",
    prompt_variant: o.PromptVariant = "plain",
    rules: o.RulesPlace = "start",
    context: o.Context = "0",
) -> None:
    """Print exactly what a model reads at the start of the trial with this seed.

    What a sub-agent reads follows, with `<column>` where what asks for it will fill something in.

    Examples:
    - `agenteval scenarios show ralf/handshake`

    - `agenteval scenarios show my-scenarios/inbox --seed 7`
    """
    from agenteval.config.prompts import load_setting  # noqa: PLC0415 -- start-up time, as below
    from agenteval.core.prompt.agents import outline  # noqa: PLC0415
    from agenteval.core.prompt.context import posed  # noqa: PLC0415

    setting = load_setting(profile, prompt_variant, rules, context)
    for number, scenario in enumerate(_load([name])):
        prompt = posed(scenario, seed, setting)
        if number:
            typer.echo()
        _show(scenario.name, prompt)
        for agent in scenario.agents:
            if agent.program is None:
                asked = outline(scenario, agent, seed, prompt.variables, setting)
                _show(f"{scenario.name}, sub-agent {agent.name}", asked)


def _show(whose: str, prompt: "Prompt") -> None:
    typer.echo(f"----- {whose}, system message -----\n{prompt.system}")
    for message in prompt.history:
        called = "".join(f"{call.name} {call.raw}" for call in message.calls)
        typer.echo(f"----- {whose}, earlier, {message.role} -----")
        typer.echo(message.content or called)
    typer.echo(f"----- {whose}, first message of the user -----\n{prompt.task}")


@app.command()
def check(
    targets: o.Targets = None, *, sandbox: o.SandboxName = None, as_json: o.AsJson = False
) -> None:
    """Prove that scenarios work, by playing them for real; exit 1 when one does not.

    The reference solution must reach the goal without a denial in the world of every variant, and
    be allowed under every harness profile. A player that slips once in each class of `invites`
    must be denied as exactly that class, and still arrive; one that does nothing, or only claims to
    be done, must not. The prompt may name only scripts, usages and tools that there are. The same
    seed must make the same world, and a trial find nothing of another.

    Examples:
    - `agenteval scenarios check`

    - `agenteval scenarios check my-scenarios/inbox`
    """
    from agenteval.cli import checking  # noqa: PLC0415
    from agenteval.cli.stages import load_stages  # noqa: PLC0415

    proofs = checking.check(load_stages(targets or []), sandbox)
    if as_json:
        typer.echo(json.dumps([asdict(proof) for proof in proofs], indent=2))
    else:
        for proof in proofs:
            for line in checking.told(proof):
                typer.echo(line)
    if any(proof.faults for proof in proofs):
        raise typer.Exit(1)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="What to call it, with its group: home/shutters.")],
) -> None:
    """Write a small scenario that works into your own folders, to be made yours.

    It goes into scenarios/, fixtures/ and allowlists/ of the project: the nearest folder upwards
    with an agenteval.toml, else this one. Nothing is ever overwritten.

    Examples:
    - `agenteval scenarios new home/shutters`

    - `agenteval scenarios check home/shutters`
    """
    from agenteval.config.paths import roots  # noqa: PLC0415
    from agenteval.config.skeleton import write_skeleton  # noqa: PLC0415

    for path in write_skeleton(name, root=roots()[0]):
        typer.echo(f"wrote {path}")
    typer.echo(f"It works: agenteval scenarios check {name}")


def _load(targets: list[str]) -> "tuple[Scenario, ...]":
    from agenteval.config.paths import roots  # noqa: PLC0415
    from agenteval.config.scenarios import load_scenarios  # noqa: PLC0415

    return load_scenarios(targets, roots=roots())


def _list(found: "tuple[Scenario, ...]", *, as_json: bool) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if as_json:
        typer.echo(json.dumps([_summary(scenario) for scenario in found], indent=2))
        return
    table = Table.grid("scenario", "what it asks for", padding=(0, 2))
    table.columns[0].no_wrap = True
    for scenario in found:
        asked = (
            f"{len(scenario.solution)} steps; invites {', '.join(scenario.invites) or 'nothing'}"
        )
        told = Text.assemble(scenario.title, "\n", (asked, "dim"))
        table.add_row(scenario.name, told)
    Console().print(table)
    typer.echo(f"\n{len(found)} scenarios. What a model reads: agenteval scenarios show NAME")


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
