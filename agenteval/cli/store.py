"""The commands on a store: `runs`, `finish`, `view`, `transcript`, `calls`, `export`, `schema`."""

import json
import os
import shutil
import sys
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from agenteval import report, viewer, workflows
from agenteval.cli import options, output
from agenteval.cli.options import DEFAULT_STORE, RUN_WORDS, AsJson, NewFile, Store
from agenteval.cli.output import print_json_text, say
from agenteval.errors import UsageError
from agenteval.store.location import Location
from agenteval.store.search import Wanted
from agenteval.trial.call import Outcome
from agenteval.trial.redaction import KnownKeys, Redactor, secrets_of
from agenteval.trial.text import as_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agenteval.store.search import FoundCall
app = options.group("Label stored runs, remove them, or carry them to another store.")
NamedRuns = Annotated[list[str], Argument(help=f"{RUN_WORDS}.")]
Yes = Annotated[
    bool, Option("--yes", help="Do not ask. The runs are then named by their whole ids.")
]


@app.command()
def label(
    run: Annotated[str, Argument(help=f"{RUN_WORDS}.")],
    labels: Annotated[
        list[str] | None, Argument(help="Words to name it by.", show_default=False)
    ] = None,
    *,
    note: Annotated[str | None, Option(help="What is to be known of it.")] = None,
    off: Annotated[bool, Option("--off", help="Take these labels off it.")] = False,
    store: Store = DEFAULT_STORE,
) -> None:
    """Give a run labels and a note.

    `show` lists them, and a label names its newest run.

    Examples:
    - `agenteval runs label last nightly --note "after the new tool parser"`

    - `agenteval gate --baseline nightly --candidate last`
    """
    # A label goes to the run that the word means now: `last` that passes a newer one over says so.
    output.chosen([run], store)
    found = workflows.runs.tag(run, labels or [], note, store, off=off)
    say(f"{found}: {'taken off' if off else 'labelled'} {' '.join(labels or ['a note'])}")


@app.command()
def rm(runs: NamedRuns, *, yes: Yes = False, store: Store = DEFAULT_STORE) -> None:
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
    workflows.runs.removed(ids, store)
    say(f"removed {' '.join(ids)}")


@app.command()
def export(
    runs: NamedRuns,
    *,
    file: NewFile,
    store: Store = DEFAULT_STORE,
) -> None:
    """Write runs into one file, which is a store of its own.

    Examples:
    - `agenteval runs export qwen3.6-35b --file baseline.db`

    - `agenteval gate --baseline baseline.db --candidate last`
    """
    ids = output.chosen(runs, store)
    workflows.runs.exported(ids, file, store)
    say(f"wrote {' '.join(ids)} to {file}")


@app.command("import")
def take_in(
    file: Annotated[Path, Argument(help="What `runs export` wrote, or any store's file.")],
    *,
    store: Store = DEFAULT_STORE,
) -> None:
    """Take all runs of a file into the store.

    None of them may be there already.

    Examples:
    - `agenteval runs import baseline.db`
    """
    for run in workflows.runs.imported(file, store):
        say(run)


def finish(
    run: Annotated[str, Argument(help=f"{RUN_WORDS}.")],
    *,
    store: Store = DEFAULT_STORE,
) -> None:
    """Close a run of several shards, where the last one could not.

    The last shard closes it by itself. Where trials are missing it stays open, and the line says
    how they are played.

    Examples:
    - `agenteval finish last --store postgresql://HOST/runs`
    """
    closed = workflows.evaluate.finish(run, store)
    trials = report.tables.counted(closed.trials_planned, "trial")
    say(f"{closed.id}: closed, with all that was planned: {trials}")


# `agenteval store`.

stores = options.group(
    "Look a store through for damage, upgrade it, make it small, or copy it into a file."
)


@stores.callback()
def _stores() -> None:
    """Look a store through for damage, upgrade it, make it small, or copy it into a file."""


@stores.command()
def check(*, store: Store = DEFAULT_STORE) -> None:
    """Look the store through for damage: pages, rows that belong to nothing, trials counted twice.

    The exit code is 4 where something is wrong.

    Examples:
    - `agenteval store check`
    """
    faults = workflows.runs.faults(store)
    with output.reader_may_go():
        for line in faults or ["nothing is wrong"]:
            say(line, err=bool(faults))
    raise typer.Exit(options.FAULT if faults else 0)


@stores.command()
def upgrade(*, store: Store = DEFAULT_STORE) -> None:
    """Give a store of an older agenteval the tables of today, after a copy of it was made.

    The copy is FILE.schemaN beside the store, N being the schema that it had. Commands that only
    read never change an older store; the first that writes upgrades it in the same way.

    Examples:
    - `agenteval store upgrade --store reports/agenteval.db`
    """
    say(workflows.runs.upgraded(store))


@stores.command()
def vacuum(*, store: Store = DEFAULT_STORE) -> None:
    """Compress the replies that an older version stored as they came, and give back the space.

    Nothing is lost: each byte of a reply is read as before. Do it while no run is played.

    Examples:
    - `agenteval store vacuum`
    """
    before, after = workflows.runs.vacuumed(store)
    sizes = f": {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB now" if before else ""
    say(f"compacted{sizes}")


@stores.command("export")
def export_all(
    runs: Annotated[
        list[str] | None,
        Argument(help=f"{RUN_WORDS}. Without one: all of them.", show_default=False),
    ] = None,
    *,
    file: NewFile,
    store: Store = DEFAULT_STORE,
) -> None:
    """Write the whole store, or some runs of it, into one new SQLite file.

    Examples:
    - `agenteval store export --store postgresql://HOST/runs --file copy.db`
    """
    ids = output.chosen(runs, store) if runs else workflows.runs.every_id(store)
    workflows.runs.exported(ids, file, store)
    say(f"wrote {report.tables.counted(len(ids), 'run')} to {file}")


# `agenteval view`.

Host = Annotated[str, Option(help="Address to listen at; any but loopback lets others read.")]
Port = Annotated[int, Option(min=0, max=65535, help="0 takes any that is free.")]
Export = Annotated[
    Path | None, Option(metavar="DIR", help="Write the pages to this new folder, and end.")
]


def view(
    *,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    store: Store = DEFAULT_STORE,
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
        pages = viewer.application.write(store, export)
        say(f"wrote {pages} pages: open {export / 'index.html'}")
        return
    viewer.application.serve(store, host, port, lambda address: say(f"Open {address}"))


# `agenteval transcript` and `calls`.

SCHEMA = "agenteval.calls/1"
OneRun = Annotated[str, Argument(metavar="RUN", help=f"{RUN_WORDS}.")]
OneTrial = Annotated[str, Argument(metavar="SCENARIO#N", help="A trial, as ralf/handshake#3.")]
Agent = Annotated[str | None, Option("--agent", help="Of this sub-agent only, as evaluator/1.")]
WholePrompt = Annotated[bool, Option("--whole", help="The whole prompt, as it was sent.")]


def transcript(  # noqa: PLR0913 -- each is an option of the command line
    run: OneRun,
    trial: OneTrial,
    *,
    agent: Agent = None,
    prompt: WholePrompt = False,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Show one trial turn by turn: its prompt, each call and what came back, and why it ended.

    Examples:
    - `agenteval transcript last ralf/handshake#1`

    - `agenteval transcript my-model ralf/evaluated-by-model#2 --agent step_evaluator/1`

    - `agenteval transcript last notes/tidy#3 --json | jq .goal`
    """
    (found,) = output.chosen([run], store)
    stored = workflows.views.transcript(found, trial, store)
    texts = report.transcripts
    if as_json:
        chosen = texts.agent_document(stored.agent(agent)) if agent else None
        output.print_json(chosen or texts.document(stored.run, stored.trial))
        return
    trial_shown = report.transcripts.shown_trial(stored.trial)
    if agent:
        lines = texts.of_agent(trial_shown, stored.agent(agent), whole_prompt=prompt)
    else:
        lines = texts.lines(stored.run, trial_shown, whole_prompt=prompt)
    for line in lines:
        output.say_text(line)


OfClass = Annotated[str | None, Option("--class", help="Denied as this failure class.")]
OfScenario = Annotated[str | None, Option("--scenario", help="In trials of this scenario.")]
OfOutcome = Annotated[
    Outcome | None, Option("--outcome", help="In trials that ended so.", metavar="OUTCOME")
]
Containing = Annotated[
    str | None, Option("--text", help="With this in the tool's name or the arguments.")
]
Denied = Annotated[
    bool | None, Option("--denied/--allowed", help="Only those that were denied, or ran.")
]


def calls(  # noqa: PLR0913 -- each is an option of the command line
    run: OneRun,
    *,
    failure_class: OfClass = None,
    scenario: OfScenario = None,
    outcome: OfOutcome = None,
    agent: Agent = None,
    text: Containing = None,
    denied: Denied = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """List the calls of a run, one a line: trial, turn, verdict or class, and what was called.

    Examples:
    - `agenteval calls last --class pipe-to-filter`

    - `agenteval calls last --scenario ralf/handshake --outcome gave-up --denied`

    - `agenteval calls my-model --text "head -" --json`
    """
    (run_id,) = output.chosen([run], store)
    filters = Wanted(
        failure_class=failure_class or "",
        scenario=scenario or "",
        outcome=outcome or "",
        agent=agent,
        text=text or "",
        denied=denied,
    )
    if failure_class and denied is False:
        raise UsageError(f"--allowed: no call of a class is; leave out --class {failure_class}")
    found_calls = workflows.views.calls(run_id, filters, store)
    if as_json:
        _print_json(run_id, found_calls)
    else:
        _print(found_calls)


def _print(found_calls: "Iterable[FoundCall]") -> None:
    """Print the calls, each cut to one line on a terminal and whole in a pipe."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    none = True
    for call in found_calls:
        none, line = False, _line(call)
        say(line if width is None or len(line) <= width else f"{line[: width - 1]}\u2026")
    if none:
        say("No such calls.", err=True)


def _line(call: "FoundCall") -> str:
    whose = f" {call.agent}" if call.agent else ""
    state = call.failure_class or ("allowed" if not call.exit_code else f"exit {call.exit_code}")
    tool = "" if call.tool == "bash" else f"{call.tool} "
    said = f"{tool}{call.command_text}"
    place = f"{call.scenario}#{call.number}{whose} {call.turn + 1}.{call.position + 1}"
    return as_name(f"{place}  {state}  {said}")


def _print_json(run: str, seen: "Iterable[FoundCall]") -> None:
    """A document whose calls are written as they are found, one a line."""
    print_json_text(f'{{"schema": "{SCHEMA}", "run": {json.dumps(run)}, "calls": [')
    calls = (json.dumps(_document(call)) for call in seen)
    before = next(calls, "")
    for call in calls:
        print_json_text(f"{before},")
        before = call
    print_json_text(f"{before}\n]}}")


def _document(call: "FoundCall") -> dict[str, Any]:
    """Return the JSON document. Its keys are stable, and docs/json.md describes them."""
    told = asdict(call)
    told.pop("key")
    return told | {"class": told.pop("failure_class"), "cut": call.length > len(call.arguments)}


# `agenteval export` and `schema`.

Kind = Annotated[
    Literal["calls", "trials", "dataset"],
    Argument(help="What a row is: a call, a trial; a dataset is a folder with both."),
]
Runs = Annotated[list[str], Argument(metavar="RUN...", help=f"{RUN_WORDS}.")]
OutFile = Annotated[
    Path,
    Option(
        "--file",
        metavar="FILE",
        help="FILE.csv, FILE.jsonl or FILE.parquet; a dataset's folder.",
    ),
]
Redact = Annotated[
    bool | None,
    Option(
        "--redact/--as-it-is",
        help="Take out keys, hosts, addresses, users. A dataset's are, unless told otherwise.",
    ),
]


def export_rows(
    kind: Kind,
    runs: Runs,
    *,
    file: OutFile,
    redact: Redact = None,
    store: Store = DEFAULT_STORE,
) -> None:
    """Write the calls or the trials of runs as rows, for a notebook, DuckDB or pandas.

    A dataset is a folder as Hugging Face lays one out. Who gives it away reads it before: patterns
    find what looks like a key, a host or a user, and no more.

    Examples:
    - `agenteval export calls last --file calls.csv`

    - `agenteval export trials my-model my-candidate --file trials.parquet`

    - `agenteval export dataset last --file my-dataset`
    """
    if kind != "dataset":
        report.files.check(file)
    loaded_runs = workflows.views.loaded(output.chosen(runs, store), store)
    known = KnownKeys.of(secrets_of(os.environ))
    redactor = Redactor(known=known) if redact or (redact is None and kind == "dataset") else None
    rows = {"calls": report.files.call_rows, "trials": report.files.trial_rows}
    rows_of = {
        one: [redactor.value(row) if redactor else row for row in rows[one](loaded_runs)]
        for one in (rows if kind == "dataset" else [kind])
    }
    if kind == "dataset":
        report.files.write_dataset(rows_of, loaded_runs, file)
    else:
        report.files.write(rows_of[kind], file)
    counted = ", ".join(f"{len(written):,} {one}" for one, written in rows_of.items())
    say(f"{file}: {counted}")
    for line in redactor.listed() if redactor else ():
        say(f"Taken out: {line}")


Document = Annotated[
    Literal[
        "report",
        "runs",
        "transcript",
        "transcript-agent",
        "calls",
        "gate",
        "explain",
        "plan",
        "ingest",
        "trend",
        "classify",
        "whatif",
        "speed",
        "speed-log",
        "scenarios",
        "scenarios-check",
        "models",
        "doctor",
    ],
    Argument(help="What is printed: a report by run, show RUN and compare; runs by show."),
]


def schema(document: Document) -> None:
    """Print the JSON Schema of what `--json` prints: of a report, a list of runs, a verdict.

    Examples:
    - `agenteval schema report > report.schema.json`
    """
    found = files("agenteval.report") / "schemas" / f"{document}.json"
    output.print_data(found.read_text(encoding="utf-8"))
