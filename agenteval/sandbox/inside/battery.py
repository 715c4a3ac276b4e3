"""The escapes that a probe tries; this file is run inside a sandbox, by its python3, alone."""

import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Bait = dict[str, Any]


def try_all(bait: Bait) -> dict[str, str]:
    """What stopped each attempt; nothing for one that got through."""
    return {name: _try(attempt, bait) for name, attempt in ATTEMPTS.items()}


def _try(attempt: Callable[[Bait], object], bait: Bait) -> str:
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


def _write(path: str) -> None:
    with open(path, "r+") as file:
        file.write("x")


def _see_home(bait: Bait) -> None:
    if not set(os.listdir(bait["home"])) & set(bait["names"]):
        raise OSError(0, "nothing of it is there")


def _environment(_bait: Bait) -> None:
    text = Path("/proc/1/environ").read_bytes()
    if not text:
        raise OSError(0, "empty")


def _run_as_root(_bait: Bait) -> None:
    os.setuid(0)


def _see_process(bait: Bait) -> None:
    if Path(f"/proc/{bait['pid']}/cmdline").read_text() != bait["command"]:
        raise OSError(0, "the number belongs to a process of its own")


ATTEMPTS = {
    "read a file of the host": lambda bait: Path(bait["secret"]).read_text(),
    "list the user's home": _see_home,
    "read the environment of process 1": _environment,
    "write below /usr": lambda _: Path("/usr/escaped").write_text("x"),
    "write below /etc": lambda _: Path("/etc/escaped").write_text("x"),
    "write /proc/sys/kernel/core_pattern": lambda _: _write("/proc/sys/kernel/core_pattern"),
    "connect to the host's 127.0.0.1": lambda bait: socket.create_connection(
        ("127.0.0.1", bait["port"]), timeout=2
    ),
    "connect to an abstract socket": lambda bait: socket.socket(socket.AF_UNIX).connect(
        "\0" + bait["abstract"]
    ),
    "see a process of the host": _see_process,
    "become root": _run_as_root,
    "mount": lambda _: _call("mount", b"none", b"/tmp", b"tmpfs", 0, None),
    "unshare a user namespace": lambda _: _call("unshare", 0x10000000),
    "ptrace process 1": lambda _: _call("ptrace", 16, 1, None, None),
    "write the memory of process 1": lambda _: _write("/proc/1/mem"),
}

if __name__ == "__main__":
    print(json.dumps(try_all(json.loads(Path(sys.argv[1]).read_text()))))
