"""What the processes of a trial use right now, and which limit that breaks."""

import os
import resource

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SOCKET = 256 << 10  # what the kernel keeps for one: its buffer's default size, and the overhead
TABLES = 512  # bytes of address space for each byte of page table


class Process:
    """One line of /proc/PID/stat; times in seconds; `waited` are those of children waited for."""

    __slots__ = ("own", "parent", "pid", "resident", "space", "threads", "waited")

    def __init__(self, pid: int, stat: bytes) -> None:
        fields = stat[stat.rindex(b")") + 2 :].split()
        self.pid = pid
        self.parent = int(fields[1])
        self.own = (int(fields[11]) + int(fields[12])) / TICK
        self.waited = (int(fields[13]) + int(fields[14])) / TICK
        self.threads = int(fields[17])
        self.space = int(fields[20])
        self.resident = int(fields[21]) * PAGE


def processes() -> list[Process]:
    """Every process below this one."""
    seen = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    seen[int(name)] = Process(int(name), file.read())
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended while we looked
    me = os.getpid()
    if me == 1:
        seen.pop(me, None)
        return list(seen.values())
    family = {me}
    while grown := {p.pid for p in seen.values() if p.parent in family} - family:
        family |= grown
    return [process for process in seen.values() if process.pid in family - {me}]


class Meter:
    """The CPU seconds of one call, with those of processes that nobody waited for.

    What a parent that ignores SIGCHLD leaves unread, the kernel forgets: it counts as last seen.
    """

    def __init__(self) -> None:
        self.reaped_before = self.reaped = _reaped()
        self.seen: dict[int, Process] = {}
        self.lost = 0.0

    def seconds(self, alive: list[Process]) -> float:
        now = {process.pid: process for process in alive}
        reaped = _reaped()
        gone = sum(one.own + one.waited for pid, one in self.seen.items() if pid not in now)
        told = sum(
            one.waited - self.seen[pid].waited for pid, one in now.items() if pid in self.seen
        )
        self.lost += max(0.0, gone - told - (reaped - self.reaped))
        self.seen, self.reaped = now, reaped
        spent = sum(one.own + one.waited for one in alive)
        return spent + self.lost + reaped - self.reaped_before


def _reaped() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def struck(limits: dict[str, int], places: list[str], meter: Meter) -> str:
    """The limit that the running call breaks, or nothing."""
    alive = processes()
    if sum(process.threads for process in alive) > limits["processes"]:
        return "processes"
    if meter.seconds(alive) > limits["cpu_seconds"]:
        return "cpu"
    stored = sum(_stored(place) for place in places) + _sockets() * SOCKET
    # both are upper bounds: resident counts a shared page once for each process, and few programs
    # use all their address space; so ask again, exactly, before killing
    atmost = stored + sum(process.resident + process.space // TABLES for process in alive)
    if atmost > limits["memory"] and (stored + sum(map(_proportional, alive)) > limits["memory"]):
        return "memory"
    return ""


def _sockets() -> int:
    """How many there are in a network of our own; of those outside we know nothing."""
    if os.getpid() != 1:
        return 0
    with open("/proc/self/net/sockstat", "rb") as file:
        return int(file.readline().split()[2])


def memory_group() -> str:
    """The file in which a control group of our own counts; "" where we see none."""
    if os.getpid() != 1:
        return ""
    groups = ("memory.events", "memory/memory.oom_control")  # of version 2, of version 1
    files = (f"/sys/fs/cgroup/{group}" for group in groups)
    return next((file for file in files if os.access(file, os.R_OK)), "")


def kernel_kills(group: str) -> int:
    """How many processes the kernel has killed for their memory."""
    if not group:
        return 0
    with open(group, "rb") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(b"oom_kill "))


def full(limits: dict[str, int], places: list[str]) -> str:
    """Which limit of the trial's own filesystems has been reached."""
    if inodes(places) >= limits["inodes"]:
        return "inodes"
    return "workspace" if any(os.statvfs(place).f_bavail == 0 for place in places) else ""


def inodes(places: list[str]) -> int:
    """How many there are in the place that has most of them."""
    disks = [os.statvfs(place) for place in places]
    return max((disk.f_files - disk.f_ffree for disk in disks), default=0)


def _stored(place: str) -> int:
    disk = os.statvfs(place)
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize


def _proportional(process: Process) -> int:
    """Its share of what it has in memory, and the page tables for that."""
    try:
        shares = _lines(process.pid, "smaps_rollup", b"Pss:")
    except OSError:
        shares = []  # it ended, or it made itself unreadable; then what it shares counts in full
    try:
        tables = _lines(process.pid, "status", b"VmPTE:")
    except OSError:
        tables = []
    return sum(shares or [process.resident]) + sum(tables)


def _lines(pid: int, name: str, start: bytes) -> list[int]:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return [int(line.split()[1]) * 1024 for line in file if line.startswith(start)]
