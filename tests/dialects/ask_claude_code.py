"""Asks the real Claude Code what it says to calls under settings.

    python ask_claude_code.py PROGRAM < sessions.json > rows.json

A session is {"permissions": ..., "verdicts": [[tool, arguments, verdict], ...]}; what comes out is
its rows with the verdicts given now. The program runs in bubblewrap without network or any file of
this machine, in the project /home/me/project; the model is played by an own server on loopback, and
each command that is allowed is handed to a stub instead of a shell.
"""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

# Where the program is: a package of npm, and the file in its node_modules.
PACKAGE = "@anthropic-ai/claude-code"
BINARY = "@anthropic-ai/claude-code-linux-*/claude"
HOME = "/home/me"
PROJECT = Path(HOME, "project")
TURN = 40  # calls of one reply
BEGIN = "begin with the list of calls"
NOBODY = ["--unshare-all", "--uid", "1000", "--gid", "1000", "--die-with-parent", "--new-session"]
_LINKS = (("usr/bin", "/bin"), ("usr/lib", "/lib"), ("usr/lib64", "/lib64"))
SYSTEM = ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
SYSTEM += [word for target, link in _LINKS for word in ("--symlink", target, link)]
WORLD = [f"{PROJECT}/sub", f"{PROJECT}/out", f"{PROJECT}/src", "/srv/data/deep", "/etc"]
Call = tuple[str, dict[str, Any]]


class Model(BaseHTTPRequestHandler):
    """A model that answers each turn of the session with the next calls.

    It answers anything else with a word.
    """

    calls: list[Call]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = asked.get("messages", [])
        blocks: list[dict[str, Any]] = []
        if BEGIN in json.dumps(messages[:1]) and asked.get("tools"):
            start = TURN * sum(message["role"] == "assistant" for message in messages)
            blocks = [
                {"type": "tool_use", "id": f"call_{number}", "name": name, "input": arguments}
                for number, (name, arguments) in enumerate(self.calls)
                if start <= number < start + TURN
            ]
        name = f"message_{len(messages)}"
        body = b"".join(map(sent, events(name, blocks or [{"type": "text", "text": "done"}])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def events(name: str, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    is_call = blocks[0]["type"] == "tool_use"
    message: dict[str, Any] = {"id": name, "type": "message", "role": "assistant", "content": []}
    message |= {"model": "scripted", "stop_reason": None, "stop_sequence": None, "usage": usage}
    stream: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(blocks):
        if is_call:
            empty = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            empty = block | {"text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        stream.append({"type": "content_block_start", "index": index, "content_block": empty})
        stream.append({"type": "content_block_delta", "index": index, "delta": delta})
        stream.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": "tool_use" if is_call else "end_turn", "stop_sequence": None}
    stream.append({"type": "message_delta", "delta": stop, "usage": usage})
    return [*stream, {"type": "message_stop"}]


def sent(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def configure(session: dict[str, Any], folder: Path) -> str:
    """Write the session's settings there; what agenteval calls that allow list."""
    settings = folder / "settings.json"
    settings.write_text(json.dumps({"permissions": session["permissions"]}))
    return f"claude-code:{settings}"


def ask(program: str, session: dict[str, Any]) -> list[bool]:
    """Return for each call True if the program allowed it: it ran it, or tried to."""
    calls: list[Call] = [(name, arguments) for name, arguments, _ in session["verdicts"]]
    folder = PROJECT / ".claude"
    folder.mkdir(exist_ok=True)
    configure(session, folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Session", (Model,), {"calls": calls}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {
        "HOME": HOME,
        "PATH": "/usr/bin",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}",
        "CLAUDE_CODE_SHELL_PREFIX": f"{HOME}/stub",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }
    options = ["-p", BEGIN, "--output-format", "stream-json", "--verbose"]
    done = subprocess.run(
        [program, *options],
        cwd=PROJECT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=900,
        check=True,
    )
    server.shutdown()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    denied = {denial["tool_use_id"] for denial in lines[-1]["permission_denials"]}
    for line in lines:
        if line["type"] == "user":
            for block in line["message"]["content"]:
                refused = block.get("is_error") and "<tool_use_error>" in str(block["content"])
                if refused:
                    denied.add(block["tool_use_id"])
    return [f"call_{number}" not in denied for number in range(len(calls))]


def outside(program: str) -> int:
    this, inner = str(Path(__file__).resolve()), str(Path(program).resolve())
    made = [word for folder in WORLD for word in ("--dir", folder)]
    given = ["--ro-bind", inner, "/opt/program", "--ro-bind", this, "/opt/ask.py"]
    run = ["/usr/bin/python3", "/opt/ask.py", "--inside"]
    return subprocess.call(["bwrap", *NOBODY, *SYSTEM, *made, *given, "--clearenv", "--", *run])


def inside() -> None:
    stub = Path(HOME, "stub")
    stub.write_text("#!/bin/sh\necho ran\n")
    stub.chmod(0o755)
    trust = {"projects": {str(PROJECT): {"hasTrustDialogAccepted": True}}}
    Path(HOME, ".claude.json").write_text(json.dumps(trust))
    (PROJECT / "notes.md").write_text("x\n")
    (PROJECT / "sub" / "a.txt").write_text("x\n")
    table = []
    for session in json.load(sys.stdin):
        said = ask("/opt/program", session)
        table.append(
            [[*row[:2], verdict] for row, verdict in zip(session["verdicts"], said, strict=True)]
        )
    json.dump(table, sys.stdout)


if __name__ == "__main__":
    os.umask(0o022)
    if sys.argv[1:] == ["--inside"]:
        inside()
    else:
        sys.exit(outside(sys.argv[1]))
