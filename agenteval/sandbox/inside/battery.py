"""The escapes that a probe tries; run inside a sandbox, alone; harmless where one succeeds."""

import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Bait = dict[str, Any]
SEIZE = 0x4206  # traces without stopping


def _try(attempt: Callable[[Bait], object], bait: Bait) -> str:
    """Return what stopped the attempt; "" for one that got through."""
    try:
        attempt(bait)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _open_to_write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))


def _make_nameless_file(folder: str) -> None:
    flags = os.O_WRONLY | os.O_TMPFILE
    os.close(os.open(folder, flags, 0o600))


def _mount(_bait: Bait) -> None:
    _call("mount", b"none", b".", b"tmpfs", 0, None)
    _call("umount2", b".", 2)


def _see_home(bait: Bait) -> None:
    visible = set(os.listdir(bait["home"]))
    if visible.isdisjoint(bait["names"]):
        raise OSError(0, "nothing of it is there")


def _environment(_bait: Bait) -> None:
    text = Path("/proc/1/environ").read_bytes()
    if not text:
        raise OSError(0, "empty")


def _see_process(bait: Bait) -> None:
    if Path(f"/proc/{bait['pid']}/cmdline").read_text() != bait["command"]:
        raise OSError(0, "the number belongs to a process of its own")


ATTEMPTS = {
    "read a file of the host": lambda bait: Path(bait["secret"]).read_text(),
    "list the user's home": _see_home,
    "read the environment of process 1": _environment,
    "write below /usr": lambda _: _make_nameless_file("/usr"),
    "write below /etc": lambda _: _make_nameless_file("/etc"),
    "write the kernel's core_pattern": lambda _: _open_to_write("/proc/sys/kernel/core_pattern"),
    "connect to the host's 127.0.0.1": lambda bait: socket.create_connection(
        ("127.0.0.1", bait["port"]), timeout=2
    ),
    "connect to an abstract socket": lambda bait: socket.socket(socket.AF_UNIX).connect(
        "\0" + bait["abstract"]
    ),
    "see a process of the host": _see_process,
    "become root": lambda _: os.setuid(0),
    "mount a filesystem": _mount,
    "unshare a user namespace": lambda _: _call("unshare", 0x10000000),
    "ptrace process 1": lambda _: _call("ptrace", SEIZE, 1, None, None),
    "write the memory of process 1": lambda _: _open_to_write("/proc/1/mem"),
}

if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text()
    bait = json.loads(text)
    obstacles = {name: _try(attempt, bait) for name, attempt in ATTEMPTS.items()}
    print(json.dumps(obstacles))
