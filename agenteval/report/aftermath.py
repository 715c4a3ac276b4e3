"""What followed the denials of one run: kinds, the way back, and the ends of what never came back.

Void trials are left out, so every denial is followed to its end: the cumulative incidence of
recovering and of each way not to is then the plain share of denials, without censoring.
"""

from collections.abc import Callable, Sequence
from statistics import median

from agenteval.core.outcome import Outcome
from agenteval.core.recovery import Aftermath as OneAftermath
from agenteval.core.recovery import Recovery
from agenteval.core.scoring import Score
from agenteval.report.view import Aftermath
from agenteval.stats.rates import Rate, clustered

WITHIN = (1, 2, 3, 5)  # turns

Denials = Sequence[Sequence[OneAftermath]]  # of each trial


def aftermath_of(scored: Score) -> Aftermath:
    trials = scored.recoveries
    denials = [trial.aftermaths for trial in trials]
    back = [one for of_trial in denials for one in of_trial if one.turns is not None]
    return Aftermath(
        kinds=tuple((kind, _share(denials, _is(kind))) for kind in Recovery),
        at_once=_share(denials, lambda one: one.recovery.recovered),
        within=tuple((turns, _share(denials, _back_within(turns))) for turns in WITHIN),
        at_all=_share(denials, lambda one: one.turns is not None),
        lost=tuple((end, _lost(scored, end)) for end in Outcome if end is not Outcome.VOID),
        turns=median(one.turns or 0 for one in back) if back else None,
        calls=median(one.calls or 0 for one in back) if back else None,
        longest_run=max((trial.longest_run for trial in trials), default=0),
        turns_burned=clustered([trial.turns_burned for trial in trials]),
        after_denied=clustered([trial.after_denied for trial in trials]),
        after_allowed=clustered([trial.after_allowed for trial in trials]),
    )


def _share(denials: Denials, counts: Callable[[OneAftermath], bool]) -> Rate:
    """The share of denials that count, clustered by trial."""
    return clustered([(sum(map(counts, of_trial)), len(of_trial)) for of_trial in denials])


def _is(kind: Recovery) -> Callable[[OneAftermath], bool]:
    return lambda one: one.recovery is kind


def _back_within(turns: int) -> Callable[[OneAftermath], bool]:
    return lambda one: one.turns is not None and one.turns <= turns


def _lost(scored: Score, end: Outcome) -> Rate:
    """The share of denials with no allowed call behind them in trials that ended so."""
    clusters = []
    for trial in scored.counted:
        aftermaths = trial.recovery.aftermaths
        never = sum(one.turns is None for one in aftermaths)
        clusters.append((never if trial.outcome is end else 0, len(aftermaths)))
    return clustered(clusters)
