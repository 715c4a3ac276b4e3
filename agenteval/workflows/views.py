"""Stored runs as they are shown: side by side, compared, by their speed, or only listed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agenteval.config.allowlists import load_policy
from agenteval.config.article import POLICY, load_article
from agenteval.config.paths import roots
from agenteval.core.call import ToolCall
from agenteval.core.counts import ErrorCounts
from agenteval.core.policy.policy import Policy
from agenteval.core.run import Run
from agenteval.core.summary import ImportedCounts
from agenteval.errors import UsageError
from agenteval.formats.counts import load_counts
from agenteval.report.build import build_comparison, build_counts_view, build_view
from agenteval.report.side import Side
from agenteval.report.speed import Served
from agenteval.report.view import ClassText, View
from agenteval.stats.speeds import run_speed
from agenteval.store.location import Location
from agenteval.store.sql import SqlStore
from agenteval.taxonomy.article import ARTICLE_ROWS, article_row
from agenteval.taxonomy.catalogue import failure_classes
from agenteval.taxonomy.judge import judge
from agenteval.workflows.ingest import cards


@contextmanager
def reading(store: str) -> Iterator[SqlStore]:
    """The store at this file or URL, which must be there. Raises UsageError."""
    Location(store).check_there()
    with opened(store) as found:
        yield found


@contextmanager
def opened(store: str) -> Iterator[SqlStore]:
    """The store at this file or URL, made where there is none. Raises UsageError."""
    found = SqlStore(store)
    try:
        yield found
    finally:
        found.close()


def loaded(names: Sequence[str], store: str) -> list[Run]:
    """Whole runs, by what names them. Raises UsageError."""
    with reading(store) as found:
        return [found.load(name) for name in names]


@dataclass(frozen=True, slots=True)
class Listing:
    """What a store holds, the newest first; `ended` is how many trials of a run have."""

    shown: str
    runs: Sequence[Run]
    ended: Mapping[str, int]
    imported: Sequence[ImportedCounts]


def listing(store: str, *, or_none: bool = False) -> Listing:
    """Raises UsageError; for a store that is not there, unless that is no surprise (`or_none`)."""
    where = Location(store)
    if or_none and not where.is_there:
        return Listing(str(where), (), {}, ())
    with reading(store) as found:
        return Listing(found.shown, found.runs(), found.ended(), tuple(found.imported().values()))


def view_of(runs: Sequence[Run], taxonomy: str) -> View:
    return build_view(runs, classes=class_texts(), fold=fold(taxonomy))


def view_of_article() -> View:
    """The published comparison, judged again from its calls."""
    where = roots()
    policy = load_policy(POLICY, roots=where)
    counts = {
        model: ErrorCounts.of([[_primary(call, policy) for call in calls] for calls in sessions])
        for model, sessions in load_article(roots=where).items()
    }
    title = "The published comparison, judged again from calls written after it"
    return build_counts_view(title, counts, classes=class_texts(), fold=fold("article"))


def _primary(call: ToolCall, policy: Policy) -> str | None:
    finding = judge(call, policy).primary
    return finding.failure_class if finding else None


def compared(names: Sequence[str], store: str, taxonomy: str) -> View:
    """Two or more models, pair by pair. Raises UsageError."""
    if all(name.endswith(".csv") for name in names):
        sides = [side for name in names for side in _of_file(name)]
    else:
        with reading(store) as found:
            sides = [side for name in names for side in _sides(name, found)]
    if len(sides) < 2:
        raise UsageError(
            f"compare: {' '.join(names)} is one model; name another run, or a file of counts"
        )
    return build_comparison(sides, classes=class_texts(), fold=fold(taxonomy))


def _sides(name: str, store: SqlStore) -> list[Side]:
    """The models behind one name: as many as its file has."""
    if name.endswith(".csv"):
        return _of_file(name)
    found = store.meant(name)
    if imported := store.imported().get(found):
        return [Side.of_counts(imported.model, imported.counts)]
    return [Side.of_run(*store.summarized(found))]


def _of_file(name: str) -> list[Side]:
    tables = load_counts(Path(name))
    known = cards(tables)
    return [Side.of_counts(known[model], table.counts) for model, table in tables.items()]


def speeds(runs: Sequence[Run]) -> list[Served]:
    """How fast stored runs were served."""
    return [Served(run.model.name, run.model.simulated, run_speed(run), run.id) for run in runs]


def class_texts() -> tuple[ClassText, ...]:
    return tuple(ClassText(one.id, one.title, one.rationale) for one in failure_classes())


def fold(taxonomy: str) -> Mapping[str, str] | None:
    """Class to row of the article, in the article's order; None for the classes as they are."""
    if taxonomy != "article":
        return None
    rows = {one.id: article_row(one.id) for one in failure_classes()}
    return dict(sorted(rows.items(), key=lambda item: ARTICLE_ROWS.index(item[1])))
