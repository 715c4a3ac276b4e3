"""openai-agents: an agent with one tool and its Runner, tracing off."""

import asyncio

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from agents.exceptions import MaxTurnsExceeded
from openai import AsyncOpenAI
from session import Shell, crowd, ended, session

TOLD = session()
SHELL = Shell(TOLD)


@function_tool
async def bash(command: str) -> str:
    """Run a command."""
    return await SHELL.run(command)


async def main() -> None:
    set_tracing_disabled(disabled=True)
    async with AsyncOpenAI(base_url=TOLD.url, api_key="x", max_retries=0) as client:
        model = OpenAIChatCompletionsModel(model="m", openai_client=client)
        agent = Agent(name="one", instructions=TOLD.system, tools=[bash], model=model)

        async def one() -> None:
            try:
                if not TOLD.stream:
                    await Runner.run(agent, TOLD.user, max_turns=TOLD.turns)
                    return
                run = Runner.run_streamed(agent, TOLD.user, max_turns=TOLD.turns)
                async for _ in run.stream_events():
                    pass
            except MaxTurnsExceeded:
                return

        await crowd(TOLD, one)


asyncio.run(main())
ended(TOLD, SHELL.ran, "openai-agents")
