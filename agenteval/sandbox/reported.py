"""Limits that the kernel answers with an error, recognised by what a failed command says of it."""

import re

from agenteval.core.limit import Limit

TAIL = 4096
# The C library's words for ENOSPC, EMFILE, EFBIG, ENOMEM and, from a fork, EAGAIN.
SAID = (
    (Limit.WORKSPACE, re.compile(r"No space left on device")),
    (Limit.OPEN_FILES, re.compile(r"Too many open files")),
    (Limit.FILE_SIZE, re.compile(r"File too large|File size limit exceeded")),
    (
        Limit.MEMORY,
        re.compile(r"Cannot allocate memory|^MemoryError\b|out of memory", re.MULTILINE),
    ),
    (
        Limit.PROCESSES,
        re.compile(r"fork: .*Resource temporarily unavailable|can't start new thread|Cannot fork"),
    ),
)


def reported(code: int, output: str) -> str:
    """The limit that a failed command names at the end of its output, or nothing."""
    if code == 0:
        return ""
    tail = output[-TAIL:]
    return next((str(limit) for limit, words in SAID if words.search(tail)), "")
