"""The resident process under peers that hold it, a state folder that is planted, and signals."""

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agenteval.hook.installing import command

AGENTEVAL = [sys.executable, "-m", "agenteval"]
FILES = 128
SIGNS = "Traceback"
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


@pytest.fixture
def place(tmp_path, monkeypatch, stopped) -> Path:
    """The folder of a resident process that is to be started."""
    (tmp_path / "rules.toml").write_text('[bash]\nallow = ["echo *"]\n')
    monkeypatch.chdir(tmp_path)
    return stopped / "agenteval/hook"


def ask(fail: str = "closed", command_line: str = "rm x", **more) -> tuple[str, str, float]:
    """What becomes of a call, the line on standard error, and the seconds it took."""
    call = json.dumps({"tool_name": "Bash", "tool_input": {"command": command_line}})
    words = command("claude-code", "rules.toml", observe=False, fail=fail)
    began = time.monotonic()
    done = subprocess.run(words, input=call, capture_output=True, text=True, timeout=60,
                          check=False, **more)  # fmt: skip
    seconds = time.monotonic() - began
    if done.returncode == 2:
        return "denied without an answer", done.stderr, seconds
    if done.returncode == 1:
        return "not judged", done.stderr, seconds
    return "denied" if '"deny"' in done.stdout else "allowed", done.stderr, seconds


def resident(place: Path) -> int:
    return int((place / "pid").read_text())


def descriptors(pid: int) -> set[int]:
    return {int(file.name) for file in Path(f"/proc/{pid}/fd").iterdir()}


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def connected(place: Path) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(os.path.relpath(place / "socket"))  # waits while the queue is full
    return peer


@pytest.fixture
def few_files(place) -> int:
    """A resident process with 128 descriptors, and this process with more."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limited = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard))}
    assert ask(**limited)[0] == "denied"
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, hard), hard))
    yield resident(place)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    "sent", [b"", b"9999\nhalf a call", b"x" * 70_000, b"10\n0123456789"],
    ids=["silent", "half a call", "no length", "no end"],
)  # fmt: skip
def test_600_connections_with_128_descriptors_hold_nobody_up(sent, few_files, place) -> None:
    peers = []
    for _ in range(600):
        peers.append(connected(place))
        peers[-1].settimeout(0)
        with contextlib.suppress(OSError):  # it has made way already
            peers[-1].send(sent)
    verdicts = [ask()[0], ask(command_line="echo x")[0]]
    _, _, seconds = ask()
    seen = (len(descriptors(few_files)) < FILES // 2, threads(few_files) < 12)
    for peer in peers:
        peer.close()
    errors = (place / "resident.err").read_text()
    assert (verdicts, seen, resident(place), errors) == (
        ["denied", "allowed"], (True, True), few_files, "")  # fmt: skip
    assert seconds < 1.5


def test_out_of_descriptors_it_turns_away_and_goes_on(few_files, place) -> None:
    """The limit is lowered to what it holds: each accept fails, until the limit is back."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    connected(place).close()  # with the next one, what is answered is closed
    time.sleep(0.3)
    held = descriptors(few_files)
    first = next(number for number in range(FILES) if number not in held)
    resource.prlimit(few_files, resource.RLIMIT_NOFILE, (first, hard))
    met = [ask()[0] for _ in range(5)]
    resource.prlimit(few_files, resource.RLIMIT_NOFILE, (FILES, hard))
    later = ask()[0]
    errors = (place / "resident.err").read_text()
    assert (set(met), later, resident(place)) == ({"denied without an answer"}, "denied", few_files)
    assert (errors.count("\n") < 5, SIGNS in errors) == (True, False)


@pytest.mark.slow
def test_a_client_that_drips_is_cut_at_one_deadline(place) -> None:
    ask()
    began = time.monotonic()
    with connected(place) as peer:
        try:
            while time.monotonic() < began + 30:
                peer.send(b"1")
                time.sleep(0.2)
        except OSError:
            pass
    assert 4 < time.monotonic() - began < 9


def test_floods_at_once_keep_memory_bounded(place) -> None:
    ask()
    pid = resident(place)
    peers = [connected(place) for _ in range(12)]
    for peer in peers:
        peer.settimeout(0)
    part, end = b"9" * (1 << 20), time.monotonic() + 4
    while time.monotonic() < end:
        for peer in peers:
            try:
                peer.send(part)
            except OSError:
                continue
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) >> 10
    for peer in peers:
        peer.close()
    assert (peak < 300, ask()[0]) == (True, "denied")


@pytest.mark.parametrize(
    ("fail", "becomes"), [("closed", "denied without an answer"), ("open", "not judged")]
)
def test_a_stopped_process_fails_as_installed_in_under_a_second(fail, becomes, place) -> None:
    ask()
    pid = resident(place)
    os.kill(pid, signal.SIGSTOP)
    try:
        verdict, error, seconds = ask(fail)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (verdict, f"the resident process {pid} is stopped" in error) == (becomes, True)
    assert (error.count("\n"), seconds < 1, ask()[0]) == (1, True, "denied")


def test_a_stopped_process_with_a_full_queue_fails_in_under_two_seconds(place) -> None:
    ask()
    pid = resident(place)
    os.kill(pid, signal.SIGSTOP)
    peers = []
    try:
        while len(peers) < 300:
            peers.append(socket.socket(socket.AF_UNIX))
            peers[-1].settimeout(0)
            peers[-1].connect(os.path.relpath(place / "socket"))
    except BlockingIOError:
        pass
    verdict, error, seconds = ask()
    os.kill(pid, signal.SIGCONT)
    for peer in peers:
        peer.close()
    assert (verdict, "is stopped" in error) == ("denied without an answer", True)
    assert seconds < 1


def test_hook_stop_ends_a_stopped_process(place) -> None:
    ask()
    pid = resident(place)
    os.kill(pid, signal.SIGSTOP)
    words = [*AGENTEVAL, "hook", "stop"]
    done = subprocess.run(words, timeout=60, check=True, capture_output=True, text=True)
    assert (done.stdout, (place / "pid").exists()) == (f"ended {pid}\n", False)


DEAF = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
open("pid", "w").write(f"{os.getpid()}\\n")
print("ready", flush=True)
time.sleep(60)
"""


def test_hook_stop_kills_a_process_that_does_not_hear_it(place) -> None:
    place.mkdir(mode=0o700, parents=True)
    with subprocess.Popen(
        [sys.executable, "-c", DEAF], cwd=place, stdout=subprocess.PIPE, text=True
    ) as deaf:
        deaf.stdout.readline()
        words = [*AGENTEVAL, "hook", "stop"]
        done = subprocess.run(words, timeout=60, check=True, capture_output=True, text=True)
        code = deaf.wait(10)
    (place / "pid").unlink()
    assert (done.stdout, code) == (f"ended {deaf.pid}\n", -signal.SIGKILL)


root = pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root")
AS_OTHER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
REACH = """
import socket, sys
peer = socket.socket(socket.AF_UNIX)
try:
    peer.connect(sys.argv[1])
    peer.sendall(b"0\\n")
    peer.shutdown(socket.SHUT_WR)
    print(peer.recv(10))
except OSError as error:
    print(type(error).__name__)
"""


@root
@pytest.mark.parametrize(
    ("mode", "met"),
    [
        (0o700, {"PermissionError"}),
        (0o777, {"b''", "ConnectionResetError", "BrokenPipeError"}),  # by the kernel's word for it
    ],
)
def test_another_user_reaches_nothing_even_where_the_folder_was_opened(mode, met, place) -> None:
    ask()
    for folder in (place, place.parent, place.parent.parent):
        folder.chmod(mode)
    (place / "socket").chmod(0o777)
    for folder in place.parents:
        if folder.stat().st_mode & 0o1 == 0 and len(folder.parts) > 2:
            folder.chmod(folder.stat().st_mode | 0o011)
    done = subprocess.run([*AS_OTHER, "/usr/bin/python3", "-c", REACH, str(place / "socket")],
                          capture_output=True, text=True, timeout=30, check=False)  # fmt: skip
    assert done.stdout.strip() in met, done.stderr


def planted_link(place: Path) -> None:
    other = place.parent.parent / "elsewhere"
    other.mkdir(parents=True, mode=0o700)
    place.parent.mkdir(parents=True)
    place.symlink_to(other)


def planted_file(place: Path) -> None:
    place.parent.mkdir(parents=True)
    place.touch(mode=0o600)


def open_folder(place: Path) -> None:
    place.mkdir(parents=True)
    place.chmod(0o777)


def open_parent(place: Path) -> None:
    place.mkdir(parents=True, mode=0o700)
    place.parent.chmod(0o777)


def others_folder(place: Path) -> None:
    place.mkdir(parents=True, mode=0o700)
    os.chown(place, 65534, 65534)


def others_parent(place: Path) -> None:
    place.parent.mkdir(parents=True)
    os.chown(place.parent, 65534, 65534)


def others_link(place: Path) -> None:
    place.parent.parent.mkdir(parents=True)
    aside = place.parent.parent / "mine"
    aside.mkdir()
    place.parent.symlink_to(aside)
    os.chown(place.parent, 65534, 65534, follow_symlinks=False)


PLANTED = [
    (planted_link, "is a link or no folder: move it out of the way"),
    (planted_file, "is a link or no folder: move it out of the way"),
    (open_folder, "is open to others: chmod 700 it, as its owner"),
    (open_parent, "everybody may write to"),
]
PLANTED += [
    pytest.param(plant, "is another user's: set XDG_STATE_HOME", marks=root)
    for plant in (others_folder, others_parent, others_link)
]


@pytest.mark.parametrize(("plant", "why"), PLANTED, ids=lambda case: getattr(case, "__name__", ""))
def test_a_state_folder_that_is_planted_is_refused_in_a_line(plant, why, place) -> None:
    plant(place)
    verdict, error, _ = ask()
    assert (verdict, why in error, error.count("\n")) == ("denied without an answer", True, 1)
    started = subprocess.run([sys.executable, "-m", "agenteval.hook.resident", str(place)],
                             capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert (started.returncode, why in started.stderr, started.stderr.count("\n")) == (1, True, 1)
