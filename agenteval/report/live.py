"""What is shown while runs go on: trials, errors and calls so far, and the time left.

A rate comes with its interval when the run has ended.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
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

from agenteval.protocols import TrialKey
from agenteval.report.tables import MARK

REFRESHES = 4  # a second


class Tally:
    """The calls of one run so far, by trial. Cheap to feed; they are added up when it is drawn."""

    def __init__(self) -> None:
        self._trials: dict[TrialKey, tuple[int, int]] = {}
        self._voids = 0

    def called(self, trial: TrialKey, *, denied: bool) -> None:
        errors, calls = self._trials.get(trial, (0, 0))
        self._trials[trial] = (errors + denied, calls + 1)

    def void(self, trial: TrialKey) -> None:
        """Forget a trial that broke: it will not count in the report either."""
        self._trials.pop(trial, None)
        self._voids += 1

    def __str__(self) -> str:
        # The drawing thread reads while the run writes: a copy of the values is taken at once.
        trials = tuple(self._trials.values())
        errors, calls = (sum(one[at] for one in trials) for at in range(2))
        void = f", {self._voids} void" if self._voids else ""
        return f"{errors} error{'' if errors == 1 else 's'}, {calls} calls{void}"


class RunProgress:
    """One run's line; it is told what an observer of the run is told."""

    def __init__(self, progress: Progress, task: TaskID, tally: Tally) -> None:
        self._progress, self._task, self._tally = progress, task, tally

    def called(self, trial: TrialKey, *, denied: bool) -> None:
        self._tally.called(trial, denied=denied)

    def finished(self, trial: TrialKey, *, void: bool) -> None:
        if void:
            self._tally.void(trial)
        self._progress.advance(self._task)


class Live:
    """The lines of all runs of one command."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def run(self, label: str, *, trials: int, simulated: bool) -> RunProgress:
        """A new line, for a run of so many trials; none where nothing is left to play."""
        self._progress.start()  # not before: a run that cannot begin draws nothing
        tally = Tally()
        mark = f"[bold yellow]{MARK}[/]" if simulated else ""
        task = self._progress.add_task(
            escape(label), total=trials, mark=mark, tally=tally, visible=trials > 0
        )
        return RunProgress(self._progress, task, tally)


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
    progress = Progress(*columns, console=console, refresh_per_second=REFRESHES, expand=True)
    try:
        yield Live(progress)
    finally:
        if progress.tasks:
            progress.stop()


class _TallyColumn(ProgressColumn):
    """Errors and calls so far."""

    max_refresh = 1 / REFRESHES

    def render(self, task: Task) -> Text:
        return Text(str(task.fields["tally"]))
