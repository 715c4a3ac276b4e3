"""`agenteval classify`: the verdict on a command, or on each line of a file of tool calls."""

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, BinaryIO, TextIO

import typer

from agenteval.cli.options import Taxonomy
from agenteval.errors import UsageError

if TYPE_CHECKING:
    from agenteval.cli.classify_lines import BadLine
    from agenteval.core.call import ToolCall, Verdict

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
ExitCode = Annotated[bool, typer.Option("--exit-code", help="Exit 1 when any call is denied.")]


def classify(  # noqa: PLR0913 -- one parameter for each option
    command: OneCommand = None,
    *,
    jsonl: Jsonl = None,
    allowlist: AllowList = "demo",
    as_json: AsLines = False,
    taxonomy: Taxonomy = "full",
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
    from agenteval.config.paths import roots  # noqa: PLC0415 -- start-up, as all below
    from agenteval.formats.permissions import load_any  # noqa: PLC0415
    from agenteval.taxonomy.article import article_row  # noqa: PLC0415
    from agenteval.taxonomy.judge import judge_many  # noqa: PLC0415

    judge = judge_many(load_any(allowlist, roots=roots(), only_bash=jsonl is None))
    show = _printer(as_json=as_json, row=article_row if taxonomy == "article" else str)
    bad, denied = _show_all(_calls(command, jsonl), judge, show, source=jsonl)
    if bad or (exit_code and denied):
        raise typer.Exit(2 if bad else 1)


def _show_all(
    calls: "Iterator[ToolCall | BadLine]",
    judge: "Callable[[ToolCall], Verdict]",
    show: "Callable[[ToolCall, Verdict], None]",
    *,
    source: str | None,
) -> tuple[bool, bool]:
    """Show each verdict as it is made; whether any line was bad, and any call denied."""
    from agenteval.cli.classify_lines import BadLine  # noqa: PLC0415

    bad = denied = False
    without = 0
    for call in calls:
        if isinstance(call, BadLine):
            bad = bad or bool(call.reason)
            without += not call.reason
            if call.reason:
                typer.echo(f"agenteval: {source}:{call.number}: {call.reason}", err=True)
            continue
        verdict = judge(call)
        denied = denied or not verdict.allowed
        show(call, verdict)
    if without:
        typer.echo(f"agenteval: {source}: {without} messages hold no tool call", err=True)
    return bad, denied


def _calls(command: str | None, jsonl: str | None) -> "Iterator[ToolCall | BadLine]":
    from agenteval.cli.classify_lines import read_lines  # noqa: PLC0415
    from agenteval.formats.tool_calls import bash_call  # noqa: PLC0415

    if (command is None) == (jsonl is None):
        raise UsageError("give one command, - or --jsonl FILE (see agenteval classify --help)")
    if command is not None:
        yield bash_call(_standard_input().read().removesuffix("\n") if command == "-" else command)
    elif jsonl is not None:
        yield from read_lines(_standard_input() if jsonl == "-" else _lines(jsonl))


def _standard_input() -> TextIO:
    return _text(sys.stdin.buffer)


def _text(file: BinaryIO) -> TextIO:
    # Lines end in \n only: a carriage return is part of a command, as it is to bash.
    return io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="\n")


def _lines(path: str) -> Iterator[str]:
    from agenteval.formats.packed import UNREADABLE, opened  # noqa: PLC0415

    try:
        with ExitStack() as stack:
            yield from stack.enter_context(_text(opened(path, stack)))
    except UNREADABLE as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{path}: cannot be read: {why}") from error


def _printer(*, as_json: bool, row: Callable[[str], str]) -> "Callable[[ToolCall, Verdict], None]":
    from agenteval.cli import classify_view as view  # noqa: PLC0415

    if as_json:
        return lambda call, verdict: typer.echo(view.as_json(call, verdict, row))
    # Without a terminal the colours are left out by typer, but it knows no NO_COLOR.
    color = False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
    return lambda call, verdict: typer.echo(view.as_text(call, verdict, row), color=color)
