"""`agenteval speed`: how fast a model is served, from stored runs, a probe or a server's log."""

from typing import Annotated

import typer

from agenteval.cli import options as o
from agenteval.errors import UsageError

INGEST = "ingest"

What = Annotated[
    list[str] | None,
    typer.Argument(help="`ingest` and log files, the oldest first; `-` is the standard input."),
]
Window = Annotated[
    float,
    typer.Option(min=1, help="Seconds between two engine lines of a log (vLLM before 0.8: 5)."),
]


def speed(
    what: What = None,
    *,
    window: Window = 10.0,
    as_json: o.AsJson = False,
) -> None:
    """Say how fast a model is served, by how many requests it has at the same time.

    Examples:
    - `agenteval speed ingest vllm.log`

    - `agenteval speed ingest vllm.log.2.gz vllm.log.1.gz vllm.log --json`
    """
    from agenteval.cli.log_speed import ingest  # noqa: PLC0415 -- start-up time

    if not what or what[0] != INGEST or not what[1:]:
        raise UsageError("give `ingest` and the log files of vLLM, the oldest first")
    ingest(what[1:], window=window, as_json=as_json)
