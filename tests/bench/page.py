"""The page of the benchmarks: tables of medians and ratios, as Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from machine import Machine

ENOUGH = 40  # trials, of which the cost of a call can be told
Samples = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Options:
    repeats: int
    largest: int
    trials: int
    turns: int


@dataclass(frozen=True, slots=True)
class Part:
    """One table, and what must be known to read it."""

    title: str
    told: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    after: str = ""

    def text(self) -> str:
        rule = ["---", *("--:" for _ in self.header[1:])]
        lines = [f"| {' | '.join(row)} |" for row in (self.header, rule, *self.rows)]
        after = f"\n{self.after}\n" if self.after else ""
        return f"## {self.title}\n\n{self.told}\n\n" + "\n".join(lines) + f"\n{after}"


def figure(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ratio(values: Sequence[float], reference: Sequence[float]) -> str:
    """The median of the ratios within each repeat, which load that comes and goes moves least."""
    return f"{median(one / other for one, other in zip(values, reference, strict=True)):.2f}"


def middle(values: Sequence[float]) -> str:
    return figure(median(values))


def page(parts: Sequence[Part], asked: Options, machine: Machine) -> str:
    command = (
        f'make bench FORM="--repeats {asked.repeats} --largest {asked.largest} '
        f'--trials {asked.trials}"'
    )
    opening = [
        "# Benchmarks",
        (
            "Made by `make bench`, which measures all of this again and writes this page. It needs "
            "the package index for the other programs, each in an environment of its own at the "
            "version named here."
        ),
        (
            f"{machine.told()} Medians of {asked.repeats} repeats, of CPU (user and system) unless "
            "said; in a repeat the rows of a table are measured one after another. Ratios are "
            f"medians of the ratios within repeats. These figures: `{command}`."
        ),
    ]
    if machine.busy:
        opening.append(
            "**The machine was busy with other work.** Ratios within a table hold roughly; the "
            "times themselves are longer than on a quiet machine."
        )
    if asked.repeats < 5 or asked.largest < 1_000_000:
        opening.append(
            "This is a short form: `make bench` alone repeats five times and reads runs of up to "
            "1,000,000 calls."
        )
    if asked.trials < ENOUGH:
        opening.append(
            f"What a call of an orchestrator takes is left out: with fewer than {ENOUGH} trials "
            "more, what a start takes by chance is larger than what calls take."
        )
    return "\n\n".join([*opening, *(part.text() for part in parts)]).rstrip() + "\n"
