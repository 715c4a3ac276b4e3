"""The backends on this machine: bubblewrap, namespaces that Python makes, and none at all."""

import os
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from agenteval import host_limits, plugins
from agenteval.core.scenario import Limits
from agenteval.errors import InfrastructureError, UsageError
from agenteval.protocols import Guest, Sandbox, SandboxBackend
from agenteval.sandbox.container import Container
from agenteval.sandbox.groups import Groups
from agenteval.sandbox.launch import LANGUAGE, START_RUNNER, Interpreter, Launcher, interpreter
from agenteval.sandbox.link import Link
from agenteval.sandbox.probe import Probe, probe
from agenteval.sandbox.session import Plan, Session, launched
from agenteval.sandbox.world import (
    BIN,
    DEVICE_LINKS,
    ENVIRONMENT,
    HOSTNAME,
    UV,
    World,
    counts_processes_apart,
    runner_spec,
    syscall_filter,
)
from agenteval.sandbox.world import world as describe

NOBODY = Guest({}, {})
NAMESPACES = ("user", "pid", "net", "ipc", "uts", "cgroup-try")


class Bubblewrap:
    """`bwrap`, once for each trial; started by root, it first becomes an unused user."""

    name = "bubblewrap"

    def __init__(self, *, prefork: bool = False) -> None:
        self._prefork = prefork
        self._python = interpreter()
        self.launcher = Launcher(self._python)
        self._plans: dict[Limits, Plan] = {}  # the machine is looked at once, not for each trial

    def open(
        self, files: Mapping[str, bytes], limits: Limits
    ) -> AbstractAsyncContextManager[Sandbox]:
        if limits not in self._plans:
            self._plans[limits] = self._plan(NOBODY, limits)
        return Session(partial(launched, self.launcher, self._plans[limits]), files, limits)

    def open_with(
        self, guest: Guest, files: Mapping[str, bytes], limits: Limits
    ) -> AbstractAsyncContextManager[Sandbox]:
        """Implements `protocols.Host`."""
        return Session(partial(launched, self.launcher, self._plan(guest, limits)), files, limits)

    def _plan(self, hosted: Guest, limits: Limits) -> Plan:
        program = shutil.which("bwrap")
        if program is None:
            raise InfrastructureError("sandbox: no program bwrap on PATH")
        world = describe(self._python, limits).hosting(hosted, limits)
        build = {
            "argv": [program, *_options(world), *_command(self._python)],
            "contents": {f"FD {path}": text for path, text in world.files.items()}
            | {"SECCOMP": syscall_filter(loopback=limits.loopback)},
            "prefixes": [
                *filter(None, [self._python.prefix]),
                *filter(os.path.isdir, hosted.shown.values()),
            ],
        }
        return Plan("program", build, _runner(world, limits, prefork=self._prefork))


def _runner(world: World, limits: Limits, *, prefork: bool) -> dict[str, Any]:
    own = counts_processes_apart()
    return runner_spec(
        limits,
        own_user=own,
        prefork=prefork,
        rules=world.rules,
        hosts_program=bool(world.shown),
    )


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
    for place, path in world.shown.items():
        yield from ("--ro-bind", path, place)
    yield from ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev")
    for path in world.masked:
        folder = ("--size", "4096", "--tmpfs", path, "--remount-ro", path)
        yield from folder if Path(path).is_dir() else ("--ro-bind", "/dev/null", path)
    for path, (size, _, mode) in world.tmpfs.items():
        yield from ("--size", str(size), "--perms", f"{mode:o}", "--tmpfs", path)
    for path, text in world.files.items():
        rights = "0755" if text.startswith("#!") else "0644"
        yield from ("--perms", rights, "--file", f"FD {path}", path)
    for path, target in world.links.items():
        yield from ("--symlink", target, path)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/")


def _command(python: Interpreter) -> Iterator[str]:
    yield from ("--seccomp", "SECCOMP", "--", python.executable, "-I", "-S", "-c", START_RUNNER)
    yield from ("CODE", "PEER")


class Namespaces:
    """User, mount, process, network, IPC, host-name and cgroup namespaces, and a private root."""

    name = "namespaces"

    def __init__(self, *, prefork: bool = False) -> None:
        self._prefork = prefork
        self._python = interpreter()
        self.launcher = Launcher(self._python, warm=prefork)

    def open(
        self, files: Mapping[str, bytes], limits: Limits
    ) -> AbstractAsyncContextManager[Sandbox]:
        world = describe(self._python, limits)
        build = asdict(world) | {
            "hostname": HOSTNAME,
            "links": world.links | DEVICE_LINKS,
            "loopback": limits.loopback,
            "seccomp": syscall_filter(loopback=limits.loopback),
        }
        runner = _runner(world, limits, prefork=self._prefork)
        plan = Plan("namespaces", build, runner)
        return Session(partial(launched, self.launcher, plan), files, limits)


class Bare:
    """Commands run as the user, with all he may read, write and reach. Limits are watched only."""

    name = "none"

    def __init__(self, *, prefork: bool = False) -> None:
        self._prefork = prefork
        self._python = interpreter()
        self.launcher = Launcher(self._python, warm=prefork)

    def open(
        self, files: Mapping[str, bytes], limits: Limits
    ) -> AbstractAsyncContextManager[Sandbox]:
        return Session(partial(self._world, limits), files, limits)

    @asynccontextmanager
    async def _world(self, limits: Limits) -> AsyncGenerator[Link]:
        made = tempfile.TemporaryDirectory(prefix="agenteval-", ignore_cleanup_errors=True)
        with made as folder:
            spec = runner_spec(limits, own_user=False, prefork=self._prefork)
            plan = Plan("none", {}, _furnish(Path(folder), self._python, spec))
            async with launched(self.launcher, plan) as link:
                yield link


def _furnish(folder: Path, python: Interpreter, spec: dict[str, Any]) -> dict[str, Any]:
    """Make the folders of one trial, and return the settings of its runner."""
    workspace, programs = folder / "workspace", folder / "bin"
    workspace.mkdir()
    programs.mkdir()
    for name in ("python3", "python"):
        (programs / name).symlink_to(python.executable)
    (programs / "uv").write_text(UV)
    (programs / "uv").chmod(0o755)
    home = {"HOME": str(workspace), "PWD": str(workspace)}
    path = f"{programs}:{ENVIRONMENT['PATH'].removeprefix(f'{BIN}:')}"
    return spec | {
        "env": ENVIRONMENT | home | {"PATH": path},
        "folder": str(folder),
        "places": [],
        "workspace": str(workspace),
    }


GROUP = "agenteval.sandboxes"
Backend = Callable[..., SandboxBackend]
BACKENDS: dict[str, Backend] = {
    "bubblewrap": Bubblewrap,
    "namespaces": Namespaces,
    "container": Container,
    "none": Bare,
}
AUTOMATIC = ("bubblewrap", "namespaces")
# Those whose probe passed in this process: what they stand on is the same in its next run.
_HELD: set[tuple[str, str, str | None, int]] = set()


def automatic() -> tuple[str, ...]:
    """Return the names a run chooses from: on macOS a container engine, which has a Linux there."""
    return AUTOMATIC if sys.platform == "linux" else (Container.name,)


async def choose(name: str | None = None, *, prefork: bool = False) -> SandboxBackend:
    """The backend of this name, or the first that works here; `prefork`: see README.md.

    Raises UsageError, with the reason and the cure, when its probe fails; one that passed is not
    probed again by this process. `none` isolates nothing and is never chosen but by name.
    """
    backends = BACKENDS if name is None or name in BACKENDS else BACKENDS | _plugged()
    if name is not None and name not in backends:
        raise UsageError(f"--sandbox {name}: no such sandbox. Known: {', '.join(backends)}")
    if name in {None, *AUTOMATIC, Bare.name}:  # an engine starts its containers under its own
        _check_host()
    if name == Bare.name:
        return Bare(prefork=prefork)
    failed = []
    for candidate in automatic() if name is None else (name,):
        backend = backends[candidate](prefork=prefork)
        place = sys.platform, candidate, shutil.which("bwrap"), os.geteuid()
        if place in _HELD:
            return backend
        result = await _probed(backend)
        if result.works:
            _HELD.update({place} if candidate in AUTOMATIC else ())
            return backend
        failed.append(result)
    raise UsageError(f"no sandbox works here; nothing is run. {' | '.join(map(str, failed))}")


def _check_host() -> None:
    """Raise UsageError if this process may not have what each sandbox is given."""
    if sys.platform == "linux" and not Path("/proc/self").exists():
        mount = "mount it (mount -t proc proc /proc), or start the container with it"
        raise UsageError(f"/proc: not mounted, and every sandbox needs it: {mount}; nothing is run")
    spec = runner_spec(Limits(), own_user=counts_processes_apart(), prefork=False)
    if lacking := host_limits.too_small(spec["rlimits"]):
        raise UsageError(f"{lacking}; nothing is run")


async def probe_all() -> list[Probe]:
    """Probe every backend that isolates, in the order of choice."""
    known = [*(BACKENDS[name] for name in (*AUTOMATIC, Container.name)), *_plugged().values()]
    return [await _probed(backend()) for backend in known]


async def _probed(backend: SandboxBackend) -> Probe:
    if backend.name in automatic() or backend.name not in AUTOMATIC:
        return await probe(backend)
    why = f"it is made of Linux's namespaces, and this is {sys.platform}"
    return Probe(backend.name, works=False, reason=why, cure="podman or docker: a run uses them")


async def groups_of(name: str) -> Groups:
    """Return the control groups of this backend's sandboxes, as one of them shows."""
    backend = Namespaces() if name == Namespaces.name else Bubblewrap()
    async with backend.open({}, Limits()):
        return backend.launcher.groups


def _plugged() -> dict[str, Backend]:
    """Return the backends of plug-ins.

    They are chosen by name only, and probed as any other.
    """
    backends = dict(plugins.load(GROUP, callable))
    for name in backends.keys() & BACKENDS.keys():
        plugins.leave_out(GROUP, name, "there is a sandbox of that name")
        del backends[name]
    return backends
