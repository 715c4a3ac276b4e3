"""Where runs are kept."""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.store import sql, upkeep
else:
    __getattr__ = submodules(__name__)

__all__ = ["sql", "upkeep"]
