"""The tables below the comparison: how trials ended, what ran, how it was served, what was void."""

from collections.abc import Sequence

from agenteval.core.cards import NOT_OBSERVABLE
from agenteval.core.served import Spread
from agenteval.report.arrivals import arrival_tables
from agenteval.report.denial_recovery import denial_tables
from agenteval.report.goals import goal_rows
from agenteval.report.pair_tables import pair_tables
from agenteval.report.provenance import agent_tables, provenance_table
from agenteval.report.tables import (
    BY_WORDS,
    READ_FROM_WORDS,
    Cell,
    Table,
    counted,
    heads,
    observable_cell,
    per_100,
    plain,
    repeated,
    row,
    share,
)
from agenteval.report.view import RunView, ScenarioView, View
from agenteval.report.voids import cause_rows
from agenteval.stats.rates import Rate, clustered

UNSEEN = Cell(NOT_OBSERVABLE)


def _served_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    """Return the table of speed; none where only the summaries of a run were read."""
    served = [view.served for view in views if view.served]
    if len(served) < len(views):
        return ()
    rows = (
        row("to the first piece, ms", (_cell(one.first_piece, 1000) for one in served)),
        row("gap between pieces, median, ms", (_cell(one.gap_median, 1000) for one in served)),
        row("gap between pieces, p95, ms", (_cell(one.gap_p95, 1000) for one in served)),
        row("completion tokens/s", (_cell(one.tokens_per_second, 1) for one in served)),
        row("reasoning, % of completion", (_cell(one.reasoning, 100) for one in served)),
        row("cached, % of prompt", (_cell(one.cached, 100) for one in served)),
    )
    note = (
        "Median of all requests, and the 5th and 95th percentile; tokens/s from request to end, as "
        "the server counts tokens."
    )
    return (Table("Speed as served", note, heads(views), rows),)


def _cell(spread: Spread | None, unit: float) -> Cell:
    if spread is None:
        return UNSEEN
    low, high = f"{unit * spread.low:.3g}", f"{unit * spread.high:.3g}"
    return Cell(f"{unit * spread.median:.3g}", interval=f"[{low}, {high}]", n=f"n={spread.n}")


def _executions_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    """Return the table of executions; none where only the summaries of a run were read."""
    ran = [view.executions for view in views if view.executions]
    if len(ran) < len(views):
        return ()
    limits = sorted({limit for one in ran for limit in one.limits})
    errors = {
        view.label: clustered(one.tool_errors, view.layout)
        for view, one in zip(views, ran, strict=True)
    }
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
            for answer in ("agreed", "known faults", "failed", "timed out")
        ),
        row("turns", (plain(view.score.turns) for view in views)),
        row("completion tokens", (plain(one.completion_tokens) for one in ran)),
    ]
    columns = heads(views, lambda view: f"n={errors[view.label].n} executed")
    note = "A tool error is an allowed call that ran and failed: no error of the model's by itself."
    return (Table("What ran", note, columns, tuple(rows)),)


IN_ORDER = "all, in order"
FLAG_GUESSING = "hallucinated-flag"


def detail_tables(view: View) -> tuple[Table, ...]:
    """Return the tables of the pairs, if the view compares them, and of the runs of the view."""
    if not view.runs:
        return pair_tables(view)
    return (
        *pair_tables(view),
        _outcomes(view.runs),
        _behaviour(view.runs),
        *_scenarios(view.runs),
        *_handshakes(view.runs),
        *agent_tables(view.runs),
        *denial_tables(view.runs),
        *arrival_tables(view.runs),
        *_executions_tables(view.runs),
        *_served_tables(view.runs),
        provenance_table(view.runs),
    )


def summary_tables(view: View) -> tuple[Table, ...]:
    """Return the detail tables that a decision needs: outcome and recovery."""
    pairs = pair_tables(view)
    return (_outcomes(view.runs), _behaviour(view.runs), *pairs) if view.runs else pairs


def _behaviour(views: Sequence[RunView]) -> Table:
    again = [view.recovery.after_denied for view in views]
    rows = (
        row("reaction to a denial", (_commonest(view.recovery.kinds) for view in views)),
        row("denied again after a denial", (share(rate, own_n=True) for rate in again)),
        row("flag guessing, per 100 calls", (_flag_guessing(view) for view in views)),
        row(
            "handshake completed", (observable_cell(view, _handshake_total(view)) for view in views)
        ),
        row("typical exit", (observable_cell(view, _commonest(view.outcomes)) for view in views)),
    )
    return Table("Behaviour", "The most frequent of each kind, with its share.", heads(views), rows)


def _commonest(shares: Sequence[tuple[str, Rate]]) -> Cell:
    name, rate = max(shares, key=lambda one: one[1].count)
    if not rate.count:
        return Cell("-")
    return Cell(f"{name} {100 * rate.value:.0f}%", interval=rate.percent, n=f"n={rate.n}")


def _flag_guessing(view: RunView) -> Cell:
    return per_100(clustered(view.score.errors.clusters(FLAG_GUESSING), view.layout), own_n=True)


def _handshake_total(view: RunView) -> Cell:
    funnels = view.score.funnels
    completed, trials = sum(one.completed for one in funnels), sum(one.trials for one in funnels)
    return share(Rate(completed, trials), own_n=True)


def _outcomes(views: Sequence[RunView]) -> Table:
    rows = [
        row(end, (observable_cell(view, share(dict(view.outcomes)[end])) for view in views))
        for end, _ in views[0].outcomes
    ]
    rows += goal_rows(views)
    rows.append(row("trials with a denial", (share(view.any_denial) for view in views)))
    rows.append(row("void, left out", (plain(len(view.score.voids)) for view in views)))
    rows += cause_rows(views)
    for name, count in (("void, played again", _replaced), ("requests sent again", _retries)):
        if any(map(count, views)):
            rows.append(row(name, (plain(count(view)) for view in views)))
    if any(_stretched(view) > 1 for view in views):
        given = (Cell(f"x {_stretched(view):.1f}") for view in views)
        rows.append(row("time limits, for slowness up to", given))
    if any(view.run.crashes for view in views):
        rows.append(row("crashes per 1,000 requests", map(_crashes, views)))
    columns = heads(views, lambda view: f"n={counted(view.score.trials, 'trial')}")
    by_words = any(end in BY_WORDS and of.count for view in views for end, of in view.outcomes)
    caption = "Trials, share and 95 % interval." + (f" {READ_FROM_WORDS}" if by_words else "")
    return Table("How trials ended", caption, columns, tuple(rows))


def _crashes(view: RunView) -> Cell:
    rate = Rate(len(view.run.crashes), view.run.requests)
    low, high = 1000 * rate.low, 1000 * rate.high
    return Cell(f"{1000 * rate.value:.2f}", interval=f"[{low:.2f}, {high:.2f}]", n=f"n={rate.n}")


def _replaced(view: RunView) -> int:
    return sum(view.run.replaced.values())


def _retries(view: RunView) -> int:
    return sum(one.retries for one in (*view.score.counted, *view.score.voids))


def _stretched(view: RunView) -> float:
    trials = (*view.score.counted, *view.score.voids)
    return max((one.stretched for one in trials), default=1.0)


def _scenarios(views: Sequence[RunView]) -> tuple[Table, ...]:
    """Return the table by scenario; none where no trial counts."""
    played = [{one.name: one for one in view.scenarios} for view in views]
    names = sorted({name for run in played for name in run})
    nothing = Rate(0, 0)
    rows = []
    for name in names:
        here = [run.get(name, ScenarioView(name, nothing, nothing)) for run in played]
        rows.append(row(f"{name}, completed", (share(one.completed, own_n=True) for one in here)))
        rows.append(row("all of 3 trials, pass^3", (repeated(one.all_of) for one in here)))
        rows.append(row("any of 3 trials, pass@3", (repeated(one.any_of) for one in here)))
        rows.append(row("errors per 100 calls", (per_100(one.errors, own_n=True) for one in here)))
    note = "Trials completed, how surely so again, and errors per 100 calls, with 95 % interval."
    return (Table("By scenario", note, heads(views), tuple(rows)),) if rows else ()


def _handshakes(views: Sequence[RunView]) -> list[Table]:
    """Return one funnel for each scenario that has a handshake."""
    scenarios = sorted({one.scenario for view in views for one in view.handshakes})
    return [_handshake(views, scenario) for scenario in scenarios]


def _handshake(views: Sequence[RunView], scenario: str) -> Table:
    funnels = [
        {
            step: rate
            for one in view.handshakes
            if one.scenario == scenario
            for step, rate in one.steps
        }
        for view in views
    ]
    nothing = Rate(0, 0)
    rows = tuple(
        row(step, (share(funnel.get(step, nothing)) for funnel in funnels))
        for step in dict.fromkeys(step for funnel in funnels for step in funnel)
    )
    ordered = row(IN_ORDER, (_in_order(view, scenario) for view in views))
    note = "Trials that passed a step and all before it, share and 95 % interval."
    columns = heads(views, lambda view: f"n={counted(_tried(view, scenario), 'trial')}")
    return Table(f"Handshake of {scenario}", note, columns, (*rows, ordered))


def _in_order(view: RunView, scenario: str) -> Cell:
    """Return the share in order of the trials that show it: fewer in a run of an older version."""
    rate = next((one.in_order for one in view.handshakes if one.scenario == scenario), Rate(0, 0))
    return share(rate, own_n=rate.n != _tried(view, scenario))


def _tried(view: RunView, scenario: str) -> int:
    return sum(funnel.trials for funnel in view.score.funnels if funnel.scenario == scenario)
