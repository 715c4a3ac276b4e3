"""A sandbox made of namespaces alone: its file system, mounted from inside them."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import struct

from agenteval.sandbox.inside import linux, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ALL = (
    linux.NEWUSER | linux.NEWNS | linux.NEWPID | linux.NEWNET | linux.NEWIPC | linux.NEWUTS
)  # and that of control groups, whose root is to be the world's own
STAGE = "/tmp"  # noqa: S108 - any folder will do: what we mount on it, nobody else sees
DEVICES = ("null", "zero", "full", "random", "urandom")
SIOCSIFFLAGS = 0x8914
LO_UP = struct.pack("16sh", b"lo", 1)
KEPT = {
    "ro": linux.RDONLY, "nosuid": linux.NOSUID, "nodev": linux.NODEV, "noexec": linux.NOEXEC,
    "noatime": linux.NOATIME, "nodiratime": linux.NODIRATIME, "relatime": linux.RELATIME,
}  # fmt: skip


def build(spec: wire.Message, drop: Callable[[], None]) -> None:
    """Become the first process of the world that `spec` describes; `drop` makes us its only user.

    Sources are opened before the drop: root's own interpreter may lie below a closed folder.
    """
    linux.unshare(linux.NEWCGROUP)
    sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in spec["binds"]}
    devices = {f"/dev/{name}": os.open(f"/dev/{name}", os.O_PATH) for name in DEVICES}
    drop()
    linux.mount("", "/", "", linux.REC | linux.PRIVATE)
    linux.mount("tmpfs", STAGE, "tmpfs", linux.NOSUID | linux.NODEV, "mode=0755,size=4m")
    os.chdir(STAGE)
    _furnish(spec)
    for path, fd in (sources | devices).items():
        _bind(fd, path)
    for path in spec["masked"]:
        if os.path.isdir(f".{path}"):
            linux.mount("tmpfs", f".{path}", "tmpfs", linux.NOSUID | linux.NODEV, "size=4096")
        else:
            linux.mount("./dev/null", f".{path}", "", linux.BIND)
    linux.pivot_root_here()
    _freeze(keep={"/proc", *spec["tmpfs"]})
    _settle(spec)


def _bind(fd: int, path: str) -> None:
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.makedirs(f".{path}", exist_ok=True)
    else:
        _write_file(path, "")
    linux.mount(f"/proc/self/fd/{fd}", f".{path}", "", linux.BIND | linux.REC)
    os.close(fd)


def _write_file(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(f".{path}"), exist_ok=True)
    with open(f".{path}", "w") as file:
        file.write(text)
    os.chmod(f".{path}", 0o755 if text.startswith("#!") else 0o644)


def _furnish(spec: wire.Message) -> None:
    for path, text in spec["files"].items():
        _write_file(path, text)
    for path, target in spec["links"].items():
        os.makedirs(os.path.dirname(f".{path}"), exist_ok=True)
        os.symlink(target, f".{path}")
    for path, (size, inodes, mode) in spec["tmpfs"].items():
        os.makedirs(f".{path}", exist_ok=True)
        options = f"size={size},nr_inodes={inodes},mode={mode:o}"
        linux.mount("tmpfs", f".{path}", "tmpfs", linux.NOSUID | linux.NODEV, options)
    os.makedirs("./proc", exist_ok=True)
    flags = linux.NOSUID | linux.NODEV | linux.NOEXEC
    linux.mount("proc", "./proc", "proc", flags)
    linux.mount("./proc/sys", "./proc/sys", "", linux.BIND)  # a mount of its own can be frozen


def _freeze(keep: set[str]) -> None:
    """Make every mount but `keep` read-only. A less privileged remount must repeat its flags."""
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split()[4:6] for line in file]
    for escaped, options in mounts:
        path = escaped.encode().decode("unicode_escape")
        if path not in keep and not path.startswith("/dev/"):  # a device is not made safer by it
            flags = sum({KEPT.get(word, 0) for word in options.split(",")})
            flags |= linux.RDONLY | linux.NOSUID | linux.NODEV
            linux.mount("", path, "", linux.REMOUNT | linux.BIND | flags)


def _settle(spec: wire.Message) -> None:
    """Give up what only the building needed."""
    linux.sethostname(spec["hostname"])
    if spec["loopback"]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, LO_UP)
    linux.empty_the_bounding_set()
    linux.drop_capabilities()
    linux.prctl(linux.DUMPABLE, 0)
    linux.install_filter(spec["seccomp"].encode("latin-1"))


def uncover(prefixes: list[str]) -> None:
    """Open a way to each of these folders for other users, in a mount namespace of our own.

    The first folder on a way that is closed to them is covered; nothing else below it is seen.
    """
    covers = {prefix: closed for prefix in prefixes if (closed := _closed(prefix))}
    if not covers:
        return
    linux.unshare(linux.NEWNS)
    linux.mount("", "/", "", linux.REC | linux.PRIVATE)
    ways = {prefix: os.open(prefix, os.O_PATH) for prefix in covers}
    for closed in set(covers.values()):
        linux.mount("tmpfs", closed, "tmpfs", linux.NOSUID | linux.NODEV, "mode=0755,size=64k")
    for prefix, way in ways.items():
        os.makedirs(prefix, exist_ok=True)
        flags = linux.BIND | linux.REC | linux.RDONLY
        linux.mount(f"/proc/self/fd/{way}", prefix, "", flags)
        os.close(way)


def _closed(prefix: str) -> str:
    """The first folder on the way to this one that is closed to other users."""
    steps = [prefix[:place] for place, mark in enumerate(prefix) if mark == "/" and place]
    return next((step for step in steps if not os.stat(step).st_mode & 0o001), "")
