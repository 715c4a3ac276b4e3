"""The progress display of runs: trials, calls and errors so far, speed, voids, the time left.

A rate comes with its interval when the run has ended.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console, RenderableType
from rich.markup import escape
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
from rich.table import Column
from rich.text import Text

from agenteval.core.plain import as_name
from agenteval.protocols import TrialKey
from agenteval.report.tables import MARK

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
