"""The launcher: a small process of one thread that forks the sandbox of each trial.

There are three kinds of sandbox: `_namespaces` builds one of namespaces alone (the second half of
this file), `_program` becomes a program that builds one, and `_bare` builds none.

It stands between the evaluator and the sandboxes because forking a program that has threads is not
safe, because a parent-death signal fires when the *thread* that forked ends, and because what is
forked from it carries nothing of the evaluator: no environment, no memory, no open file.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import resource
import signal
import socket
import stat
import struct
import time

from agenteval.sandbox.inside import kernel, prefork, runner, usage, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn
FIRST_UID = 2_000_000_000
INSIDE = 1000
SCOPE, END = "scope", b"end"  # a group that is made for us; the sender's last word
WORLDS_SECONDS = 0.5  # for the last worlds to end by themselves
_FIRST_TO_DIE = "1000"  # the highest oom_score_adj; children inherit it
LACKING = "!"  # before the reason why a group cannot be divided


def main(fd: int, code: bytes, group: str, *, warm: bool) -> None:
    """Start a sandbox for each kind and socket that arrive; end them all with the sender.

    A third item is the folder of the sandbox's control group, which the sender made below `group`.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # of what is forked from here too
    control = socket.socket(fileno=fd)
    evaluator = os.getppid()
    signal.signal(signal.SIGCHLD, _reap)
    own = _own_group(control) if group == SCOPE else ""
    modules = marshal.loads(code)
    names = [name for name, _ in modules]
    end = names.index(runner.__name__) + 1
    runner_code = marshal.dumps(modules[:end])
    if warm:
        prefork.warm()
    while True:
        kind, fds, _, _ = socket.recv_fds(control, 64, 2)
        if not kind or kind == END:
            if kind:
                _wait_for_worlds()
            killed = 0 if own or kind else evaluator
            _leave(own or group, killed)
        start = {
            b"namespaces": _namespaces,
            b"program": _program,
            b"none": _bare,
        }[kind]
        try:
            start(control, fds, runner_code)
        except OSError as error:
            # As when there are as many processes as may be.
            _report_fault(fds[0], error)
        for number in fds:
            os.close(number)


def _reap(*_: object) -> int:
    """Reap the children that have ended; return -1 when none is left, 0 when some run.

    This is not left to the kernel, which would keep what they used from what our parent's children
    used.
    """
    try:
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return -1
    return pid


def _wait_for_worlds() -> None:
    """Wait for the last ones, which are ending: their sockets have closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    until = time.monotonic() + WORLDS_SECONDS
    while _reap() == 0 and time.monotonic() < until:
        time.sleep(0.005)


def _own_group(control: socket.socket) -> str:
    """Divide the group that systemd made for us alone; report it to the evaluator."""
    group = usage.of(os.getpid())
    try:
        family = {os.getpid()}
        lacking = usage.lacking(group, lambda: family, is_delegated=True)
        if not lacking:
            usage.divide(group)
    except OSError as error:
        lacking = f"{error.filename}: {error.strerror}"
    if lacking:
        control.send(f"{LACKING}{lacking}".encode())
        return ""
    control.send(group.encode())
    return group


def _leave(group: str, killed: int) -> NoReturn:
    """End, and remove our groups; those of an evaluator, too, that could not end itself."""
    try:
        if group:
            usage.remove_all(group, os.getpid())
            if killed:
                usage.restore(group, killed)
    finally:
        # The parent-death signal takes along what is left of sandboxes.
        os._exit(0)


def _fork(namespaces: int, fds: list[int]) -> int:
    """Fork a child into the sandbox's control group, or without one if the kernel refuses.

    The evaluator looks into that group, and finds no process there.
    """
    for group in fds[1:]:
        try:
            return kernel.clone_into(namespaces, group)
        except OSError:
            continue
    return kernel.clone(namespaces)


def _in_child(
    control: socket.socket, fds: list[int], build: Callable[..., None], *arguments: object
) -> None:
    """Build the sandbox in a fresh child; report any fault to the evaluator."""
    peer, *groups = fds
    control.close()
    for group in groups:
        os.close(group)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        # When the machine's memory ends, the kernel is to kill this sandbox, not the evaluator.
        _write("/proc/self/oom_score_adj", _FIRST_TO_DIE)
    except OSError:
        pass  # a kernel that does not offer it
    try:
        frame = wire.receive(peer)
        if frame is not None:
            build(frame[0], peer, *arguments)
    except OSError as error:
        _report_fault(peer, error)
    finally:
        os._exit(1)


def _report_fault(peer: int, error: OSError, at: str = "") -> None:
    """Report the fault to the evaluator, unless it is gone."""
    try:
        reason = at + (error.strerror or str(error))
        wire.reply(peer, {"errno": error.errno, "error": reason})
    except OSError:
        return


def _namespaces(control: socket.socket, fds: list[int], _code: bytes) -> None:
    wait, go = os.pipe()
    try:
        child = _fork(ALL, fds)
    except OSError:
        os.close(wait)
        os.close(go)
        raise
    if child == 0:
        os.close(go)
        _in_child(control, fds, _enter, wait)
    os.close(wait)
    try:
        _map_user(child)
        os.write(go, b"!")
    except OSError as error:
        _report_fault(fds[0], error, "user map: ")
    finally:
        os.close(go)


def _enter(spec: wire.Message, peer: int, wait: int) -> None:
    if os.read(wait, 1) != b"!":
        os._exit(1)
    os.close(wait)
    kernel.prctl(kernel.PDEATHSIG, signal.SIGKILL)
    _build(spec)
    runner.serve(peer, peer)


def _map_user(child: int) -> None:
    """Map the only user inside, 1000, to ourselves or, when we are root, to nobody else."""
    uid = os.geteuid()
    gid = os.getegid()
    if uid == 0:
        uid = gid = stranger(child)
    else:
        # The kernel lets an ordinary user map a group only so.
        _write(f"/proc/{child}/setgroups", "deny")
    _write(f"/proc/{child}/uid_map", f"{INSIDE} {uid} 1")
    _write(f"/proc/{child}/gid_map", f"{INSIDE} {gid} 1")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _become_user(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def stranger(pid: int) -> int:
    """Return a user id that no account and no other living trial has; `pid` is the trial's."""
    with open("/proc/self/uid_map") as file:
        words = file.read().split()
    start, _, length = map(int, words[-3:])
    end = start + length
    if end > FIRST_UID + (1 << 22):
        return FIRST_UID + pid
    return end - 1 - pid % max(1, length // 2)


def _program(control: socket.socket, fds: list[int], code: bytes) -> None:
    if _fork(0, fds) == 0:
        _in_child(control, fds, _exec, code)


def _exec(spec: wire.Message, peer: int, code: bytes) -> None:
    """Become the program that builds the sandbox, as a user of its own."""
    if os.geteuid() == 0:
        _uncover(spec["prefixes"])
        _become_user(stranger(os.getpid()))
    kernel.prctl(kernel.PDEATHSIG, signal.SIGKILL)
    # Words of its command line stand for descriptors: of the socket, of our code, of its files.
    numbers = {"PEER": str(peer), "CODE": _memory_file("CODE", code)}
    for name, text in spec["contents"].items():
        numbers[name] = _memory_file(name, text.encode("latin-1"))
    os.set_inheritable(peer, True)
    argv = [numbers.get(word, word) for word in spec["argv"]]
    os.execve(argv[0], argv, {})


def _memory_file(name: str, content: bytes) -> str:
    fd = os.memfd_create(name, 0)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return str(fd)


def _bare(control: socket.socket, fds: list[int], _code: bytes) -> None:
    if _fork(0, fds) == 0:
        _in_child(control, fds, _serve_bare)


def _serve_bare(_spec: wire.Message, peer: int) -> None:
    # No parent-death signal: it must live to kill what it started.
    kernel.prctl(kernel.SUBREAPER, 1)
    runner.serve(peer, peer)


# A sandbox of namespaces alone: its file system, mounted from inside them.

# And that of control groups, later: its root is to be the sandbox's own.
ALL = kernel.NEWUSER | kernel.NEWNS | kernel.NEWPID | kernel.NEWNET | kernel.NEWIPC | kernel.NEWUTS
STAGE = "/tmp"  # noqa: S108 - any folder will do: what we mount on it, nobody else sees
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SIOCSIFFLAGS = 0x8914
LO_UP = struct.pack("16sh", b"lo", 1)
MOUNT_FLAGS = {
    "ro": kernel.RDONLY,
    "nosuid": kernel.NOSUID,
    "nodev": kernel.NODEV,
    "noexec": kernel.NOEXEC,
    "noatime": kernel.NOATIME,
    "nodiratime": kernel.NODIRATIME,
    "relatime": kernel.RELATIME,
}


def _build(spec: wire.Message) -> None:
    """Become the first process of the sandbox that `spec` describes, and its only user."""
    kernel.unshare(kernel.NEWCGROUP)
    # Opened before the change of user: root's own interpreter may lie below a closed folder.
    sources = {}
    for path in (*spec["binds"], *DEVICES):
        sources[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if os.getuid() != INSIDE:
        _become_user(INSIDE)
        # A change of user forgets it.
        kernel.prctl(kernel.PDEATHSIG, signal.SIGKILL)
    kernel.mount("", "/", "", kernel.REC | kernel.PRIVATE)
    _mount_tmpfs(STAGE, "mode=0755,size=4m")
    os.chdir(STAGE)
    _furnish(spec)
    for path, fd in sources.items():
        _bind(fd, path)
    for path in spec["masked"]:
        if os.path.isdir(f".{path}"):
            _mount_tmpfs(f".{path}", "size=4096")
        else:
            kernel.mount("./dev/null", f".{path}", "", kernel.BIND)
    kernel.pivot_root_here()
    _freeze(keep={"/proc", *spec["tmpfs"]})
    _settle(spec)


def _mount_tmpfs(path: str, options: str) -> None:
    flags = kernel.NOSUID | kernel.NODEV
    kernel.mount("tmpfs", path, "tmpfs", flags, options)


def _bind(fd: int, path: str) -> None:
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.makedirs(f".{path}", exist_ok=True)
    else:
        _write_file(path, "")
    kernel.mount(f"/proc/self/fd/{fd}", f".{path}", "", kernel.BIND | kernel.REC)
    os.close(fd)


def _write_file(path: str, text: str) -> None:
    place = f".{path}"
    os.makedirs(os.path.dirname(place), exist_ok=True)
    _write(place, text)
    os.chmod(place, 0o755 if text.startswith("#!") else 0o644)


def _furnish(spec: wire.Message) -> None:
    for path, text in spec["files"].items():
        _write_file(path, text)
    for path, target in spec["links"].items():
        os.makedirs(os.path.dirname(f".{path}"), exist_ok=True)
        os.symlink(target, f".{path}")
    for path, sizes in spec["tmpfs"].items():
        size, inodes, mode = sizes
        os.makedirs(f".{path}", exist_ok=True)
        options = f"size={size},nr_inodes={inodes},mode={mode:o}"
        _mount_tmpfs(f".{path}", options)
    os.makedirs("./proc", exist_ok=True)
    flags = kernel.NOSUID | kernel.NODEV | kernel.NOEXEC
    kernel.mount("proc", "./proc", "proc", flags)
    # A mount of its own, which can be frozen.
    kernel.mount("./proc/sys", "./proc/sys", "", kernel.BIND)


def _freeze(keep: set[str]) -> None:
    """Make every mount but `keep` read-only. A less privileged remount must repeat its flags."""
    with open("/proc/self/mountinfo") as file:
        lines = file.readlines()
    for line in lines:
        escaped, options = line.split()[4:6]
        path = escaped.encode().decode("unicode_escape")
        # A device is not made safer by it.
        if path in keep or path.startswith("/dev/"):
            continue
        flags = kernel.REMOUNT | kernel.BIND
        flags |= kernel.RDONLY | kernel.NOSUID | kernel.NODEV
        for word in options.split(","):
            flags |= MOUNT_FLAGS.get(word, 0)
        kernel.mount("", path, "", flags)


def _settle(spec: wire.Message) -> None:
    """Give up what only the building needed."""
    kernel.sethostname(spec["hostname"])
    if spec["loopback"]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, LO_UP)
    kernel.empty_the_bounding_set()
    kernel.drop_capabilities()
    kernel.prctl(kernel.DUMPABLE, 0)
    kernel.install_filter(spec["seccomp"].encode("latin-1"))


def _uncover(prefixes: list[str]) -> None:
    """Open a way to each of these folders for other users, in a mount namespace of our own.

    The first folder on a way that is closed to them is covered; nothing else below it is seen.
    """
    closed = {prefix: _first_closed(prefix) for prefix in prefixes}
    covered = [prefix for prefix in prefixes if closed[prefix]]
    if not covered:
        return
    kernel.unshare(kernel.NEWNS)
    kernel.mount("", "/", "", kernel.REC | kernel.PRIVATE)
    # Opened in the new namespace: the kernel binds nothing from another one.
    ways = {prefix: os.open(prefix, os.O_PATH) for prefix in covered}
    for folder in {closed[prefix] for prefix in covered}:
        _mount_tmpfs(folder, "mode=0755,size=64k")
    for prefix, way in ways.items():
        os.makedirs(prefix, exist_ok=True)
        flags = kernel.BIND | kernel.REC | kernel.RDONLY
        kernel.mount(f"/proc/self/fd/{way}", prefix, "", flags)
        os.close(way)


def _first_closed(prefix: str) -> str:
    """Return the first folder on the way to this one that is closed to other users; or ""."""
    way = ""
    for name in prefix.split("/")[1:-1]:
        way += f"/{name}"
        if not os.stat(way).st_mode & 0o001:
            return way
    return ""
