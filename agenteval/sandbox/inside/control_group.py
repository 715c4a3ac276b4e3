"""Control groups of version 2: the limits that the kernel itself sets for a sandbox.

They need a group that was delegated to us, in which no other process lives: a group that gives
controllers to those below it may hold no process itself. Only groups called as ours are made or
removed, and only below that one.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # as in wire
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MOUNTS, SYSTEMD = "/proc/self/mountinfo", "/run/systemd/system"
OURS, HOME = "agenteval-", "agenteval-home-"
NEEDED, WANTED = ("memory", "pids"), ("memory", "pids", "cpu")
KEYS = ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads")
PERIOD = 20_000  # microseconds: who has used up his share waits no longer than this
SPARE = 64 << 20  # of memory, so that the watch names the limit before the kernel kills
EXTRA = 8  # processes: the runner, what builds the world, and more than the watch allows
END_SECONDS = 3.0


def of(pid: int) -> str:
    """The folder of the group that this process is in; "" where there are none of version 2."""
    with open(f"/proc/{pid}/cgroup") as file:
        path = next((line[3:-1] for line in file if line.startswith("0::")), "")
    with open(MOUNTS) as file:
        for line in file:
            where, _, kind = line.partition(" - ")
            root, point = where.split()[3:5]
            if kind.startswith("cgroup2 ") and f"{path}/".startswith(f"{root.rstrip('/')}/"):
                return f"{point}{path.removeprefix(root.rstrip('/'))}".rstrip("/")
    return ""


def lacking(group: str, family: Callable[[], set[int]], *, is_delegated: bool = False) -> str:
    """Return why no groups can be made below this one; "" if they can.

    `family` is who may live in it. `is_delegated`: it was delegated on our asking, which a systemd
    of a user does not mark.
    """
    if not group:
        return "this machine has no control groups of version 2"
    missing = [name for name in NEEDED if name not in _words(group, "cgroup.controllers")]
    keys = (group, *(f"{group}/{key}" for key in KEYS))
    if missing:
        why = f"has no controller {' and '.join(missing)}"
    elif "domain" not in _words(group, "cgroup.type"):
        why = "is the root of all groups, or one of threads"
    elif not all(os.access(key, os.W_OK) for key in keys):
        why = "is not this user's"
    elif not is_delegated and os.path.exists(SYSTEMD) and not _delegated(group):
        why = "is systemd's, which has not delegated it"
    elif not set(map(int, _words(group, "cgroup.procs"))) <= family():
        why = "holds other processes as well"
    else:
        return ""
    return f"{group} {why}"


def _words(group: str, name: str) -> list[str]:
    try:
        with open(f"{group}/{name}") as file:
            return file.read().split()
    except FileNotFoundError:  # the root lacks some
        return []


def _delegated(group: str) -> bool:
    """Return True if systemd marks the group as delegated to somebody else."""
    for mark in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(group, mark) == b"1":
                return True
        except OSError:
            continue
    return False


def divide(group: str) -> None:
    """Make the group one below which sandboxes have groups: its processes move into one of ours.

    What an earlier, killed owner left empty there goes. Raises OSError.
    """
    for name in _abandoned(group):
        _removed(f"{group}/{name}")
    home = f"{group}/{HOME}{os.getpid()}"
    os.mkdir(home)
    try:
        for pid in _words(group, "cgroup.procs"):
            _write(home, "cgroup.procs", pid)
        there = _words(group, "cgroup.controllers")
        _write(group, "cgroup.subtree_control", " ".join(f"+{x}" for x in WANTED if x in there))
    except OSError:
        restore(group, os.getpid())
        raise


def restore(group: str, owner: int) -> None:
    """Undo `divide`: move back, and remove the groups of the owner and of those that ended."""
    try:
        for name in _words(group, "cgroup.subtree_control"):
            _write(group, "cgroup.subtree_control", f"-{name}")
        _write(group, "cgroup.procs", str(os.getpid()))
    except OSError:
        return  # it is gone, or another one's by now
    for name in _abandoned(group, also=owner):
        _removed(f"{group}/{name}")


def _abandoned(group: str, also: int = 0) -> Iterator[str]:
    """Groups called as ours, whose owner has ended."""
    for name in os.listdir(group):
        owner = name.removeprefix(HOME).removeprefix(OURS).partition("-")[0]
        if not name.startswith(OURS) or not owner.isdigit():
            continue
        if int(owner) == also or not os.path.exists(f"/proc/{owner}"):
            yield name


def make(group: str, name: str, limits: Mapping[str, int]) -> str:
    """Make a group for one sandbox, with its limits. Raises OSError."""
    folder = f"{group}/{OURS}{name}"
    os.mkdir(folder)
    try:
        for key, value in limits.items():
            if os.path.exists(f"{folder}/{key}"):  # no swap, or no controller for processors
                _write(folder, key, f"{value} {PERIOD}" if key == "cpu.max" else str(value))
    except OSError:
        _removed(folder)
        raise
    return folder


def remove(folder: str) -> bool:
    """Kill the processes left in it, and remove it; return False while they are still dying."""
    if _removed(folder):
        return True
    try:
        _write(folder, "cgroup.kill", "1")  # since Linux 5.14
    except OSError:
        pass  # its processes have a runner or a launcher that ends with us
    return _removed(folder)


def _removed(made: str) -> bool:
    try:
        os.rmdir(made)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def remove_all(group: str, owner: int) -> None:
    """Remove every sandbox's group of this launcher, once its sandboxes are dead."""
    until = time.monotonic() + END_SECONDS
    names = [name for name in os.listdir(group) if name.startswith(f"{OURS}{owner}-")]
    while names := [name for name in names if not remove(f"{group}/{name}")]:
        if time.monotonic() > until:
            return
        time.sleep(0.005)


def controllers(group: str) -> tuple[str, ...]:
    """Return the controllers that limit the groups below this one."""
    return tuple(_words(group, "cgroup.subtree_control"))


def count(made: str, name: str, key: str) -> int:
    """Return how often something happened in a group."""
    words = _words(made, name)
    return int(words[words.index(key) + 1]) if key in words else 0


def _write(group: str, name: str, text: str) -> None:
    with open(f"{group}/{name}", "w") as file:
        file.write(text)
