"""The approver and the scorer in the real Inspect AI, which stands in an environment of its own."""

import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from inspect_place import PLACE, PROJECT
from scripted_server import answers, scripted

COMMANDS = ("git status", "git status | head -3", "uv run scripts/notes.py list")
POLICY = "approvers:\n  - name: agenteval/allow_list\n    tools: '*'\n    allowlist: demo\n"


@pytest.fixture
def inspect(tmp_path, monkeypatch):
    """Runs a task, with this checkout as an installed distribution."""
    if not (PLACE / "bin/inspect").exists():
        pytest.skip("Inspect AI is not there: `make inspect` gets it")
    site = tmp_path / "site-packages"
    told = site / "agenteval_gate-0.dist-info"
    told.mkdir(parents=True)
    (site / "agenteval").symlink_to(PROJECT / "agenteval")
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: agenteval-gate\nVersion: 0\n")
    points = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["entry-points"]
    (told / "entry_points.txt").write_text(
        "".join(f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
                for group, named in points.items())
    )  # fmt: skip
    shutil.copy(Path(__file__).with_name("inspect_task.py"), tmp_path)
    (tmp_path / "policy.yaml").write_text(POLICY)
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("SCRIPTED_API_KEY", "none")
    monkeypatch.chdir(tmp_path)

    def run(task: str, approval: str, url: str) -> dict:
        words = [PLACE / "bin/inspect", "eval", f"inspect_task.py@{task}", "--approval", approval]
        more = ["--model", "openai-api/scripted/m", "--log-format", "json", "--display", "plain"]
        done = subprocess.run([*words, *more], env={**os.environ, "SCRIPTED_BASE_URL": url},
                              capture_output=True, text=True, timeout=200, check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        (log,) = Path("logs").glob("*.json")
        return json.loads(log.read_text())

    return run


@pytest.mark.slow
@pytest.mark.parametrize(("task", "key"), [("own", "cmd"), ("bridged", "command")])
def test_a_denied_call_does_not_run_the_model_reads_why_and_it_is_counted(
    task, key, inspect, tmp_path
) -> None:
    heard, asked = [], []

    def script(messages):
        heard.append(json.dumps(messages))
        done = answers(messages) if task == "own" else len(asked)
        asked.append(done)
        return ("bash", {key: COMMANDS[done]}) if done < len(COMMANDS) else "done"

    with scripted(script) as url:
        log = inspect(task, "policy.yaml", url)
    assert (tmp_path / "ran.txt").read_text().splitlines() == [COMMANDS[0], COMMANDS[2]]
    told = "Denied by the allow list demo (pipe-to-filter): `| head -3`"
    assert any(told in request for request in heard)
    (score,) = log["results"]["scores"]
    metrics = {name.rpartition("/")[2]: one["value"] for name, one in score["metrics"].items()}
    assert metrics["calls"] == 3
    assert metrics["errors_per_100"] == pytest.approx(100 / 3)
    assert metrics["pipe-to-filter"] == pytest.approx(100 / 3)


@pytest.mark.slow
def test_observing_rejects_nothing_and_counts(inspect, tmp_path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY + "    observe: true\n")

    def script(messages):
        done = answers(messages)
        return ("bash", {"cmd": COMMANDS[done]}) if done < len(COMMANDS) else "done"

    with scripted(script) as url:
        log = inspect("own", "policy.yaml", url)
    assert (tmp_path / "ran.txt").read_text().splitlines() == list(COMMANDS)
    (sample,) = log["samples"]
    assert sample["scores"]["tool_call_errors"]["metadata"]["classes"] == {"pipe-to-filter": 1}
