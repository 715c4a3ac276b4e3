"""A person as the model, and stored trials made again: `agenteval play`."""

import subprocess
import sys

import pytest

AGENTEVAL = [sys.executable, "-m", "agenteval"]


def agenteval(*words: str, typed: str = "", folder) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AGENTEVAL, *words], cwd=folder, input=typed, capture_output=True, text=True, timeout=100,
        check=False,
    )  # fmt: skip


def test_who_plays_reads_what_a_model_reads_and_is_told_verdict_hint_and_goal(tmp_path) -> None:
    shown = agenteval("scenarios", "show", "notes/append", "--seed", "3", folder=tmp_path).stdout
    typed = [
        "uv run scripts/notes.py list | head -3",
        ":read scripts/world.py",
        ':read {"filePath": "docs/tags.md"',
        ":nosuch x",
        ":tools",
        ":bash",
        "uv run scripts/notes.py finish \\",
        "  --session 22227",
        ":end",
        ":done That is all.",
    ]
    done = agenteval("play", "notes/append", "--seed", "3", typed="\n".join(typed), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    task = shown.partition("first message of the user -----\n")[2].strip()
    lines = done.stdout.splitlines()
    assert task in done.stdout
    assert any(line.startswith("  denied: pipe-to-filter `| head -3`: ") for line in lines)
    assert "def connect(" in done.stdout
    assert any(line.startswith("  denied: malformed-arguments") for line in lines)
    assert any(line.startswith("  denied: hallucinated-tool `nosuch`") for line in lines)
    read = "    filePath (string): The path of the file to read"
    assert lines.count(read) == 2  # before anything is typed, and where it is asked for
    assert next(i for i, line in enumerate(lines) if line == read) < lines.index("----- user -----")
    assert lines[lines.index("session 22227 is done") - 1] == "  allowed, exit 0"
    assert lines[-1] == "5 tool calls, 3 denied"
    assert "    held: the session is finished (found 'done')" in lines
    assert any(line.startswith("    missed: the old lines are there") for line in lines)


def test_the_end_of_what_is_typed_is_a_last_word(tmp_path) -> None:
    done = agenteval("play", "notes/append", "--arm", "strict", folder=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 tool calls, 0 denied")


@pytest.mark.parametrize("scenario", ["mail/triage", "ralf/evaluated-by-model"])
def test_a_stored_trial_is_made_again_in_its_world(tmp_path, scenario) -> None:
    ran = agenteval(
        "run", "-m", "sim/qwen3.5-27b", scenario, "--trials", "1", "--seed", "5", folder=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    stored = agenteval("transcript", "sim/qwen3.5-27b", f"{scenario}#1", folder=tmp_path).stdout
    again = agenteval("play", f"{scenario}#1", "--replay", "sim/qwen3.5-27b", folder=tmp_path)
    assert again.returncode == 0, again.stderr
    calls = agenteval("calls", "sim/qwen3.5-27b", folder=tmp_path).stdout.splitlines()
    assert f"{len(calls)} tool calls, " in again.stdout.splitlines()[-1]
    why = [line for line in stored.splitlines() if line.startswith(("    held", "    missed"))]
    assert why
    assert [line for line in why if line not in again.stdout] == []


def test_what_cannot_be_played_is_one_line(tmp_path) -> None:
    folder = agenteval("play", "ralf/", folder=tmp_path)
    assert (folder.returncode, folder.stderr.count("\n")) == (2, 1)
    assert "name one of them: ralf/" in folder.stderr
    nothing = agenteval("play", "mail/triage#1", "--replay", "last", folder=tmp_path)
    assert (nothing.returncode, nothing.stderr.count("\n")) == (2, 1)


def test_a_world_is_shown_and_written_as_a_trial_has_it(tmp_path) -> None:
    shown = agenteval("scenarios", "world", "notes/append", "--seed", "3", folder=tmp_path).stdout
    assert "notes/append, seed 3: 6 files\n" in shown
    assert "  sessions(id, state): 1 rows\n    (22227, 'open')\n" in shown
    written = agenteval(
        "scenarios", "world", "notes/append", "--seed", "3", "--out", "w", folder=tmp_path
    )
    assert written.stdout.count("wrote w/") == 6
    assert (tmp_path / "w" / "scripts" / "notes.py").read_bytes()
    again = agenteval("scenarios", "world", "notes/append", "--out", "w", folder=tmp_path)
    assert (again.returncode, again.stderr) == (
        2, "agenteval: --out w: is there already; name a new folder\n")  # fmt: skip
