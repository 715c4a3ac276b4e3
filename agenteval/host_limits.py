"""The limits of this process (`ulimit`) in words: which one is too small, which one struck."""

import errno
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class _Limit:
    """`unit` is how many of what the kernel counts the shell's `option` counts as one."""

    what: str
    option: str
    unit: int
    of_systemd: str

    def in_words(self, value: int) -> str:
        return f"{value // self.unit:,} {self.what}"


_LIMITS: Final = {
    "RLIMIT_NOFILE": _Limit("file descriptors", "-n", 1, "LimitNOFILE"),
    "RLIMIT_AS": _Limit("kB of address space", "-v", 1024, "LimitAS"),
    "RLIMIT_DATA": _Limit("kB of data", "-d", 1024, "LimitDATA"),
    "RLIMIT_FSIZE": _Limit("kB in a file", "-f", 1024, "LimitFSIZE"),
    "RLIMIT_NPROC": _Limit("processes of this user", "-u", 1, "LimitNPROC"),
}

# What the loader of a library says where there is no memory for it.
_UNMAPPED: Final = ("failed to map segment", "map zero-fill pages", "cannot allocate memory")


def too_small(needed_values: Mapping[str, int]) -> str:
    """Return a line about the first limit below what is needed, with its fix; "" without one."""
    for name, needed in needed_values.items():
        allowed = _hard(name)
        if name in _LIMITS and allowed is not None and allowed < needed:
            limit = _LIMITS[name]
            return (
                f"this process may have {limit.in_words(allowed)} (ulimit {limit.option}), and a "
                f"world needs {limit.in_words(needed)}: {_cure(limit)}"
            )
    return ""


def struck(error: BaseException) -> str:
    """Return a line about the limit that caused this error, with its fix; "" without one."""
    if (name := _name(error)) is None:
        return ""
    limit, allowed = _LIMITS[name], _soft(name)
    if allowed is None:  # the machine itself has no more of it
        return f"this machine has no more {limit.what.removeprefix('kB of ')}: end what uses it"
    return (
        f"{limit.in_words(allowed)} are too few (ulimit {limit.option}); what was stored before is "
        f"intact: {_cure(limit)}"
    )


def _name(error: BaseException) -> str | None:
    message = str(error).lower()
    if isinstance(error, MemoryError) or any(phrase in message for phrase in _UNMAPPED):
        return "RLIMIT_AS"
    if "can't start new thread" in message:
        # threads count as processes; their stacks need address space
        return "RLIMIT_NPROC" if _soft("RLIMIT_AS") is None else "RLIMIT_AS"
    kinds = {errno.EMFILE: "RLIMIT_NOFILE", errno.ENFILE: "RLIMIT_NOFILE"}
    kinds |= {errno.ENOMEM: "RLIMIT_AS", errno.EAGAIN: "RLIMIT_NPROC"}
    return kinds.get(error.errno or 0) if isinstance(error, OSError) else None


def _cure(limit: _Limit) -> str:
    return f"raise it (`ulimit {limit.option}` of the shell, {limit.of_systemd}= of a systemd unit)"


def _hard(name: str) -> int | None:
    return _number(resource.getrlimit(getattr(resource, name))[1])


def _soft(name: str) -> int | None:
    return _number(resource.getrlimit(getattr(resource, name))[0])


def _number(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value
