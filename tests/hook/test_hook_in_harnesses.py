"""The hook in the real Claude Code, Codex, OpenCode: what runs, what the model reads, the log."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from told_model import told
from typer.testing import CliRunner

from agenteval.cli.app import app
from agenteval.errors import UsageError
from agenteval.harness.install import installed
from agenteval.harness.recipes import MODEL

sys.path.insert(0, str(Path(__file__).parents[1] / "harness"))
from real import cache

AGENTEVAL = [sys.executable, "-m", "agenteval"]
RULES = '[bash]\nallow = ["touch *"]\n'
GOOD, BAD = "touch ran-good", "touch ran-bad | head -5"
OPENCODE = {"provider": {"p": {"npm": "@ai-sdk/openai-compatible", "models": {MODEL: {
    "tool_call": True, "limit": {"context": 200_000, "output": 16_000}}}}},
    "model": f"p/{MODEL}", "small_model": f"p/{MODEL}", "autoupdate": False,
    "share": "disabled", "snapshot": False}  # fmt: skip
LETS_ALL = {"claude-code": ("--dangerously-skip-permissions",)}


def started(name: str, url: str, env: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """How the program is asked to play with our model, with all that it may do by its own rules."""
    if name == "claude-code":
        off = ("TELEMETRY", "AUTOUPDATER")
        more = {f"DISABLE_{word}": "1" for word in off} | {
            "ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}  # fmt: skip
        tools = "Bash,Monitor"
        words = ["-p", "go", "--model", MODEL, "--tools", tools, "--allowedTools", tools]
        return words, env | more
    if name == "codex":
        provider = f'model_providers.p={{name="p",base_url="{url}/v1",wire_api="responses"}}'
        chosen = ["-c", 'model_provider="p"', "-c", provider, "-c", f'model="{MODEL}"']
        free = ["-c", 'approval_policy="never"', "-c", 'sandbox_mode="danger-full-access"',
                "-c", "features={apps=false,plugins=false}"]  # fmt: skip
        trust = "--dangerously-bypass-hook-trust"
        return ["exec", "--skip-git-repo-check", trust, *chosen, *free, "go"], env
    off = ("MODELS_FETCH", "DEFAULT_PLUGINS", "AUTOUPDATE", "LSP_DOWNLOAD")
    config = json.loads(json.dumps(OPENCODE))
    config["provider"]["p"]["options"] = {"baseURL": f"{url}/v1", "apiKey": "none"}
    more = {f"OPENCODE_DISABLE_{word}": "1" for word in off}
    more |= {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "npm_config_registry": url}
    return ["run", "--title", "trial", "go"], env | more


class Place:
    """An empty project and home, and the hook's command line in them."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.project, self.home = name, folder / "project", folder / "home"
        self.rules = folder / "rules.toml"
        for each in (self.project, self.home):
            each.mkdir()
        self.rules.write_text(RULES)
        own = {"HOME": str(self.home), "PWD": str(self.project), "IS_SANDBOX": "1"}
        self.env = {**os.environ, **own}

    def hook(self, *words: str) -> str:
        asked = [*AGENTEVAL, "hook", *words, "--for", self.name, "--user", "--yes"]
        done = self.call(asked, self.env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def call(self, words: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=self.project, env=env, capture_output=True, text=True,
                              timeout=120, check=False, stdin=subprocess.DEVNULL)  # fmt: skip

    def played(self, found: str, url: str) -> str:
        """What the program says of its one session."""
        words, more = started(self.name, url, self.env)
        done = self.call([found, *words], more)
        return done.stdout + done.stderr

    @property
    def ran(self) -> list[str]:
        return sorted(path.name for path in self.project.glob("ran-*"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claude-code", "codex", "opencode"])
@pytest.mark.parametrize("observe", [False, True])
def test_what_is_denied_does_not_run_and_the_model_reads_why(
    name, observe, tmp_path, monkeypatch, stopped
) -> None:
    found, place = program(name, monkeypatch, cache()), Place(tmp_path, name)
    words = ("install", "--allowlist", "../rules.toml", *["--observe"][:observe])
    assert "changed" in place.hook(*words)
    with told(GOOD, BAD) as model:
        said = place.played(found, model.url)
    assert list(model.heard) == [GOOD, BAD], said
    ran = place.ran
    log = stopped / "agenteval/hook/calls.jsonl"
    lines = [one for one in map(json.loads, log.read_text().splitlines()) if "tool" in one]
    kept = [(one["arguments"].get("command"), one["verdict"], one.get("ran")) for one in lines]
    assert [one["harness"] for one in lines] == [name, name]
    assert [one["model"] for one in lines] == [MODEL, MODEL]
    assert kept == [(GOOD, "allowed", None), (BAD, "denied", observe)]
    if observe:
        assert (ran, "Denied by" in model.heard[BAD]) == (["ran-bad", "ran-good"], False)
    else:
        assert ran == ["ran-good"], said
        assert "Denied by the allow list rules (pipe-to-filter): `| head -5`" in model.heard[BAD]
    assert logged(name, place.home, tmp_path) == {GOOD: "ran", BAD: "ran" if observe else "denied"}
    assert in_production(log, tmp_path / "hook.db") == [(MODEL, lines[0]["at"][:10], 1, 2)]


@pytest.mark.slow
def test_monitor_of_claude_code_is_asked_about_and_judged_as_bash(
    tmp_path, monkeypatch, stopped
) -> None:
    found, place = program("claude-code", monkeypatch, cache()), Place(tmp_path, "claude-code")
    place.hook("install", "--allowlist", "../rules.toml")
    with told(GOOD, BAD, tool="Monitor") as model:
        said = place.played(found, model.url)
    log = stopped / "agenteval/hook/calls.jsonl"
    lines = [one for one in map(json.loads, log.read_text().splitlines()) if "tool" in one]
    assert [(one["tool"], one["verdict"]) for one in lines] == [
        ("Monitor", "allowed"), ("Monitor", "denied")], said  # fmt: skip
    assert "Denied by the allow list rules (pipe-to-filter)" in model.heard[BAD]
    assert "ran-bad" not in place.ran


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claude-code", "codex", "opencode"])
@pytest.mark.parametrize("fail", ["closed", "open"])
def test_a_list_that_is_gone_fails_as_the_hook_was_installed_and_once_removed_nothing_is_asked(
    name, fail, tmp_path, monkeypatch, stopped
) -> None:
    found, place = program(name, monkeypatch, cache()), Place(tmp_path, name)
    place.hook("install", "--allowlist", "../rules.toml", "--fail", fail)
    place.rules.unlink()
    with told(GOOD) as model:
        said = place.played(found, model.url)
    assert place.ran == ["ran-good"][: fail == "open"], said
    assert ("agenteval cannot judge this call" in model.heard[GOOD]) == (fail == "closed"), said
    log = stopped / "agenteval/hook/calls.jsonl"
    kept = log.read_text()
    assert '"event":"unreadable"' in kept
    if fail == "open":
        return  # how it was to fail does not matter to what is removed
    place.hook("remove")
    with told(BAD) as model:
        said = place.played(found, model.url)
    assert "ran-bad" in place.ran, said
    assert log.read_text() == kept


def in_production(log: Path, store: Path) -> list[tuple[str, str, int, int]]:
    """Errors and calls by model and day, as `trend` tells them of the hook's own log."""
    for words in (("ingest", "hook", str(log)), ("trend", "--by", "day", "--json")):
        done = CliRunner().invoke(app, [*words, "--store", str(store)])
        assert done.exit_code == 0, done.output
    points = json.loads(done.stdout)["points"]
    return [(one["model"], one["label"], one["errors"], one["calls"]) for one in points]


PLACES = {
    "claude-code": ".claude/projects",
    "codex": ".codex/sessions",
    "opencode": ".local/share/opencode",
}


def logged(name: str, home: Path, folder: Path) -> dict[str, str]:
    """What the program's own log tells of each call, and no more calls than were made."""
    store = folder / "store.db"
    words = ["ingest", name, str(home / PLACES[name]), "--store", str(store)]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0, told.output
    with closing(sqlite3.connect(store)) as rows:
        found = rows.execute('SELECT raw, harness FROM "call"').fetchall()
    assert len(found) == len(dict(found)), found
    return dict(found)


def program(name: str, monkeypatch, cached: Path) -> str:
    monkeypatch.setenv("AGENTEVAL_DATA", str(cached))
    try:
        found = installed(name)
    except UsageError as error:
        pytest.skip(f"{error}; in the tests `make harnesses` gets it")
    return str(found.folder / found.binary)
