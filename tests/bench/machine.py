"""What a page of figures says about the machine: class and load, and nothing that names it."""

import os
import platform
import re
from dataclasses import dataclass, field
from pathlib import Path


def processor() -> str:
    """The maker's class of the processor, without the number of the part."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return re.sub(r"\s+\S*\d\S*.*$", "", found[1]) if found else platform.machine()


@dataclass
class Machine:
    """Its load is noted as the work goes on: `note` it between two measurements."""

    loads: list[float] = field(default_factory=list)

    def note(self) -> None:
        self.loads.append(os.getloadavg()[0])

    @property
    def cores(self) -> int:
        return len(os.sched_getaffinity(0))

    @property
    def busy(self) -> bool:
        """Something else worked too: our own part keeps about two processes at work."""
        return max(self.loads) > max(self.cores, 2) + 1

    def told(self) -> str:
        return (
            f"{self.cores} cores, {processor()}, {platform.machine()}, {platform.system()}, "
            f"Python {platform.python_version()}. Load average while it ran: "
            f"{min(self.loads):.1f} to {max(self.loads):.1f}."
        )
