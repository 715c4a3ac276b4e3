"""Views on a terminal: runs, the comparison last, where the eye rests; and a gate's verdict."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from agenteval.core.plain import as_name, visible
from agenteval.report.details import detail_tables, summary_tables
from agenteval.report.gate_view import UNITS, GateView, Line, goals_told
from agenteval.report.goals import missed_lines
from agenteval.report.last_lines import SHORT_NOTE, in_short
from agenteval.report.tables import MARK, MISSED, SAID, Cell, Head, Table, comparison_table
from agenteval.report.view import View
from agenteval.report.voids import void_lines
from agenteval.stats.alpha_spending import confidence_text
from agenteval.stats.promotion import GateVerdict

FEW = 5  # lines of a kind on one screen
NAMED = 17  # characters of a criterion that stay on one line
CRITERION = ("criterion", "estimate", "bounds", "limit", "n", "verdict")
BETWEEN = 2  # columns


def render(view: View, console: Console, *, brief: bool = False) -> None:
    """Print the view, fitted to the width of the console; `brief` keeps the tables to a screen.

    Print one line for runs without any trial.
    """
    if view.runs and not any(one.score.trials or one.score.voids for one in view.runs):
        models = ", ".join(dict.fromkeys(one.run.model.name for one in view.runs))
        print_lines(console, [f"No trial of {models} was played: there is nothing to show."])
        return
    for table in summary_tables(view) if brief else detail_tables(view):
        print_table(console, table)
    if lines := missed_lines(view, FEW if brief else None):
        _print_title(console, MISSED, simulated=view.simulated)
        _print_list(console, lines)
    if voids := void_lines(view):
        print_lines(console, ["Void trials", *voids])
    print_table(console, comparison_table(view))
    print_lines(console, view.warnings, style="bold yellow")
    if view.sentences:
        _print_title(console, SAID, simulated=view.simulated)
        _print_list(console, view.sentences)
    if view.runs:
        _print_title(console, "In short", simulated=view.simulated)
        console.print(Text(SHORT_NOTE, style="dim"))
        _print_list(console, in_short(view))


def print_lines(console: Console, lines: Sequence[str], *, style: str = "") -> None:
    for line in lines:
        console.print(Text(as_name(line), style=style))
    if lines:
        console.print()


def _print_list(console: Console, lines: Sequence[str]) -> None:
    """Print the lines as a list with dashes and a hanging indent."""
    grid = RichTable.grid(padding=(0, 1))
    for line in lines:
        grid.add_row("-", Text(as_name(line), style="bold yellow" if line.startswith(MARK) else ""))
    console.print(grid)
    console.print()


def _print_title(console: Console, title: str, *, simulated: bool) -> None:
    text = Text(as_name(title), style="bold")
    if simulated:
        text.append(f"  {MARK}", style="bold yellow")
    console.print(text)


def print_table(console: Console, table: Table) -> None:
    _print_title(console, table.title, simulated=table.simulated)
    console.print(Text(as_name(table.note), style="dim"))
    for drawn in _fitted(console, table):
        console.print(drawn)
        console.print()


def _fitted(console: Console, table: Table) -> Iterator[RichTable]:
    """Yield the table with cells on one line; else above their intervals; else in two tables."""
    unbounded = console.options.update(max_width=10_000)  # else a table measures as what it gets
    for stacked in (False, True):
        drawn = _drawn(table, stacked=stacked)
        if console.measure(drawn, options=unbounded).maximum <= console.width:
            yield drawn
            return
    if len(table.heads) == 1:
        yield _drawn(table, stacked=True)
        return
    half = len(table.heads) // 2
    for part in (slice(half), slice(half, None)):
        yield from _fitted(console, _columns(table, part))


def _columns(table: Table, part: slice) -> Table:
    rows = tuple(replace(row, cells=row.cells[part]) for row in table.rows)
    return replace(table, heads=table.heads[part], rows=rows)


def _drawn(table: Table, *, stacked: bool) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="")
    drawn.add_column(Text(as_name(table.first), style="dim"))
    for head in table.heads:
        drawn.add_column(_head(head), justify="right")
    columns = [
        _aligned([row.cells[at] for row in table.rows], stacked=stacked)
        for at in range(len(table.heads))
    ]
    for row, *cells in zip(table.rows, *columns, strict=True):
        drawn.add_row(Text(row.label), *cells, style="bold" if row.strong else "")
    return drawn


def _head(head: Head) -> Text:
    text = Text(head.label, style="bold")
    if head.simulated:
        text.append(f"\n{MARK}", style="bold yellow")
    return text.append(f"\n{head.counted}", style="dim") if head.counted else text


def _aligned(cells: Sequence[Cell], *, stacked: bool) -> list[Text]:
    """Return the cells of one column with counts, values and intervals aligned."""
    counts, values, intervals, ns = (
        max(len(part) for part in column)
        for column in zip(
            *((one.count, as_name(one.value), one.interval, one.n) for one in cells), strict=True
        )
    )
    texts = []
    for cell in cells:
        front = f"{cell.count:>{counts}}  {as_name(cell.value):>{values}}".strip()
        back = f"{cell.interval:>{intervals}}  {cell.n:>{ns}}".rstrip()
        if stacked:
            shown = f"{front}\n{back}" if back.strip() else front
        else:
            shown = f"{front}  {back:<{intervals + 2 + ns if ns else intervals}}"
        texts.append(Text(shown, style="dim" if cell.zero else ""))
    return texts


class Terminal(Console):
    """A console that replaces characters that move the cursor: any output may contain them.

    They come with names of models and servers. A closed pipe raises BrokenPipeError, for the
    caller to handle.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            hides = not segment.control and not segment.text.isprintable()
            yield segment._replace(text=visible(segment.text)) if hides else segment

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def print_named(rows: Iterable[tuple[str, str, str]]) -> None:
    """Print rows of a name, which is never wrapped, a title, and a dimmed line below the title."""
    table = RichTable.grid("name", "what it is", padding=(0, 2))
    table.columns[0].no_wrap = True
    for name, title, less in rows:
        told = Text.assemble(as_name(title), "\n", (as_name(less), "dim"))
        table.add_row(Text(as_name(name)), told)
    Terminal().print(table)


_STYLES = {
    GateVerdict.PASS: "bold green",
    GateVerdict.FAIL: "bold red",
    GateVerdict.INCONCLUSIVE: "bold yellow",
}


def render_verdict(view: GateView, console: Console) -> None:
    both = as_name(f"{view.candidate.model} over {view.baseline.model}")
    console.print(Text(both, style="bold"))
    console.print(Text(as_name(goals_told(view))))
    sure = confidence_text(view.judgement.level)
    runs = f"Runs: {view.candidate.id} over {view.baseline.id}."
    bounds = f"One-sided {sure} % bounds. {UNITS} Rules: {view.rules}. {runs}"
    console.print(Text(as_name(bounds), style="dim"))
    if _least_width(view) <= console.width:
        console.print(_verdict_table(view))
    else:
        _print_criteria(console, view)
    needed = [f"{line.name}: {line.needed}." for line in view.lines if line.needed]
    _print_list(console, (*needed, *view.remarks))
    verdict = Text(view.verdict, style=_STYLES[view.verdict])
    if view.simulated:
        verdict.append(f"  {MARK}", style="bold yellow")
    console.print(verdict)
    console.print(Text(as_name(view.meaning)))


def _least_width(view: GateView) -> int:
    """Return the least width of a table that cuts no figure.

    `n` is wrapped between words only, a long name anywhere.
    """
    name, *figures, n, verdict = zip(CRITERION, *map(_cells, view.lines), strict=True)
    words = [word for one in n for word in one.split()]
    columns = [*figures, words, verdict]
    widths = [min(max(map(len, name)), NAMED), *(max(map(len, one)) for one in columns)]
    return sum(widths) + BETWEEN * (len(widths) - 1)


def _print_criteria(console: Console, view: GateView) -> None:
    """Print the criteria one below the other, where the console is too narrow for the table."""
    console.print()
    for line in view.lines:
        name, estimate, bounds, limit, n, verdict = _cells(line)
        console.print(Text.assemble(name, "  ", (verdict, _STYLES[line.verdict])))
        told = (f"{estimate} {bounds}".rstrip(), f"limit {limit}", n)
        console.print(Padding(Text(", ".join(filter(None, told))), (0, 0, 0, BETWEEN)))
    console.print()


def _verdict_table(view: GateView) -> RichTable:
    drawn = RichTable(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        show_edge=False,
        header_style="bold",
    )
    named = min(longest := max(len(line.name) for line in view.lines), NAMED)
    wrapping = {"n", "criterion"} if longest > NAMED else {"n"}
    for head in CRITERION:
        right, wraps = head in {"estimate", "bounds", "n"}, head in wrapping
        drawn.add_column(
            head,
            justify="right" if right else "left",
            no_wrap=not wraps,
            overflow="fold",
            min_width=named if head == "criterion" else None,
        )
    for line in view.lines:
        *cells, verdict = _cells(line)
        drawn.add_row(*map(Text, cells), Text(verdict, style=_STYLES[line.verdict]))
    return drawn


def _cells(line: Line) -> tuple[str, ...]:
    estimate = f"{line.estimate} times" if line.unit == "times" else line.estimate
    return as_name(line.name), estimate, line.bounds, line.limit, line.n, line.verdict
