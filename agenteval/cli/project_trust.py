"""`agenteval trust`, `doctor --project`: what a folder would do, and the user's word for it."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agenteval import config, workflows
from agenteval.cli.options import AsJson
from agenteval.cli.output import print_json, say
from agenteval.core.plain import as_word
from agenteval.errors import UntrustedError, UsageError

if TYPE_CHECKING:
    from agenteval.workflows.projects import ModelAccess, Project

Folder = Annotated[str, typer.Argument(help="The project's folder. Default: the one around here.")]
Listing = Annotated[bool, typer.Option("--list", help="List what was confirmed.")]
Removing = Annotated[
    bool, typer.Option("--remove", help="Take it back, of a project or of an origin.")
]


def trust(
    folder: Folder = ".",
    *,
    listing: Listing = False,
    remove: Removing = False,
    as_json: AsJson = False,
) -> None:
    """Confirm a project: its keys go where it says, until one of its files changes.

    Counted are agenteval.toml, gate.toml, allow lists and arms. `agenteval doctor --project` shows
    them first.

    Examples:
    - `agenteval trust`

    - `agenteval trust --list`

    - `agenteval trust --remove https://api.example.com:443`
    """
    if listing:
        _list(as_json=as_json)
    elif remove:
        _remove(folder)
    else:
        project = workflows.projects.confirm(Path(folder))
        if as_json:
            print_json(project.document())
            return
        for one in project.models:
            say(_access(one, "goes there from now on" if one.is_set else "is not set here"))
        say(f"trusted: {project.folder}, until one of its files changes ({project.digest})")


def _remove(name: str) -> None:
    try:
        confirmed = config.trust.origin_of(name) if "://" in name else os.path.realpath(name)
    except ValueError as error:
        raise UsageError(f"{name}: no origin such as https://host:443") from error
    if not config.trust.forget(confirmed):
        raise UsageError(f"{confirmed}: was not confirmed; `agenteval trust --list` lists what was")
    say(f"not trusted any more: {confirmed}")


def _list(*, as_json: bool) -> None:
    record = config.trust.load_record()
    states = {one: workflows.projects.state_of(one, pin) for one, pin in record.projects.items()}
    if as_json:
        projects = {one: {"digest": record.projects[one], "now": states[one]} for one in states}
        print_json({"projects": projects, "origins": record.origins, "runs": record.runs})
        return
    for folder, state in states.items():
        say(f"project {folder}: {state} ({record.projects[folder]})")
    for origin, names in record.origins.items():
        say(f"origin {origin}: {', '.join(names)}")
    for origin, names in record.runs.items():
        say(f"origin {origin}: {', '.join(names)}, for runs that go on there")
    if record == config.trust.Record():
        say(f"nothing was confirmed; {config.trust.user_file()} would have it")


def show_project(folder: str, *, as_json: bool) -> None:
    """Print what a folder would do. Raises UsageError."""
    project = workflows.projects.examine(Path(folder))
    if as_json:
        print_json(project.document())
    else:
        _print_project(project)


def _print_project(project: "Project") -> None:
    state = "trusted" if project.is_trusted else "not trusted"
    say(f"project {project.folder}: {state}")
    say(f"  digest  {project.digest}")
    if project.refused:
        say(f"  passed over  as {project.refused}")
    if project.problem:
        say(f"  agenteval.toml  cannot be read: {project.problem}")
    for one in project.models:
        say(f"  {_access(one, _sent(one))}")
    for kind, names in project.brings.items():
        hidden = project.hides.get(kind, ())
        marked = [f"{name} (hides the shipped one)" if name in hidden else name for name in names]
        say(f"  {kind}  {', '.join(marked)}")
    for kind, place in project.unusual:
        say(f"  {kind}  {place}")
    if not project.is_trusted:
        say(f"To let its keys go where it says: agenteval trust {as_word(project.folder)}")


def _access(one: "ModelAccess", what: str) -> str:
    return f"model {one.name}  {one.url}  key in {one.variable}: {what}"


def _sent(one: "ModelAccess") -> str:
    if not one.is_set:
        return "not set here, so nothing is sent"
    return "is sent" if one.may_send else "is not sent before you confirm it"


def confirms(error: UntrustedError) -> bool:
    """Ask, at a terminal, whether the project is trusted; what is confirmed is remembered."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    project = workflows.projects.examine(Path(error.project))
    say(
        f"{project.folder}/agenteval.toml, which you have not confirmed, wants keys sent:", err=True
    )
    for one in project.models:
        if one.is_set and not one.may_send:
            say(f"  the key in {one.variable} to {one.url}", err=True)
    say(f"agenteval doctor --project {as_word(project.folder)} shows all of it.", err=True)
    if not typer.confirm("Trust it, until one of its files changes?", default=False, err=True):
        return False
    config.trust.confirm(Path(project.folder), project.digest)
    return True
