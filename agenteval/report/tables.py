"""The tables of a view, as cells: console, Markdown and HTML each render them in their own way."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agenteval.core.cards import NOT_OBSERVABLE
from agenteval.core.outcome import Outcome
from agenteval.core.plain import Name, as_name
from agenteval.report.view import Errors, RunView, View
from agenteval.stats.rates import Rate, Repeated

MARK = "SIMULATED"
SAID = "What can be said"
MISSED = "Goals that were missed"
NOTE = "Errors, errors per 100 tool calls and 95 % interval."
# Measured on messages of sources that nothing was made for: docs/report.md.
READ_FROM_WORDS = (
    "claimed-done is read from last words: of ten claims two are missed and count as stalled or "
    "gave-up, and of ten that are found one is none. Completion is asked of the world."
)
BY_WORDS = (Outcome.CLAIMED_DONE, Outcome.GAVE_UP, Outcome.STALLED)


@dataclass(frozen=True, slots=True)
class Cell:
    """One number: its count, value and interval, and its n if the head does not have it."""

    value: str
    count: str = ""
    interval: str = ""
    n: str = ""
    zero: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """The head of one column: the model, and below it the counted amounts, one a line."""

    label: Name
    counted: str = ""
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    label: Name
    cells: tuple[Cell, ...]
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    note: str
    heads: tuple[Head, ...]
    rows: tuple[Row, ...]
    first: str = ""  # the head of the label column

    @property
    def simulated(self) -> bool:
        return any(head.simulated for head in self.heads)


def comparison_table(view: View) -> Table:
    """Return the first table: how often the goal was reached, and errors per 100 calls by class.

    Classes without an error of any model share one row, unless the rows are those of a published
    table.
    """
    heads = tuple(
        head(
            model.label,
            _lines(f"n={counted(model.total.n, 'call')}", _trials(model.trials), model.arm),
            simulated=model.simulated,
        )
        for model in view.models
    )
    rows = {row.id: [model.rows[at] for model in view.models] for at, row in enumerate(view.rows)}
    impossible = {name for model in view.models for name in model.cannot_occur}
    unseen = [] if view.folded else [name for name in rows if not any(r.count for r in rows[name])]
    unseen = [name for name in unseen if name not in impossible]
    rows_shown = [(name, rates) for name, rates in rows.items() if name not in unseen]
    if unseen:
        label = f"{len(unseen)} classes not seen, each" if len(unseen) > 1 else "1 class not seen"
        rows_shown.append((label, rows[unseen[0]]))
    lines = [*_goals(view), *(_of_class(view, name, rates) for name, rates in rows_shown)]
    total = row("total", (per_100(model.total) for model in view.models), strong=True)
    lines += [total, *_with_voids(view)]
    return Table(view.title, f"{NOTE} {view.basis}", heads, tuple(lines), "failure class")


def _of_class(view: View, name: str, rates: Sequence[Rate]) -> Row:
    """Return a class's row; one that a server prevents has no rate, unless it occurred anyway."""
    is_impossible = [name in model.cannot_occur for model in view.models]
    return row(
        name,
        (
            Cell(CANNOT_OCCUR) if impossible and not rate.count else per_100(rate)
            for impossible, rate in zip(is_impossible, rates, strict=True)
        ),
    )


CANNOT_OCCUR = "cannot occur"
WITH_VOIDS = ("with the calls of void trials", "and each void an error more")


def _with_voids(view: View) -> list[Row]:
    """Return the totals with void trials in two ways, if there are more than a few.

    The other rows exclude void trials.
    """
    if not any(model.with_voids for model in view.models):
        return []
    return [
        row(label, (_other_total(model, at) for model in view.models))
        for at, label in enumerate(WITH_VOIDS)
    ]


def _other_total(model: Errors, at: int) -> Cell:
    return per_100(model.with_voids[at], own_n=True) if model.with_voids else Cell("-")


def _goals(view: View) -> list[Row]:
    """Return the row of goals; none if no model has a run, as a published table has no goals."""
    reached = {
        run.label: observable_cell(run, share(dict(run.outcomes)[Outcome.COMPLETED], own_n=True))
        for run in view.runs
    }
    cells = tuple(reached.get(model.label, Cell("-")) for model in view.models)
    return [row("goal reached, of trials", cells, strong=True)] if reached else []


def observable_cell(view: RunView, cell: Cell) -> Cell:
    """Return the cell, or "not observable" if it is empty and the run is from logs."""
    return Cell(NOT_OBSERVABLE) if view.run.source and cell == NOTHING else cell


NOTHING = Cell("-")


def _trials(number: int | None) -> str:
    return "unknown trials" if number is None else counted(number, "trial")


def per_100(rate: Rate, *, own_n: bool = False) -> Cell:
    return _cell(rate, f"{100 * rate.value:.2f}", own_n=own_n)


def share(rate: Rate, *, own_n: bool = False) -> Cell:
    """Return a share in percent, with its own n if the column's head counts something else."""
    return _cell(rate, f"{100 * rate.value:.1f}%", own_n=own_n)


def _cell(rate: Rate, value: str, *, own_n: bool) -> Cell:
    if not rate.n:
        return NOTHING
    n = f"n={rate.n}" if own_n else ""
    return Cell(value, str(rate.count), rate.percent, n, zero=not rate.count)


def repeated(chance: Repeated | None) -> Cell:
    """Return a chance in percent; it has no count of its own."""
    if chance is None:
        return Cell("-")
    interval = f"[{100 * chance.low:.1f}, {100 * chance.high:.1f}]"
    return Cell(f"{100 * chance.value:.1f}%", "", interval, f"n={chance.n}")


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with its noun: "1 trial", "2 trials"."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def void_of(voids: int, played: int) -> str:
    """Return void trials of those played: "1 of 5 trials is void", "all 3 trials are void"."""
    are = "is void" if voids == 1 else "are void"
    if voids == played:
        return f"the one trial {are}" if voids == 1 else f"all {voids} trials {are}"
    return f"{voids} of {played} trials {are}"


def plain(number: float | None) -> Cell:
    return Cell("-" if number is None else f"{number:g}")


def heads(
    views: Sequence[RunView], counted: Callable[[RunView], str] = lambda _: ""
) -> tuple[Head, ...]:
    return tuple(
        head(
            view.label,
            _lines(counted(view), view.errors.arm),
            simulated=view.errors.simulated,
        )
        for view in views
    )


def _lines(*texts: str) -> str:
    """Join texts with line ends, also in place of commas: a column must stay narrow."""
    return "\n".join(map(as_name, filter(None, texts))).replace(", ", "\n")


def head(label: str, counted: str = "", *, simulated: bool = False) -> Head:
    return Head(as_name(label), counted, simulated)


def row(label: str, cells: Iterable[Cell], *, strong: bool = False) -> Row:
    return Row(as_name(label), tuple(cells), strong)
