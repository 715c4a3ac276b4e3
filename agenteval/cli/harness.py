"""`agenteval harness`: real harnesses here, installed, listed, and compared with our list."""

from typing import Annotated

import typer

from agenteval import harness, workflows
from agenteval.cli import options as o
from agenteval.cli.output import say

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
        say(line)


@app.command()
def install(name: Name) -> None:
    """Get a harness in the version that was tried, from the registry that npm or pip uses here.

    It goes into your data folder, ~/.local/share/agenteval or AGENTEVAL_DATA, and nowhere else.

    Examples:
    - `agenteval harness install opencode`
    """
    say(workflows.harnesses.got(name))


@app.command(context_settings={"ignore_unknown_options": True})
def capture(
    command: Annotated[
        list[str],
        typer.Argument(help="Behind --, a command line of your own harness that asks nobody."),
    ],
    *,
    name: Annotated[
        str | None, typer.Option(help="Name of the arm. Default: captured/HARNESS.")
    ] = None,
    permissions: Annotated[
        str | None,
        typer.Option(help="Its permissions, such as opencode.json, to compare its verdicts with."),
    ] = None,
) -> None:
    """Record what your own harness sends its model, and make an arm of it.

    It runs once, here, with your agents and settings; we are its model, and ask it for some twenty
    calls that do no harm. The arm is a file in arms/ of this folder. Nothing is sent anywhere.

    Examples:
    - `agenteval harness capture -- opencode run "look around"`

    - `agenteval harness capture --permissions .claude/settings.json -- claude -p "look around"`

    - `agenteval harness capture -- codex exec "look around"`
    """
    for line in harness.recording.captured(command, name, permissions):
        say(line)


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
        say(line)
