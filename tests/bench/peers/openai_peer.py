"""The openai SDK in a loop that a user would write, and nothing else."""

import asyncio
import json

from openai import AsyncOpenAI
from session import Shell, crowd, ended, session

TOLD = session()
SHELL = Shell(TOLD)
SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "bash", "description": "Run a command.", "parameters": SCHEMA},
    }
]


async def whole(client: AsyncOpenAI, messages: list) -> list:
    reply = await client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
    said = reply.choices[0].message
    messages.append(said)
    return [(one.id, one.function.arguments) for one in said.tool_calls]


async def streamed(client: AsyncOpenAI, messages: list) -> list:
    name, ident, arguments = "", "", ""
    stream = await client.chat.completions.create(
        model="m", messages=messages, tools=TOOLS, stream=True
    )
    async for chunk in stream:
        for choice in chunk.choices:
            for part in choice.delta.tool_calls or []:
                ident, name = ident or part.id, name or part.function.name
                arguments += part.function.arguments or ""
    function = {"name": name, "arguments": arguments}
    call = {"id": ident, "type": "function", "function": function}
    messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
    return [(ident, arguments)]


async def main() -> None:
    asked = streamed if TOLD.stream else whole
    async with AsyncOpenAI(base_url=TOLD.url, api_key="x", max_retries=0) as client:

        async def one() -> None:
            messages = [
                {"role": "system", "content": TOLD.system},
                {"role": "user", "content": TOLD.user},
            ]
            for _ in range(TOLD.turns):
                for ident, arguments in await asked(client, messages):
                    output = await SHELL.run(json.loads(arguments)["command"])
                    messages.append({"role": "tool", "tool_call_id": ident, "content": output})

        await crowd(TOLD, one)


asyncio.run(main())
ended(TOLD, SHELL.ran, "openai")
