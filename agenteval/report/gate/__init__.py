"""The verdict of a gate, shown: one view, and each form of it."""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.report.gate import console, explain, json, junit
else:
    __getattr__ = submodules(__name__)

__all__ = ["console", "explain", "json", "junit"]
