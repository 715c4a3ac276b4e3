"""The table of sub-agents: how often each broke the rules, beside the first agent of its trials."""

from collections.abc import Mapping, Sequence

from agenteval.report.tables import Table, heads, per_100, row
from agenteval.report.view import RunView
from agenteval.stats.rates import Rate, clustered

FIRST = "first agent, all scenarios"
NOTE = (
    "Errors per 100 tool calls and 95 % interval, clustered by trial. All other tables count first "
    "agents alone."
)


def agent_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    """None where no sub-agent made a call."""
    rates = [agent_rates(view) for view in views]
    names = sorted({name for run in rates for name in run})
    if not names:
        return ()
    rows = [row(FIRST, (per_100(view.errors.total, own_n=True) for view in views))]
    for name in names:
        here = (run.get(name, Rate(0, 0)) for run in rates)
        rows.append(row(name, (per_100(rate, own_n=True) for rate in here)))
    return (Table("Calls by agent", NOTE, heads(views), tuple(rows), "agent"),)


def agent_rates(view: RunView) -> Mapping[str, Rate]:
    """Errors of the calls of each sub-agent, over the trials in which it made some."""
    counted = view.score.counted
    names = sorted({name for one in counted for name in one.agents})
    return {
        name: clustered([one.agents[name] for one in counted if name in one.agents])
        for name in names
    }
