"""The command line: one line for each command; a command's module does its heavy imports itself."""

from typing import Annotated

import typer

from agenteval import __version__
from agenteval.cli.allowlist import allowlist
from agenteval.cli.classify import classify
from agenteval.cli.compare import compare
from agenteval.cli.counts import app as counts
from agenteval.cli.doctor import doctor
from agenteval.cli.explain import explain
from agenteval.cli.gate import gate
from agenteval.cli.models import models
from agenteval.cli.plan import plan
from agenteval.cli.run import HELP as RUN
from agenteval.cli.run import run
from agenteval.cli.scenarios import app as scenarios
from agenteval.cli.show import show
from agenteval.cli.speed import speed

app = typer.Typer(
    name="agenteval",
    help="How reliably does a served model call its tools under your allow list?",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"agenteval {__version__}")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """How reliably does a served model call its tools under your allow list?"""


app.command(name="run", help=RUN)(run)
app.command(name="show")(show)
app.command(name="speed")(speed)
app.command(name="gate")(gate)
app.command(name="plan")(plan)
app.command(name="compare")(compare)
app.add_typer(counts, name="import")
app.command(name="models")(models)
app.add_typer(scenarios, name="scenarios")
app.command(name="classify")(classify)
app.command(name="explain")(explain)
app.add_typer(allowlist)
app.command(name="doctor")(doctor)
