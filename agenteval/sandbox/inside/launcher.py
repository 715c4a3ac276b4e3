"""The launcher: a small process of one thread that forks the sandbox of each trial.

It stands between the evaluator and the sandboxes because forking a program that has threads is not
safe, because a parent-death signal fires when the *thread* that forked ends, and because what is
forked from it carries nothing of the evaluator: no environment, no memory, no open file.
"""

from __future__ import annotations

import marshal
import os
import resource
import signal
import socket
import time

from agenteval.sandbox.inside import limits, namespace, prefork, runner, usage, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn
FIRST_UID, INSIDE = 2_000_000_000, 1000
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
    runner_code = marshal.dumps(modules[: names.index(runner.__name__) + 1])
    if warm:
        prefork.warm()
    while True:
        kind, fds, _, _ = socket.recv_fds(control, 64, 2)
        if not kind or kind == END:
            if kind:
                _wait_for_worlds()
            _leave(own or group, 0 if own or kind else evaluator)
        start = {b"namespaces": _namespaces, b"program": _program, b"none": _bare}[kind]
        try:
            start(control, fds, runner_code)
        except OSError as error:  # as where there are as many processes as may be
            _refused(fds[0], error)
        for one in fds:
            os.close(one)


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
    """The last ones are ending: their sockets have closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    until = time.monotonic() + WORLDS_SECONDS
    while _reap() == 0 and time.monotonic() < until:
        time.sleep(0.005)


def _own_group(control: socket.socket) -> str:
    """Divide the group that systemd made for us alone; report it to the evaluator."""
    group = usage.of(os.getpid())
    try:
        lacking = usage.lacking(group, lambda: {os.getpid()}, is_delegated=True)
        if not lacking:
            usage.divide(group)
    except OSError as error:
        lacking = f"{error.filename}: {error.strerror}"
    control.send((LACKING + lacking if lacking else group).encode())
    return "" if lacking else group


def _leave(group: str, killed: int) -> NoReturn:
    """End, and leave no group behind; nor those of the evaluator, if it could not end itself."""
    try:
        if group:
            usage.remove_all(group, os.getpid())
            if killed:
                usage.restore(group, killed)
    finally:
        os._exit(0)  # the parent-death signal takes along what is left of worlds


def _forked(namespaces: int, fds: list[int]) -> int:
    """Fork a child into the sandbox's control group, or without one if the kernel refuses.

    The evaluator looks into that group, and finds no process there.
    """
    for group in fds[1:]:
        try:
            return limits.clone_into(namespaces, group)
        except OSError:
            continue
    return limits.clone(namespaces)


def _in_child(
    control: socket.socket, fds: list[int], build: Callable[..., None], *arguments: object
) -> None:
    """Build the sandbox in a fresh child; report any fault to the evaluator."""
    peer, *groups = fds
    control.close()
    for group in groups:
        os.close(group)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _die_before_the_evaluator()
    try:
        frame = wire.receive(peer)
        if frame is not None:
            build(frame[0], peer, *arguments)
    except OSError as error:
        _refused(peer, error)
    finally:
        os._exit(1)


def _die_before_the_evaluator() -> None:
    """Let the kernel kill this sandbox, and not the evaluator, when the machine's memory ends."""
    try:
        _write("/proc/self/oom_score_adj", _FIRST_TO_DIE)
    except OSError:  # a kernel that does not offer it
        return


def _refused(peer: int, error: OSError, at: str = "") -> None:
    """Report the fault to the evaluator, unless it is gone."""
    try:
        wire.reply(peer, {"errno": error.errno, "error": at + (error.strerror or str(error))})
    except OSError:
        return


def _namespaces(control: socket.socket, fds: list[int], _code: bytes) -> None:
    wait, go = os.pipe()
    try:
        child = _forked(namespace.ALL, fds)
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
        _refused(fds[0], error, "user map: ")
    finally:
        os.close(go)


def _enter(spec: wire.Message, peer: int, wait: int) -> None:
    if os.read(wait, 1) != b"!":
        os._exit(1)
    os.close(wait)
    limits.prctl(limits.PDEATHSIG, signal.SIGKILL)
    namespace.build(spec, drop=_drop_to_inside)
    runner.serve(peer, peer)


def _map_user(child: int) -> None:
    """Inside, the only user is 1000: outside he is us or, when we are root, nobody else."""
    uid = stranger(child) if os.geteuid() == 0 else os.geteuid()
    gid = uid if os.geteuid() == 0 else os.getegid()
    if gid != uid or os.geteuid() != 0:
        _write(f"/proc/{child}/setgroups", "deny")
    _write(f"/proc/{child}/uid_map", f"{INSIDE} {uid} 1")
    _write(f"/proc/{child}/gid_map", f"{INSIDE} {gid} 1")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _drop_to_inside() -> None:
    if os.getuid() != INSIDE:
        os.setgroups([])
        os.setresgid(INSIDE, INSIDE, INSIDE)
        os.setresuid(INSIDE, INSIDE, INSIDE)
        limits.prctl(limits.PDEATHSIG, signal.SIGKILL)  # a change of user forgets it


def stranger(pid: int) -> int:
    """A user id that no account and no other living trial has; `pid` is the trial's."""
    with open("/proc/self/uid_map") as file:
        start, _, length = map(int, file.read().split()[-3:])
    if start + length > FIRST_UID + (1 << 22):
        return FIRST_UID + pid
    return start + length - 1 - pid % max(1, length // 2)


def _program(control: socket.socket, fds: list[int], code: bytes) -> None:
    if _forked(0, fds) == 0:
        _in_child(control, fds, _exec, code)


def _exec(spec: wire.Message, peer: int, code: bytes) -> None:
    """Become the program that builds the sandbox, as a user of its own."""
    if os.geteuid() == 0:
        namespace.uncover(spec["prefixes"])
        uid = stranger(os.getpid())
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    limits.prctl(limits.PDEATHSIG, signal.SIGKILL)
    argv = spec["argv"]
    contents = {name: text.encode("latin-1") for name, text in spec["contents"].items()}
    numbers = {"PEER": str(peer)}
    for name, content in (contents | {"CODE": code}).items():
        fd = os.memfd_create(name, 0)
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        numbers[name] = str(fd)
    os.set_inheritable(peer, True)
    os.execve(argv[0], [numbers.get(word, word) for word in argv], {})


def _bare(control: socket.socket, fds: list[int], _code: bytes) -> None:
    if _forked(0, fds) == 0:
        _in_child(control, fds, _serve_bare)


def _serve_bare(_spec: wire.Message, peer: int) -> None:
    limits.prctl(
        limits.SUBREAPER, 1
    )  # no parent-death signal: it must live to kill what it started
    runner.serve(peer, peer)
