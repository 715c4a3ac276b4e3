"""What a comparison settles and what it does not, in plain words."""

from math import comb

from agenteval.report.figures import COMPLETED, HANDSHAKE, RECOVERED
from agenteval.report.sentences import count_sentences, p_text, standing
from agenteval.report.view import Groups, Pair, View
from agenteval.stats.comparison import Difference, MeanDifference
from agenteval.stats.multiple import holm
from agenteval.stats.score import SETTLED

TOLD = {
    COMPLETED: "completes more trials",
    HANDSHAKE: "completes more handshakes",
    RECOVERED: "recovers more often in the turn after a denial",
}


def compared_sentences(view: View) -> tuple[str, ...]:
    """How many and which kinds; then class by class, endings and recovery; then architectures."""
    by_class = [_classes(pair) for pair in view.pairs if pair.classes]
    groups = _groups(view.groups) if view.groups else []
    return (*count_sentences(view.pairs), *by_class, *_figures(view.pairs), *groups)


def _classes(pair: Pair) -> str:
    settled = [one for one in pair.classes if one.adjusted < SETTLED]
    among = f"of {len(pair.classes)} classes (Benjamini-Hochberg)"
    if not settled:
        return f"{pair.first} and {pair.second}: no class is settled by itself, {among}."
    told = [
        f"{one.id} {100 * one.difference.first.value:.2f} against "
        f"{100 * one.difference.second.value:.2f} per 100 calls (p {p_text(one.adjusted)})"
        for one in settled
    ]
    return f"{pair.first} and {pair.second}: settled class by class, {among}: {'; '.join(told)}."


def _figures(pairs: tuple[Pair, ...]) -> list[str]:
    """One sentence for each pair and figure; p corrected for all pairs of a figure."""
    found = []
    for label, verb in TOLD.items():
        told = [(pair, figure) for pair in pairs if (figure := _figure(pair, label))]
        adjusted = holm([figure.p for _, figure in told])
        for (pair, figure), p in zip(told, adjusted, strict=True):
            found.append(_figure_sentence(pair, figure, verb, p, among=len(told)))
    return found


def _figure(pair: Pair, label: str) -> Difference | MeanDifference | None:
    return next(one.difference for one in pair.figures if one.label == label)


def _figure_sentence(
    pair: Pair, figure: Difference | MeanDifference, verb: str, adjusted: float, *, among: int
) -> str:
    if not figure.value:
        return f"{pair.first} and {pair.second}: neither {verb} than the other: {figure.first}."
    more, less, rates, low, high = (
        (pair.first, pair.second, (figure.first, figure.second), figure.low, figure.high)
        if figure.value > 0
        else (pair.second, pair.first, (figure.second, figure.first), -figure.high, -figure.low)
    )
    same = ", in the same worlds" if figure.paired else ""
    return (
        f"{more} {verb} than {less}: {standing(figure.p, adjusted, among)}{same}. "
        f"{rates[0]} against {rates[1]}, difference "
        f"{100 * abs(figure.value):.1f} points [{100 * low:.1f}, {100 * high:.1f}]."
    )


def _groups(groups: Groups) -> list[str]:
    these, others = groups.these, groups.others
    names = [
        f"{count} {name} model{'' if count == 1 else 's'}"
        for name, count in zip((groups.first, groups.second), groups.models, strict=True)
    ]
    these_said = (
        f"{names[0]} against {names[1]}, these models as they are: "
        f"{standing(these.p, these.p, 1)}. {these.first.per_100()} against "
        f"{these.second.per_100()} per 100 calls, difference {100 * these.value:.2f} "
        f"[{100 * these.low:.1f}, {100 * these.high:.1f}]."
    )
    one, other = groups.models
    smallest = (2 if one == other else 1) / comb(one + other, one)
    limit = (
        f"; with so few models no difference could be: the smallest possible p is {smallest:.2f}"
        if smallest >= SETTLED
        else ""
    )
    others_said = (
        f"{groups.first} against {groups.second} in general, each model one draw: "
        f"{standing(others.p, others.p, 1)}{limit}. The difference lies in "
        f"[{100 * others.low:.1f}, {100 * others.high:.1f}] per 100 calls."
    )
    return [these_said, others_said]
