"""`agenteval plan`: how large a run must be for a margin to be proven."""

from typing import Annotated

import typer

from agenteval.cli import options as o
from agenteval.errors import UsageError

Margin = Annotated[
    float | None, typer.Option(help="Errors per 100 calls that a candidate may make more.")
]
Ratio = Annotated[
    float | None, typer.Option(help="Instead: how many times as many it may make, such as 1.5.")
]


def plan(
    *,
    baseline: o.Baseline = None,
    margin: Margin = None,
    ratio: Ratio = None,
    store: o.Store = o.DEFAULT_STORE,
    as_json: o.AsJson = False,
) -> None:
    """Say how many trials and calls would prove with 80 % power that a model is no worse.

    By simulation, with the rate and the clustering of a stored run, for a candidate that is as good
    as the baseline and meets the same worlds. Of a run that is simulated only the hours mean
    nothing.

    Examples:
    - `agenteval plan --baseline last --margin 3`

    - `agenteval plan --baseline 20261121-101500-mine --ratio 1.5`
    """
    import json  # noqa: PLC0415 -- start-up time, as all below

    from agenteval.cli.planning import planned, sentences  # noqa: PLC0415

    if baseline is None or (margin is None) == (ratio is None):
        raise UsageError("give --baseline RUN and either --margin POINTS or --ratio TIMES")
    found = planned(baseline, store, margin=margin, ratio=ratio)
    if as_json:
        typer.echo(json.dumps(found.document(), indent=2))
    else:
        from rich.console import Console  # noqa: PLC0415

        Console(highlight=False).print(sentences(found), markup=False)
