"""`agenteval transcript`, `calls`, `export`, `schema`: what stands behind the figures of a run."""

import json
import os
import shutil
import sys
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agenteval import report, workflows
from agenteval.cli import options as o
from agenteval.cli import output
from agenteval.core.known_keys import KnownKeys, secrets_of
from agenteval.core.outcome import Outcome
from agenteval.core.plain import as_name
from agenteval.core.redaction import Redactor
from agenteval.errors import UsageError
from agenteval.store.call_search import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agenteval.store.call_search import FoundCall

SCHEMA = "agenteval.calls/1"

OneRun = Annotated[str, typer.Argument(metavar="RUN", help=f"{o.RUN_WORDS}.")]
OneTrial = Annotated[
    str, typer.Argument(metavar="SCENARIO#N", help="A trial, as ralf/handshake#3.")
]
Agent = Annotated[
    str | None, typer.Option("--agent", help="Of this sub-agent only, as evaluator/1.")
]
WholePrompt = Annotated[bool, typer.Option("--whole", help="The whole prompt, as it was sent.")]


def transcript(  # noqa: PLR0913 -- each is an option of the command line
    run: OneRun,
    trial: OneTrial,
    *,
    agent: Agent = None,
    prompt: WholePrompt = False,
    store: o.Store = o.DEFAULT_STORE,
    as_json: o.AsJson = False,
) -> None:
    """Show one trial turn by turn: its prompt, each call and what came back, and why it ended.

    Examples:
    - `agenteval transcript last ralf/handshake#1`

    - `agenteval transcript my-model ralf/evaluated-by-model#2 --agent step_evaluator/1`

    - `agenteval transcript last notes/tidy#3 --json | jq .goal`
    """
    (found,) = output.chosen([run], store)
    stored = workflows.trial_calls.transcript(found, trial, store)
    texts = report.transcript_text
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


OfClass = Annotated[str | None, typer.Option("--class", help="Denied as this failure class.")]
OfScenario = Annotated[str | None, typer.Option("--scenario", help="In trials of this scenario.")]
OfOutcome = Annotated[
    Outcome | None, typer.Option("--outcome", help="In trials that ended so.", metavar="OUTCOME")
]
Containing = Annotated[
    str | None, typer.Option("--text", help="With this in the tool's name or the arguments.")
]
Denied = Annotated[
    bool | None, typer.Option("--denied/--allowed", help="Only those that were denied, or ran.")
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
    store: o.Store = o.DEFAULT_STORE,
    as_json: o.AsJson = False,
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
    found_calls = workflows.trial_calls.calls(run_id, filters, store)
    if as_json:
        _print_json(run_id, found_calls)
    else:
        _print(found_calls)


def _print(found_calls: "Iterable[FoundCall]") -> None:
    """At a terminal a call keeps to its line; what reads on gets it whole."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    none = True
    for call in found_calls:
        none, line = False, _line(call)
        output.say(line if width is None or len(line) <= width else f"{line[: width - 1]}\u2026")
    if none:
        output.say("No such calls.", err=True)


def _line(call: "FoundCall") -> str:
    whose = f" {call.agent}" if call.agent else ""
    state = call.failure_class or ("allowed" if not call.exit_code else f"exit {call.exit_code}")
    tool = "" if call.tool == "bash" else f"{call.tool} "
    said = f"{tool}{call.command_text}"
    place = f"{call.scenario}#{call.number}{whose} {call.turn + 1}.{call.position + 1}"
    return as_name(f"{place}  {state}  {said}")


def _print_json(run: str, seen: "Iterable[FoundCall]") -> None:
    """A document whose calls are written as they are found, one a line."""
    output.print_json_text(f'{{"schema": "{SCHEMA}", "run": {json.dumps(run)}, "calls": [')
    calls = (json.dumps(_document(call)) for call in seen)
    before = next(calls, "")
    for call in calls:
        output.print_json_text(f"{before},")
        before = call
    output.print_json_text(f"{before}\n]}}")


def _document(call: "FoundCall") -> dict[str, Any]:
    """Return the JSON document. Its keys are stable, and docs/json.md describes them."""
    told = asdict(call)
    told.pop("key")
    return told | {"class": told.pop("failure_class"), "cut": call.length > len(call.arguments)}


Kind = Annotated[
    Literal["calls", "trials", "dataset"],
    typer.Argument(help="What a row is: a call, a trial; a dataset is a folder with both."),
]
Runs = Annotated[list[str], typer.Argument(metavar="RUN...", help=f"{o.RUN_WORDS}.")]
OutFile = Annotated[
    Path,
    typer.Option(
        "--file", metavar="FILE", help="FILE.csv, FILE.jsonl or FILE.parquet; a dataset's folder."
    ),
]
Redact = Annotated[
    bool | None,
    typer.Option(
        "--redact/--as-it-is",
        help="Take out keys, hosts, addresses, users. A dataset's are, unless told otherwise.",
    ),
]


def export(
    kind: Kind,
    runs: Runs,
    *,
    file: OutFile,
    redact: Redact = None,
    store: o.Store = o.DEFAULT_STORE,
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
        report.tabular.check(file)
    loaded_runs = workflows.views.loaded(output.chosen(runs, store), store)
    known = KnownKeys.of(secrets_of(os.environ))
    redactor = Redactor(known=known) if redact or (redact is None and kind == "dataset") else None
    rows = {"calls": report.tabular.call_rows, "trials": report.tabular.trial_rows}
    rows_of = {
        one: [redactor.value(row) if redactor else row for row in rows[one](loaded_runs)]
        for one in (rows if kind == "dataset" else [kind])
    }
    if kind == "dataset":
        report.tabular.write_dataset(rows_of, loaded_runs, file)
    else:
        report.tabular.write(rows_of[kind], file)
    counted = ", ".join(f"{len(written):,} {one}" for one, written in rows_of.items())
    output.say(f"{file}: {counted}")
    for line in redactor.listed() if redactor else ():
        output.say(f"Taken out: {line}")


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
    typer.Argument(help="What is printed: a report by run, show RUN and compare; runs by show."),
]


def schema(document: Document) -> None:
    """Print the JSON Schema of what `--json` prints: of a report, a list of runs, a verdict.

    Examples:
    - `agenteval schema report > report.schema.json`
    """
    found = files("agenteval.report") / "schemas" / f"{document}.json"
    output.print_data(found.read_text(encoding="utf-8"))
