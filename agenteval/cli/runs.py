"""`agenteval runs`, `finish`, `store`, `view`: runs named, closed and looked at; a sound store."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from agenteval import report, viewer, workflows
from agenteval.cli import options as o
from agenteval.cli import output
from agenteval.errors import UsageError
from agenteval.store.location import Location

app = typer.Typer(
    help="Label stored runs, remove them, or carry them to another store.",
    no_args_is_help=True,
    add_completion=False,
)

Runs = Annotated[list[str], typer.Argument(help=f"{o.RUN_WORDS}.")]
Yes = Annotated[
    bool, typer.Option("--yes", help="Do not ask. The runs are then named by their whole ids.")
]


@app.command()
def label(
    run: Annotated[str, typer.Argument(help=f"{o.RUN_WORDS}.")],
    labels: Annotated[
        list[str] | None, typer.Argument(help="Words to name it by.", show_default=False)
    ] = None,
    *,
    note: Annotated[str | None, typer.Option(help="What is to be known of it.")] = None,
    off: Annotated[bool, typer.Option("--off", help="Take these labels off it.")] = False,
    store: o.Store = o.DEFAULT_STORE,
) -> None:
    """Give a run labels and a note.

    `show` lists them, and a label names its newest run.

    Examples:
    - `agenteval runs label last nightly --note "after the new tool parser"`

    - `agenteval gate --baseline nightly --candidate last`
    """
    output.chosen([run], store)
    found = workflows.shelf.tag(run, labels or [], note, store, off=off)
    output.say(f"{found}: {'taken off' if off else 'labelled'} {' '.join(labels or ['a note'])}")


@app.command()
def rm(runs: Runs, *, yes: Yes = False, store: o.Store = o.DEFAULT_STORE) -> None:
    """Remove runs from the store, with every trial and call of theirs. It asks first.

    Examples:
    - `agenteval runs rm 20261121-101500-mine`
    """
    ids = output.chosen(runs, store)
    if yes and ids != runs:
        raise UsageError(f"--yes: give whole ids, {' '.join(ids)}, so that nothing else is meant")
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("rm asks before it removes: give --yes where nobody can answer")
        typer.confirm(f"Remove {', '.join(ids)} with every trial and call?", abort=True)
    workflows.shelf.removed(ids, store)
    output.say(f"removed {' '.join(ids)}")


@app.command()
def export(
    runs: Runs,
    *,
    file: Annotated[Path, typer.Option("--file", help="Write it there, to a new file.")],
    store: o.Store = o.DEFAULT_STORE,
) -> None:
    """Write runs into one file, which is a store of its own.

    Examples:
    - `agenteval runs export qwen3.6-35b --file baseline.db`

    - `agenteval gate --baseline baseline.db --candidate last`
    """
    ids = output.chosen(runs, store)
    workflows.shelf.exported(ids, file, store)
    output.say(f"wrote {' '.join(ids)} to {file}")


@app.command("import")
def take_in(
    file: Annotated[Path, typer.Argument(help="What `runs export` wrote, or any store's file.")],
    *,
    store: o.Store = o.DEFAULT_STORE,
) -> None:
    """Take all runs of a file into the store.

    None of them may be there already.

    Examples:
    - `agenteval runs import baseline.db`
    """
    for run in workflows.shelf.imported(file, store):
        output.say(run)


def finish(
    run: Annotated[str, typer.Argument(help=f"{o.RUN_WORDS}.")],
    *,
    store: o.Store = o.DEFAULT_STORE,
) -> None:
    """Close a run of several shards, where the last one could not.

    The last shard closes it by itself. Where trials are missing it stays open, and the line says
    how they are played.

    Examples:
    - `agenteval finish last --store postgresql://HOST/runs`
    """
    closed = workflows.sharding.finish(run, store)
    trials = report.tables.counted(closed.trials_planned, "trial")
    output.say(f"{closed.id}: closed, with all that was planned: {trials}")


stores = typer.Typer(
    help="Look a store through for damage, upgrade it, make it small, or copy it into a file.",
    no_args_is_help=True,
    add_completion=False,
)


@stores.callback()
def _stores() -> None:
    """Look a store through for damage, upgrade it, make it small, or copy it into a file."""


@stores.command()
def check(*, store: o.Store = o.DEFAULT_STORE) -> None:
    """Look the store through for damage: pages, rows that belong to nothing, trials counted twice.

    The exit code is 4 where something is wrong.

    Examples:
    - `agenteval store check`
    """
    faults = workflows.shelf.faults(store)
    with output.reader_may_go():
        for line in faults or ["nothing is wrong"]:
            output.say(line, err=bool(faults))
    raise typer.Exit(o.FAULT if faults else 0)


@stores.command()
def upgrade(*, store: o.Store = o.DEFAULT_STORE) -> None:
    """Give a store of an older agenteval the tables of today, after a copy of it was made.

    The copy is FILE.schemaN beside the store, N being the schema that it had. Commands that only
    read never change an older store; the first that writes upgrades it in the same way.

    Examples:
    - `agenteval store upgrade --store reports/agenteval.db`
    """
    output.say(workflows.shelf.upgraded(store))


@stores.command()
def vacuum(*, store: o.Store = o.DEFAULT_STORE) -> None:
    """Compress the replies that an older version stored as they came, and give back the space.

    Nothing is lost: each byte of a reply is read as before. Do it while no run is played.

    Examples:
    - `agenteval store vacuum`
    """
    before, after = workflows.shelf.vacuumed(store)
    sizes = f": {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB now" if before else ""
    output.say(f"compacted{sizes}")


@stores.command("export")
def export_all(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help=f"{o.RUN_WORDS}. Without one: all of them.", show_default=False),
    ] = None,
    *,
    file: Annotated[Path, typer.Option("--file", help="Write it there, to a new file.")],
    store: o.Store = o.DEFAULT_STORE,
) -> None:
    """Write the whole store, or some runs of it, into one new SQLite file.

    Examples:
    - `agenteval store export --store postgresql://HOST/runs --file copy.db`
    """
    ids = output.chosen(runs, store) if runs else workflows.shelf.every_id(store)
    workflows.shelf.exported(ids, file, store)
    output.say(f"wrote {report.tables.counted(len(ids), 'run')} to {file}")


Host = Annotated[str, typer.Option(help="Address to listen at; any but loopback lets others read.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")]
Export = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write the pages to this new folder, and end.")
]


def view(
    *,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    store: o.Store = o.DEFAULT_STORE,
    export: Export = None,
) -> None:
    """Look at runs, calls and transcripts in a browser.

    The address that is printed has a token: who opens it may write notes and labels, all others
    read. Ctrl-C ends it.

    Examples:
    - `agenteval view`

    - `agenteval view --port 0 --store baseline.db`

    - `agenteval view --export pages` writes pages that open without a server
    """
    Location(store).check_there()
    if export is not None:
        pages = viewer.static_pages.write(store, export)
        output.say(f"wrote {pages} pages: open {export / 'index.html'}")
        return
    viewer.application.serve(store, host, port, lambda address: output.say(f"Open {address}"))
