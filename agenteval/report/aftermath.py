"""What followed the denials of one run: kinds, the way back, and the ends of what never came back.

Void trials are left out of every rate. Of the cumulative incidence they are a part: a denial there
was followed until our side or the server broke the trial.
"""

from collections.abc import Callable, Collection, Sequence
from math import inf
from statistics import median

from agenteval.core.outcome import Outcome
from agenteval.core.recovery import Aftermath as OneAftermath
from agenteval.core.recovery import Recovery, TrialRecovery
from agenteval.core.scoring import Score
from agenteval.core.summary import TrialSummary
from agenteval.report.view import Aftermath
from agenteval.stats.comparison import gap
from agenteval.stats.incidence import Followed, Incidence, incidence
from agenteval.stats.rates import Rate, clustered

WITHIN = (1, 2, 3, 5)  # turns
RECOVERED = "recovered"

Denials = Sequence[Sequence[OneAftermath]]  # of each trial


def aftermath_of(scored: Score, *, ends: Collection[Outcome]) -> Aftermath:
    """`ends` are those whose incidence is wanted: all that any model of the view came to."""
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
        dependence=_dependence(trials),
        incidence=_incidence(scored, ends),
    )


def _dependence(trials: Sequence[TrialRecovery]) -> tuple[float, float, float] | None:
    columns = [one.after_denied for one in trials], [one.after_allowed for one in trials]
    known = all(any(size for _, size in column) for column in columns)
    return gap(*columns) if known else None


def _incidence(
    scored: Score, ends: Collection[Outcome]
) -> tuple[tuple[str, tuple[tuple[float, Incidence], ...]], ...]:
    """Of recovering, then of every other end."""
    followed = [_followed(trial) for trial in (*scored.counted, *scored.voids)]
    denied = [trial for trial in followed if trial]
    names = [RECOVERED, *(str(end) for end in Outcome if end in ends)]
    return tuple(
        (end, tuple((turns, incidence(denied, end, turns)) for turns in (*WITHIN, inf)))
        for end in names
    )


def _followed(trial: TrialSummary) -> list[Followed]:
    end = "" if trial.outcome is Outcome.VOID else str(trial.outcome)
    return [
        Followed(one.played, end) if one.turns is None else Followed(one.turns, RECOVERED)
        for one in trial.recovery.aftermaths
    ]


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
