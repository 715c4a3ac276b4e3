"""Chooses a sandbox on a machine that was first made unfit for one; prints why none was chosen."""

import asyncio
import os
import platform
import sys
from pathlib import Path

from agenteval.errors import UsageError
from agenteval.sandbox.choose import choose
from agenteval.sandbox.inside import linux, seccomp

if sys.argv[1] == "no new namespaces":
    linux.install_filter(seccomp.program(platform.machine(), loopback=True))
else:  # as a container engine masks /proc
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(linux.NEWUSER | linux.NEWNS)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    linux.mount("/dev/null", "/proc/meminfo", "", linux.BIND)
try:
    print(asyncio.run(choose()).name)
except UsageError as error:
    print(error)
    sys.exit(2)
