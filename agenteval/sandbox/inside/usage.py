"""What the processes of a trial use right now, and which limit that breaks."""

import os
import resource

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Process:
    """One line of /proc/PID/stat; times in seconds, with those of children it has waited for."""

    __slots__ = ("cpu", "parent", "pid", "resident", "threads")

    def __init__(self, pid: int, stat: bytes) -> None:
        fields = stat[stat.rindex(b")") + 2 :].split()
        self.pid = pid
        self.parent = int(fields[1])
        self.cpu = sum(map(int, fields[11:15])) / TICK
        self.threads = int(fields[17])
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


def reaped_cpu() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def struck(limits: dict[str, int], places: list[str], reaped_before: float) -> str:
    """The limit that the running call breaks, or nothing."""
    alive = processes()
    if sum(process.threads for process in alive) > limits["processes"]:
        return "processes"
    if sum(process.cpu for process in alive) + reaped_cpu() - reaped_before > limits["cpu_seconds"]:
        return "cpu"
    stored = sum(_stored(place) for place in places)
    # resident counts a shared page once for each process: ask again, exactly, before killing
    if stored + sum(process.resident for process in alive) > limits["memory"] and (
        stored + sum(_proportional(process) for process in alive) > limits["memory"]
    ):
        return "memory"
    return ""


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
    try:
        with open(f"/proc/{process.pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # it ended, or it made itself unreadable; then what it shares counts in full
    return process.resident
