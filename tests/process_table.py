"""The processes and mounts of this machine, as Linux tells them."""

from collections.abc import Iterator
from pathlib import Path


def below(pid: int) -> list[tuple[int, int, int]]:
    """Its children, theirs, and so on, the deepest last: as `processes` has them."""
    known, family, found = list(processes()), [], {pid}
    while found:
        young = [one for one in known if one[1] in found]
        family += young
        found = {one for one, _, _ in young}
    return family


def processes() -> Iterator[tuple[int, int, int]]:
    """Number, parent and time of start of each that is more than an entry to be reaped."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            yield int(path.parent.name), int(fields[1]), int(fields[19])


def is_first(pid: int) -> bool:
    """Whether it is process 1 of a namespace of its own, as a runner is."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    (numbers,) = (line.split()[1:] for line in lines if line.startswith("NSpid:"))
    return len(numbers) > 1 and numbers[-1] == "1"


def mounts(folder: Path) -> list[str]:
    """Those of ours: others on this machine mount what they like."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(folder) in line or " /workspace " in line]
