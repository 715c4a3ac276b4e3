"""Views on a terminal: the progress of runs, their report, and a gate's verdict.

The report ends with the comparison and the last lines, where the eye rests.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from agenteval.protocols import TrialKey
from agenteval.report.details import detail_tables, summary_tables
from agenteval.report.figures import pace, run_heads
from agenteval.report.gate import UNITS, GateView, Line
from agenteval.report.tables import (
    MARK,
    MISSED,
    SAID,
    Cell,
    Head,
    Table,
    comparison_table,
    missed_lines,
    own_per_100,
    own_share,
    row,
    titled_table,
    void_lines,
)
from agenteval.report.view import View
from agenteval.stats.promotion import GateVerdict
from agenteval.trial.text import as_name, visible

# The progress of runs: a rate comes with its interval when the run has ended, not before.


class _RunProgress:
    """One run's line, and its counts so far by trial; it receives the events of an observer.

    Updates are cheap; sums are computed when drawn.
    """

    def __init__(
        self,
        progress: Progress,
        label: str,
        trials: int,
        mark: str,
    ) -> None:
        self._classes: dict[TrialKey, list[str]] = {}  # of each call, empty if allowed
        self._void_causes: list[str] = []
        self._tokens = 0
        self._progress = progress
        # Last, as it draws the line, which reads the counts.
        self._task = progress.add_task(
            label,
            total=trials,
            mark=mark,
            tally=self,
            visible=trials > 0,
        )

    def wrote(self, trial: TrialKey, tokens: int) -> None:
        del trial
        self._tokens += tokens

    def called(self, trial: TrialKey, *, failure_class: str) -> None:
        self._classes.setdefault(trial, []).append(failure_class)

    def finished(self, trial: TrialKey, *, void: str) -> None:
        """Count a finished trial; forget one that broke, as the report does not count it either."""
        if void:
            self._classes.pop(trial, None)
            self._void_causes.append(void)
        self._progress.advance(self._task)

    def __str__(self) -> str:
        calls = self._calls()
        errors = len(calls) - calls.count("")
        parts = [
            f"{errors} error{'' if errors == 1 else 's'}",
            f"{len(calls)} call{'' if len(calls) == 1 else 's'}",
        ]
        if self._void_causes:
            parts.append(f"{len(self._void_causes)} void")
        return ", ".join(parts)

    def activity(self, seconds: float) -> str:
        """Return the current activity: speed so far, causes of void trials, and errors made."""
        if not self._tokens and not self._classes and not self._void_causes:
            return f"waiting for the first reply, {seconds:.0f} s"
        parts = []
        if seconds:
            parts.append(f"{self._tokens / seconds:,.0f} tokens/s")
        if self._void_causes:
            parts.append(f"void by {_most(tuple(self._void_causes))}")
        errors = [failure_class for failure_class in self._calls() if failure_class]
        if errors:
            parts.append(_most(errors))
        return "; ".join(parts)

    def _calls(self) -> list[str]:
        # The drawing thread reads while the run writes: a copy of the values is taken at once.
        return [call for calls in tuple(self._classes.values()) for call in tuple(calls)]


def _most(names: Sequence[str]) -> str:
    """Return the names with their counts, the most frequent first; the terminal cuts the line."""
    counts = Counter(names).most_common()
    return as_name(", ".join(f"{name} {count}" for name, count in counts))


class _Runs(Progress):
    """The lines of runs, and below them the activity of those that are not finished."""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            if task.visible and not task.finished:
                activity = task.fields["tally"].activity(task.elapsed or 0.0)
                yield Text(
                    f"  {activity}",
                    style="dim",
                    no_wrap=True,
                    overflow="ellipsis",
                )


class Live:
    """The lines of all runs of one command."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def run(
        self,
        label: str,
        *,
        trials: int,
        simulated: bool,
    ) -> _RunProgress:
        """Return a new line for a run of this many trials; hidden if nothing is left to play."""
        self._progress.start()  # not before: a run that cannot begin draws nothing
        mark = f"[bold yellow]{MARK}[/]" if simulated else ""
        return _RunProgress(
            self._progress,
            escape(as_name(label)),
            trials,
            mark,
        )

    def above(self, line: str) -> bool:
        """Print a line above the display, which is then redrawn; False if nothing is drawn.

        Output that bypasses the console would be overwritten.
        """
        console = self._progress.console
        if console.quiet or not console.is_terminal:
            return False
        console.print(Text(as_name(line)))
        return True


@contextmanager
def live(console: Console) -> Iterator[Live]:
    """Draw on this console until the block ends; the last state stays."""
    columns = (
        TextColumn("{task.description}", table_column=Column(no_wrap=True, ratio=1)),
        TextColumn("{task.fields[mark]}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=8),
        MofNCompleteColumn(),
        TextColumn("trials"),
        TextColumn("{task.fields[tally]}", table_column=Column(no_wrap=True), markup=False),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    progress = _Runs(
        *columns,
        console=console,
        refresh_per_second=4,
        expand=True,
    )
    try:
        yield Live(progress)
    finally:
        if progress.tasks:
            with suppress(OSError):  # the terminal is gone, or its log has no room
                progress.stop()


# A report.

SHORT_NOTE = "An error is a tool call that the rules deny. In brackets: the long run, 95 % sure."


def standing_table(view: View) -> Table:
    """Return the table of one line for each model: goals, errors, recovery, speed."""
    rows = []
    for run in view.runs:
        tokens = run.executions.completion_tokens if run.executions else 0
        cells = (
            own_share(run.completed),
            own_per_100(run.errors.total),
            own_share(run.recovery.at_once),
            own_share(run.recovery.at_all),
            pace(run.useful, run.per_second(60 * run.useful)),
            pace(tokens, run.per_second(tokens)),
        )
        rows.append(row(run.label, cells))
    labels = ("goal reached", "errors per 100 calls", "recovered next turn", "recovered ever")
    columns = run_heads(view.runs, *labels, "useful calls/min", "tokens/s")
    return titled_table("standing", columns, rows, basis=view.basis)


_FEW = 5  # lines of a kind on one screen
_MARKED = "bold yellow"


def render(view: View, console: Console, *, brief: bool = False) -> None:
    """Print the view, fitted to the width of the console; `brief` keeps the tables to a screen.

    Print one line for runs without any trial.
    """
    if view.runs and not any(run.trials for run in view.runs):
        models = ", ".join(dict.fromkeys(run.run.model.name for run in view.runs))
        print_lines(console, [f"No trial of {models} was played: there is nothing to show."])
        return
    for table in summary_tables(view) if brief else detail_tables(view):
        print_table(console, table)
    if lines := missed_lines(view, _FEW if brief else None):
        _print_title(console, MISSED, simulated=view.simulated)
        _print_list(console, lines)
    if voids := void_lines(view):
        print_lines(console, ["Void trials", *voids])
    print_table(console, comparison_table(view))
    print_lines(console, view.warnings, style=_MARKED)
    if view.sentences:
        _print_title(console, SAID, simulated=view.simulated)
        _print_list(console, view.sentences)
    if view.runs:
        _print_title(console, "In short", simulated=view.simulated)
        console.print(Text(SHORT_NOTE, style="dim"))
        _print_list(console, view.short)


def print_lines(
    console: Console,
    lines: Sequence[str],
    *,
    style: str = "",
) -> None:
    for line in lines:
        console.print(Text(as_name(line), style=style))
    if lines:
        console.print()


def _print_list(console: Console, lines: Sequence[str]) -> None:
    """Print the lines as a list with dashes and a hanging indent."""
    grid = RichTable.grid(padding=(0, 1))
    for line in lines:
        style = _MARKED if line.startswith(MARK) else ""
        grid.add_row("-", Text(as_name(line), style=style))
    console.print(grid)
    console.print()


def _print_title(console: Console, title: str, *, simulated: bool) -> None:
    text = Text(as_name(title), style="bold")
    if simulated:
        text.append(f"  {MARK}", style=_MARKED)
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
        rows = [replace(row, cells=row.cells[part]) for row in table.rows]
        yield from _fitted(console, replace(table, heads=table.heads[part], rows=tuple(rows)))


def _drawn(table: Table, *, stacked: bool) -> RichTable:
    drawn = RichTable(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        header_style="",
    )
    drawn.add_column(Text(as_name(table.first), style="dim"))
    columns = []
    for at, head in enumerate(table.heads):
        drawn.add_column(_head(head), justify="right")
        cells = [row.cells[at] for row in table.rows]
        columns.append(_aligned(cells, stacked=stacked))
    for line, *texts in zip(table.rows, *columns, strict=True):
        drawn.add_row(
            Text(line.label),
            *texts,
            style="bold" if line.strong else "",
        )
    return drawn


def _head(head: Head) -> Text:
    text = Text(head.label, style="bold")
    if head.simulated:
        text.append(f"\n{MARK}", style=_MARKED)
    if head.counted:
        text.append(f"\n{head.counted}", style="dim")
    return text


def _aligned(cells: Sequence[Cell], *, stacked: bool) -> list[Text]:
    """Return the cells of one column with counts, values and intervals aligned."""
    counts = max(len(cell.count) for cell in cells)
    values = max(len(as_name(cell.value)) for cell in cells)
    intervals = max(len(cell.interval) for cell in cells)
    ns = max(len(cell.n) for cell in cells)
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
        self,
        renderable: RenderableType,
        options: ConsoleOptions | None = None,
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


# A gate's verdict.

_CRITERION = ("criterion", "estimate", "bounds", "limit", "n", "verdict")
_NAME_WIDTH = 17  # characters of a criterion that stay on one line
_GAP = 2  # columns
_STYLES = {
    GateVerdict.PASS: "bold green",
    GateVerdict.FAIL: "bold red",
    GateVerdict.INCONCLUSIVE: "bold yellow",
}


def render_verdict(view: GateView, console: Console) -> None:
    both = as_name(f"{view.candidate.model} over {view.baseline.model}")
    console.print(Text(both, style="bold"))
    console.print(Text(as_name(view.goals_line)))
    runs = f"Runs: {view.candidate.id} over {view.baseline.id}."
    bounds = f"One-sided {view.sure} % bounds. {UNITS} Rules: {view.rules}. {runs}"
    console.print(Text(as_name(bounds), style="dim"))
    if _least_width(view) <= console.width:
        console.print(_verdict_table(view))
    else:
        _print_criteria(console, view)
    needed = [f"{line.name}: {line.needed}." for line in view.lines if line.needed]
    _print_list(console, (*needed, *view.remarks))
    verdict = Text(view.verdict, style=_STYLES[view.verdict])
    if view.simulated:
        verdict.append(f"  {MARK}", style=_MARKED)
    console.print(verdict)
    console.print(Text(as_name(view.meaning)))


def _least_width(view: GateView) -> int:
    """Return the least width of a table that cuts no figure.

    `n` is wrapped between words only, a long name anywhere.
    """
    names, *figures, ns, verdicts = zip(
        _CRITERION,
        *map(_cells, view.lines),
        strict=True,
    )
    words = [word for n in ns for word in n.split()]
    widths = [min(_width(names), _NAME_WIDTH), *map(_width, (*figures, words, verdicts))]
    return sum(widths) + _GAP * (len(widths) - 1)


def _width(texts: Iterable[str]) -> int:
    return max(map(len, texts))


def _print_criteria(console: Console, view: GateView) -> None:
    """Print the criteria one below the other, where the console is too narrow for the table."""
    console.print()
    for line in view.lines:
        name, estimate, bounds, limit, n, verdict = _cells(line)
        console.print(Text.assemble(name, "  ", (verdict, _STYLES[line.verdict])))
        figures = filter(None, (f"{estimate} {bounds}".rstrip(), f"limit {limit}", n))
        console.print(Padding(Text(", ".join(figures)), (0, 0, 0, _GAP)))
    console.print()


def _verdict_table(view: GateView) -> RichTable:
    drawn = RichTable(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        show_edge=False,
        header_style="bold",
    )
    longest = _width(line.name for line in view.lines)
    for head in _CRITERION:
        is_name = head == "criterion"
        wraps = head == "n" or (is_name and longest > _NAME_WIDTH)
        drawn.add_column(
            head,
            justify="right" if head in {"estimate", "bounds", "n"} else "left",
            no_wrap=not wraps,
            overflow="fold",
            min_width=min(longest, _NAME_WIDTH) if is_name else None,
        )
    for line in view.lines:
        *cells, verdict = _cells(line)
        drawn.add_row(*map(Text, cells), Text(verdict, style=_STYLES[line.verdict]))
    return drawn


def _cells(line: Line) -> tuple[str, ...]:
    estimate = f"{line.estimate} times" if line.unit == "times" else line.estimate
    return as_name(line.name), estimate, line.bounds, line.limit, line.n, line.verdict
