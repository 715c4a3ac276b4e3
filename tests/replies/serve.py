"""Serves the replies of `streams/`: the id of a model chooses one. README.md says what they are.

python serve.py [PORT]      any free port where none is given
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

STREAMS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parent / "streams").glob("*.json"))
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self.path.removeprefix("/expected/")
        if name in STREAMS:
            self._answer(200, {key: STREAMS[name][key] for key in ("calls", "faults")})
        elif self.path.endswith("/models"):
            listed = [{"id": one, "object": "model", "owned_by": "arrivals"} for one in STREAMS]
            self._answer(200, {"object": "list", "data": listed})
        else:
            self._answer(404, {"error": "no such page"})

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length", 0))
        found = STREAMS.get(json.loads(self.rfile.read(size)).get("model"))
        if found is None:
            self._answer(404, {"error": "no such reply"})
            return
        kind = "text/event-stream" if found["streamed"] else "application/json"
        self._send(found["status"], kind, found["body"].encode())

    def _answer(self, status: int, document: Any) -> None:
        self._send(status, "application/json", json.dumps(document).encode())

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing is told."""


class Server(ThreadingHTTPServer):
    daemon_threads = True


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Handler) as server:
        sys.stdout.write(f"{len(STREAMS)} replies at http://127.0.0.1:{server.server_port}/v1\n")
        sys.stdout.flush()
        server.serve_forever()
