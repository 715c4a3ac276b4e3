"""The limits of a sandbox by name, and what the model is told when one strikes."""

from enum import StrEnum

from agenteval.core.scenario import Limits


class Limit(StrEnum):
    """What `core.trial.Execution.limit` may say."""

    WALL_TIME = "wall-time"
    CPU_TIME = "cpu-time"
    MEMORY = "memory"
    PROCESSES = "processes"
    OPEN_FILES = "open-files"
    FILE_SIZE = "file-size"
    WORKSPACE = "workspace"
    INODES = "inodes"
    OUTPUT = "output"


def notice(limit: str, limits: Limits) -> str:
    """One plain sentence for the model about the limit that struck its command."""
    return {
        Limit.WALL_TIME: f"The command was stopped: it ran longer than {limits.call_seconds:g} s.",
        Limit.CPU_TIME: f"The command was stopped: it used {limits.cpu_seconds} s of CPU time.",
        Limit.MEMORY: f"The command hit the memory limit of {_size(limits.memory)}.",
        Limit.PROCESSES: f"The command hit the limit of {limits.processes} processes.",
        Limit.OPEN_FILES: f"The command hit the limit of {limits.open_files} open files.",
        Limit.FILE_SIZE: f"The command hit the limit of {_size(limits.file_size)} for one file.",
        Limit.WORKSPACE: f"The disk is full: the workspace holds {_size(limits.workspace)}.",
        Limit.INODES: f"The disk is full: the workspace holds {limits.inodes} files.",
        Limit.OUTPUT: f"The command was stopped: it wrote over {_size(limits.output_killed)}.",
    }[Limit(limit)]


def _size(count: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:g} {unit}"
    return f"{count} bytes"
