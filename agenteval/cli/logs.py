"""`agenteval ingest`: the logs of other programs, imported and counted."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenteval import workflows
from agenteval.cli import options as o
from agenteval.cli import output, signals
from agenteval.core.plain import as_word, shortened
from agenteval.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenteval.core.logged import Skipped
    from agenteval.workflows.log_results import Intake, Taken

SCHEMA = "agenteval.ingest/1"
NAMED = 10  # skipped parts that are named; --json has all
EVERY_SECONDS = 2.0  # while logs are followed, and from one word of progress to the next
_COLUMNS = ("ran", "tool-error", "denied", "rejected", "invalid-tool", "malformed")
_APART = ("pending", "cascade", "not-observable")

Format = Annotated[
    str,
    typer.Argument(metavar="FORMAT", help="Whose logs: opencode, claude-code, ...; or auto."),
]
Paths = Annotated[
    list[str] | None,
    typer.Argument(help="Files, or folders of them. Default: the program's own place."),
]
Rules = Annotated[
    str | None,
    typer.Option(
        "--allowlist", "-a", help="What judges the calls. Default: what was recorded of them."
    ),
]
Since = Annotated[
    str | None, typer.Option(metavar="DATE", help="Sessions that ended since then, in UTC.")
]
Until = Annotated[
    str | None, typer.Option(metavar="DATE", help="Sessions begun before then, in UTC.")
]
OfModel = Annotated[str | None, typer.Option("--model", "-m", help="Models with this in it.")]
OfAgent = Annotated[str | None, typer.Option("--agent", help="Agents with this in it.")]
OfProject = Annotated[str | None, typer.Option("--project", help="Projects with this in it.")]
Redact = Annotated[
    bool,
    typer.Option(
        "--redact",
        help="Take keys, tokens, addresses, hosts, e-mail and users' names out before storing.",
    ),
]

WorkerCount = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=64,
        help="Processes that read and judge. Default: one a core where logs are large.",
    ),
]
Follow = Annotated[
    bool, typer.Option("--follow", help="Go on, and take in what comes, until Ctrl-C.")
]


def ingest(  # noqa: PLR0913 -- each is an option of the command line
    format_name: Format,
    paths: Paths = None,
    *,
    store: o.Store = o.DEFAULT_STORE,
    allowlist: Rules = None,
    since: Since = None,
    until: Until = None,
    model: OfModel = None,
    agent: OfAgent = None,
    project: OfProject = None,
    redact: Redact = False,
    follow: Follow = False,
    workers: WorkerCount = None,
    as_json: o.AsJson = False,
) -> None:
    """Take in the logs that other programs wrote: their sessions become trials of runs.

    Each model of each program is a run, for `show`, `compare` and `gate`. Nothing is taken in
    twice. Without --allowlist an error is what the log records as denied, unknown or malformed.

    Examples:
    - `agenteval ingest auto`

    - `agenteval ingest claude-code ~/.claude/projects --since 2026-11-01`
    """
    take = partial(
        workflows.ingest.take_in,
        format_name,
        store=store,
        allowlist=allowlist,
        filters=workflows.log_results.Wanted(since, until, model, agent, project),
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
    paths: Sequence[str],
    *,
    waits: bool,
    as_json: bool,
) -> "Intake":
    """Take in and show what is there. Raises UsageError where nothing is, or is waited for."""
    intake = take(paths)
    if not (intake.file_count or intake.skipped or waits):
        where, looked = ", ".join(paths) or "its own place", workflows.ingest.looked_for(name)
        raise UsageError(f"{where}: no log of {name} in it ({looked}). Name another place")
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
                output.say(f"{path}: it is gone; waiting for the next one", err=True)
        gone = [path for path in paths if path not in there]
        if gone and not there:
            continue
        try:
            intake = take(there)
        except UsageError:
            if all(Path(path).exists() for path in there):
                raise
            continue  # it was taken away since it was looked at
        if intake.has_news or (intake.skipped and intake.skipped != reported):
            reported = intake.skipped
            _show(intake, as_json=as_json)


def _show(intake: "Intake", *, as_json: bool) -> None:
    if as_json:
        output.print_json(_document(intake))
    else:
        for line in _summary_lines(intake):
            output.say(line)
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
        output.say(f"{files}, {sessions:,} sessions, {calls:,} calls", err=True)


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
        yield o.at_store(
            f"Rates with intervals: agenteval show {' '.join(map(as_word, intake.runs))}"
        )


def _no_session(intake: "Intake") -> dict[str, Any] | None:
    """Return a file without sessions and the formats that it reads as; None if not needed."""
    path = "" if intake.runs else intake.bare
    return {"path": path, "formats": workflows.log_results.reads_as(Path(path))} if path else None


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
