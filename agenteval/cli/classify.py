"""`agenteval classify`, `rescore`, `explain`: verdicts on commands, files, runs; what they mean."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from agenteval import workflows
from agenteval.cli import output as view
from agenteval.cli.options import DEFAULT_STORE, Store, Taxonomy
from agenteval.errors import UsageError

if TYPE_CHECKING:
    from agenteval.core.call import ToolCall, Verdict
    from agenteval.workflows.classify import BadLine

AllowList = Annotated[
    str,
    typer.Option(
        "--allowlist",
        "-a",
        envvar="AGENTEVAL_ALLOWLIST",
        help="An allow list by name or path; also an opencode.json, an OpenCode agent's .md, a "
        "Claude Code settings.json, a Codex .rules file.",
    ),
]
OneCommand = Annotated[
    str | None, typer.Argument(help="The command; - reads it from standard input.")
]
Jsonl = Annotated[
    str | None, typer.Option(help="A file of tool calls, one JSON object a line; or -.")
]
AsLines = Annotated[bool, typer.Option("--json", help="Print a line of JSON a call.")]
SecondReader = Annotated[
    bool,
    typer.Option(
        "--second-reader",
        help="Ask it about allowed commands, as a run does: what it reads otherwise is denied.",
    ),
]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="Exit 1 when any call is denied.")]


def classify(  # noqa: PLR0913 -- one parameter for each option
    command: OneCommand = None,
    *,
    jsonl: Jsonl = None,
    allowlist: AllowList = "demo",
    as_json: AsLines = False,
    taxonomy: Taxonomy = "full",
    second_reader: SecondReader = False,
    exit_code: ExitCode = False,
) -> None:
    """Say whether a tool call is allowed, and if it is denied, why.

    A line of --jsonl is `{"command": "ls"}`, a whole call such as
    `{"name": "read", "arguments": {"path": "x"}}`, or a message that holds calls as OpenAI's and
    Anthropic's APIs, Claude Code, OpenCode, Codex, Gemini and Qwen Code write them; the file may be
    packed. A line that is none of these is named on standard error; the others are still judged,
    and the exit code is 2.

    Exit code: 0 whatever the verdict; 1 when a call is denied and --exit-code is given; 2 for
    bad input.

    Examples:
    - `agenteval classify 'uv run scripts/notes.py list | head -5'`

    - `agenteval classify --json --taxonomy article 'ls -la'`

    - `agenteval classify --jsonl calls.jsonl --json | jq -r .class | sort | uniq -c`

    - `agenteval classify --allowlist allowlists/demo.toml - < command.sh`
    """
    show, flush = _printer(jsonl, taxonomy, as_json=as_json, all_count=exit_code)
    view.collect_rarely(_RARELY)
    judging = partial(workflows.classify.judging, allowlist, only_bash=jsonl is None)
    with judging(second_reader=second_reader, warn=_warn) as judge:
        try:
            bad, denied = _show_all(_calls(command, jsonl), judge, show, source=jsonl)
        finally:
            flush()
    if bad or (exit_code and denied):
        raise typer.Exit(2 if bad else 1)


def _warn(line: str) -> None:
    view.say(f"agenteval: {line}", err=True)


def _show_all(
    calls: "Iterator[ToolCall | BadLine]",
    judge: "Callable[[ToolCall], Verdict]",
    show: "Callable[[ToolCall, Verdict], None]",
    *,
    source: str | None,
) -> tuple[bool, bool]:
    """Show each verdict as it is reached; return if a line was bad, and if a call was denied."""
    bad = denied = False
    without, unread = 0, workflows.classify.BadLine
    for call in calls:
        if isinstance(call, unread):
            bad = bad or bool(call.reason)
            without += not call.reason
            if call.reason:
                view.say(f"agenteval: {source}:{call.number}: {call.reason}", err=True)
            continue
        verdict = judge(call)
        denied = denied or not verdict.allowed
        show(call, verdict)
    if without:
        view.say(f"agenteval: {source}: {without} messages hold no tool call", err=True)
    return bad, denied


def _calls(command: str | None, jsonl: str | None) -> "Iterator[ToolCall | BadLine]":
    if (command is None) == (jsonl is None):
        raise UsageError("give one command, - or --jsonl FILE (see agenteval classify --help)")
    reading = workflows.classify
    if command is not None:
        text = reading.whole(_standard_input()) if command == "-" else command
        yield reading.call_of(text)
    elif jsonl is not None:
        yield from reading.read_lines(
            reading.bounded_lines(_standard_input()) if jsonl == "-" else reading.file_lines(jsonl)
        )


def _standard_input() -> TextIO:
    return workflows.classify.text_of(sys.stdin.buffer)


def _printer(
    source: str | None, taxonomy: str, *, as_json: bool, all_count: bool
) -> "tuple[Callable[[ToolCall, Verdict], None], Callable[[], None]]":
    """Return a function that shows a verdict, and one that shows those still waiting.

    The verdicts of a file are shown many at a time. With `all_count`, or of a file, calls are
    judged on when nobody reads the verdicts any more.
    """
    # Without a terminal the colours are left out by typer, but it knows no NO_COLOR.
    color = False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
    row = workflows.classify.row_name(taxonomy)
    text_of = view.as_json if as_json else view.as_text
    waiting: list[str] = []

    def show(call: "ToolCall", verdict: "Verdict") -> None:
        waiting.append(text_of(call, verdict, row))
        if len(waiting) == _AT_ONCE or source == "-":
            flush()

    def flush() -> None:
        if waiting:
            with view.reader_may_go() if all_count or source != "-" else nullcontext():
                if as_json:
                    view.print_data("\n".join((*waiting, "")))
                else:
                    typer.echo("\n".join(waiting), color=color)
            waiting.clear()

    return show, flush


_RARELY = 100_000  # objects made between two rounds of gc: at each 700 it takes a sixth of the time
_AT_ONCE = 256  # lines: to write each by itself takes a third of the time


def rescore(
    runs: Annotated[list[str], typer.Argument(help="Run ids, or `last`.")],
    *,
    allowlist: Annotated[
        str | None,
        typer.Option("--allowlist", "-a", help="Another allow list, as `classify` takes it."),
    ] = None,
    own: Annotated[
        bool, typer.Option("--own", help="The allow lists that the run was played under, as today.")
    ] = False,
    store: Store = DEFAULT_STORE,
) -> None:
    """Judge the stored calls of runs again, by today's taxonomy or another allow list.

    Without --allowlist and --own, by the allow lists that judged them last. No model is asked. The
    judgement before is kept beside the new one, with the versions of both. How a trial ended, and
    what its calls did, stays as it happened.

    Examples:
    - `agenteval rescore last`

    - `agenteval rescore last --allowlist allowlists/demo.toml`

    - `agenteval rescore last --own`
    """
    for run in dict.fromkeys(view.chosen(runs, store)):
        done = workflows.rescore.rescore(run, store, allowlist=allowlist, own=own)
        view.say(f"{done.run_id}: {done.changed} of {done.calls} calls are judged differently")
        for (before, now), count in sorted(done.moves.items(), key=lambda move: -move[1]):
            view.say(f"  {count:6}  {before} -> {now}")


def explain(
    failure_class: Annotated[
        str | None, typer.Argument(help="Its id, such as pipe-to-filter. Default: list all.")
    ] = None,
) -> None:
    """Tell what a failure class is, with examples, or a kind of malformed call.

    Examples:
    - `agenteval explain`

    - `agenteval explain pipe-to-filter`
    """
    if failure_class is None:
        for line in workflows.reference.titles():
            view.say(line)
    else:
        view.say_text(workflows.reference.page_of(failure_class))
