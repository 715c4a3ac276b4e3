"""Comparison of one model on two serving stacks: their differences, and the likely cause."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from agenteval.core.malformed import Blame
from agenteval.core.run import Run
from agenteval.core.tally import Tallies
from agenteval.report.arrivals import FAULTY, Arrived, arrived
from agenteval.report.provenance import model_facts
from agenteval.report.view import Pair, View
from agenteval.stats.comparison import Difference, compare, holm
from agenteval.stats.score import SETTLED
from agenteval.taxonomy.malformed_kinds import FAULTS

SEED: Final = 7  # of the exchanges that a p comes from
# What of a serving may make calls arrive otherwise, and what may make a model write otherwise.
ARRIVAL: Final = (
    "server",
    "tool parser",
    "reasoning parser",
    "tool calls",
    "tool choice",
    "replies",
)
WRITING: Final = ("quantization", "KV cache", "chat template", "sampling", "reasoning", "context")
SAYS: Final = "server says: "


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure of both stacks; `arrival` if it is about the form in which calls arrived."""

    name: str
    difference: Difference
    adjusted: float
    arrival: bool

    @property
    def line(self) -> str:
        first, second = self.difference.first, self.difference.second
        gap = f"{100 * self.difference.value:+.2f}"
        low, high = 100 * self.difference.low, 100 * self.difference.high
        return (
            f"{self.name}: {100 * first.value:.2f} and {100 * second.value:.2f} per 100 calls, "
            f"{gap} [{low:.2f}, {high:.2f}], n={first.n} and {second.n}, p {self.adjusted:.3g}"
        )


def stack_lines(runs: tuple[Run, Run], view: View) -> Iterator[str]:
    """Yield the lines of a comparison of two runs of one model; `view` has the comparison."""
    facts = [dict(model_facts(run.model)) for run in runs]
    (pair,) = view.pairs or (None,)
    labels = [run.label for run in view.runs] or [run.id for run in runs]
    yield f"{runs[0].id} and {runs[1].id}: {' and '.join(labels)}"
    yield from _parameters(runs)
    unlike = [name for name in _names(facts) if len({one.get(name) for one in facts}) > 1]
    yield from _differing(facts, unlike)
    if pair is None or pair.silent:
        yield "One of the two made no call where both were played: nothing to compare."
        return
    measured = list(_measured(runs, pair))
    yield "What came out otherwise, p after Holm for all of these lines:"
    yield from (f"  {one.line}" for one in measured)
    yield from _pointing(measured, unlike)


def _names(facts: Sequence[dict[str, str]]) -> Sequence[str]:
    return list(dict.fromkeys(name for one in facts for name in one))


def _parameters(runs: tuple[Run, Run]) -> Iterator[str]:
    first, second = (run.model.served_id for run in runs)
    if first != second:
        yield (
            f"They are called {first} and {second}: whether the weights are the same, "
            "you must know."
        )


def _differing(facts: Sequence[dict[str, str]], unlike: Sequence[str]) -> Iterator[str]:
    if unlike:
        yield "They are known to differ in:"
        for name in unlike:
            yield f"  {name}: {' | '.join(one.get(name, 'not told') for one in facts)}"
    else:
        yield "They are not known to differ in anything."
    alike = [name for name in _names(facts) if name not in unlike]
    yield f"Alike: {', '.join(alike) or 'nothing that is known'}."
    known = {name.removeprefix(SAYS) for name in _names(facts)}
    if silent := [name for name in (*ARRIVAL, *WRITING) if name not in known]:
        yield f"Told by neither: {', '.join(silent)}."


def _measured(runs: tuple[Run, Run], pair: Pair) -> Iterator[Measured]:
    """Yield rates of malformed calls, by layer to blame, and of failure classes.

    Their p are adjusted as one family.
    """
    arrivals = [arrived(Tallies.of(run.trials), FAULTS) for run in runs]
    differences: list[tuple[str, Difference, bool]] = []
    if all(any(one.faulty.calls) for one in arrivals):
        differences += [
            (name, differences, True) for name, differences in _arrivals(arrivals[0], arrivals[1])
        ]
    differences += [("errors, of any class", pair.difference, False)]
    differences += [(one.id, one.difference, False) for one in pair.classes]
    adjusted = holm([difference.p for _, difference, _ in differences])
    for (name, difference, arrival), p in zip(differences, adjusted, strict=True):
        yield Measured(name, difference, p, arrival)


def _arrivals(first: Arrived, second: Arrived) -> Iterator[tuple[str, Difference]]:
    faulty = (each.faulty.clusters(FAULTY) for each in (first, second))
    yield "calls that came broken", compare(*faulty, seed=SEED)
    for blame in Blame:
        columns = [each.blames.clusters(blame) for each in (first, second)]
        if any(count for column in columns for count, _ in column):
            yield f"broken by {blame}", compare(*columns, seed=SEED)


def _pointing(measured: Sequence[Measured], unlike: Sequence[str]) -> Iterator[str]:
    settled = [one for one in measured if one.adjusted < SETTLED]
    if not settled:
        yield "Where it points: nowhere yet, for no difference is settled."
        return
    came = [one.name for one in settled if one.arrival and one.name != f"broken by {Blame.MODEL}"]
    wrote = [one.name for one in settled if one.name not in came]
    for names, layer, facts in (
        (came, "the way of a reply through the server: its parser, template or version", ARRIVAL),
        (wrote, "what the model was made to write: weights as served, prompt, sampling", WRITING),
    ):
        if names:
            differ = [one for one in unlike if one.removeprefix(SAYS) in facts]
            known = f"of that is known to differ: {', '.join(differ)}" if differ else (
                "nothing of that is known to differ: look at what was not told"
            )  # fmt: skip
            yield f"Where it points ({', '.join(names)}): {layer}; {known}."
