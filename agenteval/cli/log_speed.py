"""`agenteval speed ingest`: the tables of a vLLM log."""

import json
from collections.abc import Sequence

import typer
from rich.console import Console

from agenteval.core.windows import windows
from agenteval.errors import UsageError
from agenteval.formats.vllm_log import VllmLog, log_lines
from agenteval.report import log_speed
from agenteval.report.console import print_lines, print_table
from agenteval.stats.loads import loads


def ingest(paths: Sequence[str], *, window: float, as_json: bool) -> None:
    """Print what the logs say, the oldest file first. Raises UsageError."""
    view = read(paths, window)
    if as_json:
        typer.echo(json.dumps(view.document(), indent=2))
        return
    console = Console()
    for table in log_speed.log_tables(view):
        print_table(console, table)
    print_lines(console, log_speed.log_lines(view))


def _why_none(log: VllmLog) -> str:
    if log.other:
        return (
            f"the log of {log.other}, not of vLLM: only vLLM's can be read; ask the server itself, "
            "with agenteval speed --model"
        )
    unread = f" ({log.unread:,} speak of it in a form not known here)" if log.unread else ""
    return (
        f"no engine line in {log.lines:,} lines{unread}; expected vLLM's `Avg prompt throughput: "
        "..., Running: ...`, which it logs unless --disable-log-stats"
    )


def read(paths: Sequence[str], window: float) -> log_speed.LogView:
    log = VllmLog()
    found = loads(windows(log.entries(log_lines(paths)), window))
    if not found:
        raise UsageError(f"{', '.join(paths)}: {_why_none(log)}")
    return log_speed.LogView(
        loads=found,
        window=window,
        lines=log.lines,
        engine_lines=log.engine_lines,
        completions=log.completions,
        failed=log.failed,
        unread=log.unread,
    )
