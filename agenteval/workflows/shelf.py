"""The contents of a store: listed, chosen by name, labelled, moved to another store and removed."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from agenteval import store as parts
from agenteval.core.outcome import Outcome
from agenteval.core.plain import as_name
from agenteval.errors import AgentevalError, UsageError
from agenteval.stats.estimand import Layout
from agenteval.stats.rates import Rate, clustered
from agenteval.store.listed import Listed, ListedTable, begun_since, listed, listed_tables
from agenteval.store.location import SCHEMA, Location, passed_over, resolve_name
from agenteval.store.summaries import known_runs, opened, tables_known


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
        runs = [
            run
            for run in listed(query)
            if (model or "") in run.model
            and (label is None or label in run.labels)
            and is_wanted(run.started)
        ]
        return Listing(str(where), runs, listed_tables(query))


def errors_of(run: Listed) -> Rate:
    """Return the errors of its calls, with the estimand of its scenarios, as `show RUN` does.

    n is 0 if the run was not judged.
    """
    return clustered(run.errors, Layout(scenarios=run.played)) if run.judged else Rate(0, 0)


def reached(run: Listed) -> Rate:
    """The trials whose goal was reached, of those that are not void."""
    unknown = list(run.outcomes).count(Outcome.NOT_OBSERVABLE)
    return Rate(list(run.outcomes).count(Outcome.COMPLETED), run.counted - unknown)


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
    for word, found in zip(words, ids, strict=True):
        if over := passed_over(word, runs):
            more = f" and {len(over) - 1} more" if len(over) > 1 else ""
            notes.append(f"{word} is {found}, not {over[0]}{more}: name it to mean it")
    return _ChosenRuns(ids, notes)


def tag(word: str, labels: Sequence[str], note: str | None, store: str, *, off: bool) -> str:
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
    with closing(parts.sql.SqlStore(store)) as there:
        there.tag(run, labels, note, off=off)
    return run


def _check_free(label: str, store: str) -> None:
    """Raises UsageError for a label that names a model or begins the id of a run."""
    with opened(store) as query:
        runs, tables = known_runs(query), tables_known(query)
    if label in {run.model for run in runs}:
        raise UsageError(f"{label!r}: no label: it is the name of a model of this store")
    if begun := [one for one in (*(run.id for run in runs), *tables) if one.startswith(label)]:
        raise UsageError(f"{label!r}: no label: the id of a run begins so, {begun[0]}")


def removed(ids: Sequence[str], store: str) -> None:
    """Raises UsageError for a run that is being played."""
    with closing(parts.sql.SqlStore(store)) as there, ExitStack() as claims:
        for run in ids:
            claims.enter_context(there.claimed(run))
        parts.upkeep.remove(there, ids)


def faults(store: str) -> list[str]:
    """Return the faults of a store, a line each. Raises UsageError if there is no such store."""
    with parts.orm.connected_to_read(store) as connection:
        return list(parts.upkeep.faults(connection))


def upgraded(store: str) -> str:
    """Upgrade a store to today's schema after a copy; what was done, in a line.

    Raises UsageError for one that is not there, and HostError where it cannot be copied.
    """
    where = Location(store)
    where.check_there()
    upgrade = parts.orm.upgraded(where)
    if upgrade is None:
        return f"--store {where}: has schema {SCHEMA}, which is today's; nothing is changed"
    return upgrade.describe(str(where))


def vacuumed(store: str) -> tuple[int, int]:
    """The bytes of a store of one file before it was compacted, and then. Raises UsageError."""
    Location(store).check_there()
    before = parts.upkeep.size(store)
    with closing(parts.sql.SqlStore(store)) as there:
        parts.upkeep.compact(there)
    return before, parts.upkeep.size(store)


def exported(ids: Sequence[str], file: Path, store: str) -> None:
    """Write runs into a new store of their own. Raises UsageError for a file that is there."""
    if file.exists():
        raise UsageError(f"--file {file}: is there already. Name a new file, or move that one away")
    try:
        with _named(f"--file {file}", file):
            parts.sql.SqlStore(str(file)).close()
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


def _copy(source: str, target: str, ids: Sequence[str]) -> None:
    with closing(parts.sql.SqlStore(target)) as written:
        parts.upkeep.copy(source, written, ids)
