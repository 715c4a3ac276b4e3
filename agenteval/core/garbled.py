"""How many of a run's calls arrived garbled, by kind and by the layer to blame.

Counted are the calls that the models tried to make: those that arrived, and those that were lost on
the way. A call with two garbles of one kind, or two to blame on one layer, counts once.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from agenteval.core.counts import ErrorCounts
from agenteval.core.garble import Garble
from agenteval.core.outcome import Outcome
from agenteval.core.trial import Trial

FAULTY = "faulty"
Place = tuple[int, int | None, int]  # of a call: turn, position, which one of those without any


@dataclass(frozen=True, slots=True)
class Garbled:
    """`kinds`, `blames` and `faulty` count by trial, out of the calls that were tried.

    Blamed, and faulty, is only what is a fault; `repairs` were made in what was sent back.
    """

    kinds: ErrorCounts
    blames: ErrorCounts
    faulty: ErrorCounts
    repairs: int


def garbled(trials: Iterable[Trial], faults: Collection[str]) -> Garbled:
    """`faults` names the kinds that are more than a note."""
    counted = [trial for trial in trials if trial.outcome is not Outcome.VOID]
    kinds, blames, faulty = [], [], []
    for trial in counted:
        seen = list(_places(trial))
        wrong = [(place, one) for place, one in seen if one.kind in faults]
        lost = len({place for place, one in wrong if one.position is None})
        tried = sum(len(turn.calls) for turn in trial.turns) + lost
        kinds.append((tried, Counter(kind for _, kind in {(at, one.kind) for at, one in seen})))
        blames.append((tried, Counter(str(b) for _, b in {(at, one.blame) for at, one in wrong})))
        faulty.append((tried, {FAULTY: len({place for place, _ in wrong})}))
    return Garbled(
        kinds=ErrorCounts.added(kinds),
        blames=ErrorCounts.added(blames),
        faulty=ErrorCounts.added(faulty),
        repairs=sum(len(turn.repairs) for trial in counted for turn in trial.turns),
    )


def _places(trial: Trial) -> Iterator[tuple[Place, Garble]]:
    for at, turn in enumerate(trial.turns):
        for which, one in enumerate(turn.garbles):
            yield (at, one.position, which if one.position is None else 0), one
