"""Recovery from the denials of one run: its kinds, the turns to it, and the outcomes without it.

Void trials are excluded from every rate. They are included in the cumulative incidence: a denial
there is followed until our side or the server broke the trial.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from math import inf, isnan
from statistics import median

from agenteval.core.outcome import Outcome
from agenteval.core.recovery import DenialRecovery, Recovery, TrialRecovery
from agenteval.core.scoring import Score
from agenteval.core.summary import TrialSummary
from agenteval.report.tables import Cell, Head, Table, counted, heads, plain, row, share
from agenteval.report.view import RecoveryFigures, RunView
from agenteval.stats.comparison import gap
from agenteval.stats.estimand import NOTHING, Estimand, Layout
from agenteval.stats.incidence import Followed, Incidence, incidence
from agenteval.stats.rates import Rate, clustered

WITHIN = (1, 2, 3, 5)  # turns
RECOVERED = "recovered"

Denials = Sequence[Sequence[DenialRecovery]]  # of each trial


def recovery_figures(
    scored: Score, layout: Layout, *, ends: Collection[Outcome], denial_kind: str = ""
) -> RecoveryFigures:
    """Return the figures of recovery of one run.

    `ends` are the outcomes whose incidence is required: all outcomes of any model of the view.
    `denial_kind` is the arm's kind of denial text, empty where that is not known.
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
    return RecoveryFigures(
        kinds=tuple((kind, share_of(_is(kind))) for kind in kinds),
        no_chance=_share([trial.aftermaths for trial in trials], layout, _is(Recovery.NO_CHANCE)),
        at_once=share_of(_back_within(1)),
        recovered_within=tuple((turns, share_of(_back_within(turns))) for turns in WITHIN),
        at_all=share_of(lambda one: one.turns is not None),
        unrecovered=tuple(
            (end, _unrecovered(ended, layout, end))
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
        by_told=tuple(_by_told(denials, layout, denial_kind)),
    )


# What a denial of these tells is no matter of the arm's kind: that there is no such tool, or why
# the arguments do not fit.
_CONTENT = {"hallucinated-tool": "no such tool", "malformed-arguments": "no such arguments"}


def _by_told(denials: Denials, layout: Layout, kind: str) -> Iterator[tuple[str, Rate, Rate]]:
    """Yield each content of denials, with the rates recovered from in the next turn and ever."""
    usual = f"denial: {kind}" if kind else "denial"
    for content in (usual, *_CONTENT.values()):
        denials_of_content = [
            [one for one in of_trial if _CONTENT.get(one.failure_class, usual) == content]
            for of_trial in denials
        ]
        if any(denials_of_content):
            ever = _share(denials_of_content, layout, lambda one: one.turns is not None)
            yield content, _share(denials_of_content, layout, _back_within(1)), ever


def _dependence(
    trials: Sequence[TrialRecovery], layout: Layout
) -> tuple[float, float, float] | None:
    columns = [one.after_denied for one in trials], [one.after_allowed for one in trials]
    known = all(any(size for _, size in column) for column in columns)
    return gap(*columns, layout) if known else None


def _incidence(
    scored: Score, about: Estimand, ends: Collection[Outcome]
) -> tuple[tuple[str, tuple[tuple[float, Incidence], ...]], ...]:
    """Return the incidence of recovery, then that of every outcome in `ends`."""
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


def _share(denials: Denials, layout: Layout, counts: Callable[[DenialRecovery], bool]) -> Rate:
    """Return the share of denials for which `counts` is true."""
    clusters = [
        (sum(map(counts, of_trial)), len(of_trial)) if of_trial else NOTHING for of_trial in denials
    ]
    return clustered(clusters, layout)


def _is(kind: Recovery) -> Callable[[DenialRecovery], bool]:
    return lambda one: one.recovery is kind


def _back_within(turns: int) -> Callable[[DenialRecovery], bool]:
    return lambda one: one.turns is not None and one.turns <= turns


def _unrecovered(ended: Sequence[tuple[Outcome, int, int]], layout: Layout, end: Outcome) -> Rate:
    """Return the share of denials without recovery, in trials with this outcome."""
    return clustered(
        [(unrecovered if of is end else 0, size) for of, unrecovered, size in ended], layout
    )


FAILED_SHOWN = (1, 3, inf)  # turns


def denial_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    has_denials = any(view.recovery.by_told for view in views)
    between = (
        (_recovery_by_content(views),) if has_denials else ()
    )  # without a denial it has no row
    return _reactions(views), *between, _way_back(views), _burden(views)


def _recovery_by_content(views: Sequence[RunView]) -> Table:
    rates_by_content = [
        {content: rates for content, *rates in view.recovery.by_told} for view in views
    ]
    rows = [
        row(
            f"{content}, {when}",
            (
                share(one[content][at], own_n=True) if content in one else Cell("-")
                for one in rates_by_content
            ),
        )
        for content in dict.fromkeys(content for one in rates_by_content for content in one)
        for at, when in enumerate(("next turn", "ever"))
    ]
    note = (
        "Denials that were recovered from, by what they told: of a call, as the arm words it; that "
        "there is no such tool; why the arguments do not fit."
    )
    return Table("Recovery by what a denial told", note, heads(views), tuple(rows))


def _reactions(views: Sequence[RunView]) -> Table:
    after = [view.recovery for view in views]
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
    after = [view.recovery for view in views]
    ends = [end for end, _ in after[0].incidence if any(_came(one, end) for one in after)]
    turns = [at for at, _ in after[0].incidence[0][1]]
    rows = [
        row(f"{end} {_turns_text(at)}", (_share_by(one, end, at) for one in after))
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


def _came(after: RecoveryFigures, end: str) -> bool:
    return end == RECOVERED or dict(dict(after.incidence)[end])[inf].count > 0


def _turns_text(turns: float) -> str:
    if turns == inf:
        return "at last"
    return "within 1 turn" if turns == 1 else f"within {turns:g} turns"


def _share_by(after: RecoveryFigures, end: str, turns: float) -> Cell:
    share = dict(dict(after.incidence)[end])[turns]
    if isnan(share.value):
        return Cell("-")
    interval = f"[{100 * share.low:.1f}, {100 * share.high:.1f}]"
    return Cell(f"{100 * share.value:.1f}%", str(share.count), interval, zero=not share.count)


def _followed_cell(view: RunView) -> str:
    (_, by_turns), *_ = view.recovery.incidence
    return f"n={counted(by_turns[0][1].n, 'denial')}"


def _dependence_cell(after: RecoveryFigures) -> Cell:
    if after.dependence is None:
        return Cell("-")
    value, low, high = (100 * one for one in after.dependence)
    return Cell(f"{value:+.1f}", interval=f"[{low:.1f}, {high:.1f}]")


def _columns(views: Sequence[RunView]) -> tuple[Head, ...]:
    return heads(views, lambda view: f"n={counted(view.recovery.at_all.n, 'denial')}")


def _burden(views: Sequence[RunView]) -> Table:
    after = [view.recovery for view in views]
    rows = (
        row("turns burned on denials", (share(one.turns_burned, own_n=True) for one in after)),
        row("denied after a denial", (share(one.after_denied, own_n=True) for one in after)),
        row("denied after none", (share(one.after_allowed, own_n=True) for one in after)),
        row("difference of the two", (_dependence_cell(one) for one in after)),
        row("burned turns in a row, most", (plain(one.longest_run) for one in after)),
    )
    note = "Turns in which every call was denied; calls denied, by the turn before."
    return Table("What denials cost", note, heads(views), rows)
