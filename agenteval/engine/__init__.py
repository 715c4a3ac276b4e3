"""The loop: many trials in `orchestrator`, one in `trial_runner`, one agent in `agent_loop`.

One call is in `tool_executor`, and what becomes of the world in `world_monitor`.
`engine.second_reader` is imported when it is first asked for: few of those who classify want it.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.engine import second_reader
else:
    __getattr__ = submodules(__name__)

__all__ = ["second_reader"]
