"""`agenteval harness`: real harnesses on this machine, got, listed, and held against our list."""

from typing import Annotated

import typer

from agenteval import workflows
from agenteval.cli import options as o

app = typer.Typer(
    name="harness",
    help="Get real harnesses, and say where their verdicts differ from ours.",
    no_args_is_help=True,
    add_completion=False,
)

Name = Annotated[str, typer.Argument(help="A name that `agenteval harness list` prints.")]


@app.command("list")
def listed() -> None:
    """List the harnesses that can play, with what each is known to do, and which are here.

    Examples:
    - `agenteval harness list`
    """
    for line in workflows.harnesses.listed():
        typer.echo(line)


@app.command()
def install(name: Name) -> None:
    """Get a harness in the version that was tried, from the registry that npm or pip uses here.

    It goes into your data folder, ~/.local/share/agenteval or AGENTEVAL_DATA, and nowhere else.

    Examples:
    - `agenteval harness install opencode`
    """
    typer.echo(workflows.harnesses.got(name))


@app.command()
def verdicts(
    run: Annotated[str, typer.Argument(help=o.RUN_WORDS)] = "last",
    *,
    store: o.Store = o.DEFAULT_STORE,
) -> None:
    """Say of a run with a harness which calls it judged otherwise than our allow list.

    Examples:
    - `agenteval harness verdicts last`
    """
    for line in workflows.harnesses.verdicts(run, store):
        typer.echo(line)
