"""The backend on bubblewrap: an unprivileged program builds the world, our runner lives in it."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager

from agenteval.core.scenario import Limits
from agenteval.errors import InfrastructureError
from agenteval.protocols import Sandbox
from agenteval.sandbox.launch import LANGUAGE, START_RUNNER, Interpreter, Launcher, interpreter
from agenteval.sandbox.session import Plan, open_session
from agenteval.sandbox.world import (
    BIN,
    HOSTNAME,
    World,
    counts_processes_apart,
    runner_spec,
    syscall_filter,
)
from agenteval.sandbox.world import world as describe

NAMESPACES = ("user", "pid", "net", "ipc", "uts", "cgroup-try")


class Bubblewrap:
    """`bwrap`, once per trial; started by root, it first becomes a user that nobody else is."""

    name = "bubblewrap"

    def __init__(self, *, prefork: bool = False) -> None:
        self._prefork = prefork
        self._python = interpreter()
        self._launcher = Launcher(self._python)

    def open(
        self, files: Mapping[str, bytes], limits: Limits
    ) -> AbstractAsyncContextManager[Sandbox]:
        program = shutil.which("bwrap")
        if program is None:
            raise InfrastructureError("sandbox: no program bwrap on PATH")
        world = describe(self._python, limits)
        build = {
            "argv": [program, *_options(world), *_command(self._python)],
            "contents": {f"FD {path}": text for path, text in world.files.items()}
            | {"SECCOMP": syscall_filter(loopback=limits.loopback)},
            "prefix": self._python.prefix,
        }
        runner = runner_spec(limits, own_user=counts_processes_apart(), prefork=self._prefork)
        return open_session(self._launcher, Plan("program", build, runner), files, limits)


def _options(world: World) -> Iterator[str]:
    for namespace in NAMESPACES:
        yield f"--unshare-{namespace}"
    yield from ("--uid", "1000", "--gid", "1000", "--hostname", HOSTNAME)
    yield from ("--new-session", "--die-with-parent", "--as-pid-1", "--clearenv")
    for name, value in LANGUAGE.items():
        yield from ("--setenv", name, value)
    for path in ("/etc", "/run", BIN):
        yield from ("--perms", "0755", "--dir", path)
    for path in world.binds:
        yield from ("--ro-bind", path, path)
    yield from ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev")
    for path, (size, _, mode) in world.tmpfs.items():
        yield from ("--size", str(size), "--perms", f"{mode:o}", "--tmpfs", path)
    for path, text in world.files.items():
        yield from (
            "--perms",
            "0755" if text.startswith("#!") else "0644",
            "--file",
            f"FD {path}",
            path,
        )
    for path, target in world.links.items():
        yield from ("--symlink", target, path)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/")


def _command(python: Interpreter) -> Iterator[str]:
    yield from ("--seccomp", "SECCOMP", "--", python.executable, "-I", "-S", "-c", START_RUNNER)
    yield from ("CODE", "PEER")
