"""`agenteval hook` and `agenteval guard`: a policy where agents really run."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from agenteval.cli.output import print_data, say
from agenteval.errors import UsageError
from agenteval.hook import asking, coverage, installing, resident
from agenteval.hook.production_log import LOG, ProductionLog

app = typer.Typer(
    name="hook",
    help="Deny by your allow list, or only watch, where agents really run.",
    no_args_is_help=True,
    add_completion=False,
)

For = Annotated[str, typer.Option("--for", help=f"The harness: {', '.join(installing.NAMES)}.")]
AllowList = Annotated[
    str, typer.Option("--allowlist", "-a", help="An allow list, as `classify` takes it.")
]
Observe = Annotated[bool, typer.Option("--observe", help="Deny nothing; only keep the log.")]
Fail = Annotated[
    str, typer.Option(help="What a call is that cannot be judged: closed, denied; open, let go on.")
]
User = Annotated[
    bool, typer.Option("--user/--project", help="For all your sessions, or for those started here.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask after the diff was shown.")]
Log = Annotated[str, typer.Option(help="The log. Default: calls.jsonl in your state folder.")]


@app.command()
def install(  # noqa: PLR0913 -- one parameter for each option
    *,
    harness: For,
    allowlist: AllowList,
    user: User = False,
    observe: Observe = False,
    fail: Fail = "closed",
    log: Log = "",
    yes: Yes = False,
) -> None:
    """Put the hook into a harness's settings, after showing what changes there.

    The file as it was stays beside it. Putting it in again changes the options only.

    Examples:
    - `agenteval hook install --for claude-code --allowlist allowlists/mine.toml`

    - `agenteval hook install --for codex --allowlist demo --user --observe --yes`
    """
    words = installing.command(harness, allowlist, observe=observe, fail=fail, log=log)
    for line in coverage.describe(harness, allowlist, observe=observe):
        say(line)
    change = installing.installed(harness, words, user=user, fail=fail)
    if _apply(change, yes=yes, nothing="the hook is there already"):
        typer.echo(f"{change.note}\nNext: agenteval hook status")


@app.command()
def remove(*, harness: For, user: User = False, yes: Yes = False) -> None:
    """Take the hook out of a harness's settings, after showing what changes there.

    Examples:
    - `agenteval hook remove --for claude-code`
    """
    _apply(installing.removed(harness, user=user), yes=yes, nothing="there is no hook of ours")


def _apply(change: installing.Change, *, yes: bool, nothing: str) -> bool:
    if change.before == change.after:
        say(f"{change.file}: {nothing}")
        return False
    print_data(change.diff)
    if not yes and not sys.stdin.isatty():
        raise UsageError("nobody can be asked here: give --yes to change this file")
    if not yes and not typer.confirm("Change it?"):
        typer.echo("nothing was changed")
        return False
    change.make()
    say(f"changed {change.file}" if change.after is not None else f"removed {change.file}")
    return True


@app.command()
def run(
    *,
    harness: For,
    allowlist: AllowList,
    observe: Observe = False,
    fail: Fail = "closed",
    log: Log = "",
) -> None:
    """Answer one call on standard input as the hook does, to see what a harness would be told.

    What `install` writes starts the same without the command line of agenteval, in 10 ms.

    Examples:
    - `agenteval hook run --for claude-code --allowlist demo < call.json`
    """
    words = installing.command(harness, allowlist, observe=observe, fail=fail, log=log)
    raise typer.Exit(asking.main([*words[4:]]))


@app.command()
def status() -> None:
    """Tell where the hook is installed, whether its process runs, and what the log holds.

    Examples:
    - `agenteval hook status`
    """
    folder = Path(asking.folder())
    for name in installing.NAMES:
        for user in (False, True):
            file = installing.file_of(name, user=user)
            if change := installing.there(file):
                say(f"{name}: in {file}: {change}")
    pid = _running(folder)
    typer.echo(f"resident process: {f'running, {pid}' if pid else 'not running'}")
    counts: Counter[tuple[str, str, str]] = Counter()
    events = []
    for line in ProductionLog(folder / LOG).lines():
        if "event" in line:
            events.append(line)
        else:
            at, model, verdict = (str(line.get(key) or "?") for key in ("at", "model", "verdict"))
            counts[at[:10], model, verdict + _why_unjudged(line)] += 1
    say(f"log: {folder / LOG}")
    for (day, model, verdict), count in sorted(counts.items()):
        say(f"  {day}  {model}  {verdict}: {count}")
    for line in events[-10:]:
        told = {key: value for key, value in line.items() if key not in {"v", "at", "event"}}
        said = ", ".join(f"{key} {value}" for key, value in told.items() if value != "")
        say(f"  {line.get('at', '?')}  {line['event']}: {said}")


def _why_unjudged(line: Mapping[str, Any]) -> str:
    """Return why a call was not judged, and that it was denied all the same; empty if judged."""
    if "effect" not in line:
        return ""
    return f" ({line['effect']}{'' if line.get('ran') else ', denied'})"


@app.command()
def stop() -> None:
    """End the resident process, which the next call starts again; the log has it.

    Examples:
    - `agenteval hook stop`
    """
    pid = _running(Path(asking.folder()))
    if pid:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)  # one that is stopped would not hear of it
    typer.echo(f"ended {pid}" if pid else "it does not run")


def _running(folder: Path) -> int:
    """The process that holds the lock; 0 where there is none."""
    try:
        pid = int((folder / resident.PID).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
    return pid if resident.is_held(folder) else 0


def guard(  # noqa: PLR0913 -- one parameter for each option
    shell: Annotated[
        list[str], typer.Argument(help="Behind --, a shell, and what a program gives to it.")
    ],
    *,
    allowlist: AllowList,
    observe: Observe = False,
    fail: Fail = "closed",
    log: Log = "",
    write: Annotated[
        Path | None, typer.Option(help="Write a program that is this shell, for SHELL=.")
    ] = None,
) -> None:
    """Be a shell that runs a command only if the allow list has it, and keeps the log.

    The shell is given one command behind -c, as programs do; anything else is denied. What is
    denied is not run: the reason is on standard error, and the exit code is 126.

    Examples:
    - `agenteval guard --allowlist demo -- bash -c 'git status'`

    - `agenteval guard --allowlist demo --write guarded-bash -- bash`
    """
    words = installing.command("guard", allowlist, observe=observe, fail=fail, log=log)
    if write is None:
        raise typer.Exit(asking.main([*words[4:], "--", *shell]))
    installing.write_shell(write, [*words, "--", *shell])
    typer.echo(f"wrote {write}\nNext: SHELL={write.resolve()} and the program that runs commands")
