"""The table of sub-agents: how often each broke the rules, beside the first agent of its trials."""

from collections.abc import Sequence

from agenteval.report.tables import Table, heads, per_100, row
from agenteval.report.view import RunView
from agenteval.stats.rates import Rate, clustered

FIRST = "first agent, all scenarios"


def agent_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    """None where no trial led to a sub-agent."""
    names = sorted({name for view in views for one in view.score.counted for name in one.agents})
    if not names:
        return ()
    rows = (
        row(FIRST, (per_100(view.errors.total, own_n=True) for view in views)),
        *(
            row(name, (per_100(agent_rate(view, name), own_n=True) for view in views))
            for name in names
        ),
    )
    note = (
        "Errors per 100 tool calls and 95 % interval, clustered by trial. All other tables count "
        "first agents alone."
    )
    return (Table("Calls by agent", note, heads(views), rows, "agent"),)


def agent_rate(view: RunView, name: str) -> Rate:
    counts = (one.agents.get(name, (0, 0)) for one in view.score.counted)
    return clustered([count for count in counts if count[1]])
