"""All failure classes in order, and the article's rows: the first match is the primary class."""

from collections.abc import Iterator
from types import ModuleType

from agenteval import plugins
from agenteval.taxonomy import calls, commands, invented, structure, surroundings
from agenteval.taxonomy.failure_class import ArticleRow, FailureClass, classes_of
from agenteval.taxonomy.version import SHIPPED_VERSION

GROUP = "agenteval.failure_classes"
_FAMILIES = (calls, structure, surroundings, invented, commands)
SHIPPED = tuple(found for family in _FAMILIES for found in classes_of(family))


def _plugged() -> Iterator[tuple[str, FailureClass]]:
    """Yield the failure classes of plug-ins, each with the plug-in's name.

    A plug-in is a class, or a module of some.
    """
    taken_ids = {entry.id for entry in SHIPPED}
    for name, found in plugins.load(GROUP, _is_one_or_some).items():
        for entry in classes_of(found) if isinstance(found, ModuleType) else (found,):
            if entry.rest or entry.id in taken_ids:
                plugins.leave_out(GROUP, name, f"{entry.id}: its id is taken, or it takes the rest")
                continue
            taken_ids.add(entry.id)
            yield name, entry


def _is_one_or_some(found: object) -> bool:
    return isinstance(found, FailureClass | ModuleType)


_PLUGGED = tuple(_plugged())
_LAST = SHIPPED[SHIPPED.index(surroundings.wrapper_prefix) :]
_CLASSES = (*SHIPPED[: -len(_LAST)], *(each for _, each in _PLUGGED), *_LAST)
# Stored with every verdict, so it names whoever else explains.
TAXONOMY_VERSION = "+".join(
    (SHIPPED_VERSION, *plugins.sources(GROUP, (name for name, _ in _PLUGGED)))
)


def failure_classes() -> tuple[FailureClass, ...]:
    """Return every class, in the order of the families above and within each that of its source.

    The classes of plug-ins stand before those that explain any program.
    """
    return _CLASSES


ARTICLE_ROWS = tuple(row.value for row in ArticleRow)
_ROWS = {each.id: each.article.value for each in failure_classes()}


def article_row(failure_class: str) -> str:
    """The row that counts a class; what the table has no row for is its other bash."""
    return _ROWS.get(failure_class, ArticleRow.OTHER.value)
