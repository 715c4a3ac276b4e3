"""What a page of figures says of the machine: class and other work, and nothing that names it."""

import os
import platform
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

STAT = Path("/proc/stat")
QUIET = 0.1
"""The share of the processors' time that other work may take on a machine that is called quiet."""


def processor() -> str:
    """The maker's class of the processor, without the number of the part."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return re.sub(r"\s+\S*\d\S*.*$", "", found[1]) if found else platform.machine()


def _worked() -> float:
    """Seconds that all processors worked since the start of the machine, time stolen of it too.

    user, nice, system, irq, softirq and steal of the first line (proc(5)); guest time is in user.
    """
    ticks = [int(one) for one in STAT.read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    """Seconds of this process and of those of its descendants that have ended."""
    return sum(os.times()[:4])


@dataclass(frozen=True)
class Watch:
    """What the machine works from here on, beside this process and those that it starts and reaps.

    A load average would count the latter too: some benchmarks have hundreds at a time. What a
    process leaves to a daemon, as containers do, is other work.
    """

    since: float = field(default_factory=time.monotonic)
    worked: float = field(default_factory=_worked)
    own: float = field(default_factory=_own)

    def others(self) -> float:
        """The share of all processors' time that went to other work since the start."""
        there = (time.monotonic() - self.since) * (os.cpu_count() or 1)
        return max(0.0, _worked() - self.worked - (_own() - self.own)) / there


@dataclass(frozen=True)
class Machine:
    others: float  # share of all processors' time while the work went on

    @property
    def cores(self) -> int:
        return len(os.sched_getaffinity(0))

    @property
    def busy(self) -> bool:
        return self.others > QUIET

    def told(self) -> str:
        return (
            f"{self.cores} cores, {processor()}, {platform.machine()}, {platform.system()}, "
            f"Python {platform.python_version()}. Other work took {self.others:.1%} of the "
            "processors' time meanwhile."
        )
