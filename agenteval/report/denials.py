"""The tables about denials: what the next turn did, the way back, and what they cost."""

from collections.abc import Sequence

from agenteval.report.tables import Head, Table, heads, plain, row, share
from agenteval.report.view import RunView


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
    back = [
        row(
            f"within {_turns(turns)}",
            (share(dict(one.within)[turns]) for one in after),
        )
        for turns, _ in after[0].within
    ]
    lost = [
        row(f"never, {end}", (share(dict(one.lost)[end]) for one in after))
        for end, _ in after[0].lost
        if any(dict(one.lost)[end].count for one in after)
    ]
    rows = [
        *back,
        row("ever", (share(one.at_all) for one in after)),
        *lost,
        row("turns to it, median", (plain(one.turns) for one in after)),
        row("calls to it, median", (plain(one.calls) for one in after)),
    ]
    note = "Denials with an allowed call behind them; those without, by how the trial ended."
    return Table("The way back", note, _columns(views), tuple(rows))


def _turns(number: int) -> str:
    return "1 turn" if number == 1 else f"{number} turns"


def _columns(views: Sequence[RunView]) -> tuple[Head, ...]:
    return heads(views, lambda view: f"n={view.aftermath.at_all.n} denials")


def _burden(views: Sequence[RunView]) -> Table:
    after = [view.aftermath for view in views]
    rows = (
        row("turns burned on denials", (share(one.turns_burned, own_n=True) for one in after)),
        row("denied after a denied call", (share(one.after_denied, own_n=True) for one in after)),
        row("denied after an allowed one", (share(one.after_allowed, own_n=True) for one in after)),
        row("longest run of denied calls", (plain(one.longest_run) for one in after)),
    )
    note = "Turns in which every call was denied; calls denied, by the fate of the call before."
    return Table("What denials cost", note, heads(views), rows)
