"""pydantic-ai: an agent with one tool."""

import asyncio

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits
from session import Shell, crowd, ended, session

TOLD = session()
SHELL = Shell(TOLD)


async def bash(command: str) -> str:
    """Run a command."""
    return await SHELL.run(command)


async def main() -> None:
    async with AsyncOpenAI(base_url=TOLD.url, api_key="x", max_retries=0) as client:
        model = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
        agent = Agent(model, instructions=TOLD.system, tools=[bash])
        limits = UsageLimits(request_limit=TOLD.turns)

        async def drained(_context, events) -> None:
            async for _ in events:
                pass

        async def one() -> None:
            handler = drained if TOLD.stream else None  # with one, replies are streamed
            try:
                await agent.run(TOLD.user, usage_limits=limits, event_stream_handler=handler)
            except UsageLimitExceeded:
                return

        await crowd(TOLD, one)


asyncio.run(main())
ended(TOLD, SHELL.ran, "pydantic-ai-slim")
