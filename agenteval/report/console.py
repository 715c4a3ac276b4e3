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
    ProgressColumn,
    Task,
    TaskID,
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
from agenteval.report.gate import UNITS, GateView, Line, goals_told
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
from agenteval.stats.promotion import GateVerdict, confidence_text
from agenteval.trial.text import as_name, visible

# The progress of runs: a rate comes with its interval when the run has ended, not before.

REFRESHES = 4  # a second


class Tally:
    """The counts of one run so far, by trial. Updates are cheap; sums are computed when drawn."""

    def __init__(self) -> None:
        self._trials: dict[TrialKey, list[str]] = {}  # the class of each call, empty if allowed
        self._voids: list[str] = []
        self._tokens = 0

    def wrote(self, tokens: int) -> None:
        self._tokens += tokens

    def called(self, trial: TrialKey, failure_class: str) -> None:
        self._trials.setdefault(trial, []).append(failure_class)

    def void(self, trial: TrialKey, cause: str) -> None:
        """Forget a trial that broke: it will not count in the report either."""
        self._trials.pop(trial, None)
        self._voids.append(cause)

    def __str__(self) -> str:
        calls = self._calls()
        errors = len(calls) - calls.count("")
        void = f", {len(self._voids)} void" if self._voids else ""
        counts = (
            f"{n} {of}{'' if n == 1 else 's'}"
            for n, of in ((errors, "error"), (len(calls), "call"))
        )
        return f"{', '.join(counts)}{void}"

    def activity(self, seconds: float) -> str:
        """Return the current activity: speed so far, causes of void trials, and errors made."""
        if not self._tokens and not self._trials and not self._voids:
            return f"waiting for the first reply, {seconds:.0f} s"
        parts = [f"{self._tokens / seconds:,.0f} tokens/s"] if seconds else []
        void, errors = Counter(list(self._voids)), Counter(filter(None, self._calls()))
        if void:
            parts.append(f"void by {_most(void)}")
        return "; ".join([*parts, *([_most(errors)] if errors else [])])

    def _calls(self) -> list[str]:
        # The drawing thread reads while the run writes: a copy of the values is taken at once.
        return [call for calls in tuple(self._trials.values()) for call in tuple(calls)]


def _most(counts: Counter[str]) -> str:
    """Return the counts as text, the most frequent first; the terminal cuts the line."""
    return as_name(", ".join(f"{name} {count}" for name, count in counts.most_common()))


class _RunProgress:
    """One run's line; it receives the events of an observer of the run."""

    def __init__(self, progress: Progress, task: TaskID, tally: Tally) -> None:
        self._progress, self._task, self._tally = progress, task, tally

    def wrote(self, trial: TrialKey, tokens: int) -> None:
        del trial
        self._tally.wrote(tokens)

    def called(self, trial: TrialKey, *, failure_class: str) -> None:
        self._tally.called(trial, failure_class)

    def finished(self, trial: TrialKey, *, void: str) -> None:
        if void:
            self._tally.void(trial, void)
        self._progress.advance(self._task)


class _Runs(Progress):
    """The lines of runs, and below them the activity of those that are not finished."""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            if task.visible and not task.finished:
                activity = f"  {task.fields['tally'].activity(task.elapsed or 0.0)}"
                yield Text(activity, style="dim", no_wrap=True, overflow="ellipsis")


class Live:
    """The lines of all runs of one command."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def run(self, label: str, *, trials: int, simulated: bool) -> _RunProgress:
        """Return a new line for a run of this many trials; hidden if nothing is left to play."""
        self._progress.start()  # not before: a run that cannot begin draws nothing
        tally = Tally()
        mark = f"[bold yellow]{MARK}[/]" if simulated else ""
        task = self._progress.add_task(
            escape(as_name(label)), total=trials, mark=mark, tally=tally, visible=trials > 0
        )
        return _RunProgress(self._progress, task, tally)

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
        _TallyColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    progress = _Runs(*columns, console=console, refresh_per_second=REFRESHES, expand=True)
    try:
        yield Live(progress)
    finally:
        if progress.tasks:
            with suppress(OSError):  # the terminal is gone, or its log has no room
                progress.stop()


class _TallyColumn(ProgressColumn):
    """The column of errors and calls so far."""

    max_refresh = 1 / REFRESHES

    def render(self, task: Task) -> Text:
        return Text(str(task.fields["tally"]))


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
        _print_list(console, view.short)


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
    for line, *cells in zip(table.rows, *columns, strict=True):
        drawn.add_row(Text(line.label), *cells, style="bold" if line.strong else "")
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


# A gate's verdict.

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
