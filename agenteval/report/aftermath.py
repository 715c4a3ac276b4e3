"""What followed the denials of one run: kinds, the way back, and the ends of what never came back.

Void trials are left out of every rate. Of the cumulative incidence they are a part: a denial there
was followed until our side or the server broke the trial.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from math import inf, isnan
from statistics import median

from agenteval.core.outcome import Outcome
from agenteval.core.recovery import DenialRecovery as OneAftermath
from agenteval.core.recovery import Recovery, TrialRecovery
from agenteval.core.scoring import Score
from agenteval.core.summary import TrialSummary
from agenteval.report.tables import Cell, Head, Table, counted, heads, plain, row, share
from agenteval.report.view import Aftermath, RunView
from agenteval.stats.comparison import gap
from agenteval.stats.estimand import NOTHING, Estimand, Layout
from agenteval.stats.incidence import Followed, Incidence, incidence
from agenteval.stats.rates import Rate, clustered

WITHIN = (1, 2, 3, 5)  # turns
RECOVERED = "recovered"

Denials = Sequence[Sequence[OneAftermath]]  # of each trial


def aftermath_of(
    scored: Score, layout: Layout, *, ends: Collection[Outcome], denials_told: str = ""
) -> Aftermath:
    """`ends` are those whose incidence is wanted: all that any model of the view came to.

    `denials_told` is what kind of denial the arm has, where that is known.
    """
    trials = scored.recoveries
    denials = [trial.answerable for trial in trials]
    back = [one for of_trial in denials for one in of_trial if one.turns is not None]
    share_of = partial(_share, denials, layout)
    ended = [
        (trial.outcome, sum([one.turns is None for one in of_trial]), len(of_trial))
        for trial, of_trial in zip(scored.counted, denials, strict=True)
    ]
    kinds = [kind for kind in Recovery if kind is not Recovery.NO_CHANCE]
    return Aftermath(
        kinds=tuple((kind, share_of(_is(kind))) for kind in kinds),
        no_chance=_share([trial.aftermaths for trial in trials], layout, _is(Recovery.NO_CHANCE)),
        at_once=share_of(_back_within(1)),
        within=tuple((turns, share_of(_back_within(turns))) for turns in WITHIN),
        at_all=share_of(lambda one: one.turns is not None),
        lost=tuple(
            (end, _lost(ended, layout, end))
            for end in Outcome
            if end in ends or end not in {Outcome.VOID, Outcome.NOT_OBSERVABLE}
        ),
        turns=median(one.turns or 0 for one in back) if back else None,
        calls=median(one.calls or 0 for one in back) if back else None,
        longest_run=max((trial.longest_run for trial in trials), default=0),
        turns_burned=clustered([trial.turns_burned for trial in trials], layout),
        after_denied=clustered([trial.after_denied for trial in trials], layout),
        after_allowed=clustered([trial.after_allowed for trial in trials], layout),
        dependence=_dependence(trials, layout),
        incidence=_incidence(scored, layout.estimand, ends),
        by_told=tuple(_by_told(denials, layout, denials_told)),
    )


# What a denial of these tells is no matter of the arm's kind: that there is no such tool, or why
# the arguments do not fit.
TOLD = {"hallucinated-tool": "no such tool", "malformed-arguments": "no such arguments"}


def _by_told(denials: Denials, layout: Layout, kind: str) -> Iterator[tuple[str, Rate, Rate]]:
    """By what the denial told: recovered from in the next turn, and ever."""
    usual = f"denial: {kind}" if kind else "denial"
    for told in (usual, *TOLD.values()):
        asked = [
            [one for one in of_trial if TOLD.get(one.failure_class, usual) == told]
            for of_trial in denials
        ]
        if any(asked):
            ever = _share(asked, layout, lambda one: one.turns is not None)
            yield told, _share(asked, layout, _back_within(1)), ever


def _dependence(
    trials: Sequence[TrialRecovery], layout: Layout
) -> tuple[float, float, float] | None:
    columns = [one.after_denied for one in trials], [one.after_allowed for one in trials]
    known = all(any(size for _, size in column) for column in columns)
    return gap(*columns, layout) if known else None


def _incidence(
    scored: Score, about: Estimand, ends: Collection[Outcome]
) -> tuple[tuple[str, tuple[tuple[float, Incidence], ...]], ...]:
    """Of recovering, then of every other end."""
    denied = [
        (trial.scenario, followed)
        for trial in (*scored.counted, *scored.voids)
        if (followed := _followed(trial))
    ]
    layout = Layout(about, [scenario for scenario, _ in denied])
    trials = [followed for _, followed in denied]
    names = [RECOVERED, *(str(end) for end in Outcome if end in ends)]
    return tuple(
        (end, tuple((turns, incidence(trials, end, turns, layout)) for turns in (*WITHIN, inf)))
        for end in names
    )


def _followed(trial: TrialSummary) -> list[Followed]:
    end = "" if trial.outcome is Outcome.VOID else str(trial.outcome)
    return [
        Followed(one.played, end) if one.turns is None else Followed(one.turns, RECOVERED)
        for one in trial.recovery.answerable
    ]


def _share(denials: Denials, layout: Layout, counts: Callable[[OneAftermath], bool]) -> Rate:
    """The share of denials that count."""
    clusters = [
        (sum(map(counts, of_trial)), len(of_trial)) if of_trial else NOTHING for of_trial in denials
    ]
    return clustered(clusters, layout)


def _is(kind: Recovery) -> Callable[[OneAftermath], bool]:
    return lambda one: one.recovery is kind


def _back_within(turns: int) -> Callable[[OneAftermath], bool]:
    return lambda one: one.turns is not None and one.turns <= turns


def _lost(ended: Sequence[tuple[Outcome, int, int]], layout: Layout, end: Outcome) -> Rate:
    """The share of denials that were not recovered from, in trials that ended so."""
    return clustered([(lost if of is end else 0, size) for of, lost, size in ended], layout)


FAILED_SHOWN = (1, 3, inf)  # turns


def denial_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    told = any(view.aftermath.by_told for view in views)
    between = (_told(views),) if told else ()  # without a denial it has no row
    return _reactions(views), *between, _way_back(views), _burden(views)


def _told(views: Sequence[RunView]) -> Table:
    found = [{told: rates for told, *rates in view.aftermath.by_told} for view in views]
    rows = [
        row(
            f"{told}, {when}",
            (share(one[told][at], own_n=True) if told in one else Cell("-") for one in found),
        )
        for told in dict.fromkeys(told for one in found for told in one)
        for at, when in enumerate(("next turn", "ever"))
    ]
    note = (
        "Denials that were recovered from, by what they told: of a call, as the arm words it; that "
        "there is no such tool; why the arguments do not fit."
    )
    return Table("Recovery by what a denial told", note, heads(views), tuple(rows))


def _reactions(views: Sequence[RunView]) -> Table:
    after = [view.aftermath for view in views]
    rows = [
        row(kind, (share(dict(one.kinds)[kind]) for one in after)) for kind, _ in after[0].kinds
    ]
    rows.append(row("no chance, of all", (share(one.no_chance, own_n=True) for one in after)))
    note = (
        "What became of a denied intent: denials, share and 95 % interval. No chance: the trial "
        "ended with that turn, or its goal was reached first."
    )
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
        "Cumulative incidence by turns since the denial: its intent allowed or other work, or the "
        "end of the trial without. Ends exclude each other; trials that broke are followed until "
        "then."
    )
    return Table("The way back", note, heads(views, _followed_cell), tuple(rows))


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


def _followed_cell(view: RunView) -> str:
    (_, by_turns), *_ = view.aftermath.incidence
    return f"n={counted(by_turns[0][1].n, 'denial')}"


def _dependence_cell(after: Aftermath) -> Cell:
    if after.dependence is None:
        return Cell("-")
    value, low, high = (100 * one for one in after.dependence)
    return Cell(f"{value:+.1f}", interval=f"[{low:.1f}, {high:.1f}]")


def _columns(views: Sequence[RunView]) -> tuple[Head, ...]:
    return heads(views, lambda view: f"n={counted(view.aftermath.at_all.n, 'denial')}")


def _burden(views: Sequence[RunView]) -> Table:
    after = [view.aftermath for view in views]
    rows = (
        row("turns burned on denials", (share(one.turns_burned, own_n=True) for one in after)),
        row("denied after a denial", (share(one.after_denied, own_n=True) for one in after)),
        row("denied after none", (share(one.after_allowed, own_n=True) for one in after)),
        row("difference of the two", (_dependence_cell(one) for one in after)),
        row("burned turns in a row, most", (plain(one.longest_run) for one in after)),
    )
    note = "Turns in which every call was denied; calls denied, by the turn before."
    return Table("What denials cost", note, heads(views), rows)
