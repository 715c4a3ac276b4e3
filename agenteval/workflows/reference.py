"""What is looked up: allow lists checked and converted, failure classes explained.

Apart from `authoring`, whose scenarios take three times as long to import.
"""

from collections.abc import Mapping
from functools import cache

from agenteval.config.roots import roots
from agenteval.core.nearest import Names
from agenteval.core.policy_lint import Remark
from agenteval.dialects.files import Written
from agenteval.dialects.registry import lint as remarks_on
from agenteval.errors import UsageError
from agenteval.formats.convert import convert as written_for
from agenteval.formats.permissions import load_any
from agenteval.taxonomy.catalogue import failure_classes
from agenteval.taxonomy.failure_class import FailureClass
from agenteval.taxonomy.garble_registry import GarbleKind
from agenteval.taxonomy.garbles import KINDS
from agenteval.taxonomy.page import garble_page, page


@cache
def known() -> Mapping[str, FailureClass | GarbleKind]:
    """Everything that has a page by its id, the failure classes first and in their order."""
    classes = {each.id: each for each in failure_classes()}
    return classes | {each.id: each for each in KINDS}


def titles() -> list[str]:
    """A line each: the id, and what it is in a sentence."""
    width = max(map(len, known()))
    return [f"{each.id:<{width}}  {each.title}" for each in known().values()]


def page_of(name: str) -> str:
    """In Markdown. Raises UsageError for an id that is none."""
    found = known().get(name)
    if found is None:
        near = Names(known()).nearest(name)
        cure = f"did you mean {near}?" if near else "agenteval explain lists them all"
        raise UsageError(f"no failure class {name!r}: {cure}")
    return garble_page(found) if isinstance(found, GarbleKind) else page(found)


def lint(given: str) -> list[Remark]:
    """What is wrong with the rules of an allow list in any format. Raises UsageError."""
    return remarks_on(load_any(given, roots=roots()))


def convert(given: str, to: str) -> Written:
    """An allow list as another harness writes it. Raises UsageError."""
    return written_for(load_any(given, roots=roots()), to)
