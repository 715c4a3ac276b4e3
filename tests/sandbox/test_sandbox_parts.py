"""The parts that need no sandbox: frames, files, the interpreter, reported limits."""

import json
import os
import subprocess
import sys

import pytest

from agenteval.errors import UsageError
from agenteval.sandbox.inside import wire
from agenteval.sandbox.launch import Interpreter, interpreter
from agenteval.sandbox.session import reported


def test_a_request_arrives_as_it_was_sent():
    source, sink = os.pipe()
    message = {"do": "run", "argv": ["caf\u00e9", "\udcff", ""], "seconds": 1.5, "none": None}
    os.write(sink, wire.request(message, b"body\0") + wire.request({}))
    os.close(sink)
    with os.fdopen(source, "rb"):
        received = [wire.receive(source) for _ in range(3)]
    assert received == [(message, b"body\0"), ({}, b""), None]


def test_half_a_request_is_a_peer_that_is_gone():
    source, sink = os.pipe()
    os.write(sink, wire.request({"do": "read"}, b"body")[:-1])
    os.close(sink)
    with os.fdopen(source, "rb"):
        assert wire.receive(source) is None


def test_a_reply_is_json_that_any_reader_takes():
    source, sink = os.pipe()
    reply = {
        "code": -9,
        "limit": 'a "\u2028\n',
        "seconds": 0.25,
        "cut": False,
        "killed": True,
        "n": None,
    }
    wire.reply(sink, reply, b"kept")
    os.close(sink)
    with os.fdopen(source, "rb") as file:
        text, body = wire.lengths(file.read(wire.HEADER))
        assert (json.loads(file.read(text)), file.read(body)) == (reply, b"kept")


# A launcher in a full kernel: it is asked for worlds of a kind, and tells how many files it holds.
FULL = """
import errno, marshal, os, socket, sys
from agenteval.sandbox.inside import kernel, launcher, runner

def full(*_):
    raise OSError(errno.EAGAIN, "no more processes")

def ended(*_):
    print(len(os.listdir("/proc/self/fd")) - before, flush=True)
    os._exit(0)

kernel.clone, launcher._leave = full, ended
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
for _ in range(3):
    socket.send_fds(ours, [sys.argv[1].encode()], [2])
ours.send(launcher.END)
before = len(os.listdir("/proc/self/fd"))
launcher.main(theirs.detach(), marshal.dumps([(runner.__name__, None)]), "", warm=False)
"""


@pytest.mark.parametrize("kind", ["namespaces", "program", "none"])
def test_a_world_that_the_kernel_refuses_costs_the_launcher_nothing(kind):
    done = subprocess.run([sys.executable, "-c", FULL, kind], capture_output=True, timeout=60,
                          text=True, check=False)  # fmt: skip
    assert (done.stdout, done.stderr.count("no more processes")) == ("0\n", 3), done.stderr


def test_an_absurd_length_is_refused():
    with pytest.raises(ValueError, match="a frame of"):
        wire.lengths(b"\xff" * 8)


REFUSED_PATHS = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "a/../../b",
    ".",
    "link",
    "linked/file",
    "fifo",
    "dir",
]


@pytest.mark.parametrize("path", REFUSED_PATHS)
def test_nothing_is_written_beside_the_root_or_through_what_is_no_file(tmp_path, path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "file").write_text("untouched")
    (root / "link").symlink_to(outside / "file")
    (root / "linked").symlink_to(outside)
    (root / "dir").mkdir()
    os.mkfifo(root / "fifo")
    with pytest.raises(OSError, match="Errno"):
        wire.write_file(str(root), path, b"x")
    assert (outside / "file").read_text() == "untouched"


def test_a_file_is_written_whole_and_a_script_can_be_executed(tmp_path):
    wire.write_file(str(tmp_path), "a/b/script", b"#!/bin/sh\necho long text\n")
    wire.write_file(str(tmp_path), "./a//b/script", b"#!/bin/sh\n")
    written = tmp_path / "a" / "b" / "script"
    assert (written.read_bytes(), written.stat().st_mode & 0o777) == (b"#!/bin/sh\n", 0o755)


def test_a_file_is_read_up_to_a_size(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    assert wire.read_file(str(tmp_path / "file"), 5) == b"12345"
    with pytest.raises(OSError, match="too large"):
        wire.read_file(str(tmp_path / "file"), 4)


def test_a_file_of_the_kernel_that_says_it_is_empty_is_read_whole_and_no_further_than_may_be():
    with open("/proc/self/environ", "rb") as file:
        whole = file.read()
    path = "/proc/self/environ"
    assert (os.stat(path).st_size, wire.read_file(path, len(whole))) == (0, whole)
    with pytest.raises(OSError, match="File too large"):
        wire.read_file(path, len(whole) - 1)


@pytest.mark.parametrize(
    ("first", "count", "expected"),
    [
        (1, None, (b"one\ntwo", True)),
        (2, None, (b"two\n\nfo", True)),
        (3, None, (b"\nfour", False)),
        (4, None, (b"four", False)),
        (5, None, (b"", False)),
        (9, 9, (b"", False)),
        (1, 1, (b"one\n", False)),
        (2, 2, (b"two\n\n", False)),
        (1, 2, (b"one\ntwo", True)),
        (4, 1, (b"four", False)),
    ],
)
def test_lines_are_read_from_one_on_up_to_so_many_and_so_many_bytes(
    tmp_path, first, count, expected
):
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\n\nfour")
    assert wire.read_lines(str(path), first, count, keep=7, most=100) == expected


def test_lines_far_down_a_file_are_found_and_no_more_than_so_many_bytes_are_stepped_over(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"".join(b"%06d\n" % number for number in range(1, 30_001)))
    last = wire.read_lines(str(path), 30_000, 5, keep=100, most=path.stat().st_size)
    assert last == (b"030000\n", False)
    with pytest.raises(OSError, match="too large"):
        wire.read_lines(str(path), 30_000, 5, keep=100, most=70_000)


@pytest.mark.parametrize(
    ("executable", "prefix", "expected"),
    [
        ("/usr/bin/python3.11", "/usr", Interpreter("/usr/bin/python3.11", "")),
        ("/usr/local/bin/python3", "/usr/local", Interpreter("/usr/local/bin/python3", "")),
        ("/opt/py/bin/python3", "/opt/py", Interpreter("/opt/py/bin/python3", "/opt/py")),
    ],
)
def test_an_interpreter_is_bound_unless_the_system_shows_it(
    monkeypatch, executable, prefix, expected
):
    monkeypatch.setattr(sys, "_base_executable", executable)
    monkeypatch.setattr(sys, "base_prefix", prefix)
    assert interpreter() == expected


@pytest.mark.parametrize("prefix", ["/home", "/home/user", "/workspace"])
def test_an_interpreter_whose_folder_holds_the_home_is_refused(monkeypatch, prefix):
    monkeypatch.setenv("HOME", "/home/user")
    monkeypatch.setattr(sys, "_base_executable", f"{prefix}/bin/python3")
    monkeypatch.setattr(sys, "base_prefix", prefix)
    with pytest.raises(UsageError, match="no sandbox may show"):
        interpreter()


@pytest.mark.parametrize(
    ("code", "output", "limit"),
    [
        (1, "OSError: [Errno 24] Too many open files: 'x'\n", "open-files"),
        (1, "cp: error writing 'x': File too large\n", "file-size"),
        (1, "tar: x: No space left on device\n", "workspace"),
        (1, "Traceback ...\nMemoryError\n", "memory"),
        (1, "RuntimeError: can't start new thread\n", "processes"),
        (2, "sh: 1: Cannot fork\n", "processes"),
        (0, "Too many open files\n", ""),
        (1, "Too many open files\n" + "x" * 5000, ""),
        (1, "no such row\n", ""),
    ],
)
def test_a_failed_command_names_the_limit_that_it_met(code, output, limit):
    assert reported(code, output) == limit
