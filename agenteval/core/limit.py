"""The limits of a sandbox, by name."""

from enum import StrEnum


class Limit(StrEnum):
    """What `core.trial.Execution.limit` may say."""

    WALL_TIME = "wall-time"
    CPU = "cpu"
    MEMORY = "memory"
    PROCESSES = "processes"
    OPEN_FILES = "open-files"
    FILE_SIZE = "file-size"
    WORKSPACE = "workspace"
    INODES = "inodes"
    OUTPUT = "output"
