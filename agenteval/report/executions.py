"""The table of what ran: tool errors, limits, what the second reader said, tokens."""

from collections.abc import Sequence

from agenteval.report.tables import Table, heads, plain, row, share
from agenteval.report.view import RunView
from agenteval.stats.rates import clustered


def executions_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    """None where only the summaries of a run were read."""
    ran = [view.executions for view in views if view.executions]
    if len(ran) < len(views):
        return ()
    limits = sorted({limit for one in ran for limit in one.limits})
    errors = {view.label: clustered(one.tool_errors) for view, one in zip(views, ran, strict=True)}
    rows = [
        row("tool errors", map(share, errors.values())),
        *(
            row(f"ended by {limit}", (plain(one.limits.get(limit, 0)) for one in ran))
            for limit in limits
        ),
        row("second reader objected", (plain(one.objections) for one in ran)),
        # It is asked only about what is about to run.
        *(
            row(
                f"second reader {answer}",
                (plain(view.run.second_reader.get(answer, 0)) for view in views),
            )
            for answer in ("agreed", "failed", "timed out")
        ),
        row("turns", (plain(view.score.turns) for view in views)),
        row("completion tokens", (plain(one.completion_tokens) for one in ran)),
    ]
    columns = heads(views, lambda view: f"n={errors[view.label].n} executed")
    note = "A tool error is an allowed call that ran and failed: no error of the model's by itself."
    return (Table("What ran", note, columns, tuple(rows)),)
