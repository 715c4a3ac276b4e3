"""All failure classes in their order: the first that matches a denied call is its primary one."""

from agenteval.taxonomy import calls, commands, redirects, structure, syntax
from agenteval.taxonomy.registry import FailureClass, classes_of

_FAMILIES = (calls, syntax, structure, redirects, commands)
_CLASSES = tuple(found for family in _FAMILIES for found in classes_of(family))


def failure_classes() -> tuple[FailureClass, ...]:
    """Every class, in the order of the families above and within each that of its source."""
    return _CLASSES
