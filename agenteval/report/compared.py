"""What a comparison settles and what it does not, in plain words."""

from dataclasses import dataclass
from itertools import count
from math import comb

from agenteval.report.pairs import COMPLETED, HANDSHAKE, RECOVERED
from agenteval.report.sentences import (
    EQUAL,
    OPEN,
    SURE,
    TOO_FEW,
    count_sentences,
    lead,
    more_needed,
    p_text,
    p_told,
    scoped,
)
from agenteval.report.tables import counted
from agenteval.report.view import Groups, Pair, View
from agenteval.stats.comparison import Difference, holm
from agenteval.stats.score import SETTLED


@dataclass(frozen=True, slots=True)
class Told:
    """How a figure is told: what a model does when it is settled, did when not; what n counts."""

    does: str
    did: str
    of: str


TOLD = {
    COMPLETED: Told("completes more trials", "completed more trials", "trials"),
    HANDSHAKE: Told(
        "completes more handshakes", "completed more handshakes", "trials with a handshake"
    ),
    RECOVERED: Told(
        "recovers more often in the turn after a denial",
        "recovered more often in the turn after a denial",
        "denials",
    ),
}


def compared_sentences(view: View) -> tuple[str, ...]:
    """How many and which kinds; then class by class, endings and recovery; then architectures."""
    by_class = [_classes(pair) for pair in view.pairs if pair.classes]
    groups = _groups(view.groups) if view.groups else []
    return (*count_sentences(view.pairs), *by_class, *_figures(view.pairs), *groups)


def _classes(pair: Pair) -> str:
    settled = [one for one in pair.classes if one.adjusted < SETTLED]
    both, among = f"{pair.first} and {pair.second}", len(pair.classes)
    if not settled:
        least = min(one.adjusted for one in pair.classes)
        return (
            f"{scoped(OPEN, pair.scope)}: whether {both} differ in any single class of errors; the "
            f"smallest p is {p_text(least).removeprefix('= ')} after correction for "
            f"{counted(among, 'class', 'classes')}. One class takes more calls than all together."
        )
    told = [
        f"{one.id} {100 * one.difference.first.value:.2f} against "
        f"{100 * one.difference.second.value:.2f} per 100 calls (p {p_text(one.adjusted)})"
        for one in settled
    ]
    return (
        f"{scoped(SURE, pair.scope)}: {both} differ in {len(settled)} of {among} classes of "
        f"errors, each p after correction for all: {'; '.join(told)}."
    )


def _figures(pairs: tuple[Pair, ...]) -> list[str]:
    """One sentence for each pair and figure; p corrected for all pairs of a figure."""
    found = []
    for label, words in TOLD.items():
        told = [(pair, figure) for pair in pairs if (figure := _figure(pair, label))]
        adjusted = holm([figure.p for _, figure in told])
        for (pair, figure), p in zip(told, adjusted, strict=True):
            found.append(_figure_sentence(pair, figure, words, p, among=len(told)))
    return found


def _figure(pair: Pair, label: str) -> Difference | None:
    found = next(one.difference for one in pair.figures if one.label == label)
    return found if isinstance(found, Difference) else None


def _figure_sentence(
    pair: Pair, figure: Difference, words: Told, adjusted: float, *, among: int
) -> str:
    if not figure.value:
        return (
            f"{scoped(EQUAL, pair.scope)}: neither {pair.first} nor {pair.second} {words.did} "
            f"than the other, {figure.first} each."
        )
    more, less, rates, low, high = (
        (pair.first, pair.second, (figure.first, figure.second), figure.low, figure.high)
        if figure.value > 0
        else (pair.second, pair.first, (figure.second, figure.first), -figure.high, -figure.low)
    )
    same = " in the same worlds" if figure.paired else ""
    return (
        f"{lead(figure.p, adjusted, pair.scope)}: {more} "
        f"{words.does if adjusted < SETTLED else words.did} than {less}, "
        f"{rates[0]} against {rates[1]}{same}: {100 * abs(figure.value):.1f} points more "
        f"[{100 * low:.1f}, {100 * high:.1f}]; {p_told(figure.p, adjusted, among)}."
        f"{more_needed(figure, adjusted, among=among, of=words.of)}"
    )


def _groups(groups: Groups) -> list[str]:
    """About the models that were measured, and about all others of their architectures."""
    return [_these(groups), _others(groups)]


def _these(groups: Groups) -> str:
    gap = groups.these
    first, second = (
        f"the {name} model" if number == 1 else f"the {number} {name} models"
        for name, number in zip((groups.first, groups.second), groups.models, strict=True)
    )
    verb = "make" if gap.p < SETTLED else "made"
    return (
        f"{lead(gap.p, gap.p, '')}: as measured here, {first} {verb} {gap.first.per_100()} "
        f"errors per 100 calls against {gap.second.per_100()} of {second}, {100 * gap.value:+.2f} "
        f"[{100 * gap.low:.1f}, {100 * gap.high:.1f}]; {p_told(gap.p, gap.p, 1)}."
        f"{more_needed(gap, gap.p, among=1, of='calls')}"
    )


def _others(groups: Groups) -> str:
    gap, (one, other) = groups.others, groups.models
    asked = f"{groups.first} and {groups.second} models in general differ in their errors"
    if _smallest(one, other) >= SETTLED:
        enough = next(models for models in count(2) if _smallest(models, models) < SETTLED)
        return (
            f"{TOO_FEW}: whether {asked}. With {one} against {other} no "
            f"p below {_smallest(one, other):.2f} is possible, whatever they do; {enough} of each "
            "could settle it."
        )
    settled = gap.p < SETTLED
    more = "" if settled else " Only more models can settle it."
    return (
        f"{lead(gap.p, gap.p, '')}: {'' if settled else 'whether '}{asked}, each model one draw: "
        f"{100 * gap.value:+.2f} [{100 * gap.low:.1f}, {100 * gap.high:.1f}] per 100 calls; "
        f"{p_told(gap.p, gap.p, 1)}; n={one} and {other} models.{more}"
    )


def _smallest(one: int, other: int) -> float:
    """The smallest p that so many models can give when they are exchanged."""
    return (2 if one == other else 1) / comb(one + other, one)
