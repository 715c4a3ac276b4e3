"""What is shown while runs go on: trials, the error rate so far, and the time left."""

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
from rich.text import Text

from agenteval.protocols import TrialKey
from agenteval.report.tables import MARK
from agenteval.stats.rates import clustered

REFRESHES = 4  # a second


class Tally:
    """The calls of one run so far, by trial. Cheap to feed; its rate is made when it is drawn."""

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
        rate = clustered(tuple(self._trials.values()))
        return f"errors {rate.per_100()}{f', {self._voids} void' if self._voids else ''}"


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
        """A new line, for a run of so many trials."""
        self._progress.start()  # not before: a run that cannot begin draws nothing
        tally = Tally()
        mark = f" [bold yellow]{MARK}[/]" if simulated else ""
        task = self._progress.add_task(f"{escape(label)}{mark}", total=trials, tally=tally)
        return RunProgress(self._progress, task, tally)


@contextmanager
def live(console: Console) -> Iterator[Live]:
    """Draw on this console until the block ends; the last state stays."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TextColumn("trials"),
        _TallyColumn(),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    progress = Progress(*columns, console=console, refresh_per_second=REFRESHES)
    try:
        yield Live(progress)
    finally:
        if progress.tasks:
            progress.stop()


class _TallyColumn(ProgressColumn):
    """Errors per 100 calls so far, with interval and n."""

    max_refresh = 1 / REFRESHES

    def render(self, task: Task) -> Text:
        return Text(str(task.fields["tally"]))
