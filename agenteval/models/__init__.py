"""Who plays: a served model over HTTP, or a simulated one behind the same wire."""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.models import server_probe, server_questions
else:  # a list of models asks nothing, and is quicker without them
    __getattr__ = submodules(__name__)

__all__ = ["server_probe", "server_questions"]
