"""The loop: one trial, and many of them at once.

`engine.second_reader` is imported when it is first asked for: few of those who classify want it.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.engine import second_reader
else:
    __getattr__ = submodules(__name__)

__all__ = ["second_reader"]
