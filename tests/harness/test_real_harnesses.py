"""The real programs as agents of trials, their model simulated: what is stored of each call."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from real import PLAYED, cache
from scripted_server import answers, scripted

from agenteval.errors import UsageError
from agenteval.harness.install import installed
from agenteval.store.sql import SqlStore

AGENTEVAL = [sys.executable, "-m", "agenteval"]
MODEL = "sim/qwen3.5-27b"


@pytest.fixture(params=PLAYED)
def harness(request, monkeypatch) -> str:
    """A harness that is here; `make harnesses` gets them."""
    monkeypatch.setenv("AGENTEVAL_DATA", str(cache()))
    try:
        installed(request.param)
    except UsageError as error:
        pytest.skip(f"{error}; in the tests `make harnesses` gets it")
    return request.param


def run(*words: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AGENTEVAL, *words],
        cwd=folder,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def home(tmp_path) -> Path:
    """A user's home: whoever reads the settings there fails."""
    home = tmp_path / "home"
    for name in (".claude.json", ".config/opencode/opencode.json", ".codex/config.toml"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("this is no config")
    return home


def seen(home: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in home.rglob("*")}


@pytest.mark.slow
def test_the_program_plays_both_verdicts_of_each_call_are_kept_and_no_home_is_looked_into(
    harness, home, tmp_path
) -> None:
    before = seen(home)
    asked = ("-m", MODEL, "--harness", harness, "mail/draft", "mail/triage", "--trials", "1")
    done = run("run", *asked, folder=tmp_path, HOME=str(home))
    assert (done.returncode, seen(home)) == (0, before), done.stderr
    store = SqlStore(str(tmp_path / "reports" / "agenteval.db"))
    stored = store.load(store.resolve_name("last"))
    calls = [call for trial in stored.trials for call in trial.calls]
    assert [trial.outcome for trial in stored.trials if trial.scenario == "mail/draft"] == [
        "completed"]  # fmt: skip
    assert stored.protocol.count(f"played by {harness}") == 1
    translated = "translated to chat completions" in stored.protocol
    assert translated == (harness in {"claude-code", "codex"})
    assert {call.harness for call in calls} <= {"ran", "denied", "refused"}
    assert all(call.reply for call in calls)
    told = run("harness", "verdicts", "last", folder=tmp_path).stdout
    assert f"of {len(calls)} calls judged as our allow list does" in told
    assert "unlike our reading" not in told


def patch(path: str) -> str:
    return f"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\nEOF"


CODEX_TRIES = {
    "uv run scripts/journal.py duties": "ran",
    "cat notes/energy/readme.md": "ran",  # of its own it reads files by commands only
    patch("notes/energy/2021-01-04.md"): "ran",
    patch("scripts/new.py"): "denied",
    "cat /etc/passwd": "denied",
    "uv run scripts/journal.py duties | head -2": "denied",
    "uv run scripts/journal.py duties && rm -rf notes": "denied",
    "touch notes/energy/new.md": "denied",
}


@pytest.mark.slow
def test_codex_asks_about_what_no_rule_allows_and_is_told_no(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("AGENTEVAL_DATA", str(cache()))
    try:
        installed("codex")
    except UsageError as error:
        pytest.skip(f"{error}; in the tests `make harnesses` gets it")
    tries = [*CODEX_TRIES]

    def script(messages):
        done = answers(messages)
        return ("exec_command", {"cmd": tries[done]}) if done < len(tries) else "All is done."

    with scripted(script) as url:
        asked = ("-m", "m", "--base-url", url, "--harness", "codex", "home/energy-note")
        done = run("run", *asked, "--trials", "1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    store = SqlStore(str(tmp_path / "reports" / "agenteval.db"))
    (trial,) = store.load(store.resolve_name("last")).trials
    assert {call.call.command: call.harness for call in trial.calls} == CODEX_TRIES
    replies = [call.reply for call in trial.calls if call.harness == "denied"]
    assert all("rejected by user" in reply for reply in replies)
    told = run("harness", "verdicts", "last", folder=tmp_path).stdout
    assert "for it was told yes: the list lets these files be read: `cat notes/" in told


@pytest.mark.slow
def test_a_dead_server_makes_the_trial_void_whatever_the_program_says(harness, tmp_path) -> None:
    """It lists its model, and then takes no request: the proxy tells, no exit code does."""
    server = tmp_path / "server.py"
    server.write_text(DEAD)
    with subprocess.Popen([sys.executable, str(server)], stdout=subprocess.PIPE, text=True) as dead:
        assert dead.stdout is not None
        url = dead.stdout.readline().strip()
        asked = ("-m", "m", "--base-url", url, "--harness", harness, "mail/draft", "--trials", "1")
        done = run("run", *asked, "--json", folder=tmp_path)
        dead.terminate()
    voids = json.loads(done.stdout)["runs"][0]["voids"]
    assert [void["cause"] for void in voids] == ["server-error"], done.stderr


@pytest.mark.slow
def test_a_call_that_its_server_could_not_read_is_a_turn_and_is_asked_for_again(
    harness, tmp_path
) -> None:
    refused = []

    def script(messages):
        if "draft" not in str(messages) or refused:
            return "All is done."
        refused.append(messages)
        return {"status": 500, "error": "Failed to parse tool call arguments as JSON"}

    with scripted(script) as url:
        asked = ("-m", "m", "--base-url", url, "--harness", harness, "mail/draft", "--trials", "1")
        done = run("run", *asked, folder=tmp_path)
    store = SqlStore(str(tmp_path / "reports" / "agenteval.db"))
    (trial,) = store.load(store.resolve_name("last", whatever=True)).trials
    ends = [turn.finish_reason for turn in trial.turns]
    if harness == "opencode":  # behind such an error it asks the same without end
        assert "took none of 30 replies to the same request" in trial.reason, done.stderr
        return
    again = ["stop"] * (harness == "qwen-code")  # which asks on once after the last word
    assert (str(trial.outcome), ends) == ("claimed-done", ["error", "stop", *again]), done.stderr


DEAD = """\
from http.server import BaseHTTPRequestHandler, HTTPServer
class Dead(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200, b'{"object": "list", "data": [{"id": "m", "object": "model"}]}')
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.answer(500, b'{"error": {"message": "it broke"}}')
    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): ...
server = HTTPServer(("127.0.0.1", 0), Dead)
print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
server.serve_forever()
"""
