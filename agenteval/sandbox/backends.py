"""The backends that build sandboxes, and the choice of one.

`Bubblewrap`, `Namespaces` (made by Python) and `Bare` (no isolation) are forked by a launcher on
this machine. `Container` is for machines that forbid namespaces: one container of podman or docker
per trial. `choose` returns the first that passes its probe.
"""

import asyncio
import os
import re
import shutil
import socket
import sys
import tempfile
import tomllib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import IO, Any

from agenteval import host, plugins
from agenteval.errors import InfrastructureError, UsageError
from agenteval.host import temporary_folder
from agenteval.protocols import HostedProgram, Sandbox, SandboxBackend
from agenteval.sandbox.inside import wire
from agenteval.sandbox.launch import (
    BIN,
    BUBBLEWRAP,
    DEVICE_LINKS,
    ENVIRONMENT,
    HOSTNAME,
    LANGUAGE,
    MASKED,
    SHARED_MEMORY,
    START_CONTAINED,
    START_RUNNER,
    TEMPORARY,
    UV,
    WORKSPACE,
    Groups,
    Interpreter,
    Launcher,
    World,
    counts_processes_apart,
    interpreter,
    runner_spec,
    shipped,
    syscall_filter,
)
from agenteval.sandbox.launch import world as describe
from agenteval.sandbox.probe import Probe, probe
from agenteval.sandbox.seccomp import ARCH, sandbox_filter
from agenteval.sandbox.session import Link, Plan, Session, greet, launched
from agenteval.trial.redaction import is_secret
from agenteval.trial.trial import Limits

WRITABLE = (WORKSPACE, "/tmp", "/dev")  # noqa: S108 - its own
ENGINES = ("podman", "docker")
IMAGE = "docker.io/library/python:3.12-slim"
FIRST_UID, UIDS = 20_000, 40_000  # within what a rootless engine maps
SPARE = 64 << 20  # memory beyond the limit, so that the watch names it before the kernel kills
KERNEL_THREADS, KERNEL = 1_000, 512 << 20  # room for gVisor's or a virtual machine's
COMMAND = ("-I", "-S", "-c", START_CONTAINED)
END_SECONDS = 15.0


class _Backend(ABC):
    """A backend whose sandboxes are reached by a link to their runner."""

    name: str

    def open(
        self, files: Mapping[str, bytes], limits: Limits
    ) -> AbstractAsyncContextManager[Sandbox]:
        return Session(partial(self._sandbox, limits), files, limits)

    @abstractmethod
    def _sandbox(self, limits: Limits) -> AbstractAsyncContextManager[Link]:
        """Return a new sandbox, to be entered."""


class Container(_Backend):
    """The runner is the container's first process and speaks over its standard input and output.

    The image needs python3 (3.11 or later) on PATH, /bin/sh and no /workspace of its own;
    AGENTEVAL_CONTAINER_IMAGE names another, AGENTEVAL_CONTAINER_ENGINE one of the two engines, and
    AGENTEVAL_CONTAINER_RUNTIME what the engine is told by --runtime, as runsc for gVisor.
    """

    name = "container"

    def __init__(self, *, prefork: bool = False) -> None:
        self._prefork = prefork
        self._image = os.environ.get("AGENTEVAL_CONTAINER_IMAGE", IMAGE)
        wanted = os.environ.get("AGENTEVAL_CONTAINER_ENGINE")
        self._engines = (wanted,) if wanted else ENGINES
        self._runtime = os.environ.get("AGENTEVAL_CONTAINER_RUNTIME")

    @asynccontextmanager
    async def _sandbox(self, limits: Limits) -> AsyncGenerator[Link]:
        engines = filter(None, map(shutil.which, self._engines))
        engine = next(engines, None)
        if engine is None:
            raise InfrastructureError(f"sandbox: no program {' or '.join(self._engines)} on PATH")
        own_end, peer = socket.socketpair()
        own_end.setblocking(False)  # noqa: FBT003 - as the socket module has it
        link = Link(own_end)
        with tempfile.TemporaryFile() as complaints, _programs() as programs:
            options = _engine_options(engine, limits, programs, self._runtime)
            words = [engine, "run", *options, self._image, *COMMAND]
            with peer:
                folder = Path(programs).parent
                process = await _start(words, peer.fileno(), complaints, folder)
            code = shipped(until="runner", compiled=False)
            spec = _contained_runner(limits, prefork=self._prefork)
            length = len(code).to_bytes(4, "big")
            first = length + code + wire.request(spec)
            try:
                await greet(link, first, lambda: _reason(complaints))
                yield link
            finally:
                await link.close()
                await _end(process)


_OF_ENGINES = re.compile(
    r"(?:PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TMPDIR|XDG_\w+|DBUS_SESSION_BUS_ADDRESS)$"
    r"|DOCKER_|CONTAINERS?_|PODMAN_|STORAGE_|_CONTAINERS_"
)


@contextmanager
def _programs() -> Iterator[str]:
    """Yield a folder of what the image lacks; bound read-only, so that no command replaces it."""
    with temporary_folder() as folder:
        programs = folder / "bin"
        programs.mkdir()
        _write_program(programs / "uv", UV)
        _write_program(programs / "python", '#!/bin/sh\nexec python3 "$@"\n')
        programs.chmod(0o755)
        yield str(programs)


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


async def _start(
    words: Sequence[str],
    peer: int,
    complaints: IO[bytes],
    folder: Path,
) -> asyncio.subprocess.Process:
    """Start the engine in a folder of ours: it leaves a file there when memory runs out."""
    return await asyncio.create_subprocess_exec(
        *words,
        stdin=peer,
        stdout=peer,
        stderr=complaints,
        cwd=folder,
        start_new_session=True,
        env=_variables(os.environ),
    )


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an engine needs to be found and to find its own.

    A proxy's variables are left out: the engine would hand them to commands.
    """
    return {
        name: value
        for name, value in environment.items()
        if _OF_ENGINES.match(name) and not is_secret(name, value)
    }


def _engine_options(
    engine: str,
    limits: Limits,
    programs: str,
    runtime: str | None,
) -> Iterator[str]:
    is_podman = engine.endswith(ENGINES[0])
    chance = int.from_bytes(os.urandom(4), "big")
    values = {
        "hostname": HOSTNAME,
        "user": FIRST_UID + chance % UIDS,
        "memory": limits.memory + SPARE,
        "processes": limits.processes + 8,
        "open_files": limits.open_files,
        "shared_memory": SHARED_MEMORY,
        "workspace": WORKSPACE,
        "workspace_size": limits.workspace,
        "temporary": TEMPORARY,
        # Otherwise a folder of the image lends its mode.
        "own_mode": ",notmpcopyup" if is_podman else "",
        "programs": programs,
        "bin": BIN,
        "masked": ":".join(MASKED),
        "runtime": runtime,
        "threads": limits.processes + KERNEL_THREADS,
        "kernel_memory": limits.memory + KERNEL,
    }
    sections = ["every"]
    if is_podman:
        sections.append("podman")
    if runtime:
        sections.append("runtime")
        if is_podman and Path(runtime).name == "runsc":
            sections.append("runsc")
    table = Path(__file__).with_name("container.toml")
    options = tomllib.loads(table.read_text("utf-8"))
    for section in sections:
        for option in options[section]:
            yield option.format_map(values)


def _contained_runner(limits: Limits, *, prefork: bool) -> dict[str, Any]:
    rules = [("/", "read")]
    rules += [(path, "write") for path in WRITABLE]
    spec = runner_spec(limits, own_user=True, prefork=prefork, rules=rules)
    # The container may be on another machine than this one, as with an engine on macOS.
    filters = {}
    for machine in ARCH:
        filters[machine] = sandbox_filter(machine, loopback=limits.loopback)
    return spec | {"filters": filters}


_RUNTIME_FAILED = re.compile(r" failed: exit status \d+$")


def _reason(complaints: IO[bytes]) -> str:
    """Return the engine's last line, but for docker's advice to read its help.

    If that is only that its runtime failed, the line before comes with it: the runtime's reason.
    """
    head = os.pread(complaints.fileno(), 1 << 16, 0)
    text = head.decode(errors="replace")
    lines = [line for line in text.splitlines() if line and "docker run --help" not in line]
    count = 1
    if lines and _RUNTIME_FAILED.search(lines[-1]):
        count = 2
    return "; ".join(reversed(lines[-count:]))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Wait for its end, which follows its runner's; a stuck one is killed."""
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


# Sandboxes that a launcher on this machine forks.


class _Local(_Backend):
    """A backend on this machine. The launcher may load what pre-forked scripts share."""

    _is_forked = True  # from the launcher, which a script then is as well

    def __init__(self, *, prefork: bool = False) -> None:
        self._prefork = prefork
        self._python = interpreter()
        self.launcher = Launcher(self._python, warm=prefork and self._is_forked)


class _Isolated(_Local):
    """A backend that gives each trial a view of this machine of its own."""

    def __init__(self, *, prefork: bool = False) -> None:
        super().__init__(prefork=prefork)
        self._plans: dict[Limits, Plan] = {}

    def _sandbox(self, limits: Limits) -> AbstractAsyncContextManager[Link]:
        # This machine is examined once, not for each trial.
        if limits not in self._plans:
            self._plans[limits] = self._plan(limits)
        return launched(self.launcher, self._plans[limits])

    @abstractmethod
    def _plan(self, limits: Limits) -> Plan:
        """Return how a sandbox with these limits is built."""

    def _runner(self, world: World, limits: Limits) -> dict[str, Any]:
        return runner_spec(
            limits,
            own_user=counts_processes_apart(),
            prefork=self._prefork,
            rules=world.rules,
            hosts_program=bool(world.shown),
        )


NO_PROGRAM = HostedProgram({}, {})


class Bubblewrap(_Isolated):
    """`bwrap`, once for each trial; started by root, it first becomes an unused user."""

    name = "bubblewrap"
    _is_forked = False  # bwrap starts another Python

    def open_with(
        self, program: HostedProgram, files: Mapping[str, bytes], limits: Limits
    ) -> AbstractAsyncContextManager[Sandbox]:
        """Return a sandbox in which this program can run, as `protocols.Host` has it."""
        plan = self._plan(limits, program)
        return Session(partial(launched, self.launcher, plan), files, limits)

    def _plan(self, limits: Limits, hosted: HostedProgram = NO_PROGRAM) -> Plan:
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            raise InfrastructureError("sandbox: no program bwrap on PATH")
        world = describe(self._python, limits).hosting(hosted, limits)
        contents = {f"FD {path}": text for path, text in world.files.items()}
        contents["SECCOMP"] = syscall_filter(loopback=limits.loopback)
        prefixes = [self._python.prefix, *hosted.shown.values()]
        runner = (self._python.executable, "-I", "-S", "-c", START_RUNNER, "CODE", "PEER")
        build = {
            "argv": [bwrap, *_bwrap_options(world), *runner],
            "contents": contents,
            "prefixes": [*filter(os.path.isdir, prefixes)],
        }
        return Plan("program", build, self._runner(world, limits))


def _bwrap_options(world: World) -> Iterator[str]:
    yield from BUBBLEWRAP
    yield from ("--hostname", HOSTNAME)
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
        yield from _bwrap_cover(path)
    for path, sizes in world.tmpfs.items():
        size, _, mode = sizes
        yield from ("--size", str(size), "--perms", f"{mode:o}", "--tmpfs", path)
    for path, text in world.files.items():
        rights = "0755" if text.startswith("#!") else "0644"
        yield from ("--perms", rights, "--file", f"FD {path}", path)
    for path, target in world.links.items():
        yield from ("--symlink", target, path)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/")
    yield from ("--seccomp", "SECCOMP", "--")


def _bwrap_cover(path: str) -> Sequence[str]:
    if Path(path).is_dir():
        return ("--size", "4096", "--tmpfs", path, "--remount-ro", path)
    return ("--ro-bind", "/dev/null", path)


class Namespaces(_Isolated):
    """User, mount, process, network, IPC, host-name and cgroup namespaces, and a private root."""

    name = "namespaces"

    def _plan(self, limits: Limits) -> Plan:
        world = describe(self._python, limits)
        build = asdict(world) | {
            "hostname": HOSTNAME,
            "links": world.links | DEVICE_LINKS,
            "loopback": limits.loopback,
            "seccomp": syscall_filter(loopback=limits.loopback),
        }
        return Plan("namespaces", build, self._runner(world, limits))


class Bare(_Local):
    """Commands run as the user, with all he may read, write and reach. Limits are watched only."""

    name = "none"

    @asynccontextmanager
    async def _sandbox(self, limits: Limits) -> AsyncGenerator[Link]:
        temporary = tempfile.TemporaryDirectory(prefix="agenteval-", ignore_cleanup_errors=True)
        with temporary as folder:
            spec = runner_spec(limits, own_user=False, prefork=self._prefork)
            runner = _furnish(Path(folder), self._python, spec)
            plan = Plan("none", {}, runner)
            async with launched(self.launcher, plan) as link:
                yield link


def _furnish(folder: Path, python: Interpreter, spec: dict[str, Any]) -> dict[str, Any]:
    """Make the folders of one trial, and return the settings of its runner."""
    workspace = folder / "workspace"
    programs = folder / "bin"
    workspace.mkdir()
    programs.mkdir()
    for name in ("python3", "python"):
        (programs / name).symlink_to(python.executable)
    _write_program(programs / "uv", UV)
    system_path = ENVIRONMENT["PATH"].removeprefix(f"{BIN}:")
    own = {
        "HOME": str(workspace),
        "PWD": str(workspace),
        "PATH": f"{programs}:{system_path}",
    }
    return spec | {
        "env": ENVIRONMENT | own,
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
# The backends whose probe passed in this process: what they stand on is the same in its next run.
_WORKING: set[tuple[str, str, str | None, int]] = set()


def automatic() -> tuple[str, ...]:
    """Return the names a run chooses from: on macOS a container engine, which has a Linux there."""
    return AUTOMATIC if sys.platform == "linux" else (Container.name,)


async def choose(name: str | None = None, *, prefork: bool = False) -> SandboxBackend:
    """Return the backend of this name, or the first that works; `prefork`: see README.md.

    Raises UsageError, with the reason and the cure, when its probe fails; one that passed is not
    probed again by this process. `none` isolates nothing and is never chosen but by name.
    """
    backends = BACKENDS
    if name not in {None, *BACKENDS}:
        backends = BACKENDS | _plugged()
    if name is not None and name not in backends:
        raise UsageError(f"--sandbox {name}: no such sandbox. Known: {', '.join(backends)}")
    if name in {None, *AUTOMATIC, Bare.name}:  # an engine starts its containers under its own
        _check_host()
    if name == Bare.name:
        return Bare(prefork=prefork)
    failed = []
    for candidate in automatic() if name is None else (name,):
        backend = backends[candidate](prefork=prefork)
        bwrap = shutil.which("bwrap")
        place = sys.platform, candidate, bwrap, os.geteuid()
        if place in _WORKING:
            return backend
        result = await _probe(backend)
        if result.works:
            if candidate in AUTOMATIC:
                _WORKING.add(place)
            return backend
        failed.append(result)
    raise UsageError(f"no sandbox works here; nothing is run. {' | '.join(map(str, failed))}")


def _check_host() -> None:
    """Raise UsageError if this process may not have what each sandbox is given."""
    if sys.platform == "linux" and not Path("/proc/self").exists():
        mount = "mount it (mount -t proc proc /proc), or start the container with it"
        raise UsageError(f"/proc: not mounted, and every sandbox needs it: {mount}; nothing is run")
    spec = runner_spec(Limits(), own_user=counts_processes_apart())
    if lacking := host.too_small(spec["rlimits"]):
        raise UsageError(f"{lacking}; nothing is run")


async def probe_all() -> list[Probe]:
    """Probe every backend that isolates, in the order of choice."""
    isolating = [BACKENDS[name] for name in (*AUTOMATIC, Container.name)]
    isolating += _plugged().values()
    return [await _probe(backend()) for backend in isolating]


async def _probe(backend: SandboxBackend) -> Probe:
    if backend.name in automatic() or backend.name not in AUTOMATIC:
        return await probe(backend)
    why = f"it is made of Linux's namespaces, and this is {sys.platform}"
    return Probe(
        backend.name,
        works=False,
        reason=why,
        cure="podman or docker: a run uses them",
    )


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
