"""`agenteval ingest` of what no program writes, or only a broken or a hostile one."""

import gzip
import io
import json
import os
import resource
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import chdir, closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agenteval.cli.app import app

sys.path.insert(0, str(Path(__file__).parents[1] / "logs"))
from sample_logs import SAMPLES, claude, database, inspect_archive

MEMORY = 1_500_000_000  # bytes of address space
RAN = 7  # calls of `claude()` that are in a rate


def agenteval(folder, *arguments):
    """One command with little memory, that may not wait for ever."""
    return subprocess.run(
        [sys.executable, "-m", "agenteval", *map(str, arguments)],
        capture_output=True,
        cwd=folder,
        check=False,
        timeout=100,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )


def bounded(folder, *arguments):
    """What is taken in, with little memory."""
    found = agenteval(folder, "ingest", *arguments, "--json")
    assert (found.returncode, found.stderr) == (0, b""), found.stderr.decode()
    return json.loads(found.stdout)


def told(folder, *arguments):
    with chdir(folder):
        found = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert found.exit_code in {0, 3}, (arguments, found.output)
    return found.output


def ingested(folder, *arguments):
    return json.loads(told(folder, "ingest", *arguments, "--json"))


def renamed(text, name):
    return text.replace('"c1"', json.dumps(name))


def named(found):
    """Where and why something was skipped, without the folder before it."""
    return {(Path(one["path"]).name, one["at"]): one["reason"] for one in found["skipped"]}


def test_only_regular_files_are_opened_and_the_others_are_named(tmp_path) -> None:
    logs = tmp_path / "logs"
    (logs / "folder.jsonl").mkdir(parents=True)
    (logs / "good.jsonl").write_text(claude())
    (logs / "empty.jsonl").touch()
    os.mkfifo(logs / "pipe.jsonl")
    (logs / "zero.jsonl").symlink_to("/dev/zero")
    (logs / "tty.jsonl").symlink_to("/dev/tty")
    (logs / "loop.jsonl").symlink_to("loop.jsonl")
    (logs / "gone.jsonl").symlink_to("nowhere")
    (logs / "around").symlink_to(".")
    os.mkfifo(logs / "good.meta.json")
    found = ingested(tmp_path, "claude-code", "logs")
    assert [run["sessions"] for run in found["runs"]] == [{"added": 1}]
    assert {name: why for (name, _), why in named(found).items()} == {
        "pipe.jsonl": "no regular file",
        "zero.jsonl": "no regular file",
        "tty.jsonl": named(found)["tty.jsonl", "the file"],
        "loop.jsonl": "Too many levels of symbolic links",
        "gone.jsonl": "No such file or directory",
    }


@pytest.mark.parametrize("name", sorted({name for name, *_ in SAMPLES}))
def test_every_format_refuses_a_pipe_and_a_device(tmp_path, name) -> None:
    os.mkfifo(tmp_path / "pipe")
    paths = (str(tmp_path / "pipe"), "/dev/zero")
    shown = told(tmp_path, "ingest", name, *paths)
    assert [line for line in shown.splitlines() if line.startswith("  ")] == [
        f"  {path}: the file: no regular file" for path in paths
    ]


ESC = "\x1b]0;title\x07\x1b[31m"
HUGE = "9" * 6_000


def texts():
    """A file each, and how many of its calls are in a rate."""
    use, result = claude().splitlines(keepends=True)[1:3]
    odd = use + result
    yield "bom", claude().encode("utf-8-sig"), RAN
    yield "utf16", claude().encode("utf-16"), RAN
    yield "utf16-bare", claude().encode("utf-16-le"), RAN
    yield "crlf", claude().replace("\n", "\r\n").encode(), RAN
    yield "latin", claude().encode().replace(b'"ls"', b'"ls \xe9"'), RAN
    yield "nul", claude().replace('"ls"', '"ls \\u0000"').encode(), RAN
    yield "half", claude().replace('"ls"', '"ls \\ud83d"').encode(), RAN
    yield "packed", gzip.compress(claude().encode()), RAN
    yield "cut", gzip.compress(claude().encode())[:-9], RAN
    yield "esc", odd.replace("opus", f"{json.dumps(ESC)[1:-1]}").encode(), 1
    yield "model", odd.replace("opus", "m\\u0000\\ud800" + "x" * 5_000).encode(), 1
    yield "digits", (odd + use.replace('"ls"', HUGE)).encode(), 1
    yield "nan", odd.replace('"ls"', "NaN").replace('"t0"', '"t9"', 1).encode(), 0
    yield "deep", (odd + "[" * 50_000 + "\n" + '{"a":' * 50_000 + "\n").encode(), 1
    yield "name", odd.replace('"Bash"', '["Bash"]').encode(), 1
    yield "id", odd.replace('"t0"', '{"a": 1}').encode(), 1
    yield "half-line", (odd + use[:-20]).encode(), 1


@pytest.mark.slow
def test_odd_texts_are_read_or_named_and_stop_nothing(tmp_path) -> None:
    made = {}
    for name, content, calls in texts():
        (tmp_path / f"{name}.jsonl").write_bytes(
            content
            if name in {"packed", "cut"} or name.startswith("utf16")
            else content.replace(b'"c1"', json.dumps(name).encode())
        )
        made[name] = calls
    found = bounded(tmp_path, "claude-code", ".")
    assert {name for name, _ in named(found)} == {
        *("cut.jsonl", "deep.jsonl", "digits.jsonl", "half-line.jsonl")
    }
    with closing(sqlite3.connect(tmp_path / "reports/agenteval.db")) as store:
        stored = dict(
            store.execute("SELECT session, calls FROM session JOIN trial ON trial.id = trial_id")
        )
    del made["nan"], made["id"]  # calls that never got their result
    assert {name: stored[name] for name in made if name in stored} == {
        name: calls for name, calls in made.items() if name in stored
    }
    assert len(stored) >= len(made) - 4  # those in other encodings are all `c1`
    _can_be_read(tmp_path, found)


def _can_be_read(folder, found):
    """What was stored is shown, compared and reported, and moves no terminal."""
    runs = [run["id"] for run in found["runs"]]
    for command in (
        ["show"],
        ["show", *runs, "--details"],
        ["calls", runs[0]],
        ["trend", "--by", "model"],
        ["whatif", runs[0], "--allowlist", "demo"],
        ["show", runs[0], "--report", "r.html"],
    ):
        assert "\x1b]0;" not in told(folder, *command), command


@pytest.mark.slow
def test_a_database_that_is_locked_is_read_another_time(tmp_path) -> None:
    store = database(tmp_path / "opencode.db")
    store.execute("PRAGMA journal_mode=DELETE")
    store.execute("BEGIN EXCLUSIVE")
    found = ingested(tmp_path, "opencode", "opencode.db")
    assert "locked" in named(found)["opencode.db", "the file"]
    store.rollback()
    store.close()
    assert ingested(tmp_path, "opencode", "opencode.db")["runs"][0]["sessions"] == {"added": 1}


def test_databases_of_other_kinds_are_named(tmp_path) -> None:
    with closing(sqlite3.connect(tmp_path / "opencode.db")) as store, store:
        store.execute("CREATE TABLE session (name)")
    with closing(sqlite3.connect(tmp_path / "opencode-odd.db")) as store, store:
        store.execute("CREATE TABLE session (id, parent_id, directory)")
        store.execute("CREATE TABLE message (id, session_id, time_created, data)")
        store.execute("CREATE TABLE part (id, message_id, data)")
        store.execute("INSERT INTO session VALUES ('s', x'ff', 7)")
        store.execute("INSERT INTO message VALUES (NULL, 's', 'then', NULL)")
        store.execute("INSERT INTO message VALUES ('m', 's', 'then', 7.5)")
        store.execute("INSERT INTO part VALUES (1, 'm', x'fffe')")
    (tmp_path / "opencode-torn.db").write_bytes(b"SQLite format 3\0" + bytes(5_000))
    os.mkfifo(tmp_path / "opencode-torn.db-wal")
    found = ingested(tmp_path, "opencode", ".")
    assert {name for name, _ in named(found)} == {
        *("opencode.db", "opencode-odd.db", "opencode-torn.db")
    }


@pytest.mark.slow
def test_archives_that_are_cut_or_unpack_to_much_are_named(tmp_path) -> None:
    whole = inspect_archive()
    (tmp_path / "whole.eval").write_bytes(whole)
    (tmp_path / "cut.eval").write_bytes(whole[:-30])
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("samples/1_epoch_1.json", "w", force_zip64=True) as member:
            member.write(b'{"id": 1, "messages": [')
            for _ in range(20):
                member.write(b" " * (1 << 20))
            member.write(b'"' + b"x" * (5 << 23))
    (tmp_path / "bomb.eval").write_bytes(held.getvalue())
    found = bounded(tmp_path, "inspect", ".")
    assert [run["sessions"] for run in found["runs"]] == [{"added": 1}]
    assert {name for name, _ in named(found)} == {"cut.eval", "bomb.eval"}


def test_garbage_in_a_million_lines_is_counted_and_not_all_named(tmp_path) -> None:
    (tmp_path / "c1.jsonl").write_text("{\n" * 5_000 + claude())
    found = ingested(tmp_path, "claude-code", "c1.jsonl")
    assert (found["skipped_parts"], len(found["skipped"])) == (5_000, 1_000)
    shown = told(tmp_path, "ingest", "claude-code", "c1.jsonl", "--allowlist", "demo")
    assert "parts skipped: 5,000\n" in shown
