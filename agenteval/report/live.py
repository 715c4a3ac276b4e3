"""What is shown while runs go on: trials, the error rate so far, and the time left."""

from types import TracebackType
from typing import Self

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

from agenteval.core.outcome import Outcome
from agenteval.core.run import Run
from agenteval.core.trial import CallRecord, Trial
from agenteval.protocols import TrialKey
from agenteval.report.tables import MARK
from agenteval.stats.rates import clustered

REFRESHES = 4  # a second


class Tally:
    """The calls of one run so far, by trial. Cheap to feed; its rate is made when it is drawn."""

    def __init__(self) -> None:
        self._trials: dict[TrialKey, tuple[int, int]] = {}
        self._voids = 0

    def called(self, key: TrialKey, *, denied: bool) -> None:
        errors, calls = self._trials.get(key, (0, 0))
        self._trials[key] = (errors + denied, calls + 1)

    def void(self, key: TrialKey) -> None:
        """Forget a trial that broke: it will not count in the report either."""
        self._trials.pop(key, None)
        self._voids += 1

    def __str__(self) -> str:
        # The drawing thread reads while the run writes: a copy of the values is taken at once.
        rate = clustered(tuple(self._trials.values()))
        return f"errors {rate.per_100()}{f', {self._voids} void' if self._voids else ''}"


class Live:
    """A line for each run, drawn on stderr while the block lasts; the last state stays."""

    def __init__(self, *, quiet: bool = False, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("trials"),
            _TallyColumn(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=console or Console(stderr=True),
            refresh_per_second=REFRESHES,
            disable=quiet,
        )
        self._task, self._tally = TaskID(0), Tally()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def start(self, run: Run, trials: int) -> None:
        """Begin the line of a run of so many trials; what is told from now on belongs to it."""
        self._tally = Tally()
        mark = f" [bold yellow]{MARK}[/]" if run.model.simulated else ""
        label = f"{run.model.name}{mark}"
        self._task = self._progress.add_task(label, total=trials, tally=self._tally)

    def called(self, key: TrialKey, record: CallRecord) -> None:
        self._tally.called(key, denied=not record.verdict.allowed)

    def finished(self, key: TrialKey, trial: Trial) -> None:
        if trial.outcome is Outcome.VOID:
            self._tally.void(key)
        self._progress.advance(self._task)


class _TallyColumn(ProgressColumn):
    """Errors per 100 calls so far, with interval and n."""

    max_refresh = 1 / REFRESHES

    def render(self, task: Task) -> Text:
        return Text(str(task.fields["tally"]))
