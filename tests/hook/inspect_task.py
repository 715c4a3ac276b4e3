"""Tasks of Inspect AI for the test: an agent of Inspect's own, and one behind its bridge."""

import json
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.agent import AgentState, agent, agent_bridge
from inspect_ai.dataset import Sample
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool
from openai import AsyncOpenAI

from agenteval.hook.inspect_approver import tool_call_errors

RAN = Path("ran.txt")


def run(command):
    with RAN.open("a") as file:
        file.write(f"{command}\n")
    return "it ran"


@tool
def bash():
    async def execute(cmd: str) -> str:
        """Run a command.

        Args:
            cmd: The command.
        """
        return run(cmd)

    return execute


@task
def own():
    return Task([Sample("go")], solver=[use_tools(bash()), generate()], scorer=tool_call_errors())


@agent
def foreign():
    """An agent that knows nothing of Inspect: it asks by the SDK, and runs what it is told."""

    async def execute(state: AgentState) -> AgentState:
        async with agent_bridge(state) as bridge, AsyncOpenAI(api_key="none") as client:
            messages = [{"role": "user", "content": "go"}]
            schema = {"type": "object", "properties": {"command": {"type": "string"}}}
            form = {"name": "bash", "description": "Run a command.", "parameters": schema}
            tools = [{"type": "function", "function": form}]
            for _ in range(6):
                reply = await client.chat.completions.create(
                    model="inspect", messages=messages, tools=tools
                )
                said = reply.choices[0].message
                messages.append(said.model_dump(exclude_none=True))
                if not said.tool_calls:
                    break
                for call in said.tool_calls:
                    told = run(json.loads(call.function.arguments)["command"])
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": told})
            return bridge.state

    return execute


@task
def bridged():
    return Task([Sample("go")], solver=foreign(), scorer=tool_call_errors())
