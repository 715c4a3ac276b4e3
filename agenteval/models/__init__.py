"""Who plays: a served model over HTTP, or a simulated one behind the same wire.

`models.server_probe.probe(...)` imports the client, which takes long, when it is called.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.models import server_probe, server_questions
else:
    __getattr__ = submodules(__name__)

__all__ = ["server_probe", "server_questions"]
