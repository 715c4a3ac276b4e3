"""The player of a trial: a served model over HTTP, or a simulated one behind the same wire.

Begin with `openai_client`: `transport` carries its bytes, `stream` puts a reply together, and
`turns` reads it. `simulated` serves a `player`, which makes the slips of a `persona`.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.models import server_probe, server_questions, simulated
else:  # few commands need them: a list of models asks nothing, and a served one is no simulation
    __getattr__ = submodules(__name__)

__all__ = ["server_probe", "server_questions", "simulated"]
