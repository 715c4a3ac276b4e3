"""Allow lists in any format: what is wrong with their rules, and how others write them.

Apart from `derive`, whose sandboxes take longer to import than a list to check.
"""

from agenteval.config.paths import roots
from agenteval.core.policy_lint import Remark
from agenteval.dialects.files import Written
from agenteval.dialects.registry import lint as remarks_on
from agenteval.formats.convert import convert as written_for
from agenteval.formats.permissions import load_any


def lint(given: str) -> list[Remark]:
    """What is wrong with the rules of an allow list in any format. Raises UsageError."""
    return remarks_on(load_any(given, roots=roots()))


def convert(given: str, to: str) -> Written:
    """An allow list as another harness writes it. Raises UsageError."""
    return written_for(load_any(given, roots=roots()), to)
