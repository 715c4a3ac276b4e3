"""`agenteval.run`, `run_async`, `rescore`, `load` and `ingest`: runs played, judged, read.

Each returns a `RunResult`: what was counted of the run, with tables of rows. `ingest`, whose runs
come from logs of other programs, returns an `Ingestion`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, Unpack, get_args

from agenteval.classes.catalogue import failure_classes
from agenteval.config.files import DEFAULT_STORE
from agenteval.config.trust import bind
from agenteval.errors import UsageError
from agenteval.logs.ingest import check_any, take_in
from agenteval.logs.workers import Taken, Wanted
from agenteval.protocols import TrialKey
from agenteval.stats.rates import Layout, Rate, share_of
from agenteval.store.sql import SqlStore
from agenteval.trial.run import Options
from agenteval.trial.summary import TrialSummary
from agenteval.workflows.evaluate import session_of
from agenteval.workflows.gate import declared, run_summary
from agenteval.workflows.rescore import rescore as judged_again
from agenteval.workflows.runs import rate_errors
from agenteval.workflows.stages import USUAL, Quiet, plan_of
from agenteval.workflows.views import check_usable, played

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
    estimand = declared(about)
    summary = run_summary(text_of("run", run), text_of("store", store))
    counted = summary.counted
    layout = Layout(estimand, [trial.scenario for trial in counted])
    rates = rate_errors(counted, estimand)
    return RunResult(
        id=summary.id,
        model=summary.model,
        simulated=summary.simulated,
        complete=summary.complete,
        errors=rates.total,
        completed=share_of([trial.completed for trial in counted], layout),
        void=len(summary.trials) - len(counted),
        classes=_classes(rates.by_class),
        trials=Table(map(_trial, summary.trials)),
        store=store,
        about=estimand.value,
    )


def _classes(rates: Mapping[str, Rate]) -> Table[ClassRow]:
    """Return the rows of the classes that came up, in the order of the taxonomy."""
    known = [entry.id for entry in failure_classes() if entry.id in rates]
    names = [*known, *sorted(rates.keys() - known)]
    return Table(ClassRow(name, *per_100(rates[name])) for name in names)


def per_100(rate: Rate) -> tuple[int, int, float, float, float]:
    """Return count and n, and the rate with its interval per 100: as rows have them."""
    return rate.count, rate.n, 100 * rate.value, 100 * rate.low, 100 * rate.high


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


Place = Literal["start", "end", "both"]
_PLACES = get_args(Place)
_LEAST = {"trials": 1, "seed": 0, "concurrency": 1, "max_turns": 1}
_TEXTS = ("arm", "prompt_variant", "context", "sandbox", "store")


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run after each trial. `calls` and `denied` leave out void trials."""

    model: str
    trials: int
    finished: int
    void: int
    calls: int
    denied: int


class Settings(TypedDict, total=False):
    """The options of `agenteval run`, with the same defaults; see `agenteval run --help`."""

    trials: int
    seed: int
    concurrency: int
    base_url: str | Sequence[str] | None
    max_turns: int | None
    arm: str
    prompt_variant: str | None
    rules: Place
    context: str
    sandbox: str | None
    prefork: bool
    store: str
    on_progress: Callable[[Progress], None] | None


_DEFAULTS: Mapping[str, Any] = {
    **{name: value for name, value in USUAL.items() if name != "targets"},
    "concurrency": int(USUAL["concurrency"]),
    "store": DEFAULT_STORE,
    "on_progress": None,
}


def run(model: str, scenarios: Sequence[str] = (), **settings: Unpack[Settings]) -> RunResult:
    """Play scenarios (default: all) with a served model; every trial is in the store when it ends.

    This also works where a loop is running already, as in a notebook: it then waits for a thread of
    its own. Raises UsageError for what the caller must fix, such as a server that does not answer.
    """
    playing = run_async(model, scenarios, **settings)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(playing)
    return _in_a_thread(playing)


def rescore(
    run: RunResult | str = "last",
    *,
    allowlist: str | None = None,
    own: bool = False,
    store: str | None = None,
) -> RunResult:
    """Judge a stored run's calls again, without a model: by today's taxonomy or another allow list.

    `own` takes those that the run was played under, as they are today. Both judgements are kept,
    the new one is in force. Raises UsageError, also where the allow list that judged the run has
    changed and neither is given.
    """
    (name,), where = named([run], store)
    if allowlist is not None:
        text_of("allowlist", allowlist)
    return load(
        judged_again(name, where, allowlist=allowlist, own=own).run_id,
        store=where,
    )


@dataclass(frozen=True, slots=True)
class IngestedRun:
    """A run with sessions out of logs: how many `ingest` added, and how many had grown since.

    `calls` are those of the added and grown sessions, by the outcome that the log records.
    """

    id: str
    model: str
    format: str
    added: int
    grown: int
    unchanged: int
    calls: int


@dataclass(frozen=True, slots=True)
class SkippedPart:
    """A part of a file that was not read: where it is, and the reason."""

    path: str
    at: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ingestion:
    """The runs and files that `ingest` read; `unchanged` of the files had been read before."""

    runs: Table[IngestedRun]
    files: int
    unchanged: int
    skipped: Table[SkippedPart]


def ingest(  # noqa: PLR0913 -- as `agenteval ingest` has them
    format_name: str,
    paths: str | Path | Sequence[str | Path] = (),
    *,
    store: str = DEFAULT_STORE,
    allowlist: str | None = None,
    since: str | None = None,
    until: str | None = None,
    model: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    redact: bool = False,
    workers: int | None = None,
) -> Ingestion:
    """Take in logs of other programs: their sessions become trials of runs, each of them once.

    Without `paths` the program's own place is read; `format_name` may then be `auto`. Without an
    `allowlist` an error is what the log records as one. `since` and `until` are days in UTC. Raises
    UsageError, also where no log is found.
    """
    places = [paths] if isinstance(paths, str | Path) else paths
    names = _texts("paths", [str(place) if isinstance(place, Path) else place for place in places])
    intake = take_in(
        text_of("format_name", format_name),
        names,
        text_of("store", store),
        allowlist=allowlist,
        filters=Wanted(since, until, model, agent, project),
        redact=redact,
        workers=workers,
    )
    check_any(intake, format_name, names)
    return Ingestion(
        runs=Table(map(_ingested, intake.runs.values())),
        files=intake.files,
        unchanged=intake.unchanged,
        skipped=Table(SkippedPart(*part) for part in intake.skipped),
    )


def _ingested(run: Taken) -> IngestedRun:
    sessions = run.sessions
    return IngestedRun(
        id=run.run,
        model=run.model,
        format=run.format,
        added=sessions["added"],
        grown=sessions["grown"],
        unchanged=sessions["unchanged"],
        calls=run.recorded.total(),
    )


async def run_async(
    model: str,
    scenarios: Sequence[str] = (),
    **settings: Unpack[Settings],
) -> RunResult:
    """Do what `run` does, to be awaited. If cancelled, it closes what it opened; trials stay."""
    chosen = _checked(settings)
    # An argument is the user's own word that the usual key may be sent there.
    bind(joined_url := _joined(chosen["base_url"]) or "")
    options = {
        **{name: chosen[name] for name in USUAL.keys() & chosen.keys()},
        "targets": _texts("scenarios", scenarios),
        "model": [text_of("model", model)],
        "base_url": joined_url or None,
        "concurrency": str(chosen["concurrency"]),
    }
    plan = plan_of(Options(**options), chosen["store"])
    with closing(SqlStore(chosen["store"])) as store:
        session = session_of(plan, store, progress=_Callback(chosen["on_progress"]))
        await session.play()
        # One model at one level is one run.
        (run_id,) = session.started
        check_usable(played([run_id], chosen["store"]))
    return load(run_id, store=chosen["store"])


def _checked(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the defaults. Raises TypeError for an unknown name, UsageError for a bad value."""
    if unknown := settings.keys() - _DEFAULTS.keys():
        known = ", ".join(_DEFAULTS)
        raise TypeError(f"run() has no setting {', '.join(sorted(unknown))}; there are {known}")
    chosen = {**_DEFAULTS, **settings}
    if chosen["rules"] not in _PLACES:
        raise UsageError(f"rules={chosen['rules']!r}: one of {', '.join(_PLACES)}")
    callback = chosen["on_progress"]
    if callback is not None and not callable(callback):
        message = f"on_progress={callback!r:.200}: must be a function of one Progress, or None"
        raise UsageError(message)
    for name, value in chosen.items():
        # A default may be None, which no check would take.
        if value is not _DEFAULTS[name]:
            _check(name, value)
    return chosen


def _check(name: str, value: Any) -> None:
    if name in _TEXTS:
        text_of(name, value)
    if name not in _LEAST:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{name}={value!r}: a whole number, at least {_LEAST[name]}")
    if value < _LEAST[name]:
        raise UsageError(f"{name}={value}: at least {_LEAST[name]}")


def _texts(name: str, value: Any) -> list[str]:
    """Return one text or several as a list. Raises UsageError for anything else."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable):
        raise UsageError(f"{name}={value!r:.200}: must be a str, or several")
    return [text_of(name, text) for text in value]


def _joined(urls: Any) -> str | None:
    """The servers as the option of the command has them. Raises UsageError."""
    if urls is None:
        return None
    if not urls:
        raise UsageError(f"base_url={urls!r}: no server; None asks the one that is configured")
    return " ".join(_texts("base_url", urls))


class _Callback(Quiet):
    """Reports the progress of a run to a callback; it is the run's Progress and Observer."""

    def __init__(self, tell: Callable[[Progress], None] | None) -> None:
        self._tell = tell
        self._model, self._trials, self._voids = "", 0, 0
        self._calls: dict[TrialKey, list[bool]] = {}
        self._finished = 0

    def run(self, model: str, *, trials: int, simulated: bool) -> "_Callback":
        del simulated
        self._model, self._trials = model, trials
        return self

    def called(self, trial: TrialKey, *, failure_class: str) -> None:
        self._calls.setdefault(trial, []).append(bool(failure_class))

    def finished(self, trial: TrialKey, *, void: str) -> None:
        self._finished += 1
        self._voids += bool(void)
        if void:
            self._calls.pop(trial, None)
        if self._tell:
            calls = [denied for made in self._calls.values() for denied in made]
            figures = self._trials, self._finished, self._voids, len(calls), sum(calls)
            self._tell(Progress(self._model, *figures))


def _in_a_thread(playing: Coroutine[Any, Any, RunResult]) -> RunResult:
    """Ctrl-C ends the run there in good order before it goes on here."""
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def cancellable() -> RunResult:
        if task := asyncio.current_task():
            running.append((asyncio.get_running_loop(), task))
        return await playing

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(asyncio.run, cancellable())
        try:
            return done.result()
        except KeyboardInterrupt:
            for loop, task in running:
                loop.call_soon_threadsafe(task.cancel)
            raise
