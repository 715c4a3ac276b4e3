"""`agenteval trend`: errors per 100 calls over time, as lines, JSON or OpenMetrics."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agenteval import workflows
from agenteval.cli import options as o
from agenteval.cli import output
from agenteval.core.plain import as_name

if TYPE_CHECKING:
    from agenteval.workflows.trends import Trend

TREND = "agenteval.trend/1"
WhatBy = Annotated[
    Literal["day", "week", "model", "version"], typer.Option("--by", help="A point each.")
]
Metrics = Annotated[
    bool, typer.Option("--openmetrics", help="Print OpenMetrics, as Prometheus reads it.")
]
OfModel = Annotated[str | None, typer.Option("--model", "-m", help="Models with this in it.")]
Simulated = Annotated[bool, typer.Option("--simulated", help="Simulated runs, and no others.")]


def trend(  # noqa: PLR0913 -- each is an option of the command line
    *,
    by: WhatBy = "week",
    store: o.Store = o.DEFAULT_STORE,
    model: OfModel = None,
    simulated: Simulated = False,
    openmetrics: Metrics = False,
    as_json: o.AsJson = False,
) -> None:
    """Say how errors per 100 calls went over time: by day, week, model or version.

    Of all trials in the store, played and out of logs. A change is told only where it is settled.

    Examples:
    - `agenteval trend --by week --model qwen`

    - `agenteval trend --by version --openmetrics > agenteval.prom`
    """
    trend_found = workflows.trends.trend(store, by, model=model or "", simulated=simulated)
    if openmetrics:
        output.print_data(workflows.trends.openmetrics(trend_found))
    elif as_json:
        output.print_json(_trend_document(trend_found))
    else:
        for line in _trend_lines(trend_found):
            output.say(line)
        if not (trend_found.series or simulated):
            output.say("simulated runs are left out: --simulated asks for them")


def _trend_lines(trend: "Trend") -> Iterator[str]:
    if not trend.series:
        yield "no trials of which errors and time are known"
    labels = [one.label for series in trend.series.values() for one in series.points]
    width = max((len(as_name(label)) for label in labels), default=0)
    for model, series in trend.series.items():
        of = f"  {as_name(model)}" if len(trend.series) > 1 and trend.by != "model" else ""
        for one in series.points:
            label = as_name(one.label).ljust(width)
            yield f"{label}  errors per 100 calls {one.rate.per_100()}  trials {one.trials:,}{of}"
        for change in series.changes:
            gap = change.difference
            yield (
                f"settled: from {as_name(change.label)} on {100 * gap.second.value:.2f} errors per "
                f"100 calls, before {100 * gap.first.value:.2f}; p = {change.adjusted:.2g} after "
                f"correction for all boundaries of all models{of}"
            )
    if trend.left_out:
        yield f"trials left out, as their errors or time are not observable: {trend.left_out:,}"
    if trend.judged_since:
        yield (
            f"judgements left out, as of a session the one with most calls counts, then the last: "
            f"{trend.judged_since:,}"
        )


def _trend_document(trend: "Trend") -> dict[str, Any]:
    return {
        "schema": TREND,
        "by": trend.by,
        "points": [
            {
                "model": model,
                "label": one.label,
                "trials": one.trials,
                "errors": one.rate.count,
                "calls": one.rate.n,
                "low": one.rate.low,
                "high": one.rate.high,
            }
            for model, series in trend.series.items()
            for one in series.points
        ],
        "changes": [
            {"model": model, "from": one.label, "since": one.since, "p_adjusted": one.adjusted}
            for model, series in trend.series.items()
            for one in series.changes
        ],
        "left_out": trend.left_out,
        "judged_since": trend.judged_since,
    }
