"""A sandbox made of namespaces alone: its file system, mounted from inside them."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import struct

from agenteval.sandbox.inside import limits, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
ALL = (
    limits.NEWUSER | limits.NEWNS | limits.NEWPID | limits.NEWNET | limits.NEWIPC | limits.NEWUTS
)  # and that of control groups, whose root is to be the world's own
STAGE = "/tmp"  # noqa: S108 - any folder will do: what we mount on it, nobody else sees
DEVICES = ("null", "zero", "full", "random", "urandom")
SIOCSIFFLAGS = 0x8914
LO_UP = struct.pack("16sh", b"lo", 1)
KEPT = {
    "ro": limits.RDONLY, "nosuid": limits.NOSUID, "nodev": limits.NODEV, "noexec": limits.NOEXEC,
    "noatime": limits.NOATIME, "nodiratime": limits.NODIRATIME, "relatime": limits.RELATIME,
}  # fmt: skip


def build(spec: wire.Message, drop: Callable[[], None]) -> None:
    """Become the first process of the world that `spec` describes; `drop` makes us its only user.

    Sources are opened before the drop: root's own interpreter may lie below a closed folder.
    """
    limits.unshare(limits.NEWCGROUP)
    sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in spec["binds"]}
    devices = {f"/dev/{name}": os.open(f"/dev/{name}", os.O_PATH) for name in DEVICES}
    drop()
    limits.mount("", "/", "", limits.REC | limits.PRIVATE)
    limits.mount("tmpfs", STAGE, "tmpfs", limits.NOSUID | limits.NODEV, "mode=0755,size=4m")
    os.chdir(STAGE)
    _furnish(spec)
    for path, fd in (sources | devices).items():
        _bind(fd, path)
    for path in spec["masked"]:
        if os.path.isdir(f".{path}"):
            limits.mount("tmpfs", f".{path}", "tmpfs", limits.NOSUID | limits.NODEV, "size=4096")
        else:
            limits.mount("./dev/null", f".{path}", "", limits.BIND)
    limits.pivot_root_here()
    _freeze(keep={"/proc", *spec["tmpfs"]})
    _settle(spec)


def _bind(fd: int, path: str) -> None:
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.makedirs(f".{path}", exist_ok=True)
    else:
        _write_file(path, "")
    limits.mount(f"/proc/self/fd/{fd}", f".{path}", "", limits.BIND | limits.REC)
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
        limits.mount("tmpfs", f".{path}", "tmpfs", limits.NOSUID | limits.NODEV, options)
    os.makedirs("./proc", exist_ok=True)
    flags = limits.NOSUID | limits.NODEV | limits.NOEXEC
    limits.mount("proc", "./proc", "proc", flags)
    limits.mount("./proc/sys", "./proc/sys", "", limits.BIND)  # a mount of its own can be frozen


def _freeze(keep: set[str]) -> None:
    """Make every mount but `keep` read-only. A less privileged remount must repeat its flags."""
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split()[4:6] for line in file]
    for escaped, options in mounts:
        path = escaped.encode().decode("unicode_escape")
        if path not in keep and not path.startswith("/dev/"):  # a device is not made safer by it
            flags = sum({KEPT.get(word, 0) for word in options.split(",")})
            flags |= limits.RDONLY | limits.NOSUID | limits.NODEV
            limits.mount("", path, "", limits.REMOUNT | limits.BIND | flags)


def _settle(spec: wire.Message) -> None:
    """Give up what only the building needed."""
    limits.sethostname(spec["hostname"])
    if spec["loopback"]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, LO_UP)
    limits.empty_the_bounding_set()
    limits.drop_capabilities()
    limits.prctl(limits.DUMPABLE, 0)
    limits.install_filter(spec["seccomp"].encode("latin-1"))


def uncover(prefixes: list[str]) -> None:
    """Open a way to each of these folders for other users, in a mount namespace of our own.

    The first folder on a way that is closed to them is covered; nothing else below it is seen.
    """
    covers = {prefix: closed for prefix in prefixes if (closed := _closed(prefix))}
    if not covers:
        return
    limits.unshare(limits.NEWNS)
    limits.mount("", "/", "", limits.REC | limits.PRIVATE)
    ways = {prefix: os.open(prefix, os.O_PATH) for prefix in covers}
    for closed in set(covers.values()):
        limits.mount("tmpfs", closed, "tmpfs", limits.NOSUID | limits.NODEV, "mode=0755,size=64k")
    for prefix, way in ways.items():
        os.makedirs(prefix, exist_ok=True)
        flags = limits.BIND | limits.REC | limits.RDONLY
        limits.mount(f"/proc/self/fd/{way}", prefix, "", flags)
        os.close(way)


def _closed(prefix: str) -> str:
    """The first folder on the way to this one that is closed to other users."""
    steps = [prefix[:place] for place, mark in enumerate(prefix) if mark == "/" and place]
    return next((step for step in steps if not os.stat(step).st_mode & 0o001), "")
