"""The content of a trial's sandbox: the one description that every backend builds from."""

import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from agenteval.core.scenario import Limits
from agenteval.protocols import Guest
from agenteval.sandbox.inside import control_group, seccomp
from agenteval.sandbox.launch import Interpreter

Rules = Sequence[tuple[str, str]]
WORKSPACE = "/workspace"
BIN = "/run/bin"
HOSTNAME = "sandbox"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = ("/etc/alternatives", "/etc/ld.so.cache")
SHOWN = (*SYSTEM, *ETC, WORKSPACE, BIN, "/dev", "/proc", "/sys", "/tmp")  # noqa: S108 - its own
KILL_SECONDS = 12.0  # many processes with much to free take seconds to die
# Of the host's kernel, its keys and its devices; container engines mask most of these.
MASKED = tuple(
    f"/proc/{name}"
    for name in (
        *("cmdline", "config.gz", "diskstats", "interrupts", "iomem", "kallsyms", "kcore"),
        *("key-users", "keys", "kmsg", "latency_stats", "modules", "partitions", "sched_debug"),
        *("slabinfo", "sysrq-trigger", "timer_list", "timer_stats", "vmallocinfo"),
    )
)
# What an administrator keeps there, and no program of a scenario needs.
COVERED = (
    "/usr/src",
    *(f"/usr/local/{name}" for name in ("etc", "games", "share", "src")),
)
TEMPORARY, SHARED_MEMORY = 32 << 20, 16 << 20
ENVIRONMENT = {
    "HOME": WORKSPACE,
    "LANG": "C.UTF-8",
    "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
    "PWD": WORKSPACE,
    "TMPDIR": "/tmp",  # noqa: S108 - the world's own
    "USER": "agent",
}
UV = """#!/bin/sh
# Stands in for uv where there is no network: runs a script with the world's own python3.
if [ "$1" = --version ]; then echo "uv 0 (a stand-in)" && exit 0; fi
while [ $# -gt 0 ] && [ "$1" != run ]; do case $1 in -*) shift ;; *) break ;; esac; done
if [ "$1" != run ]; then
    echo "uv: only 'uv run [--script] FILE.py ARGUMENTS' works here, without a network" >&2
    exit 2
fi
shift
while [ $# -gt 0 ]; do
    case $1 in
    --with | --with-requirements | --extra | --group | -p | --python | --project | --directory)
        echo "uv: run $1: not available here, without a network" >&2
        exit 2
        ;;
    --) shift && break ;;
    -m | --module) exec python3 "$@" ;;
    -*) shift ;;
    *) break ;;
    esac
done
case $1 in
'') echo "uv: run: no command was given" >&2 && exit 2 ;;
*.py | -) exec python3 "$@" ;;
*) exec "$@" ;;
esac
"""


DEVICE_LINKS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
}


@dataclass(frozen=True, slots=True)
class World:
    """The content of a sandbox: read-only folders, links, small files, and sized tmpfs places.

    Folders stand at their own path. `masked` are files and folders that are covered. `shown` maps
    the place of what a hosted program has in addition to its source.
    """

    binds: tuple[str, ...]
    links: dict[str, str]
    files: dict[str, str]
    tmpfs: dict[str, tuple[int, int, int]]  # path: bytes, inodes, mode
    masked: tuple[str, ...]
    shown: dict[str, str] = field(default_factory=dict)

    def hosting(self, hosted: Guest, limits: Limits) -> "World":
        """Return the same sandbox, with the places of a hosted program."""
        places = {path: (size, limits.inodes + 1, 0o755) for path, size in hosted.places.items()}
        return replace(self, shown=dict(hosted.shown), tmpfs=self.tmpfs | places)

    @property
    def rules(self) -> Rules:
        """The same for Landlock, the second layer."""
        shown = [path for path in self.binds if Path(path).is_dir()]
        shown += [place for place, path in self.shown.items() if Path(path).is_dir()]
        read = [(path, "read") for path in (*shown, "/etc", "/run", "/proc")]
        return [("/", "list"), *read, *((path, "write") for path in (*self.tmpfs, "/dev"))]


@cache
def world(python: Interpreter, limits: Limits) -> World:
    """The system read-only, an interpreter, a minimal /etc, and places to write of fixed size."""
    system = [path for path in (*SYSTEM, *ETC) if Path(path).exists()]
    links = {path: str(Path(path).readlink()) for path in system if Path(path).is_symlink()}
    inodes = limits.inodes + 1  # the watch names the limit before the kernel refuses
    return World(
        binds=(*(path for path in system if path not in links), *filter(None, [python.prefix])),
        links=links | {f"{BIN}/python3": python.executable, f"{BIN}/python": python.executable},
        files={
            f"{BIN}/uv": UV,
            "/etc/passwd": f"agent:x:1000:1000::{WORKSPACE}:/bin/sh\n",
            "/etc/group": "agent:x:1000:\n",
            "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
            "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        },
        tmpfs={
            WORKSPACE: (limits.workspace, inodes, 0o755),
            "/tmp": (TEMPORARY, inodes, 0o1777),  # noqa: S108 - the world's own
            "/dev/shm": (SHARED_MEMORY, inodes, 0o1777),  # noqa: S108 - the world's own
        },
        masked=tuple(path for path in (*MASKED, *COVERED) if _is_to_cover(path, python)),
    )


def _is_to_cover(path: str, python: Interpreter) -> bool:
    own = Path(python.prefix or python.executable).is_relative_to(path)
    return Path(path).exists() and os.path.realpath(path) == path and not own


def runner_spec(
    limits: Limits,
    *,
    own_user: bool,
    prefork: bool = False,
    rules: Rules = (),
    hosts_program: bool = False,
) -> dict[str, Any]:
    """Return the settings of the runner.

    `own_user`: the kernel counts this sandbox's processes apart. With `hosts_program` an address
    space may have any size: its use of memory is watched as ever.
    """
    memory, processes = 2 * limits.memory, limits.processes + 2
    rlimits = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": limits.file_size,
        "RLIMIT_NOFILE": limits.open_files,
    }
    if not hosts_program:
        # above the limit: the watch names it before malloc fails
        rlimits |= {"RLIMIT_AS": max(4 << 30, memory), "RLIMIT_DATA": memory}
    return {
        "env": ENVIRONMENT,
        "kill_seconds": KILL_SECONDS,
        "limits": asdict(limits),
        "prefork": prefork,
        "rules": list(rules),
        "places": [WORKSPACE, "/tmp", "/dev/shm"],  # noqa: S108 - the world's own
        "rlimits": rlimits | ({"RLIMIT_NPROC": processes} if own_user else {}),
        "workspace": WORKSPACE,
    }


def bounds(limits: Mapping[str, Any]) -> dict[str, int]:
    """Return the limits of a sandbox's control group: above those of the watch, as a last wall.

    The sandbox's own files alone never reach them. There are as many processors as use up the CPU
    seconds of a call within its time.
    """
    kept = limits["workspace"] + TEMPORARY + SHARED_MEMORY
    cores = max(1, math.ceil(limits["cpu_seconds"] / limits["call_seconds"]))
    return {
        "memory.max": max(limits["memory"], kept) + control_group.SPARE,
        "memory.swap.max": 0,
        "pids.max": limits["processes"] + control_group.EXTRA,
        "cpu.max": cores * control_group.PERIOD,
    }


def counts_processes_apart() -> bool:
    """Return True if RLIMIT_NPROC counts by user namespace (Linux 5.14), or does not count us."""
    release = platform.release().split(".")
    numbers = [int("".join(filter(str.isdigit, part[:3])) or 0) for part in release[:2]]
    return os.geteuid() == 0 or numbers >= [5, 14]


@cache
def syscall_filter(*, loopback: bool) -> str:
    """The seccomp filter of this machine, as text that survives JSON."""
    return seccomp.program(platform.machine(), loopback=loopback).decode("latin-1")
