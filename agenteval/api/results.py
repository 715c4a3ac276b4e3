"""`agenteval.load`: a stored run, as it was counted; a frozen dataclass and tables of rows."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar

from agenteval.config.project_files import DEFAULT_STORE
from agenteval.core.summary import RunSummary, TrialSummary
from agenteval.errors import UsageError
from agenteval.stats.estimand import Layout
from agenteval.stats.rates import Rate, clustered, share_of
from agenteval.taxonomy.catalogue import failure_classes
from agenteval.workflows.gating import declared, run_summary

Row = TypeVar("Row")
About = Literal["these", "like-these"]


class Table(tuple[Row, ...]):
    """Rows that are frozen dataclasses of plain values, all of one kind.

    `pandas.DataFrame(table)` and `polars.DataFrame(table)` take it as it is; `records` and
    `columns` are for everything else.
    """

    __slots__ = ()

    def records(self) -> list[dict[str, Any]]:
        """A dict for each row."""
        return [asdict(row) for row in self]  # type: ignore[call-overload]

    def columns(self) -> dict[str, list[Any]]:
        """A list for each field; without any rows it is empty."""
        names = [field.name for field in fields(self[0])] if self else []  # type: ignore[arg-type]
        return {name: [getattr(row, name) for row in self] for name in names}


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One trial. `errors` are its denied calls; `cause` says what made a void trial void."""

    scenario: str
    number: int
    seed: int
    outcome: str
    completed: bool
    calls: int
    errors: int
    turns: int
    reason: str
    cause: str


@dataclass(frozen=True, slots=True)
class ClassRow:
    """One failure class: errors per 100 of all calls of the run, with a 95 % interval."""

    failure_class: str
    errors: int
    calls: int
    per_100: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run as it was counted. Void trials are in `trials` and in no rate.

    `errors` is the rate of denied calls, `completed` that of trials that reached their goal; both
    have `count`, `n`, `value`, `low` and `high`.
    """

    id: str
    model: str
    simulated: bool
    complete: bool
    errors: Rate
    completed: Rate
    void: int
    classes: Table[ClassRow]
    trials: Table[TrialRow]
    store: str = field(repr=False)  # whose URL may hold a password
    about: About = "these"


def load(run: str = "last", *, store: str = DEFAULT_STORE, about: About | None = None) -> RunResult:
    """Return a stored run by its id, the beginning of its id, or `last`. Raises UsageError.

    `about` is the estimand of its intervals, by default the one that gate.toml declares.
    """
    meant = declared(about)
    summary = run_summary(text_of("run", run), text_of("store", store))
    counted = summary.counted
    layout = Layout(meant, [trial.scenario for trial in counted])
    return RunResult(
        id=summary.id,
        model=summary.model,
        simulated=summary.simulated,
        complete=summary.complete,
        errors=clustered([trial.all_errors for trial in counted], layout),
        completed=share_of([trial.completed for trial in counted], layout),
        void=len(summary.trials) - len(counted),
        classes=_classes(summary, layout),
        trials=Table(map(_trial, summary.trials)),
        store=store,
        about=layout.estimand.value,
    )


def _classes(summary: RunSummary, layout: Layout) -> Table[ClassRow]:
    """Return the rows of the classes that came up, in the order of the taxonomy."""
    observed = {name for trial in summary.counted for name in trial.errors}
    class_ids = [one.id for one in failure_classes()]
    names = [name for name in class_ids if name in observed] + sorted(
        observed.difference(class_ids)
    )
    return Table(_class(name, summary.counted, layout) for name in names)


def _class(name: str, trials: Sequence[TrialSummary], layout: Layout) -> ClassRow:
    rate = clustered([trial.errors_of(name) for trial in trials], layout)
    return ClassRow(
        name, rate.count, rate.n, *(100 * part for part in (rate.value, rate.low, rate.high))
    )


def _trial(trial: TrialSummary) -> TrialRow:
    return TrialRow(
        scenario=trial.scenario,
        number=trial.number,
        seed=trial.seed,
        outcome=str(trial.outcome),
        completed=trial.completed,
        calls=trial.calls,
        errors=trial.all_errors[0],
        turns=trial.turns,
        reason=trial.reason,
        cause=str(trial.cause or ""),
    )


def named(runs: Sequence[RunResult | str], store: str | None) -> tuple[list[str], str]:
    """Return the ids of runs, and the store: the given one, that of results, or the usual one.

    Raises UsageError for anything that is neither a result nor a text.
    """
    stores = [run.store for run in runs if isinstance(run, RunResult)]
    return (
        [run.id if isinstance(run, RunResult) else text_of("run", run) for run in runs],
        next(iter(stores), DEFAULT_STORE) if store is None else text_of("store", store),
    )


def text_of(name: str, value: Any) -> str:
    """Raises UsageError for what is no text."""
    if not isinstance(value, str):
        raise UsageError(f"{name}={value!r:.200}: must be a str")
    return value
