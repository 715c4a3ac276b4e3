"""All failure classes in their order: the first that matches a denied call is its primary one."""

from agenteval.taxonomy import calls, commands, structure, syntax
from agenteval.taxonomy.registry import FailureClass, classes_of

# Raised by one whenever a call may get another class than before; stored with every verdict.
TAXONOMY_VERSION = "6"
_CLASSES = tuple(
    found for family in (calls, syntax, structure, commands) for found in classes_of(family)
)


def failure_classes() -> tuple[FailureClass, ...]:
    """Every class, in the order of the families above and within each that of its source."""
    return _CLASSES
