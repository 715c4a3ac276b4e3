"""`agenteval speed`: how fast a model is served, from stored runs or from a server's log."""

from typing import Annotated

import typer

from agenteval.cli import options as o
from agenteval.errors import UsageError

INGEST = "ingest"

What = Annotated[
    list[str] | None,
    typer.Argument(
        help="Run ids or `last`; or `ingest` and log files, the oldest first, `-` for the standard "
        "input.",
        show_default=False,
    ),
]
Window = Annotated[
    float,
    typer.Option(min=1, help="Seconds between two engine lines of a log (5 before vLLM's V1)."),
]


def speed(
    what: What = None,
    *,
    store: o.Store = o.DEFAULT_STORE,
    window: Window = 10.0,
    as_json: o.AsJson = False,
) -> None:
    """Say how fast a model is served, by how many requests it has at the same time.

    Examples:
    - `agenteval speed 20261121-101500-mine 20261121-101900-mine`, the runs of a sweep

    - `agenteval speed ingest vllm.log`

    - `agenteval speed ingest vllm.log.2.gz vllm.log.1.gz vllm.log --json`
    """
    from agenteval.cli.log_speed import ingest  # noqa: PLC0415 -- start-up time
    from agenteval.cli.served_speed import of_runs, show_speed  # noqa: PLC0415

    if not what or what == [INGEST]:
        raise UsageError(f"name runs, or give `{INGEST}` and log files of vLLM, the oldest first")
    if what[0] == INGEST:
        ingest(what[1:], window=window, as_json=as_json)
    else:
        show_speed(of_runs(what, store), as_json=as_json)
