"""A machine that keeps us from going on is told in one line, with an exit code of its own."""

import errno
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import refusing_kernel
from program import agenteval
from stored import stored
from test_resume import asked

from agenteval.sandbox.inside import kernel
from agenteval.testing import run, trial

RUN = ("run", "-m", "sim/qwen3.6-35b", "ralf/handshake", "--trials", "12", "--concurrency", "2")
ROOM = 900_000  # bytes that a file may have: more than an empty store, less than that of this run


def limited(
    folder: Path, *words: str, room: int | None = None, hard=(), before=(), **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command, in a process whose files may not grow beyond `room`.

    `hard` is a limit, by name, and its value; `before` the program that starts it.
    """

    def bound() -> None:
        if room is not None:
            _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))  # sandboxes set their own
        if hard:
            resource.setrlimit(getattr(resource, hard[0]), (hard[1], hard[1]))

    return agenteval(folder, *words, before=before, env=environment, preexec_fn=bound)


MACHINE = ("bwrap", "--dev-bind", "/", "/", "--die-with-parent")  # this one, but for what follows
READ_ONLY = ("--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev")  # /tmp too if it is mounted
HAS_BWRAP = pytest.mark.skipif(shutil.which("bwrap") is None, reason="no program bwrap")
LOGGED = '{"v": 1, "at": "2026-11-27T10:00:00.000Z", "event": "start", "pid": 1}\n'
TOLD = "make room there, and ask again"


def test_an_output_that_goes_to_a_full_disk_is_no_verdict(tmp_path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = agenteval(tmp_path, "classify", "ls", stdout=full)
    assert (ended.returncode, ended.stderr.count("\n")) == (4, 1)
    assert TOLD in ended.stderr


@pytest.mark.parametrize(
    ("words", "room", "said"),
    [
        (("gate", "--init"), 0, TOLD),
        (
            ("show", "r", "--report", "r.html"),
            40_000,
            f"--report r.html: cannot be written.*{TOLD}",
        ),
        (("show", "r"), 0, "--store reports/agenteval.db: disk I/O error"),
        (("store", "export", "--file", "copy.db"), 60_000, ""),
        (("show", "r", "--github"), 40_000, f"--github summary: cannot be written.*{TOLD}"),
        (
            ("hook", "install", "--for", "claude-code", "--allowlist", "demo", "--yes"),
            0,
            f"settings.json: cannot be written.*{TOLD}",
        ),
    ],
)
def test_a_file_for_which_there_is_no_room_is_the_machine_s_fault(
    tmp_path, words, room, said
) -> None:
    stored(str(tmp_path / "reports/agenteval.db"), run(trial("ls"), run_id="r"))
    (tmp_path / "summary").write_bytes(b"x" * 40_000)
    full = limited(tmp_path, *words, room=room, GITHUB_STEP_SUMMARY="summary")
    assert (full.returncode, full.stderr.count("\n")) == (4, 1), full.stderr
    assert re.search(said, full.stderr)
    assert [*tmp_path.glob(".claude/*"), *tmp_path.glob("copy*")] == []


@HAS_BWRAP
def test_pages_without_room_leave_a_folder_that_can_be_written_to_again(tmp_path) -> None:
    stored(str(tmp_path / "reports/agenteval.db"), run(trial("ls"), run_id="r"))
    small = ("--size", "40960", "--tmpfs", "/mnt", "--", "sh", "-c")
    listing = '"$@"; code=$?; ls -A /mnt/new; exit $code'
    before = (*MACHINE, *small, listing, "sh")
    full = limited(tmp_path, "view", "--export", "/mnt/new", before=before)
    assert (full.returncode, full.stdout, full.stderr.count("\n")) == (4, "", 1)
    assert re.search(f"--export /mnt/new: cannot be written.*{TOLD}", full.stderr)


@pytest.mark.parametrize(
    ("words", "hard", "code", "said"),
    [
        (RUN, ("RLIMIT_NOFILE", 64), 2, r"64 file descriptors \(ulimit -n\), .* needs 256"),
        (RUN, ("RLIMIT_NOFILE", 16), 2, r"16 file descriptors \(ulimit -n\)"),
        (RUN, ("RLIMIT_AS", 400_000 << 10), 2, r"400,000 kB of address space \(ulimit -v\)"),
        (RUN, ("RLIMIT_DATA", 500_000 << 10), 2, r"500,000 kB of data \(ulimit -d\)"),
        (RUN, ("RLIMIT_FSIZE", 1000 << 10), 2, r"1,000 kB in a file \(ulimit -f\)"),
        (RUN, ("RLIMIT_NPROC", 50), 2, r"50 processes of this user \(ulimit -u\)"),
        (("show", "r"), ("RLIMIT_AS", 25_000 << 10), 4, r"25,000 kB of address space are too few"),
        (("show", "r"), ("RLIMIT_AS", 200_000 << 10), 0, ""),
        (("classify", "git status"), ("RLIMIT_NOFILE", 16), 0, ""),
        (("show", "r"), ("RLIMIT_NOFILE", 16), 0, ""),
        (("ingest", "hook", ".", "--store", "i.db"), ("RLIMIT_NOFILE", 16), 0, ""),
        (("view", "--export", "new"), ("RLIMIT_NOFILE", 16), 0, ""),
    ],
)
def test_a_limit_that_is_too_small_is_named(tmp_path, words, hard, code, said) -> None:
    stored(str(tmp_path / "reports/agenteval.db"), run(trial("ls"), run_id="r"))
    (tmp_path / "calls.jsonl").write_text(LOGGED)
    ended = limited(tmp_path, *words, hard=hard)
    assert (ended.returncode, ended.stderr.count("\n")) == (code, bool(code)), ended.stderr
    assert re.search(said, ended.stderr)


ONE = ("run", "-m", "sim/qwen3.6-35b", "mail/draft", "--trials", "1", "--seed", "5")
NOBODY = ("--unshare-user", "--uid", "54321", "--gid", "54321", "--unsetenv", "HOME")


@HAS_BWRAP
@pytest.mark.parametrize(
    ("words", "lacks", "said"),
    [
        (ONE, ("--tmpfs", "/proc"), "/proc: not mounted, .*: mount it"),
        (("ingest", "auto"), NOBODY, "HOME is not set, .*: name one, export HOME="),
        (ONE, NOBODY, "HOME is not set, .*: name one, export HOME="),
        (ONE, ("--unshare-user", "--disable-userns"), "no sandbox works here; nothing is run"),
        (
            ("run", *ONE[1:], "--store", "/dev/shm/x.db"),
            (*READ_ONLY, "--chdir", "/", "--setenv", "TMPDIR", "/nowhere"),
            "No usable temporary directory .*: set TMPDIR to a folder",
        ),
    ],
    ids=["no /proc", "no home", "no home for a run", "no user namespaces", "no temporary folder"],
)
def test_what_a_machine_lacks_is_named_with_the_cure(tmp_path, words, lacks, said) -> None:
    before = (*MACHINE, *lacks, "--")
    ended = limited(tmp_path, *words, before=before, PYTHONDONTWRITEBYTECODE="1")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert re.search(said, ended.stderr)


NOEXEC = (
    *("unshare", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",)), "sh", "-c"),
    'mount -t tmpfs -o noexec,nosuid,nodev none /mnt && exec "$@"',
    "sh",
)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["bubblewrap", "namespaces"])
@pytest.mark.parametrize(
    ("before", "environment"),
    [
        (refusing_kernel.before("landlock", errno.ENOSYS), {}),
        (refusing_kernel.before("landlock", errno.EOPNOTSUPP), {}),
        (NOEXEC, {"TMPDIR": "/mnt"}),
    ],
    ids=["no Landlock", "Landlock is off", "noexec"],
)
def test_a_run_needs_neither_landlock_nor_programs_in_its_temporary_folder(
    tmp_path, backend, before, environment
) -> None:
    if backend == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("no program bwrap")
    ended = limited(tmp_path, *ONE, "--sandbox", backend, before=before, **environment)
    completed = asked(tmp_path, "SELECT count(*) FROM trial WHERE outcome = 'completed'")
    assert (ended.returncode, completed, "Traceback" in ended.stderr) == (0, 1, False), ended.stderr


def test_the_confined_child_says_that_it_has_no_landlock_and_keeps_its_other_layers() -> None:
    asking = "from agenteval.sandbox import maker; print(*maker.confined_by())"
    words = [*refusing_kernel.before("landlock", errno.EOPNOTSUPP), sys.executable, "-c", asking]
    told = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout.split() == ["limits", "seccomp"]


@pytest.mark.parametrize(
    ("words", "size", "said", "remaining"),
    [
        (("gate", "--init"), 500, f"gate.toml: cannot be written: .*{TOLD}", []),
        (
            ("show", "r", "--report", "r.html"),
            40_000,
            f"--report r.html: cannot be written .*{TOLD}",
            [],
        ),
        (
            ("scenarios", "new", "mine/one"),
            500,
            f"scenario.toml: cannot be written: .*{TOLD}",
            ["scenarios"],
        ),
        (("store", "export", "--file", "copy.db"), 60_000, "--store copy.db: disk I/O error", []),
        (("view", "--export", "new"), 10_000, f"--export new: cannot be written .*{TOLD}", ["new"]),
    ],
)
def test_a_quota_that_is_used_up_leaves_no_half_of_a_file(
    tmp_path, words, size, said, remaining
) -> None:
    """Half a gate.toml or allow list would be another one, and be refused as there already."""
    stored(str(tmp_path / "reports/agenteval.db"), run(trial("ls"), run_id="r"))
    full = limited(tmp_path, *words, before=refusing_kernel.before("quota", size))
    assert (full.returncode, full.stderr.count("\n")) == (4, 1), full.stderr
    assert re.search(said, full.stderr)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.parent.name for path in files if "agenteval.db" not in path.name] == []
    assert sorted({path.name for path in tmp_path.iterdir()} - {"reports"}) == remaining
    assert limited(tmp_path, *words).returncode == 0


@pytest.mark.slow
def test_a_quota_that_is_used_up_in_mid_run_ends_it_and_it_can_go_on(tmp_path) -> None:
    full = limited(tmp_path, *RUN, before=refusing_kernel.before("quota", 500_000))
    last = full.stderr.strip().splitlines()[-1]
    assert (full.returncode, "Traceback" in full.stderr) == (4, False)
    assert last.startswith("agenteval: --store reports/agenteval.db: ")
    assert "What was stored before is intact" in last
    resumed = limited(tmp_path, "run", "--resume", "last")
    trials = asked(tmp_path, "SELECT count(*) FROM trial WHERE outcome NOT IN ('', 'void')")
    assert (resumed.returncode, trials) == (0, 12)


@pytest.mark.slow
@HAS_BWRAP
@pytest.mark.parametrize(
    ("changes", "environment"),
    [
        ((), {"HOME": "nowhere/at/all"}),
        ((), {"HOME": "file", "XDG_STATE_HOME": "file", "XDG_CONFIG_HOME": "file"}),
        (("--tmpfs", "/mnt", "--remount-ro", "/mnt"), {"HOME": "/mnt"}),
        ((), {"XDG_DATA_HOME": "relative", "XDG_CACHE_HOME": "relative"}),
        ((), {"TMPDIR": "nowhere"}),
        (("--size", "4096", "--tmpfs", "/mnt"), {"TMPDIR": "/mnt"}),
        (("--perms", "0000", "--tmpfs", "/dev/shm"), {}),
        (("sh", "-c", 'umask 0777; exec "$@"', "sh"), {}),
    ],
    ids=["no home", "files", "read-only", "relative", "no TMPDIR", "full", "no shm", "umask"],
)
def test_a_run_needs_neither_a_home_nor_a_wide_temporary_folder(
    tmp_path, changes, environment
) -> None:
    (tmp_path / "file").touch()
    before = changes if changes[:1] == ("sh",) else (*MACHINE, *changes, "--")
    ended = limited(tmp_path, *ONE, before=before, **environment)
    (known,) = (tmp_path / "reports").glob("*.html")
    shown = limited(tmp_path, "show", "last", "--json").stdout
    observed = (ended.returncode, "Traceback" in ended.stderr, known.stat().st_mode & 0o600)
    assert observed == (0, False, 0o600), ended.stderr
    assert '"outcome": "completed"' in shown or '"completed"' in shown


@pytest.mark.slow
def test_a_temporary_folder_that_is_removed_in_mid_run_ends_nothing(tmp_path) -> None:
    (place := tmp_path / "t").mkdir()
    words = [sys.executable, "-m", "agenteval", *RUN]
    environment = os.environ | {"TMPDIR": str(place)}
    with subprocess.Popen(words, cwd=tmp_path, env=environment) as running:
        while not asked(tmp_path, "SELECT count(*) FROM call") and running.poll() is None:
            time.sleep(0.01)
        shutil.rmtree(place, ignore_errors=True)
    trials = asked(tmp_path, "SELECT count(*) FROM trial WHERE outcome NOT IN ('', 'void')")
    assert (running.returncode, trials) == (0, 12)


@pytest.mark.slow
def test_a_run_opens_no_more_files_with_each_trial(tmp_path) -> None:
    """At its 200th trial it has as many as at its 20th, but for what comes and goes."""
    few = ("run", "-m", "sim/qwen3.6-35b", "mail/draft", "--trials", "200", "--concurrency", "1")
    counts: dict[bool, list[int]] = {False: [], True: []}
    with subprocess.Popen([sys.executable, "-m", "agenteval", *few], cwd=tmp_path) as running:
        while running.poll() is None:
            trials = asked(tmp_path, "SELECT count(*) FROM trial WHERE outcome <> ''")
            with suppress(OSError):
                opened = len([*Path(f"/proc/{running.pid}/fd").iterdir()])
                if 15 <= trials <= 25 or trials >= 190:
                    counts[trials >= 190].append(opened)
            time.sleep(0.02)
    assert running.returncode == 0
    assert max(counts[True]) <= max(counts[False])


@pytest.mark.parametrize(
    "words", [("show",), ("gate", "--baseline", "r", "--candidate", "r"), ("view",), ("trend",)]
)
@pytest.mark.parametrize("writable", [False, True], ids=["read-only", "writable"])
def test_a_store_that_may_not_be_read_is_the_users_fault(tmp_path, words, writable) -> None:
    store = tmp_path / "reports" / "agenteval.db"
    stored(str(store), run(trial("ls"), run_id="r"))
    if os.geteuid() == 0:
        os.chown(store, 65534, 65534)
    store.chmod(0)
    store.parent.chmod(0o755 if writable else 0o555)
    as_user = kernel.empty_the_bounding_set if os.geteuid() == 0 else None
    ended = agenteval(tmp_path, *words, preexec_fn=as_user)
    store.parent.chmod(0o755)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert "--store reports/agenteval.db: unable to open database file" in ended.stderr


@pytest.mark.slow
def test_a_store_without_room_ends_the_run_in_one_line_and_it_can_go_on(tmp_path) -> None:
    full = limited(tmp_path, *RUN, room=ROOM)
    assert (full.returncode, "Traceback" in full.stderr) == (4, False)
    last = full.stderr.strip().splitlines()[-1]
    assert last.startswith("agenteval: --store reports/agenteval.db: ")
    assert "What was stored before is intact" in last
    resumed = limited(tmp_path, "run", "--resume", "last")
    shown = limited(tmp_path, "show").stdout
    assert (resumed.returncode, "12 of 12 trials" in shown) == (0, True)


@pytest.mark.slow
def test_a_run_beside_which_others_use_its_store_is_as_one_alone(tmp_path) -> None:
    program = [sys.executable, "-m", "agenteval"]
    others = (RUN, ("rescore", "last"), ("store", "vacuum"), ("show",), ("show", "last"))
    with subprocess.Popen([*program, *RUN], cwd=tmp_path) as first:
        while not asked(tmp_path, "SELECT count(*) FROM trial WHERE outcome <> ''"):
            time.sleep(0.01)
        beside = [subprocess.Popen([*program, *words], cwd=tmp_path) for words in others]
        codes = [one.wait() for one in (first, *beside)]
    trials = asked(tmp_path, "SELECT count(*) FROM trial WHERE outcome NOT IN ('', 'void')")
    checked = limited(tmp_path, "store", "check").stdout
    refused = 2  # a run that is being played is not judged anew
    assert (codes, trials, checked) == ([0, 0, refused, 0, 0, 0], 24, "nothing is wrong\n")
