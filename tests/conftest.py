"""Fixtures that several areas share."""

import os
import re
import shutil
import signal
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from agenteval.config.files import shipped
from agenteval.lazily import OWN_SAFE_PATH

# Both are told by the clock, and a busy machine is no fault of the code.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")

# What a shell starts with `&` ignores Ctrl-C, and so would every command that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _http(status: str, kind: str, body: str | bytes, *, length: int | None = None) -> bytes:
    payload = body.encode() if isinstance(body, str) else body
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n"
        f"Content-Length: {len(payload) if length is None else length}\r\n\r\n"
    )
    return head.encode() + payload


@contextmanager
def _answering(reply: bytes, delay: float = 0.0, *, models: bytes = b"") -> Iterator[str]:
    """A real HTTP server on loopback that answers every request with the same bytes.

    `models` is the answer to a GET, when that is to be another one.
    """
    over = threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = self.rfile.readline()
                if not line:  # connected, and went away
                    return
                head += line
            length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
            self.rfile.read(int(length[1]) if length else 0)
            over.wait(delay)
            self.wfile.write(models if models and head.startswith(b"GET") else reply)

        def finish(self) -> None:
            try:
                super().finish()
            except OSError:  # the client did not wait
                self.rfile.close()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            over.set()
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def own_safe_path() -> Iterator[None]:
    """Unset what a command sets for its whole process, which is that of every test here."""
    yield
    name, value = OWN_SAFE_PATH
    if os.environ.get(name) == value:
        del os.environ[name]


@pytest.fixture
def answering():
    return _answering


@pytest.fixture
def reply():
    return _http


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A project of the user's own, and the current folder; its parts are the shipped ones."""
    (tmp_path / "agenteval.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    for name in (
        *("AGENTEVAL_BASE_URL", "OPENAI_BASE_URL", "AGENTEVAL_MODEL", "OPENAI_API_KEY"),
        "AGENTEVAL_TRUST",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


@pytest.fixture
def own_project(project) -> Path:
    """The same, with the shipped parts in it, to be changed."""
    for name in ("allowlists", "fixtures", "scenarios"):
        shutil.copytree(shipped() / name, project / name)
    return project


@pytest.fixture(scope="session")
def postgres():
    """A real PostgreSQL server (`postgres.Server`)."""
    from postgres import AbsentError, serving  # noqa: PLC0415 -- its driver, for these tests alone

    try:
        with serving() as server:
            yield server
    except AbsentError as absent:
        pytest.skip(str(absent))
