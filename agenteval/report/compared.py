"""The sentences of a comparison: which differences are significant, and which are not."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from agenteval.report.pairs import COMPLETED, HANDSHAKE, RECOVERED
from agenteval.report.sentences import (
    EQUAL,
    OPEN,
    SURE,
    after,
    count_sentences,
    lead,
    more_needed,
    new_run,
    p_text,
    p_told,
    scoped,
)
from agenteval.report.tables import counted
from agenteval.report.view import Groups, Pair, View
from agenteval.stats.comparison import Difference, ModelsDifference, holm
from agenteval.stats.rates import Rate
from agenteval.stats.score import SETTLED


@dataclass(frozen=True, slots=True)
class _Words:
    """The words for a figure: the verb if it is significant, the verb if not, and the unit of n."""

    does: str
    did: str
    of: str


_WORDS = {
    COMPLETED: _Words("completes more trials", "completed more trials", "trials"),
    HANDSHAKE: _Words(
        "completes more handshakes", "completed more handshakes", "trials with a handshake"
    ),
    RECOVERED: _Words(
        "recovers more often in the turn after a denial",
        "recovered more often in the turn after a denial",
        "denials",
    ),
}


Claim = tuple[int, str]  # of which pair, and what; -1 is of no pair
NUMBER, KINDS, ARCHITECTURES = "number", "kinds", "architectures"
FEWEST = 5  # errors of a class: fewer settle nothing, whoever made them


def as_one_family(view: View) -> View:
    """Adjust the p of all claims together, to bound the family-wise error rate of a report.

    A claim is anything that a sentence of this view can report as Settled.
    """
    claims = dict(_claims(view))
    adjusted = dict(zip(claims, holm(list(claims.values())), strict=True))
    family_size = len(claims)
    pairs = tuple(_adjusted(pair, at, adjusted, family_size) for at, pair in enumerate(view.pairs))
    groups = view.groups and replace(
        view.groups, adjusted=adjusted.get((-1, ARCHITECTURES), 1.0), family_size=family_size
    )
    return replace(view, pairs=pairs, groups=groups)


def _claims(view: View) -> Iterator[tuple[Claim, float]]:
    for at, pair in enumerate(view.pairs):
        if not pair.silent:
            yield (at, NUMBER), pair.difference.p
        if pair.kinds:
            yield (at, KINDS), pair.kinds.p
        for one in pair.classes if view.compared else ():
            if one.difference.first.count + one.difference.second.count >= FEWEST:
                yield (at, f"class {one.id}"), one.difference.p
        for label in _WORDS if view.compared else (COMPLETED,):
            if figure := _figure(pair, label):
                yield (at, label), figure.p
    if view.groups and view.groups.others:
        yield (-1, ARCHITECTURES), view.groups.others.p


def _adjusted(pair: Pair, at: int, adjusted: Mapping[Claim, float], family_size: int) -> Pair:
    return replace(
        pair,
        adjusted=adjusted.get((at, NUMBER), 1.0),
        kinds_adjusted=adjusted.get((at, KINDS), 1.0),
        classes=tuple(
            replace(one, adjusted=adjusted.get((at, f"class {one.id}"), 1.0))
            for one in pair.classes
        ),
        figures=tuple(replace(one, adjusted=adjusted.get((at, one.label))) for one in pair.figures),
        family_size=family_size,
    )


def compared_sentences(view: View) -> tuple[str, ...]:
    """Return the sentences: number and kinds of errors, classes, outcomes, then architectures."""
    by_class = [_classes(pair) for pair in view.pairs if pair.classes]
    groups = _groups(view.groups) if view.groups else []
    lines = (*count_sentences(view.pairs), *by_class, *_figures(view.pairs), *groups)
    return (*lines, *new_run(view.pairs))


def _classes(pair: Pair) -> str:
    settled = [one for one in pair.classes if one.adjusted < SETTLED]
    both, class_count = (
        f"{pair.first} and {pair.second}",
        counted(len(pair.classes), "class", "classes"),
    )
    if not settled:
        least = min(one.adjusted for one in pair.classes)
        return (
            f"{scoped(OPEN, pair.scope)}: whether {both} differ in any single one of {class_count} "
            f"of errors; the smallest p is {p_text(least).removeprefix('= ')} "
            f"{after(pair.family_size)}. One class takes more calls than all together."
        )
    settled_lines = [
        f"{one.id} {100 * one.difference.first.value:.2f} against "
        f"{100 * one.difference.second.value:.2f} per 100 calls (p {p_text(one.adjusted)})"
        for one in settled
    ]
    return (
        f"{scoped(SURE, pair.scope)}: {both} differ in {len(settled)} of {class_count} of errors, "
        f"each p {after(pair.family_size)}: {'; '.join(settled_lines)}."
    )


def _figures(pairs: tuple[Pair, ...]) -> list[str]:
    """Return one sentence for each figure and pair."""
    return [
        _figure_sentence(pair, figure.difference, words, figure.adjusted)
        for label, words in _WORDS.items()
        for pair in pairs
        for figure in pair.figures
        if figure.label == label
        and isinstance(figure.difference, Difference)
        and figure.adjusted is not None
    ]


def _figure(pair: Pair, label: str) -> Difference | None:
    difference = next(one.difference for one in pair.figures if one.label == label)
    return difference if isinstance(difference, Difference) else None


def _figure_sentence(pair: Pair, figure: Difference, words: _Words, adjusted: float) -> str:
    if not figure.value:
        return (
            f"{scoped(EQUAL, pair.scope)}: neither {pair.first} nor {pair.second} {words.did} "
            f"than the other, {figure.first} each."
            f"{more_needed(figure, pair, adjusted, of=words.of)}"
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
        f"[{100 * low:.1f}, {100 * high:.1f}]; {p_told(figure.p, adjusted, pair.family_size)}."
        f"{more_needed(figure, pair, adjusted, of=words.of)}"
    )


def _groups(groups: Groups) -> list[str]:
    """Return sentences on each model, on the means of models, and on models in general."""
    means = [fmean(rate.value for _, rate in of) for of in groups.models]
    lines = [
        f"{name} models make {', '.join(f'{_per_100(rate)} ({model})' for model, rate in of)}, "
        f"{100 * mean:.2f} on average of {counted(len(of), 'model')} weighted alike"
        for name, of, mean in zip((groups.first, groups.second), groups.models, means, strict=True)
    ]
    rates = f"Errors per 100 calls by architecture: {'; '.join(lines)}."
    n_first, n_second = map(len, groups.models)
    if groups.others is None:
        few = (
            f"This is about these models only: with {n_first} against {n_second} nothing is said "
            f"of {groups.first} and {groups.second} models."
        )
        return [f"{rates} {few}"]
    return [rates, _others(groups, groups.others)]


def _others(groups: Groups, gap: ModelsDifference) -> str:
    n_first, n_second = map(len, groups.models)
    claim = f"{groups.first} and {groups.second} models in general differ in their errors"
    settled = groups.adjusted < SETTLED
    more = "" if settled else " Only more models can settle it."
    return (
        f"{lead(gap.p, groups.adjusted, '')}: {'' if settled else 'whether '}{claim}, each model "
        f"one draw: {100 * gap.value:+.2f} [{100 * gap.low:.1f}, {100 * gap.high:.1f}] per 100 "
        f"calls; {p_told(gap.p, groups.adjusted, groups.family_size)}; n={n_first} and {n_second} "
        f"models.{more}"
    )


def _per_100(rate: Rate) -> str:
    return f"{100 * rate.value:.2f} {rate.percent}"
