"""A server for the pages that talk about a model of the reader's: a simulated one under its name.

It says that vLLM owns it, so that the commands run as the reader's would; no page may show figures
that come from it.
"""

import asyncio
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from suite import SCENARIOS

from agenteval.models.persona import NAMES
from agenteval.models.servers import SIMULATOR
from agenteval.models.simulated import SimulatedServer

LISTED = '{"object": "list", "data": [{"id": "%s", "object": "model", "owned_by": "vllm"}]}'


@contextmanager
def serving(names: dict[str, str]) -> Iterator[dict[str, str]]:
    """Serves each name by the simulated model given for it; the URL of each."""
    assert set(names.values()) <= set(NAMES)
    simulated = SimulatedServer(SCENARIOS)
    asyncio.run(simulated.__aenter__())
    servers = {name: _renaming(name, of, simulated.base_url) for name, of in names.items()}
    try:
        yield {name: f"http://127.0.0.1:{one.server_port}/v1" for name, one in servers.items()}
    finally:
        for one in servers.values():
            one.shutdown()
            one.server_close()
        asyncio.run(simulated.__aexit__(None, None, None))


def _renaming(name: str, of: str, behind: str) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/v1/models":
                self.say(200, "application/json", (LISTED % name).encode())
            elif self.path == "/health":
                self.say(200, "text/plain", b"")
            else:
                self.say(404, "text/plain", b"not found")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked = urllib.request.Request(
                behind.removesuffix("/v1") + self.path,
                body.replace(f'"{name}"'.encode(), f'"{of}"'.encode()),
                {"Content-Type": "application/json"},
            )
            try:
                with urllib.request.urlopen(asked) as reply:
                    status, kind, text = 200, reply.headers["Content-Type"], reply.read()
            except urllib.error.HTTPError as error:
                status, kind, text = error.code, error.headers["Content-Type"], error.read()
            text = text.replace(of.encode(), name.encode())
            self.say(status, kind, text.replace(SIMULATOR.encode(), b"vllm"))

        def say(self, status: int, kind: str, text: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server
