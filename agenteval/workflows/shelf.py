"""What a store holds: listed, chosen by a name, labelled, moved to another store and removed."""

from collections.abc import Sequence
from dataclasses import dataclass

from agenteval.core.outcome import Outcome
from agenteval.stats.rates import Rate, clustered
from agenteval.store.location import Location, meant, passed_over
from agenteval.store.summaries import (
    Listed,
    ListedTable,
    known,
    listed,
    listed_tables,
    opened,
    tables_known,
)


@dataclass(frozen=True, slots=True)
class Listing:
    """What a store holds, the newest first."""

    shown: str
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
    """The runs of these models, with this label, of this day and later.

    Raises UsageError; for a store that is not there, unless that is no surprise (`or_none`).
    """
    where = Location(store)
    if or_none and not where.is_there:
        return Listing(str(where))
    with opened(store) as query:
        runs = [
            run
            for run in listed(query)
            if (model or "") in run.model
            and (label is None or label in run.labels)
            and run.started >= (since or "")
        ]
        return Listing(str(where), runs, listed_tables(query))


def errors_of(run: Listed) -> Rate:
    """Errors of its calls, clustered by trial."""
    return clustered(run.errors)


def reached(run: Listed) -> Rate:
    """The trials whose goal was reached, of those that are not void."""
    return Rate(list(run.outcomes).count(Outcome.COMPLETED), run.counted)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Runs by their ids, and a line for each word that passed newer runs over."""

    ids: Sequence[str]
    notes: Sequence[str]


def chosen(words: Sequence[str], store: str) -> Chosen:
    """The runs that are meant. Raises UsageError."""
    with opened(store) as query:
        runs, tables = known(query), tables_known(query)
    ids = [meant(word, runs, tables, where=str(Location(store))) for word in words]
    notes = []
    for word, found in zip(words, ids, strict=True):
        if over := passed_over(word, runs):
            why = "simulated" if over[0].usable else "without a trial that counts"
            more = f" and {len(over) - 1} more" if len(over) > 1 else ""
            notes.append(f"{word} is {found}, not {over[0].id} ({why}){more}: name it to mean it")
    return Chosen(ids, notes)
