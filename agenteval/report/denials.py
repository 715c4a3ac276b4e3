"""The tables about denials: what the next turn did, the way back, and what they cost."""

from collections.abc import Sequence
from math import inf, isnan

from agenteval.report.aftermath import RECOVERED
from agenteval.report.tables import Cell, Head, Table, heads, plain, row, share
from agenteval.report.view import Aftermath, RunView

FAILED_SHOWN = (1, 3, inf)  # turns


def denial_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    return _reactions(views), _way_back(views), _burden(views)


def _reactions(views: Sequence[RunView]) -> Table:
    after = [view.aftermath for view in views]
    rows = [
        row(kind, (share(dict(one.kinds)[kind]) for one in after)) for kind, _ in after[0].kinds
    ]
    note = "What the turn after a denial did: denials, share and 95 % interval."
    return Table("After a denial", note, _columns(views), tuple(rows))


def _way_back(views: Sequence[RunView]) -> Table:
    after = [view.aftermath for view in views]
    ends = [end for end, _ in after[0].incidence if any(_came(one, end) for one in after)]
    turns = [at for at, _ in after[0].incidence[0][1]]
    rows = [
        row(f"{end} {_within(at)}", (_share_by(one, end, at) for one in after))
        for end in ends
        for at in turns
        if end == RECOVERED or at in FAILED_SHOWN
    ]
    rows += [
        row("turns to it, median", (plain(one.turns) for one in after)),
        row("calls to it, median", (plain(one.calls) for one in after)),
    ]
    note = (
        "Cumulative incidence by turns since the denial: an allowed call, or the end of the trial "
        "without one. Ends exclude each other; trials that broke are followed until then."
    )
    return Table("The way back", note, heads(views, _followed), tuple(rows))


def _came(after: Aftermath, end: str) -> bool:
    return end == RECOVERED or dict(dict(after.incidence)[end])[inf].count > 0


def _within(turns: float) -> str:
    if turns == inf:
        return "at last"
    return "within 1 turn" if turns == 1 else f"within {turns:g} turns"


def _share_by(after: Aftermath, end: str, turns: float) -> Cell:
    found = dict(dict(after.incidence)[end])[turns]
    if isnan(found.value):
        return Cell("-")
    interval = f"[{100 * found.low:.1f}, {100 * found.high:.1f}]"
    return Cell(f"{100 * found.value:.1f}%", str(found.count), interval, zero=not found.count)


def _followed(view: RunView) -> str:
    (_, by_turns), *_ = view.aftermath.incidence
    return f"n={by_turns[0][1].n} denials"


def _dependence(after: Aftermath) -> Cell:
    if after.dependence is None:
        return Cell("-")
    value, low, high = (100 * one for one in after.dependence)
    return Cell(f"{value:+.1f}", interval=f"[{low:.1f}, {high:.1f}]")


def _columns(views: Sequence[RunView]) -> tuple[Head, ...]:
    return heads(views, lambda view: f"n={view.aftermath.at_all.n} denials")


def _burden(views: Sequence[RunView]) -> Table:
    after = [view.aftermath for view in views]
    rows = (
        row("turns burned on denials", (share(one.turns_burned, own_n=True) for one in after)),
        row("denied after a denied call", (share(one.after_denied, own_n=True) for one in after)),
        row("denied after an allowed one", (share(one.after_allowed, own_n=True) for one in after)),
        row("difference of the two", (_dependence(one) for one in after)),
        row("longest run of denied calls", (plain(one.longest_run) for one in after)),
    )
    note = "Turns in which every call was denied; calls denied, by the fate of the call before."
    return Table("What denials cost", note, heads(views), rows)
