"""Asks the real Codex about commands under rules files, and which files it reads.

    python ask_codex.py PROGRAM < sessions.json > rows.json

A session is {"rules": [text of a file, ...], "verdicts": [["bash", arguments, decision], ...]},
with an "approval" policy where it is not `untrusted`; or, without rules, about files alone:
[["file", {"text": ...}, whether it is read], ...]. What comes out is its rows with what is said
now. It runs in an empty home at /home/me, with a scripted model on loopback, and whatever it asks
is declined; bwrap hides bash behind a script that does nothing.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

# Where the program is: a package of npm, and the file in its node_modules.
PACKAGE = "@openai/codex"
BINARY = "@openai/codex-linux-*/vendor/*/bin/codex"
CONFIG = """
model_provider = "loopback"
model = "scripted"
features = {{ apps = false, plugins = false }}
[model_providers.loopback]
name = "-"
base_url = "http://127.0.0.1:{port}/v1"
"""


class Model(ThreadingHTTPServer):
    """A model that makes all calls in one turn."""

    def __init__(self, calls: list[dict[str, str]]) -> None:
        super().__init__(("127.0.0.1", 0), Reply)
        self.calls = calls
        self.outputs: dict[str, str] = {}
        Thread(target=self.serve_forever, daemon=True).start()


class Reply(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for item in body["input"]:
            if item["type"] == "function_call_output":
                self.server.outputs[item["call_id"]] = item["output"]
        items = [] if self.server.outputs else self.server.calls
        events = [{"type": "response.output_item.done", "item": item} for item in items]
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        events.append({"type": "response.completed", "response": {"id": "r", "usage": usage}})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def log_message(self, *_: Any) -> None: ...


def _in_home(home: Path, codex: str) -> list[str]:
    """Return the start of a command line that runs Codex in this home, where bash does nothing."""
    bash = home / "bash"
    bash.write_text("#!/bin/sh\n")
    bash.chmod(0o755)
    (home / "project" / "sub").mkdir(parents=True)
    mounts = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/home"]
    mounts += ["--bind", str(home), "/home/me", "--ro-bind", str(bash), "/usr/bin/bash"]
    mounts += ["--ro-bind", codex, "/home/codex", "--chdir", "/home/me/project", "--clearenv"]
    return ["bwrap", *mounts, "--setenv", "HOME", "/home/me", "--die-with-parent", "/home/codex"]


class User:
    """A client of Codex's app server, which declines each request and keeps a record of them."""

    def __init__(self, command: list[str]) -> None:
        self.codex = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.asked: set[str] = set()

    def send(self, **message: Any) -> None:
        assert self.codex.stdin
        self.codex.stdin.write(json.dumps(message).encode() + b"\n")
        self.codex.stdin.flush()

    def wait(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        for message in map(json.loads, self.codex.stdout or ()):
            if "method" in message and "id" in message:
                self.asked.add(message["params"]["itemId"])
                self.send(id=message["id"], result={"decision": "decline"})
            if is_it(message):
                return dict(message)
        raise SystemExit("codex ended")

    def request(self, method: str, **params: Any) -> Any:
        self.send(id=method, method=method, params=params)
        return self.wait(lambda message: message.get("id") == method)["result"]


def configure(session: dict[str, Any], folder: Path) -> str:
    """Write the session's rules files there; what agenteval calls that allow list."""
    for number, text in enumerate(session["rules"] or [""]):
        (folder / f"{number}.rules").write_text(text, "utf-8")
    approval = session.get("approval")
    return f"codex-{approval}:{folder}" if approval else f"codex:{folder}"


_REFUSED = ("exec_command failed", "approval policy is Never; reject command")


def decisions(codex: str, session: dict[str, Any]) -> list[str]:
    calls = []
    for number, (_, given, _) in enumerate(session["verdicts"]):
        arguments = json.dumps({"cmd": given["command"], "yield_time_ms": 20_000} | given)
        call = {"type": "function_call", "name": "exec_command", "call_id": str(number)}
        calls.append(call | {"arguments": arguments})
    model = Model(calls)
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, ".codex", "rules")
        folder.mkdir(parents=True)
        configure(session, folder)
        (folder.parent / "config.toml").write_text(CONFIG.format(port=model.server_port))
        user = User([*_in_home(Path(home), codex), "app-server"])
        user.request("initialize", clientInfo={"name": "ask", "version": "1"})
        approval = session.get("approval", "untrusted")
        # Where there is no sandbox to leave, on-request asks nobody for leave.
        sandbox = "workspace-write" if approval == "on-request" else "danger-full-access"
        settings = {"approvalPolicy": approval, "sandbox": sandbox}
        thread = user.request("thread/start", **settings)["thread"]
        user.request("turn/start", threadId=thread["id"], input=[{"type": "text", "text": "go"}])
        user.wait(lambda message: message.get("method") == "turn/completed")
        user.codex.kill()
    model.shutdown()
    failed = {name for name, out in model.outputs.items() if out.startswith(_REFUSED)}
    assert all(re.search(r"Rejected\(|reject command", model.outputs[name]) for name in failed)
    names = [call["call_id"] for call in calls]
    return ["prompt" if n in user.asked else "forbidden" if n in failed else "allow" for n in names]


def is_read(codex: str, text: str) -> bool:
    with tempfile.TemporaryDirectory() as home:
        Path(home, "a.rules").write_text(text)
        check = [*_in_home(Path(home), codex), "execpolicy", "check", "--rules", "/home/me/a.rules"]
        return not subprocess.run([*check, "--", "ls"], capture_output=True, check=False).returncode


def ask(codex: str, session: dict[str, Any]) -> list[Any]:
    if "rules" in session:
        said: list[Any] = decisions(codex, session)
    else:
        said = [is_read(codex, given["text"]) for _, given, _ in session["verdicts"]]
    return [[*row[:2], verdict] for row, verdict in zip(session["verdicts"], said, strict=True)]


if __name__ == "__main__":
    program = str(Path(sys.argv[1]).resolve())
    json.dump([ask(program, session) for session in json.load(sys.stdin)], sys.stdout)
