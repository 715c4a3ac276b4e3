"""Where runs are kept: begin with `sql`, the store, and `rows`, its tables.

`recorder` writes a run as it happens, `loading` reads it, `summaries` reads what figures are made
from, and `shards` says which process has a trial.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.store import sql, upkeep
else:
    __getattr__ = submodules(__name__)

__all__ = ["sql", "upkeep"]
