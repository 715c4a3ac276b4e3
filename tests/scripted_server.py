"""A chat server whose model says what a script says: the n-th turn of each conversation."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Message = Mapping[str, Any]
# What a conversation so far is answered with: a call's name and arguments, words, a message as it
# is sent, a whole reply with its choices, or a bad status.
Script = Callable[[Sequence[Message]], tuple[str, Mapping[str, str]] | str | Message | int]


def tool(name: str, **kinds: str) -> Mapping[str, Any]:
    """As it is offered to a model: all of its parameters are required, each of this JSON type."""
    properties = {one: {"type": kind} for one, kind in kinds.items()}
    schema = {"type": "object", "properties": properties, "required": list(kinds)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [
    tool("bash", command="string"),
    tool("read", path="string"),
    tool("todo", items="array"),
    tool("now"),
]


def bash(command: str) -> tuple[str, Mapping[str, str]]:
    return "bash", {"command": command}


class _Messages:
    """What a script says, as a message."""

    def __init__(self, script: Script) -> None:
        self.script, self.made, self.lock = script, 0, threading.Lock()

    def __call__(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        said = self.script(request["messages"])
        if isinstance(said, int):
            return {"status": said}
        if isinstance(said, Mapping):
            return said
        if isinstance(said, str):
            return {"role": "assistant", "content": said}
        with self.lock:
            self.made += 1
            ident = f"call-{self.made}"
        function = {"name": said[0], "arguments": json.dumps(said[1])}
        calls = [{"id": ident, "type": "function", "function": function}]
        return {"role": "assistant", "content": None, "tool_calls": calls}


@contextmanager
def scripted(script: Script, *, window: int | None = None) -> Iterator[str]:
    """Its URL. The id of a call is never used twice. `window` is the context that it tells."""
    message = _Messages(script)
    listed = {"id": "m", "object": "model"} | ({"max_model_len": window} if window else {})

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.answer({"object": "list", "data": [listed]})

        def do_POST(self) -> None:
            size = int(self.headers["content-length"])
            said = message(json.loads(self.rfile.read(size)))
            if "status" in said:
                self.answer({"error": said.get("error", "it fell over")}, said["status"])
                return
            if "choices" in said:
                self.answer(said)
                return
            end = "tool_calls" if "tool_calls" in said else "stop"
            self.answer({"model": "m", "choices": [{"message": said, "finish_reason": end}]})

        def answer(self, document: Mapping[str, Any], status: int = 200) -> None:
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing is told."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Whoever asked was killed."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()


def answers(messages: Sequence[Message]) -> int:
    """How many calls of this conversation were answered."""
    return sum(message["role"] == "tool" for message in messages)
