"""What is shown while a run goes on: trials, calls, the error rate so far, and the time left."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from rich.console import Console
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

from agenteval.report.tables import MARK
from agenteval.stats.rates import clustered

REFRESHES = 4  # a second


class Tally:
    """The calls of one run so far, by trial. Cheap to feed; its rate is made when it is shown."""

    def __init__(self) -> None:
        self._trials: dict[Hashable, tuple[int, int]] = {}
        self.voids = 0

    def called(self, trial: Hashable, *, denied: bool) -> None:
        errors, calls = self._trials.get(trial, (0, 0))
        self._trials[trial] = (errors + denied, calls + 1)

    def void(self, trial: Hashable) -> None:
        """Forget a trial that broke: it will not count in the report either."""
        self._trials.pop(trial, None)
        self.voids += 1

    def __str__(self) -> str:
        # The refreshing thread reads while the run writes: a copy of the values is taken at once.
        rate = clustered(tuple(self._trials.values()))
        voids = f", {self.voids} void" if self.voids else ""
        return f"errors {rate.per_100()}{voids}"


class RunProgress:
    """One run's line. `trial` is anything that tells one trial of the run from another."""

    def __init__(self, progress: Progress, task: TaskID, tally: Tally) -> None:
        self._progress, self._task, self._tally = progress, task, tally

    def called(self, trial: Hashable, *, denied: bool) -> None:
        self._tally.called(trial, denied=denied)

    def finished(self, trial: Hashable, *, void: bool = False) -> None:
        if void:
            self._tally.void(trial)
        self._progress.advance(self._task)


class Live:
    """The lines of all runs in progress, drawn at most four times a second."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def run(self, label: str, *, trials: int, simulated: bool) -> RunProgress:
        """A new line, for a run of so many trials."""
        tally = Tally()
        mark = f" [bold yellow]{MARK}[/]" if simulated else ""
        task = self._progress.add_task(f"{label}{mark}", total=trials, tally=tally)
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
    with Progress(*columns, console=console, refresh_per_second=REFRESHES) as progress:
        yield Live(progress)


class _TallyColumn(ProgressColumn):
    """Errors per 100 calls so far, with interval and n."""

    max_refresh = 1 / REFRESHES

    def render(self, task: Task) -> Text:
        return Text(str(task.fields["tally"]))
