"""A model that real harnesses ask: it makes these calls, one a turn, and hears the answers."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from agenteval.harness.dialogue import text_of
from agenteval.harness.http import Answer, Request, serve_request
from agenteval.harness.translation import Passage, answer_other_request, parse_request, say_once
from agenteval.prompt.arm import recognised


@dataclass
class TellModel:
    commands: Sequence[str]
    tool: str = ""  # which runs them, where it is not the harness's own bash
    heard: dict[str, str] = field(default_factory=dict)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve_request(reader, Answer(writer), self.answer)
        finally:
            writer.close()

    async def answer(self, request: Request, answer: Answer) -> None:
        asked = parse_request(request)
        if asked is None:
            await answer_other_request(request, answer)
        else:
            await say_once(Passage(answer, asked), self.next(asked))

    def next(self, asked) -> tuple[str, str, str] | None:
        forms = recognised(asked.chat.get("tools") or ())
        if "bash" not in forms:
            return None
        for message in asked.messages:
            if ident := message.get("tool_call_id"):
                self.heard[self.commands[int(ident.rpartition("-")[2])]] = text_of(message)
        if len(self.heard) == len(self.commands):
            return None
        if self.tool:
            more = {"description": "look", "timeout_ms": 2000}
            given = {"command": self.commands[len(self.heard)], **more}
            return f"told-{len(self.heard)}", self.tool, json.dumps(given)
        form = forms["bash"]
        arguments = {form.parameters[0].name: self.commands[len(self.heard)]}
        for name in json.loads(form.whole or "{}").get("required", ()):
            arguments.setdefault(name, "look")
        return f"told-{len(self.heard)}", form.name, json.dumps(arguments)


@contextmanager
def told(*commands: str, tool: str = "") -> Iterator[TellModel]:
    model, ready, over = TellModel(commands, tool), threading.Event(), threading.Event()

    async def run() -> None:
        server = await asyncio.start_server(model.serve, "127.0.0.1", 0, limit=1 << 23)
        model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        async with server:
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield model
    finally:
        over.set()
        thread.join(10)
