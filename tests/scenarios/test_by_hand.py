"""A person as the model, and stored trials made again: `agenteval play`."""

import io
from subprocess import CompletedProcess

import pytest

from agenteval.cli.app import main


@pytest.fixture
def agenteval(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*words: str, typed: str = "") -> CompletedProcess[str]:
        monkeypatch.setattr("sys.argv", ["agenteval", *words])
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code or 0
        assert isinstance(code, int)
        return CompletedProcess(words, code, *capsys.readouterr())

    return call


def test_who_plays_reads_what_a_model_reads_and_is_told_verdict_hint_and_goal(agenteval) -> None:
    shown = agenteval("scenarios", "show", "notes/append", "--seed", "3").stdout
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
    done = agenteval("play", "notes/append", "--seed", "3", typed="\n".join(typed))
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


def test_the_end_of_what_is_typed_is_a_last_word(agenteval) -> None:
    done = agenteval("play", "notes/append", "--arm", "strict")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 tool calls, 0 denied")


@pytest.mark.parametrize("scenario", ["mail/triage", "ralf/evaluated-by-model"])
def test_a_stored_trial_is_made_again_in_its_world(agenteval, scenario) -> None:
    ran = agenteval("run", "-m", "sim/qwen3.5-27b", scenario, "--trials", "1", "--seed", "5")
    assert ran.returncode == 0, ran.stderr
    stored = agenteval("transcript", "sim/qwen3.5-27b", f"{scenario}#1").stdout
    again = agenteval("play", f"{scenario}#1", "--replay", "sim/qwen3.5-27b")
    assert again.returncode == 0, again.stderr
    calls = agenteval("calls", "sim/qwen3.5-27b").stdout.splitlines()
    assert f"{len(calls)} tool calls, " in again.stdout.splitlines()[-1]
    why = [line for line in stored.splitlines() if line.startswith(("    held", "    missed"))]
    assert why
    assert [line for line in why if line not in again.stdout] == []


def test_what_cannot_be_played_is_one_line(agenteval) -> None:
    folder = agenteval("play", "ralf/")
    assert (folder.returncode, folder.stderr.count("\n")) == (2, 1)
    assert "name one of them: ralf/" in folder.stderr
    nothing = agenteval("play", "mail/triage#1", "--replay", "last")
    assert (nothing.returncode, nothing.stderr.count("\n")) == (2, 1)


def test_a_world_is_shown_and_written_as_a_trial_has_it(agenteval, tmp_path) -> None:
    shown = agenteval("scenarios", "world", "notes/append", "--seed", "3").stdout
    assert "notes/append, seed 3: 6 files\n" in shown
    assert "  sessions(id, state): 1 rows\n    (22227, 'open')\n" in shown
    written = agenteval("scenarios", "world", "notes/append", "--seed", "3", "--out", "w")
    assert written.stdout.count("wrote w/") == 6
    assert (tmp_path / "w" / "scripts" / "notes.py").read_bytes()
    again = agenteval("scenarios", "world", "notes/append", "--out", "w")
    assert (again.returncode, again.stderr) == (
        2, "agenteval: --out w: is there already; name a new folder\n")  # fmt: skip
