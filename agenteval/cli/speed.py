"""`agenteval speed`: how fast a model is served: probed, in stored runs, or in a server's log."""

from typing import Annotated

import typer

from agenteval import report, workflows
from agenteval.cli import options as o
from agenteval.cli import output
from agenteval.errors import UsageError

INGEST = "ingest"

What = Annotated[
    list[str] | None,
    typer.Argument(
        help="Run ids or `last`; or `ingest` and log files, the oldest first, `-` for the standard "
        "input. Not with --model.",
        show_default=False,
    ),
]
Model = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="A model to be asked now; may be repeated."),
]
Levels = Annotated[
    str, typer.Option(help="Requests of --model at the same time, a list.", metavar="N[,N...]")
]
PromptTokens = Annotated[int, typer.Option(min=1, help="Length of the prompts of --model.")]
CompletionTokens = Annotated[int, typer.Option(min=1, help="The most that --model may reply.")]
Requests = Annotated[
    int | None,
    typer.Option(min=1, help="Of --model at each level. Default: four times the level, 8 or more."),
]
Window = Annotated[
    float,
    typer.Option(min=1, help="Seconds between two engine lines of a log (5 before vLLM's V1)."),
]


def speed(  # noqa: PLR0913 -- each is an option of the command line
    what: What = None,
    *,
    model: Model = None,
    base_url: o.BaseUrl = None,
    concurrency: Levels = "1,2,4",
    prompt_tokens: PromptTokens = 1000,
    completion_tokens: CompletionTokens = 256,
    requests: Requests = None,
    store: o.Store = o.DEFAULT_STORE,
    window: Window = 10.0,
    as_json: o.AsJson = False,
) -> None:
    """Say how fast a model is served, by how many requests it has at the same time.

    Of stored runs; of a model asked now, with prompts no cache can know; or out of vLLM's log.

    Examples:
    - `agenteval speed --model my-model --concurrency 1,2,4,8 --prompt-tokens 30000`

    - `agenteval speed 20261121-101500-mine 20261121-101900-mine`, the runs of a sweep

    - `agenteval speed ingest vllm.log.2.gz vllm.log.1.gz vllm.log --json`
    """
    if bool(what) == bool(model) or what == [INGEST]:
        raise UsageError(
            f"name runs, or a --model, or give `{INGEST}` and log files of vLLM, the oldest first"
        )
    if model:
        asked = workflows.speed_probe.probe_of(
            concurrency, prompt_tokens, completion_tokens, requests
        )
        served = workflows.speed_probe.probe_models(model, base_url, asked)
        output.show_speed(served, as_json=as_json)
    elif what and what[0] == INGEST:
        _show_log(what[1:], window, as_json=as_json)
    else:
        runs = workflows.views.loaded(what or [], store)
        output.show_speed(workflows.views.speeds(runs), as_json=as_json)


def _show_log(paths: list[str], window: float, *, as_json: bool) -> None:
    view = workflows.ingest.read_log(paths, window)
    if as_json:
        output.print_json(view.document())
        return
    console = report.console.Terminal()
    for table in report.speed.log_tables(view):
        report.console.print_table(console, table)
    report.console.print_lines(console, report.speed.log_lines(view))
