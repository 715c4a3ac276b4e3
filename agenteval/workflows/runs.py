"""The contents of a store: listed, chosen by name, labelled, moved to another store and removed.

The last section has rates over time: the trials of a store, played and out of logs, by day, week,
model or version.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from agenteval.errors import AgentevalError, UsageError
from agenteval.stats.incidence import Change, Point, changes, points
from agenteval.stats.rates import Estimand, Layout, Rate, clustered
from agenteval.store import sql
from agenteval.store.location import SCHEMA, Location, Query, decoded, passed_over, resolve_name
from agenteval.store.sql import opened
from agenteval.store.summaries import (
    Listed,
    ListedTable,
    begun_since,
    known_runs,
    listed,
    listed_tables,
    tables_known,
)
from agenteval.trial.call import Outcome
from agenteval.trial.text import Name, as_name, without_log_commands
from agenteval.trial.trial import Cluster, ErrorCounts


class Listing(NamedTuple):
    """The contents of a store, the newest first."""

    store_name: str
    runs: Sequence[Listed] = ()
    imported: Sequence[ListedTable] = ()


def listing(
    store: str,
    *,
    or_none: bool = False,
    model: str | None = None,
    label: str | None = None,
    since: str | None = None,
) -> Listing:
    """The runs of these models, with this label, of this day in UTC and later.

    Raises UsageError; for a store that is not there, unless that is no surprise (`or_none`).
    """
    where, is_wanted = Location(store), begun_since(since)
    if or_none and not where.is_there:
        return Listing(str(where))
    with opened(store) as query:
        runs, tables = listed(query), listed_tables(query)
    if label is not None:
        runs = [run for run in runs if label in run.labels]
    runs = [run for run in runs if (model or "") in run.model and is_wanted(run.started)]
    return Listing(str(where), runs, tables)


class _CountedTrial(Protocol):
    """A trial that is not void, with its calls and its errors by class."""

    @property
    def scenario(self) -> str: ...
    @property
    def calls(self) -> int: ...
    @property
    def errors(self) -> Mapping[str, int]: ...


class _ErrorRates(NamedTuple):
    """The errors of a run, of all its calls: all of them, and those of each class."""

    total: Rate
    by_class: Mapping[str, Rate]


def rate_errors(
    trials: Sequence[_CountedTrial],
    about: Estimand = Estimand.THESE,
) -> _ErrorRates:
    """Return the error rates of these trials, with intervals for this estimand."""
    counts = ErrorCounts.added([(trial.calls, trial.errors) for trial in trials])
    scenarios = [trial.scenario for trial in trials]
    by_class = {}
    for name in counts.by_class:
        by_class[name] = _rate(counts.clusters(name), scenarios, about)
    return _ErrorRates(_rate(counts.total(), scenarios, about), by_class)


def _rate(
    clusters: Sequence[Cluster],
    scenarios: Sequence[str],
    about: Estimand = Estimand.THESE,
) -> Rate:
    return clustered(clusters, Layout(about, scenarios))


def errors_of(run: Listed) -> Rate:
    """Return all errors of a listed run; n is 0 if it was not judged."""
    return _rate(run.errors, run.played) if run.judged else Rate(0, 0)


def reached(run: Listed) -> Rate:
    """The trials whose goal was reached, of those that are not void."""
    outcomes = Counter(run.outcomes)
    observed = run.counted - outcomes[Outcome.NOT_OBSERVABLE]
    return Rate(outcomes[Outcome.COMPLETED], observed)


class _ChosenRuns(NamedTuple):
    """Runs by their ids, and a line for each word that passed newer runs over."""

    ids: Sequence[str]
    notes: Sequence[str]


def chosen(words: Sequence[str], store: str) -> _ChosenRuns:
    """The runs that are meant. Raises UsageError."""
    with opened(store) as query:
        runs, tables = known_runs(query), tables_known(query)
    ids = [resolve_name(word, runs, tables, where=str(Location(store))) for word in words]
    notes = []
    for word, run_id in zip(words, ids, strict=True):
        if newer := passed_over(word, runs):
            more = f" and {len(newer) - 1} more" if len(newer) > 1 else ""
            notes.append(f"{word} is {run_id}, not {newer[0]}{more}: name it to mean it")
    return _ChosenRuns(ids, notes)


def tag(
    word: str,
    labels: Sequence[str],
    note: str | None,
    store: str,
    *,
    off: bool,
) -> str:
    """Label a run, or take labels `off` it; its id. Raises UsageError."""
    for label in labels:
        if as_name(label) != label:
            raise UsageError(f"{label!r}: no label: it is one line, of characters that are seen")
        if not label.strip() or label == "article" or label.startswith("last"):
            raise UsageError(f"{label!r}: no label: it means something else among runs")
        if not off:
            _check_free(label, store)
    if not labels and note is None:
        raise UsageError(f"{word}: give a label, or --note TEXT")
    (run,) = chosen([word], store).ids
    with closing(sql.SqlStore(store)) as there:
        there.tag(run, labels, note, off=off)
    return run


def _check_free(label: str, store: str) -> None:
    """Raises UsageError for a label that names a model or begins the id of a run."""
    with opened(store) as query:
        runs, tables = known_runs(query), tables_known(query)
    if label in {run.model for run in runs}:
        raise UsageError(f"{label!r}: no label: it is the name of a model of this store")
    for run_id in [*(run.id for run in runs), *tables]:
        if run_id.startswith(label):
            raise UsageError(f"{label!r}: no label: the id of a run begins so, {run_id}")


def removed(ids: Sequence[str], store: str) -> None:
    """Raises UsageError for a run that is being played."""
    with closing(sql.SqlStore(store)) as there, ExitStack() as claims:
        for run in ids:
            claims.enter_context(there.claimed(run))
        from agenteval.store import upkeep  # noqa: PLC0415 -- start-up: an ORM

        upkeep.remove(there, ids)


def faults(store: str) -> list[str]:
    """Return the faults of a store, a line each. Raises UsageError if there is no such store."""
    from agenteval.store import orm, upkeep  # noqa: PLC0415 -- start-up: an ORM

    with orm.connected_to_read(store) as connection:
        return list(upkeep.faults(connection))


def upgraded(store: str) -> str:
    """Upgrade a store to today's schema after a copy; what was done, in a line.

    Raises UsageError for one that is not there, and HostError where it cannot be copied.
    """
    where = Location(store)
    where.check_there()
    from agenteval.store import orm  # noqa: PLC0415 -- start-up: an ORM

    upgrade = orm.upgraded(where)
    if upgrade is None:
        return f"--store {where}: has schema {SCHEMA}, which is today's; nothing is changed"
    return upgrade.describe(str(where))


def vacuumed(store: str) -> tuple[int, int]:
    """The bytes of a store of one file before it was compacted, and then. Raises UsageError."""
    from agenteval.store import upkeep  # noqa: PLC0415 -- start-up: an ORM

    Location(store).check_there()
    before = upkeep.size(store)
    with closing(sql.SqlStore(store)) as there:
        upkeep.compact(there)
    return before, upkeep.size(store)


def exported(
    ids: Sequence[str],
    file: Path,
    store: str,
) -> None:
    """Write runs into a new store of their own. Raises UsageError for a file that is there."""
    if file.exists():
        raise UsageError(f"--file {file}: is there already. Name a new file, or move that one away")
    try:
        # An empty store is made first: its errors are about the new file, those below about both.
        with _named(f"--file {file}", file):
            sql.SqlStore(str(file)).close()
        _copy(store, str(file), ids)
    except AgentevalError:  # half a store would stand in the way of the next attempt
        for end in ("", "-shm", "-wal"):
            Path(f"{file}{end}").unlink(missing_ok=True)
        raise


def imported(file: Path, store: str) -> Sequence[str]:
    """Take all runs of another store into this one; their ids. Raises UsageError."""
    with _named(str(file), file):
        ids = every_id(str(file))
    _copy(str(file), store, ids)
    return ids


@contextmanager
def _named(where: str, file: Path) -> Iterator[None]:
    """Rename the store in errors: they name the file `where`, and not the option for stores."""
    try:
        yield
    except UsageError as error:
        raise UsageError(str(error).replace(f"--store {file}", where, 1)) from error


def every_id(store: str) -> Sequence[str]:
    """Return the ids of its runs and imported counts, newest first. Raises UsageError."""
    with opened(store) as query:
        return [*(run.id for run in known_runs(query)), *tables_known(query)]


def _copy(
    source: str,
    target: str,
    ids: Sequence[str],
) -> None:
    with closing(sql.SqlStore(target)) as written:
        from agenteval.store import upkeep  # noqa: PLC0415 -- start-up: an ORM

        upkeep.copy(source, written, ids)


# Rates over time.

By = Literal["day", "week", "model", "version"]
_Place = tuple[str, str, str, int]  # model, format, session, part
_TRIALS = """SELECT run.model, run.simulated, run.started, run.card, run.source, run.policies,
    session.session, session.part, session.began, session.version, trial.calls, trial.errors
    FROM trial JOIN run ON run.id = trial.run_id LEFT JOIN session ON session.trial_id = trial.id
    WHERE NOT trial.replaced AND trial.outcome NOT IN ('', 'void') ORDER BY trial.id DESC"""


@dataclass(frozen=True, slots=True)
class Trend:
    """The errors of each model over time, by name: two models in a week are no change of one."""

    by: By
    series: Mapping[str, "Series"]
    left_out: int = 0  # trials whose errors no log shows, or whose time is not known
    judged_since: int = 0  # other judgements of sessions that were read again, left out too


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one model in their order, and the changes that are settled; none by model."""

    points: Sequence[Point]
    changes: Sequence[Change]


def trend(
    store: str,
    by: By,
    *,
    model: str = "",
    simulated: bool = False,
) -> Trend:
    """Return the trend of the models with `model` in their names.

    Raises UsageError for a store that is not there.
    """
    clusters_of: dict[str, dict[str, list[Cluster]]] = {}
    left_out = judged_since = 0
    with opened(store) as query:
        for trial in _labelled(query, by, model, simulated=simulated):
            if trial.is_judged_since:
                judged_since += 1
            elif trial.label:
                of_model = clusters_of.setdefault(trial.model, {})
                of_model.setdefault(trial.label, []).append(trial.cluster)
            else:
                left_out += 1
    # Changes are corrected for all boundaries that are looked at, whatever the model.
    boundaries = sum(len(clusters) - 1 for clusters in clusters_of.values())
    series_of = {name: _series(by, clusters_of[name], boundaries) for name in sorted(clusters_of)}
    return Trend(by, series_of, left_out, judged_since)


def _series(
    by: By,
    clusters: Mapping[str, Sequence[Cluster]],
    boundaries: int,
) -> Series:
    # The newest trial comes first, and a series has them as they were played.
    ordered = {label: clusters[label][::-1] for label in sorted(clusters, key=_key)}
    if by == "model":
        return Series(points(ordered), ())
    return Series(points(ordered), changes(ordered, others=boundaries - len(ordered) + 1))


@dataclass(slots=True)
class _Labelled:
    """A trial with its label, empty where none is known."""

    model: str
    label: str
    cluster: Cluster
    is_judged_since: bool = False


def _labelled(
    query: Query,
    by: By,
    model: str,
    *,
    simulated: bool,
) -> Sequence[_Labelled]:
    """Return the trials of these models, the newest first.

    Of a session that was judged again, all judgements but one are marked. That is the one with
    most calls, then the last: a session that grew keeps its trial.
    """
    trials: list[_Labelled] = []
    in_force: dict[_Place, _Labelled] = {}
    for name, is_simulated, started, card, source, policies, *rest in query(_TRIALS):
        if model not in name or bool(is_simulated) != simulated:
            continue
        session, part, began, version, calls, errors = rest
        log = decoded(source)
        day = _day(began, "" if log else started)
        label = {
            "day": day,
            "week": _week(day),
            "model": name,
            "version": version or decoded(card).get("server_version", ""),
        }[by]
        # A played run is always judged; one out of logs if they record denials or a list was given.
        is_judged = bool(not log or log["judged"] or decoded(policies))
        cluster = (sum(decoded(errors).values()), calls)
        trial = _Labelled(name, label if is_judged else "", cluster)
        trials.append(trial)
        if session and is_judged:
            _keep_longest(trial, (name, log.get("format", ""), session, part), in_force)
    return trials


def _keep_longest(
    trial: _Labelled,
    place: _Place,
    in_force: dict[_Place, _Labelled],
) -> None:
    rival = in_force.setdefault(place, trial)
    if rival is trial:
        return
    if trial.cluster[1] > rival.cluster[1]:
        in_force[place] = trial
        rival.is_judged_since = True
    else:
        trial.is_judged_since = True


def _day(began: float | None, started: str) -> str:
    """Return the day in UTC; empty if the session has no time, or a damaged one."""
    try:
        if began is None:
            at = datetime.fromisoformat(started)  # an empty text is a ValueError, too
        else:
            at = datetime.fromtimestamp(began, UTC)
        return at.astimezone(UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _week(day: str) -> str:
    """Return the week of a day as in ISO 8601: 2026-W48."""
    if not day:
        return ""
    year, week, _ = date.fromisoformat(day).isocalendar()
    return f"{year}-W{week:02}"


def _key(label: str) -> tuple[tuple[bool, int, str], ...]:
    """Return what a label is sorted by: 1.10 comes behind 1.9."""
    parts = label.replace("-", ".").split(".")
    return tuple((part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts)


_GAUGES: Mapping[str, tuple[str, Callable[[Rate], float]]] = {
    "errors_per_100_calls": ("Errors per 100 tool calls.", lambda rate: 100 * rate.value),
    "errors_per_100_calls_low": ("Lower end of its 95 % interval.", lambda rate: 100 * rate.low),
    "errors_per_100_calls_high": ("Upper end of its 95 % interval.", lambda rate: 100 * rate.high),
    "calls": ("Tool calls that were counted.", lambda rate: rate.n),
}


def openmetrics(trend: Trend) -> str:
    """Return the points as OpenMetrics, for a textfile collector of Prometheus."""
    lines = []
    models = dict(zip(trend.series, _distinct(trend.series), strict=True))
    for name, (help_text, value) in _GAUGES.items():
        lines += [f"# TYPE agenteval_{name} gauge", f"# HELP agenteval_{name} {help_text}"]
        for model, series in trend.series.items():
            of = f'model="{_escaped(models[model])}"'
            labels = _distinct(point.label for point in series.points)
            for point, by in zip(series.points, labels, strict=True):
                label = of if trend.by == "model" else f'{of},{trend.by}="{_escaped(by)}"'
                if point.rate.n:
                    lines.append(f"agenteval_{name}{{{label}}} {value(point.rate):.9g}")
    return "\n".join([*lines, "# EOF", ""])


def _distinct(texts: Iterable[str]) -> Iterator[Name]:
    """Name each, with a number where the name came before: no series may stand there twice."""
    used: set[Name] = set()
    for text in texts:
        name = label = as_name(without_log_commands(text))
        numbers = count(2)
        while label in used:
            label = as_name(f"{name} ({next(numbers)})")
        used.add(label)
        yield label


def _escaped(label: Name) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"')
