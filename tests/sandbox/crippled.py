"""Chooses a sandbox on a machine that was first made unfit for one; prints why none was chosen."""

import asyncio
import errno
import os
import platform
import struct
import sys
from pathlib import Path

from agenteval.errors import UsageError
from agenteval.sandbox import seccomp
from agenteval.sandbox.backends import choose
from agenteval.sandbox.inside import kernel

MOUNT = seccomp.calls(platform.machine())["refused"]["mount"]
NO_MOUNT = b"".join(
    struct.pack("=HBBI", *step)
    for step in (
        (seccomp.LOAD, 0, 0, seccomp.NUMBER),
        (seccomp.EQUAL, 0, 1, MOUNT),
        (seccomp.RETURN, 0, 0, seccomp.refuse(errno.EPERM)),
        (seccomp.RETURN, 0, 0, seccomp.ALLOW),
    )
)


def no_new_namespaces() -> None:
    """As the default filter of docker."""
    kernel.install_filter(seccomp.sandbox_filter(platform.machine(), loopback=True))


def masked_proc() -> None:
    """As a container engine masks /proc."""
    own_mounts()
    kernel.mount("/dev/null", "/proc/meminfo", "", kernel.BIND)


def apparmor() -> None:
    """As on Ubuntu 24.04: a namespace is given, and no right within it."""
    own_mounts()
    kernel.mount("tmpfs", "/proc/sys/kernel", "tmpfs", 0)
    Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    kernel.install_filter(NO_MOUNT)


def none_left() -> None:
    """As where an administrator turned user namespaces off."""
    own_mounts()
    Path("/proc/sys/user/max_user_namespaces").write_text("0")


def own_mounts() -> None:
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(kernel.NEWUSER | kernel.NEWNS)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


TROUBLES = {
    "no new namespaces": no_new_namespaces,
    "a masked /proc": masked_proc,
    "AppArmor": apparmor,
    "no user namespaces": none_left,
}

if __name__ == "__main__":
    TROUBLES[sys.argv[1]]()
    try:
        print(asyncio.run(choose()).name)
    except UsageError as error:
        print(error)
        sys.exit(2)
