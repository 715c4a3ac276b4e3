"""The resources that a trial may use: what its processes use now, and the kernel's own limits.

First the watch: `struck` measures all processes of a sandbox and names the limit that they break.

Then control groups of version 2, by which the kernel limits a sandbox itself. They need a group
that was delegated to us, in which no other process lives: a group that gives controllers to those
below it may hold no process itself. Only groups called as ours are made or removed, and only below
that one.
"""

from __future__ import annotations

import os
import resource
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SOCKETS = "/proc/self/net/sockstat"
GROUPS = "/sys/fs/cgroup"
# Bytes of the kernel's memory, which no other figure counts. Of a socket: its buffer's default size
# and the overhead; of an open file, its inode and name; of one piece of address space, its part of
# the tree; of one file that one epoll watches.
SOCKET = 256 << 10
FILE = 1 << 10
MAPPING = 240
WATCH = 208
TABLES = 512  # bytes of address space for each byte of page table
MAPPINGS = 65_530  # a process may have, as kernels come


class Process:
    """One line of /proc/PID/stat; times in seconds; `waited` are those of children waited for."""

    __slots__ = ("own", "parent", "pid", "resident", "space", "threads", "waited")

    def __init__(self, pid: int, stat: bytes) -> None:
        fields = stat[stat.rindex(b")") + 2 :].split()
        user, system, children_user, children_system = map(int, fields[11:15])
        self.pid = pid
        self.parent = int(fields[1])
        self.own = (user + system) / TICK
        self.waited = (children_user + children_system) / TICK
        self.threads = int(fields[17])
        self.space = int(fields[20])
        self.resident = int(fields[21]) * PAGE

    @property
    def mappings(self) -> int:
        """Return the most mappings that its address space can hold."""
        return min(MAPPINGS, self.space // PAGE)


def processes() -> list[Process]:
    """Return every process below this one."""
    by_pid = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    pid = int(name)
                    by_pid[pid] = Process(pid, file.read())
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended while we looked
    own = os.getpid()
    family = {own}
    if own == 1:  # all others are below it
        family |= by_pid.keys()
    size = 0
    while size < len(family):
        size = len(family)
        family |= {process.pid for process in by_pid.values() if process.parent in family}
    return [process for pid, process in by_pid.items() if pid in family and pid != own]


class Meter:
    """The CPU seconds of one call, with those of processes that nobody waited for.

    What a parent that ignores SIGCHLD leaves unread, the kernel forgets: it counts as last seen.
    """

    def __init__(self) -> None:
        self.reaped_before = self.reaped = _reaped()
        self.last: dict[int, Process] = {}
        self.lost = 0.0

    def seconds(self, alive: list[Process]) -> float:
        processes = {process.pid: process for process in alive}
        reaped = _reaped()
        # What has ended since was either waited for, by us or by its parent, or is lost.
        ended = 0.0
        waited_for = reaped - self.reaped
        for pid, before in self.last.items():
            if pid in processes:
                waited_for += processes[pid].waited - before.waited
            else:
                ended += before.own + before.waited
        self.lost += max(0.0, ended - waited_for)
        self.last = processes
        self.reaped = reaped
        spent = sum(process.own + process.waited for process in alive)
        return spent + self.lost + reaped - self.reaped_before


def _reaped() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def struck(
    limits: dict[str, int],
    places: list[str],
    meter: Meter,
    until: float,
) -> str:
    """Return the limit that the running call breaks, or ""; its time is over at `until`."""
    alive = processes()
    if sum(process.threads for process in alive) > limits["processes"]:
        return "processes"
    if meter.seconds(alive) > limits["cpu_seconds"]:
        return "cpu"
    files = sum(map(_files, alive))
    stored = sum(map(_stored, places))
    stored += SOCKET * _sockets() + FILE * files
    # All are upper bounds: resident counts a shared page once for each process, few programs use
    # all their address space, and fewer watch files. So measure again, exactly, before killing.
    most = stored + WATCH * (files // 2) ** 2
    for process in alive:
        most += process.resident + process.space // TABLES + MAPPING * process.mappings
    if most <= limits["memory"]:
        return ""
    for process in alive:
        stored += _proportional(process)
        stored += MAPPING * _mapped(process) + WATCH * _watched(process)
        if stored > limits["memory"]:
            return "memory"
        # How much there is to read of a process is the command's to choose.
        if time.perf_counter() > until:
            return "wall-time"
    return ""


def _files(process: Process) -> int:
    """Return the number of files that a process has open."""
    try:
        return os.stat(f"/proc/{process.pid}/fd").st_size or 20  # before Linux 6.2: as programs do
    except OSError:
        return 0  # it ended


def _mapped(process: Process) -> int:
    """Return the pieces of its address space; the most there can be if that is unreadable."""
    count = 0
    try:
        with open(f"/proc/{process.pid}/maps", "rb", 1 << 16) as file:
            while part := file.read(1 << 20):
                count += part.count(b"\n")
    except OSError:
        return process.mappings
    return count


def _watched(process: Process) -> int:
    """Return the number of watches of its epolls; the most there can be if that is unreadable."""
    here = f"/proc/{process.pid}"
    count = 0
    try:
        for fd in os.listdir(f"{here}/fd"):
            if os.readlink(f"{here}/fd/{fd}") == "anon_inode:[eventpoll]":
                with open(f"{here}/fdinfo/{fd}", "rb") as file:
                    count += sum(line.startswith(b"tfd:") for line in file)
    except OSError:
        return (_files(process) // 2) ** 2
    return count


def _sockets() -> int:
    """Return the number of sockets in a network of our own; those outside are unknown.

    If the kernel does not say, as gVisor's, its engine's control group alone counts them.
    """
    if os.getpid() != 1:
        return 0
    try:
        with open(SOCKETS, "rb") as file:
            return int(file.readline().split()[2])
    except FileNotFoundError:
        return 0


def memory_group() -> str:
    """Return the file in which a control group of our own counts; "" if we see none."""
    if os.getpid() != 1:
        return ""
    # Of version 2, of version 1.
    for file in (f"{GROUPS}/memory.events", f"{GROUPS}/memory/memory.oom_control"):
        if os.access(file, os.R_OK):
            return file
    return ""


def kernel_kills(group: str) -> int:
    """Return the number of processes that the kernel has killed for their memory."""
    if not group:
        return 0
    with open(group, "rb") as file:
        for line in file:
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    return 0


def full(limits: dict[str, int], places: list[str]) -> str:
    """Return the limit of the trial's own filesystems that was reached; "" for none."""
    if inodes(places) >= limits["inodes"]:
        return "inodes"
    for place in places:
        if os.statvfs(place).f_bavail == 0:
            return "workspace"
    return ""


def inodes(places: list[str]) -> int:
    """Return the number of inodes in the place that has most of them."""
    disks = map(os.statvfs, places)
    used = [disk.f_files - disk.f_ffree for disk in disks]
    return max(used, default=0)


def _stored(place: str) -> int:
    disk = os.statvfs(place)
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize


def _proportional(process: Process) -> int:
    """Return its share of what it has in memory, and the page tables for that."""
    share = _read_size(process.pid, "smaps_rollup", b"Pss:", process.resident)
    return share + _read_size(process.pid, "status", b"VmPTE:", 0)


def _read_size(pid: int, name: str, start: bytes, default: int) -> int:
    """Return the bytes in a line of a file of /proc; if it is gone or unreadable, the default."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            for line in file:
                if line.startswith(start):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return default


# Control groups.

MOUNTS = "/proc/self/mountinfo"
SYSTEMD = "/run/systemd/system"
OURS = "agenteval-"
HOME = "agenteval-home-"
NEEDED = ("memory", "pids")
WANTED = ("memory", "pids", "cpu")
KEYS = ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads")
# Microseconds: who has used up his share of the processors waits no longer than this.
PERIOD = 20_000
# Of memory, so that the watch names the limit before the kernel kills.
SPARE = 64 << 20
# Processes: the runner, what builds the sandbox, and more than the watch allows.
EXTRA = 8
END_SECONDS = 3.0


def of(pid: int) -> str:
    """Return the folder of the group that this process is in; "" if it is in none of version 2."""
    with open(f"/proc/{pid}/cgroup") as file:
        paths = [line[3:-1] for line in file if line.startswith("0::")]
    path = paths[0] if paths else ""
    with open(MOUNTS) as file:
        for line in file:
            where, _, kind = line.partition(" - ")
            root, point = where.split()[3:5]
            root = root.rstrip("/")
            if kind.startswith("cgroup2 ") and f"{path}/".startswith(f"{root}/"):
                return f"{point}{path.removeprefix(root)}".rstrip("/")
    return ""


def lacking(group: str, family: Callable[[], set[int]], *, is_delegated: bool = False) -> str:
    """Return why no groups can be made below this one; "" if they can.

    `family` is who may live in it. `is_delegated`: it was delegated on our asking, which a systemd
    of a user does not mark.
    """
    if not group:
        return "this machine has no control groups of version 2"
    missing = {*NEEDED} - {*_words(group, "cgroup.controllers")}
    keys = [group, *(f"{group}/{key}" for key in KEYS)]
    if missing:
        why = f"has no controller {' and '.join(sorted(missing))}"
    elif "domain" not in _words(group, "cgroup.type"):
        why = "is the root of all groups, or one of threads"
    elif not all(os.access(key, os.W_OK) for key in keys):
        why = "is not this user's"
    elif not is_delegated and os.path.exists(SYSTEMD) and not _delegated(group):
        why = "is systemd's, which has not delegated it"
    elif not family().issuperset(map(int, _words(group, "cgroup.procs"))):
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
        controllers = {*WANTED} & {*_words(group, "cgroup.controllers")}
        signs = [f"+{name}" for name in controllers]
        _write(group, "cgroup.subtree_control", " ".join(signs))
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
    """Yield the groups called as ours, whose owner has ended or is `also`."""
    for name in os.listdir(group):
        suffix = name.removeprefix(HOME).removeprefix(OURS)
        owner = suffix.partition("-")[0]
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
            # Some machines have no swap, or no controller for processors.
            if os.path.exists(f"{folder}/{key}"):
                text = f"{value} {PERIOD}" if key == "cpu.max" else str(value)
                _write(folder, key, text)
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


def _removed(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def remove_all(group: str, owner: int) -> None:
    """Remove every sandbox's group of this launcher, once its sandboxes are dead."""
    until = time.monotonic() + END_SECONDS
    for name in os.listdir(group):
        if name.startswith(f"{OURS}{owner}-"):
            while not remove(f"{group}/{name}") and time.monotonic() < until:
                time.sleep(0.005)


def controllers(group: str) -> tuple[str, ...]:
    """Return the controllers that limit the groups below this one."""
    return tuple(_words(group, "cgroup.subtree_control"))


def count(group: str, name: str, key: str) -> int:
    """Return how often something happened in a group."""
    words = _words(group, name)
    if key not in words:
        return 0
    return int(words[words.index(key) + 1])


def _write(group: str, name: str, text: str) -> None:
    with open(f"{group}/{name}", "w") as file:
        file.write(text)
