"""`agenteval ingest`, `hook`, `guard`: logs of other programs, and a policy where agents run."""

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option, echo

from agenteval import logs
from agenteval.cli import options, output, signals
from agenteval.cli.output import print_data, say
from agenteval.errors import UsageError
from agenteval.hook import asking, installing, resident, tool_inputs
from agenteval.hook.judging import LOG, ProductionLog
from agenteval.trial.text import as_word, shortened

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenteval.logs.workers import Intake, Taken
    from agenteval.trial.session import Skipped
SCHEMA = "agenteval.ingest/1"
NAMED = 10  # skipped parts that are named; --json has all
_STOP_SECONDS = 5.0  # that the hook's process has to end by itself
EVERY_SECONDS = 2.0  # while logs are followed, and from one word of progress to the next
_COLUMNS = ("ran", "tool-error", "denied", "rejected", "invalid-tool", "malformed")
_APART = ("pending", "cascade", "not-observable")
Format = Annotated[
    str,
    Argument(metavar="FORMAT", help="Whose logs: opencode, claude-code, ...; or auto."),
]
Paths = Annotated[
    list[str] | None,
    Argument(help="Files, or folders of them. Default: the program's own place."),
]
Rules = Annotated[
    str | None,
    Option(
        "--allowlist",
        "-a",
        help="What judges the calls. Default: what was recorded of them.",
    ),
]
Since = Annotated[
    str | None, Option(metavar="DATE", help="Sessions that ended since then, in UTC.")
]
Until = Annotated[str | None, Option(metavar="DATE", help="Sessions begun before then, in UTC.")]
OfAgent = Annotated[str | None, Option("--agent", help="Agents with this in it.")]
OfProject = Annotated[str | None, Option("--project", help="Projects with this in it.")]
Redact = Annotated[
    bool,
    Option(
        "--redact",
        help="Take keys, tokens, addresses, hosts, e-mail and users' names out before storing.",
    ),
]
WorkerCount = Annotated[
    int | None,
    Option(
        min=1,
        max=64,
        help="Processes that read and judge. Default: one a core where logs are large.",
    ),
]
Follow = Annotated[bool, Option("--follow", help="Go on, and take in what comes, until Ctrl-C.")]


def ingest(  # noqa: PLR0913 -- each is an option of the command line
    format_name: Format,
    paths: Paths = None,
    *,
    store: options.Store = options.DEFAULT_STORE,
    allowlist: Rules = None,
    since: Since = None,
    until: Until = None,
    model: options.OfModel = None,
    agent: OfAgent = None,
    project: OfProject = None,
    redact: Redact = False,
    follow: Follow = False,
    workers: WorkerCount = None,
    as_json: options.AsJson = False,
) -> None:
    """Take in the logs that other programs wrote: their sessions become trials of runs.

    Each model of each program is a run, for `show`, `compare` and `gate`. Nothing is taken in
    twice. Without --allowlist an error is what the log records as denied, unknown or malformed.

    Examples:
    - `agenteval ingest auto`

    - `agenteval ingest claude-code ~/.claude/projects --since 2026-11-01`
    """
    take = partial(
        logs.ingest.take_in,
        format_name,
        store=store,
        allowlist=allowlist,
        filters=logs.workers.Wanted(since, until, model, agent, project),
        redact=redact,
        workers=workers,
        note=Progress() if sys.stderr.isatty() else lambda _: None,
    )
    with _ended_by_ctrl_c() if follow else nullcontext():
        first = _first(take, format_name, paths or [], waits=follow, as_json=as_json)
        if follow:
            _follow(take, paths or [], first.skipped, as_json=as_json)


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end what is followed in good order; any other signal cuts it off."""
    try:
        yield
    except KeyboardInterrupt:
        if signals.exit_code() != signals.CUT_OFF:
            raise


def _first(
    take: "Callable[[Sequence[str]], Intake]",
    name: str,
    paths: "Sequence[str]",
    *,
    waits: bool,
    as_json: bool,
) -> "Intake":
    """Take in and show what is there. Raises UsageError where nothing is, or is waited for."""
    intake = take(paths)
    if not waits:
        logs.ingest.check_any(intake, name, paths)
    _show(intake, as_json=as_json)
    return intake


def _follow(
    take: "Callable[[Sequence[str]], Intake]",
    paths: Sequence[str],
    reported: "Sequence[Skipped]",
    *,
    as_json: bool,
) -> None:
    """Go on without end. A file that is renamed or removed is waited for, under its name."""
    gone: list[str] = []
    while True:
        time.sleep(EVERY_SECONDS)
        there = [path for path in paths if Path(path).exists()]
        for path in paths:
            if path not in there and path not in gone:
                say(f"{path}: it is gone; waiting for the next one", err=True)
        gone = [path for path in paths if path not in there]
        if gone and not there:
            continue
        try:
            intake = take(there)
        except UsageError:
            if all(Path(path).exists() for path in there):
                raise
            continue  # it was taken away since it was looked at
        # A part that cannot be read is skipped at each look, and told once.
        if intake.has_news or (intake.skipped and intake.skipped != reported):
            reported = intake.skipped
            _show(intake, as_json=as_json)


def _show(intake: "Intake", *, as_json: bool) -> None:
    if as_json:
        output.print_json(_document(intake))
    else:
        for line in _summary_lines(intake):
            say(line)
    sys.stdout.flush()


@dataclass(slots=True)
class Progress:
    """A line on standard error now and then: a session may be the only one, and have a million."""

    clock: "Callable[[], float]" = time.monotonic
    reported_at: float = -EVERY_SECONDS

    def __call__(self, intake: "Intake") -> None:
        if self.clock() < self.reported_at + EVERY_SECONDS:
            return
        self.reported_at = self.clock()
        sessions = sum(sum(one.sessions.values()) for one in intake.runs.values())
        calls = sum(sum(one.recorded.values()) for one in intake.runs.values())
        files = f"file {intake.files:,} of {intake.file_count:,}"
        say(f"{files}, {sessions:,} sessions, {calls:,} calls", err=True)


def _summary_lines(intake: "Intake") -> Iterator[str]:
    for taken in intake.runs.values():
        yield from _of_run(taken)
    yield f"files read: {intake.files:,}, of which {intake.unchanged:,} were as they had been"
    if intake.left_out:
        yield f"sessions left out, as they were not asked for: {intake.left_out:,}"
    if intake.empty:
        yield f"sessions in which no model said anything: {intake.empty:,}"
    for line in intake.redacted:
        yield f"taken out: {line}"
    if intake.lost_workers:
        yield f"worker processes that died, what was theirs was read again: {intake.lost_workers}"
    yield from _skipped(intake)
    if found := _no_session(intake):
        yield f"{found['path']}: no session in it{'. It is a log for' if found['formats'] else ''}"
        for name in found["formats"]:
            yield f"  agenteval ingest {name} {as_word(found['path'])}"
    if intake.runs:
        yield options.at_store(
            f"Rates with intervals: agenteval show {' '.join(map(as_word, intake.runs))}"
        )


def _no_session(intake: "Intake") -> dict[str, Any] | None:
    """Return a file without sessions and the formats that it reads as; None if not needed."""
    path = "" if intake.runs else intake.bare
    return {"path": path, "formats": logs.workers.reads_as(Path(path))} if path else None


def _skipped(intake: "Intake") -> Iterator[str]:
    if intake.skipped:
        yield f"parts skipped: {intake.skips:,}"
        for one in intake.skipped[:NAMED]:
            yield f"  {one.path}: {one.at}: {shortened(one.reason, 200)}"
        if intake.skips > NAMED:
            yield f"  and {intake.skips - NAMED:,} more: --json names {len(intake.skipped):,}"


def _of_run(result: "Taken") -> Iterator[str]:
    sessions = ", ".join(f"{count:,} {how}" for how, count in result.sessions.items())
    yield f"{result.run}  {result.model}"
    yield f"    sessions: {sessions}"
    if not result.recorded:
        return
    calls = sum(result.recorded[name] for name in (*_COLUMNS, "not-observable"))
    known = [f"{result.recorded[name]:,} {name}" for name in _COLUMNS]
    apart = [f"{result.recorded[name]:,} {name}" for name in _APART if result.recorded[name]]
    yield f"    calls as recorded: {calls:,}: {', '.join(known)}"
    if apart:
        yield f"    besides: {', '.join(apart)}"
    lists = ", ".join(f"{where} ({n:,})" for where, n in result.policies.items() if where)
    if result.derived:
        allowed, denied = result.derived["allowed"], result.derived["denied"]
        yield f"    by the allow list {lists}: {allowed:,} allowed, {denied:,} denied"
        differ = sum(result.differing.values())
        yield f"    list and record differ in {differ:,} of {allowed + denied:,} calls"
        for one in result.differ:
            yield f"      {shortened(' '.join(one.split()), 150)}"
    else:
        yield "    by an allow list: not observable, none is in the log or beside it"


def _document(intake: "Intake") -> dict[str, Any]:
    """Return the JSON document. Its keys are stable, and docs/json.md describes them."""
    return {
        "schema": SCHEMA,
        "files": intake.files,
        "files_unchanged": intake.unchanged,
        "sessions_left_out": intake.left_out,
        "sessions_empty": intake.empty,
        "runs": [
            {
                "id": one.run,
                "model": one.model,
                "format": one.format,
                "sessions": dict(one.sessions),
                "recorded": dict(one.recorded),
                "derived": dict(one.derived),
                "policies": {where or "none": n for where, n in one.policies.items()},
                "differ": {"count": sum(one.differing.values()), "calls": one.differ},
            }
            for one in intake.runs.values()
        ],
        "redacted": list(intake.redacted),
        "workers_lost": intake.lost_workers,
        "skipped_parts": intake.skips,
        "skipped": [one._asdict() for one in intake.skipped],
        "no_session": _no_session(intake),
    }


# `agenteval hook` and `guard`.

app = options.group("Deny by your allow list, or only watch, where agents really run.")
For = Annotated[str, Option("--for", help=f"The harness: {', '.join(installing.NAMES)}.")]
AllowList = Annotated[
    str, Option("--allowlist", "-a", help="An allow list, as `classify` takes it.")
]
Observe = Annotated[bool, Option("--observe", help="Deny nothing; only keep the log.")]
Fail = Annotated[
    str, Option(help="What a call is that cannot be judged: closed, denied; open, let go on.")
]
User = Annotated[
    bool, Option("--user/--project", help="For all your sessions, or for those started here.")
]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask after the diff was shown.")]
Log = Annotated[str, Option(help="The log. Default: calls.jsonl in your state folder.")]


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
    for line in tool_inputs.describe(harness, allowlist, observe=observe):
        say(line)
    change = installing.installed(harness, words, user=user, fail=fail)
    if _apply(change, yes=yes, nothing="the hook is there already"):
        echo(f"{change.note}\nNext: agenteval hook status")


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
        echo("nothing was changed")
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
    echo(f"resident process: {f'running, {pid}' if pid else 'not running'}")
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
    folder = Path(asking.folder())
    pid = _running(folder)
    if not pid:
        echo("it does not run")
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        # A process that is stopped receives no signal before it continues.
        os.kill(pid, signal.SIGCONT)
        if not _ends(folder):
            os.kill(pid, signal.SIGKILL)
            _ends(folder)
    echo(f"ended {pid}")


def _ends(folder: Path) -> bool:
    """Wait for the resident process to end. Return False if it did not within `_STOP_SECONDS`."""
    deadline = time.monotonic() + _STOP_SECONDS
    while _running(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _running(folder: Path) -> int:
    """The process that holds the lock; 0 where there is none."""
    try:
        pid = int((folder / resident.PID).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
    return pid if resident.is_held(folder) else 0


def guard(  # noqa: PLR0913 -- one parameter for each option
    shell: Annotated[
        list[str], Argument(help="Behind --, a shell, and what a program gives to it.")
    ],
    *,
    allowlist: AllowList,
    observe: Observe = False,
    fail: Fail = "closed",
    log: Log = "",
    write: Annotated[
        Path | None, Option(help="Write a program that is this shell, for SHELL=.")
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
    echo(f"wrote {write}\nNext: SHELL={write.resolve()} and the program that runs commands")
