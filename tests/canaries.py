"""Values that stand where a user has keys, and the search for them in whatever a command leaves.

`Place` is a home, a project and a temporary folder in which they are planted; `repeating` is a
server that says the key that it was sent, in each part of what it answers.
"""

import base64
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

from process_table import below

from agenteval.store.texts import from_column

KEY = r"""sk-can/ary+1 "$(id)" .*[a] %41&b=c\n"""  # signs of shell, regex, JSON and URL
VARIABLES = {
    "OPENAI_API_KEY": KEY,
    "MY_OWN_RIG": "canary2-correct-horse-battery",
    "ANTHROPIC_API_KEY": "sk-ant-canary3-aaaabbbbccccdddd",
    "AWS_SECRET_ACCESS_KEY": "canary4/wJalrXUtnFEMI+bPxRfiCY",
    "GITHUB_TOKEN": "ghp_canary5AAAABBBBCCCCDDDDEEEEFFFF",
    "HF_TOKEN": "hf_canary6AAAABBBBCCCCDDDDEEEE",
    "PGPASSWORD": "cnry7short"[:8],
    "HTTPS_PROXY": "http://someone:canary8-pröxy-pass@127.0.0.1:9",
    "OPENAI_ADMIN_KEY": "canary2-correct-horse",  # a part of another one
}
FILES = {
    ".netrc": "machine example.org login me password canary9-netrc-pass\n",
    ".claude/.credentials.json": '{"claudeAiOauth": {"accessToken": "canary10-claude-oauth"}}',
    ".codex/auth.json": '{"OPENAI_API_KEY": "canary11-codex-auth"}',
    ".local/share/opencode/auth.json": '{"x": {"type": "api", "key": "canary12-opencode-auth"}}',
}
CANARIES = {
    **{name: value for name, value in VARIABLES.items() if name != "HTTPS_PROXY"},
    "HTTPS_PROXY": "canary8-pröxy-pass",
    ".netrc": "canary9-netrc-pass",
    ".claude/.credentials.json": "canary10-claude-oauth",
    ".codex/auth.json": "canary11-codex-auth",
    ".local/share/opencode/auth.json": "canary12-opencode-auth",
}


def forms(value: str) -> dict[str, bytes]:
    """The value as programs write it down; of base64 what is the same whatever stands around it."""
    content = value.encode()
    written = {
        "raw": content,
        "URL": quote(value, safe="").encode(),
        "JSON": json.dumps(value)[1:-1].encode(),
        "JSON in JSON": json.dumps(json.dumps(value))[3:-3].encode(),
        "hex": content.hex().encode(),
    }
    half = len(value) // 2
    if half >= 8:
        written |= {"first half": value[:half].encode(), "last half": value[half:].encode()}
    for before in range(3):
        whole = base64.b64encode(b" " * before + content)
        written[f"base64 behind {before}"] = whole[(before * 8 + 5) // 6 : -4]
    return written


def canaries_in(content: bytes, canaries: Mapping[str, str] = CANARIES) -> list[str]:
    return [
        f"{name} as {form}"
        for name, value in canaries.items()
        for form, written in forms(value).items()
        if written in content
    ]


@dataclass
class Place:
    """Where the keys are. What a command wrote anywhere in it is searched by `leaks`."""

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    cores: dict[int, str] = field(default_factory=dict)  # processes that may leave one
    _sampled: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("home", "project", "tmp", "run"):
            (self.folder / name).mkdir(exist_ok=True, mode=0o700)
        for name, text in FILES.items():
            path = self.folder / "home" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.folder / "project" / "agenteval.toml").touch()

    @property
    def environment(self) -> dict[str, str]:
        own = {"HOME": "home", "TMPDIR": "tmp", "XDG_RUNTIME_DIR": "run"}
        places = {name: str(self.folder / folder) for name, folder in own.items()}
        places["AGENTEVAL_TRUST"] = str(self.folder / "project")  # its user confirmed it
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, **places, **VARIABLES, "COLUMNS": "120", **self.variables}

    def call(self, *words: str, given: bytes = b"", timeout: float = 120) -> str:
        """What `agenteval WORDS` says; the processes that it starts are watched."""
        command = [self.python, "-m", "agenteval", *words]
        process = subprocess.Popen(
            command,
            cwd=self.folder / "project",
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(process.pid, ended))
        watch.start()
        try:
            said, _ = process.communicate(given, timeout)
        finally:
            ended.set()
            watch.join()
            process.kill()
        (self.folder / "said").mkdir(exist_ok=True)
        number = len(list((self.folder / "said").iterdir()))
        (self.folder / "said" / f"{number} {words[0]}").write_bytes(said)
        return said.decode(errors="replace")

    def _watch(self, pid: int, ended: threading.Event) -> None:
        """Look at each process and each temporary file of a command while it goes on."""
        while not ended.is_set():
            for child in self._children(pid):
                self._look_at_limits(child)
                for name in ("cmdline", "environ"):
                    content = _content(Path(f"/proc/{child}/{name}"))
                    if leaked := canaries_in(content):
                        command = _content(Path(f"/proc/{child}/cmdline"))[:80]
                        self._note(f"{name} of {command!r}", leaked)
            for folder in ("tmp", "run"):
                for path in _files(self.folder / folder):
                    if leaked := canaries_in(_content(path)):
                        self._note(f"{path.name} while it ran", leaked)
            time.sleep(0.02)

    def _look_at_limits(self, child: int) -> None:
        limits = _content(Path(f"/proc/{child}/limits")).decode()
        if re.search(r"core file size +0 ", limits):  # some set it once they have begun
            self.cores.pop(child, None)
        elif limits:
            self.cores[child] = _content(Path(f"/proc/{child}/cmdline")).decode()[:80]

    def _children(self, pid: int) -> set[int]:
        """Return those below the process, and those that left it: their words name our folder.

        A fork of the process itself is left out: it has what its user gave it.
        """
        own, words = str(self.folder).encode(), _content(Path(f"/proc/{pid}/cmdline"))
        left = {
            int(path.name)
            for path in Path("/proc").glob("[0-9]*")
            if own in _content(path / "environ") + _content(path / "cmdline")
        }
        children = left.union(child for child, _, _ in below(pid)) - {pid, os.getpid()}
        return {one for one in children if _content(Path(f"/proc/{one}/cmdline")) != words}

    def _note(self, place: str, leaked: Sequence[str]) -> None:
        self._sampled.setdefault(place, set()).update(leaked)

    def leaks(self) -> dict[str, list[str]]:
        """By file, and by process: what was found in it."""
        planted = {self.folder / "home" / name for name in FILES}
        found = {name: sorted(values) for name, values in self._sampled.items()}
        for path in sorted(self.folder.rglob("*")):
            if path in planted or not path.is_file():
                continue
            name = str(path.relative_to(self.folder))
            content = path.read_bytes() + name.encode() + texts_of(path)
            if leaked := canaries_in(content):
                found[name] = leaked
        return found


def _files(folder: Path) -> Iterator[Path]:
    """Those below a folder from which others go meanwhile."""
    for place, _, names in os.walk(folder):
        yield from (path for name in names if (path := Path(place, name)).is_file())


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def texts_of(path: Path) -> bytes:
    """The texts of a store, unpacked; nothing of another file."""
    if not path.read_bytes().startswith(b"SQLite format 3"):
        return b""
    with closing(sqlite3.connect(path)) as store:
        names = store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        rows = [row for (name,) in names for row in store.execute(f'SELECT * FROM "{name}"')]
    texts = [cell for row in rows for cell in row if isinstance(cell, str)]
    return "\n".join(map(from_column, texts)).encode("utf-8", "surrogatepass")


def _echoes(header: str) -> Sequence[str]:
    """The key of a header, in the forms in which a server could write it."""
    key = header.removeprefix("Bearer ")
    content = key.encode("latin-1")
    return (
        header,
        quote(key, safe=""),
        base64.b64encode(content).decode(),
        base64.b64encode(b"u:" + content).decode(),
        content.hex(),
        json.dumps({"said": key}),
    )


@contextmanager
def repeating(how: str) -> Iterator[str]:
    """The URL of a server that says the key: in a `whole` reply, a `stream`, in `pieces` of one,
    with each letter `escaped`, or in an `error` of the fourth request and later."""
    count, lock = [0], threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            said = " ".join(_echoes(self.headers.get("authorization", "")))
            entries = [{"id": "m", "object": "model", "owned_by": said}]
            self.answer(json.dumps({"object": "list", "data": entries, "version": said}).encode())

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                count[0] += 1
                number = count[0]
            said = " ".join(_echoes(self.headers.get("authorization", "")))
            if how == "error" and number > 3:
                error = json.dumps({"error": {"message": said}}).encode()
                self.answer(error, 401 if number % 2 else 500)
                return
            if request.get("stream") and how in {"stream", "pieces"}:
                size = 7 if how == "pieces" else 10**6
                self.answer(_stream(said, number, size), kind="text/event-stream")
                return
            document = {"model": "m", "id": said, "x": said, "choices": [_choice(said, number)]}
            text = json.dumps(document)
            if how == "escaped":
                key = self.headers["authorization"].removeprefix("Bearer ")
                written = json.dumps(key)[1:-1]
                text = text.replace(written, "".join(f"\\u{ord(one):04x}" for one in key))
            self.answer(text.encode())

        def answer(self, content: bytes, status: int = 200, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing is told."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()


def _choice(said: str, number: int) -> Mapping[str, Any]:
    message = {"role": "assistant", "content": said, "reasoning_content": said}
    calls = [
        ("bash", json.dumps({"command": f"echo {said!r} > told.txt; env; cat /proc/*/environ"})),
        ("write", json.dumps({"path": "told.txt", "content": said})),
        (said, said),
    ]
    if number % 3:
        message["tool_calls"] = [
            {
                "id": f"{number}-{name[:5]}",
                "type": "function",
                "function": {"name": name, "arguments": text},
            }
            for name, text in calls
        ]
    return {"index": 0, "message": message, "finish_reason": "tool_calls" if number % 3 else "stop"}


def _stream(said: str, number: int, size: int) -> bytes:
    message = _choice(said, number)["message"]
    deltas: list[Mapping[str, Any]] = []
    for name in ("reasoning_content", "content"):
        text = message[name]
        deltas += [{name: text[at : at + size]} for at in range(0, len(text), size)]
    for index, call in enumerate(message.get("tool_calls", ())):
        text = call["function"]["arguments"]
        head = {"index": index, "id": call["id"], "type": "function"}
        deltas.append({"tool_calls": [{**head, "function": {"name": call["function"]["name"]}}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": text[at : at + size]}}]}
            for at in range(0, len(text), size)
        ]
    events = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join((*lines, "data: [DONE]\n\n")).encode()
