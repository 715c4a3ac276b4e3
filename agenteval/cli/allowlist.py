"""`agenteval allowlist`: made from scripts, checked, and written for other harnesses."""

from pathlib import Path
from typing import Annotated

import typer

from agenteval import workflows
from agenteval.bounded import write_whole
from agenteval.cli import options as o
from agenteval.cli.output import print_data, reader_may_go, say
from agenteval.dialects import NAMES
from agenteval.errors import UsageError

allowlist = typer.Typer(
    name="allowlist",
    help="Check an allow list, make one from scripts, or write it for another harness.",
    no_args_is_help=True,
    add_completion=False,
)

Given = Annotated[
    str,
    typer.Argument(
        help="A name, a TOML path, or an opencode.json, agent .md, settings.json or .rules file."
    ),
]


@allowlist.command()
def lint(given: Given) -> None:
    """Find rules that can never match, that say nothing new, or that let more through.

    Exit code: 0 when there is nothing to say, 1 when there is.

    Examples:
    - `agenteval allowlist lint demo`

    - `agenteval allowlist lint .claude/settings.json`
    """
    remarks = workflows.reference.lint(given)
    with reader_may_go():
        for remark in remarks:
            said = f"`{remark.rule}` {remark.trouble.value}: {remark.reason}"
            say(f"{given}: {in_one_line(said)}")
    if remarks:
        raise typer.Exit(1)


@allowlist.command()
def convert(
    given: Given,
    *,
    to: Annotated[
        str, typer.Option(help=f"For whom: {', '.join(NAMES)}, toml, or a plug-in's name.")
    ],
) -> None:
    """Print an allow list as another harness writes it, and on standard error what got lost.

    Examples:
    - `agenteval allowlist convert demo --to opencode > opencode.json`

    - `agenteval allowlist convert .claude/settings.json --to toml > allowlists/mine.toml`
    """
    written = workflows.reference.convert(given, to)
    print_data(written.text)
    for line in written.lost:
        say(f"not carried over: {in_one_line(line)}", err=True)


def in_one_line(text: str) -> str:
    """Rules that a harness wrote down itself can hold whole scripts."""
    return text.replace("\r", "\\r").replace("\n", "\\n")


@allowlist.command()
def derive(
    scripts: Annotated[Path, typer.Argument(help="A folder of Python scripts, or one of them.")],
    *,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Write it there, to a new file. Default: print it."),
    ] = None,
    runner: Annotated[str, typer.Option(help="What stands before a script's path.")] = "uv run",
    sandbox: o.SandboxName = None,
) -> None:
    """Write an allow list from what scripts themselves say they take: argparse, click or typer.

    Each script is run in a sandbox up to the moment when it would read its command line; nothing
    after that happens. A script that does not come so far is a comment with the reason.

    Examples:
    - `agenteval allowlist derive fixtures/ralf/files/scripts`

    - `agenteval allowlist derive my-scripts/ --file allowlists/mine.toml`
    """
    if file and file.exists():
        raise UsageError(f"--file {file}: is there already. Name a new file, or move that one away")
    text = workflows.derive.derive_text(scripts, runner, sandbox)
    if file is None:
        print_data(text)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, text)
    say(f"wrote {file}")
