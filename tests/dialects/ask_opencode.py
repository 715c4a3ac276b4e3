"""Asks a real OpenCode about calls under configs.

    python ask_opencode.py PROGRAM < sessions.json > rows.json

A session is what stands in a config, and "verdicts": [[tool, arguments, verdict], ...]; what comes
out is its rows with the verdicts given now, null where nothing can be said. The program runs in
bubblewrap, in an empty home and without a network but its own loopback, where this file plays the
model too. Its shell is `true`: no command that it allows does anything. Nobody answers what it
asks, so that is a denial.
"""

import json
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

# Where the program is: a package of npm, and the file in its node_modules.
PACKAGE = "opencode-linux-x64"
BINARY = "opencode-linux-x64/bin/opencode"
HOME = Path("/home/me")
PROJECT = HOME / "project"
FILES = ("x", ".env", ".env.example", "notes/a", "/srv/data/q")
WORLD = f"""set -e
export PATH=/tmp/bin:/usr/bin:/bin SHELL=/tmp/bin/bash
export OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_DEFAULT_PLUGINS=1
mkdir -p {PROJECT} /tmp/bin && cd {PROJECT}
for program in bash rg; do cp /usr/bin/true /tmp/bin/$program; done
echo x > x && git init -q && git add x && git -c user.name=a -c user.email=a@b commit -qm x
exec python3 /tmp/run/ask.py --inside
"""
MODEL_PORT = 4001
PORTS = count(4002)  # a port that a server has just left is not free again at once
PROVIDER = {
    "npm": "@ai-sdk/openai-compatible",
    "options": {"baseURL": f"http://127.0.0.1:{MODEL_PORT}", "apiKey": "none"},
    "models": {"m": {"tool_call": True, "limit": {"context": 900_000, "output": 90_000}}},
}
CONFIG = {"provider": {"p": PROVIDER}, "model": "p/m", "small_model": "p/m", "snapshot": False}
ASKED_OF = ("permission", "tools", "agent", "default_agent")  # keys of a session and of a config
PROMPT = "make the calls"
BATCH = 40
TIMEOUT = 90  # seconds for a batch, most of which take one
# What stands in the errors of denied calls, not of those that were let through and failed then.
DENIAL = re.compile(
    "specified a rule which prevents|specifically restricted|rejected permission|unavailable tool|"
    "Permission(Denied|Rejected)Error|not allowed to be exec|is not in the current working direct"
)
Call = tuple[str, dict[str, Any]]


def configure(session: dict[str, Any], folder: Path) -> str:
    """Write the session's config there; what agenteval calls that allow list."""
    config = folder / "opencode.json"
    config.write_text(json.dumps(CONFIG | {k: session[k] for k in ASKED_OF if k in session}))
    old = session.get("version", "").startswith("1.0.")
    return f"{'opencode-1.0' if old else 'opencode'}:{config}"


class Model(BaseHTTPRequestHandler):
    """A model that makes all the calls of a batch at once, and then has nothing more to say."""

    calls: dict[str, Call]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if PROMPT in json.dumps(request["messages"][-1]):
            delta: dict[str, Any] = {"tool_calls": list(self._tool_calls())}
        else:
            delta = {"content": "done"}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        reason = "tool_calls" if "tool_calls" in delta else "stop"
        choice = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": reason}
        chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())

    def _tool_calls(self) -> Iterator[dict[str, Any]]:
        for number, (name, (tool, arguments)) in enumerate(Model.calls.items()):
            function = {"name": tool, "arguments": json.dumps({"description": "d", **arguments})}
            yield {"index": number, "id": name, "type": "function", "function": function}

    def log_message(self, *_: object) -> None:
        pass


class Server:
    """One OpenCode, started for the rules of one session, and the verdicts that its events give."""

    def __init__(self, session: dict[str, Any]) -> None:
        configure(session, PROJECT)
        for folder in (".local", ".config", ".cache"):
            shutil.rmtree(HOME / folder, ignore_errors=True)
        self.port = next(PORTS)
        self.verdicts: dict[str, bool | None] = {}
        self.changed = threading.Condition()
        command = ["/tmp/run/opencode", "serve", "--hostname=127.0.0.1", f"--port={self.port}"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        self._wait()
        events = self.open("/event", timeout=3600)
        threading.Thread(target=self._listen, args=(events,), daemon=True).start()

    def _wait(self) -> None:
        for _ in range(300):
            try:
                self.api("/config", timeout=3)
            except OSError:  # a request that comes while it starts may never be answered
                time.sleep(0.1)
            else:
                return

    def open(self, path: str, content: object = None, timeout: float = 60) -> Any:
        body = None if content is None else json.dumps(content).encode()
        url, headers = f"http://127.0.0.1:{self.port}{path}", {"content-type": "application/json"}
        request = urllib.request.Request(url, body, headers)
        return urllib.request.urlopen(request, timeout=timeout)

    def api(self, path: str, content: object = None, timeout: float = 60) -> Any:
        return json.load(self.open(path, content, timeout))

    def ask(self, calls: dict[str, Call]) -> list[bool | None]:
        """Return for each call whether it is allowed; None if nothing can be said of it."""
        Model.calls = calls
        session = self.api("/session", {})["id"]
        self._post(f"/session/{session}/message", {"parts": [{"type": "text", "text": PROMPT}]})
        with self.changed:
            self.changed.wait_for(lambda: calls.keys() <= self.verdicts.keys(), TIMEOUT)
            verdicts = dict(
                self.verdicts
            )  # before the end: what it ends would look as if it was allowed
        self.api(f"/session/{session}/abort", {})
        return [verdicts.get(name) for name in calls]

    def _post(self, path: str, content: object) -> None:
        threading.Thread(target=self.api, args=(path, content, 600), daemon=True).start()

    def _listen(self, events: Iterable[bytes]) -> None:
        for line in events:
            if line.startswith(b"data: "):
                with self.changed:
                    self._read(json.loads(line[6:]))
                    self.changed.notify_all()

    def _read(self, event: dict[str, Any]) -> None:
        properties = event.get("properties", {})
        if event["type"] in {"permission.asked", "permission.updated"}:
            if "doom_loop" in {properties.get("permission"), properties.get("type")}:
                path = f"/session/{properties['sessionID']}/permissions/{properties['id']}"
                self._post(path, {"response": "once"})
            else:
                self.verdicts.setdefault(
                    properties.get("callID") or properties["tool"]["callID"], False
                )
        elif event["type"] == "message.part.updated" and properties["part"]["type"] == "tool":
            tool, state = properties["part"]["tool"], properties["part"]["state"]
            if state["status"] in {"completed", "error"}:
                self.verdicts.setdefault(
                    properties["part"]["callID"], verdict(tool, state.get("error", ""))
                )


def verdict(tool: str, error: str) -> bool | None:
    """Return the verdict; None if a file to be changed was not as it must be.

    OpenCode checks its rules after the file.
    """
    if tool == "invalid" or DENIAL.search(error):
        return False
    return None if error and tool in {"edit", "write"} else True


def _ask_session(session: dict[str, Any]) -> list[Any]:
    """The rows of a session with the verdicts given now."""
    subprocess.run(["git", "clean", "-fdxq"], check=True)
    shutil.rmtree("/srv/data", ignore_errors=True)
    for folder in ("sub", "notes", "/srv/data/deep"):
        (PROJECT / folder).mkdir(parents=True)
    for file in FILES:
        (PROJECT / file).write_text("x\n")
    server = Server(session)
    rows = []
    for start in range(0, len(session["verdicts"]), BATCH):
        batch = [(tool, arguments) for tool, arguments, _ in session["verdicts"][start:][:BATCH]]
        said = server.ask({f"call_{start + number}": call for number, call in enumerate(batch)})
        rows += [[*call, says] for call, says in zip(batch, said, strict=True)]
    server.process.kill()
    server.process.wait()
    return rows


def _in_sandbox(program: Path) -> None:
    mounts = {program: "/tmp/run/opencode", Path(__file__).resolve(): "/tmp/run/ask.py"}
    command = ["bwrap", "--unshare-all", "--die-with-parent", "--clearenv", "--ro-bind", "/", "/"]
    command += ["--proc", "/proc", "--dev", "/dev", "--setenv", "HOME", str(HOME)]
    command += ["--tmpfs", "/tmp", "--tmpfs", "/home", "--tmpfs", "/srv"]
    command += [word for here, there in mounts.items() for word in ("--ro-bind", str(here), there)]
    subprocess.run([*command, "/bin/sh", "-c", WORLD], check=True)


def inside() -> None:
    model = ThreadingHTTPServer(("127.0.0.1", MODEL_PORT), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    json.dump([_ask_session(session) for session in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    if sys.argv[1:] == ["--inside"]:
        inside()
    else:
        _in_sandbox(Path(sys.argv[1]).resolve())
