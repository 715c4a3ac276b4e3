"""The loop: many trials in `orchestrator`, one in `trial_runner`, one agent in `agent_loop`.

One call is in `tool_executor`, the state of the sandbox in `world_monitor`.
`engine.second_reader` is imported on first use: few programs that classify calls need it.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.engine import second_reader
else:
    __getattr__ = submodules(__name__)

__all__ = ["second_reader"]
