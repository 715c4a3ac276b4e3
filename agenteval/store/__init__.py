"""Where runs are kept."""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.store import moving, sql, upkeep
else:
    __getattr__ = submodules(__name__)

__all__ = ["moving", "sql", "upkeep"]
