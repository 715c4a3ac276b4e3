"""The player that proves a scenario: it makes the calls of the reference solution, one a turn."""

import json
from collections.abc import Sequence

from agenteval.core.call import ToolCall
from agenteval.core.scenario import Scenario
from agenteval.core.trial import Message, Turn, Usage
from agenteval.models.conversation import Memory
from agenteval.protocols import ToolSchema


class Oracle:
    """Knows the answer. Implements `protocols.Model`, without a server."""

    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        self._memory = Memory(scenarios)

    async def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],  # noqa: ARG002 -- the solution says which tools it needs
        *,
        seed: int,
    ) -> Turn:
        """The next step; without any call once there is none."""
        asked = "\n".join(message.content for message in messages if message.role == "user")
        known = self._memory.recall(asked, seed)
        number = sum(message.role == "assistant" for message in messages)
        steps = known[1].solution[number : number + 1] if known else ()
        calls = tuple(
            ToolCall(f"call-{number}", step.tool, json.dumps(dict(step.arguments)), step.arguments)
            for step in steps
        )
        return Turn("", calls, "tool_calls" if calls else "stop", Usage(), raw="", seconds=0.0)
