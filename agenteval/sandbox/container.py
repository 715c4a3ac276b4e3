"""The backend for machines that forbid namespaces: one container of podman or docker per trial."""

import asyncio
import os
import re
import shutil
import socket
import tempfile
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from agenteval.core.known_keys import is_secret
from agenteval.core.scenario import Limits
from agenteval.errors import InfrastructureError
from agenteval.protocols import Sandbox
from agenteval.sandbox.inside import wire
from agenteval.sandbox.launch import START_CONTAINED, shipped
from agenteval.sandbox.link import Link
from agenteval.sandbox.session import Session, greet
from agenteval.sandbox.world import (
    BIN,
    HOSTNAME,
    MASKED,
    SHARED_MEMORY,
    TEMPORARY,
    UV,
    WORKSPACE,
    runner_spec,
)
from agenteval.temporary import temporary_folder

WRITABLE = ("/tmp", "/dev")  # noqa: S108 - its own
ENGINES = ("podman", "docker")
IMAGE = "docker.io/library/python:3.12-slim"
FIRST_UID, UIDS = 20_000, 40_000  # within what a rootless engine maps
SPARE = 64 << 20  # memory beyond the limit, so that the watch names it before the kernel kills
KERNEL_THREADS, KERNEL = 1_000, 512 << 20  # room for gVisor's or a virtual machine's
COMMAND = ("-I", "-S", "-c", START_CONTAINED)
END_SECONDS = 15.0


class Container:
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

    def open(
        self, files: Mapping[str, bytes], limits: Limits
    ) -> AbstractAsyncContextManager[Sandbox]:
        return Session(partial(self._world, limits), files, limits)

    @asynccontextmanager
    async def _world(self, limits: Limits) -> AsyncGenerator[Link]:
        engine = next(filter(None, map(shutil.which, self._engines)), None)
        if engine is None:
            raise InfrastructureError(f"sandbox: no program {' or '.join(self._engines)} on PATH")
        own_end, peer = socket.socketpair()
        own_end.setblocking(False)  # noqa: FBT003 - as the socket module has it
        link = Link(own_end)
        with tempfile.TemporaryFile() as complaints, _programs() as programs:
            runtime = _of_runtime(self._runtime, engine, limits) if self._runtime else ()
            options = [*_options(engine, limits, programs), *runtime]
            words = [engine, "run", *options, self._image, *COMMAND]
            with peer:
                process = await _start(words, peer.fileno(), complaints, Path(programs).parent)
            code = shipped(until="runner", compiled=False)
            first = (
                len(code).to_bytes(4, "big")
                + code
                + wire.request(_runner(limits, prefork=self._prefork))
            )
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
    """A folder of what the image lacks; bound read-only, so that no command can replace it."""
    with temporary_folder() as folder:
        programs = folder / "bin"
        programs.mkdir()
        for name, text in {"uv": UV, "python": '#!/bin/sh\nexec python3 "$@"\n'}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        programs.chmod(0o755)
        yield str(programs)


async def _start(
    words: Sequence[str], peer: int, complaints: IO[bytes], folder: Path
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


def _of_runtime(name: str, engine: str, limits: Limits) -> Iterator[str]:
    """Yield options that override `_options`: a kernel of its own has threads and memory too."""
    yield from (f"--runtime={name}", f"--pids-limit={limits.processes + KERNEL_THREADS}")
    yield from (f"--memory={limits.memory + KERNEL}", f"--memory-swap={limits.memory + KERNEL}")
    if Path(name).name == "runsc" and engine.endswith(ENGINES[0]):
        yield "--runtime-flag=network=none"  # else gVisor refuses to begin without one


def _options(engine: str, limits: Limits, programs: str) -> Iterator[str]:
    user = FIRST_UID + int.from_bytes(os.urandom(4), "big") % UIDS
    memory, processes = limits.memory + SPARE, limits.processes + 8
    podman = engine.endswith(ENGINES[0])
    own = ",notmpcopyup" if podman else ""  # else a folder of the image lends its mode
    yield from ("--rm", "--interactive", "--pull=never", "--entrypoint=python3", "--workdir=/")
    yield from ("--network=none", f"--hostname={HOSTNAME}", "--read-only", f"--user={user}:{user}")
    yield from ("--cap-drop=ALL", "--security-opt=no-new-privileges")
    yield from (f"--memory={memory}", f"--memory-swap={memory}", "--ulimit=core=0:0")
    yield "--oom-score-adj=1000"  # the kernel then kills it before the evaluator
    yield from (f"--pids-limit={processes}", f"--shm-size={SHARED_MEMORY}")
    yield f"--ulimit=nofile={limits.open_files}:{limits.open_files}"
    yield f"--ulimit=nproc={processes}:{processes}"
    for path, size in ((WORKSPACE, limits.workspace), ("/tmp", TEMPORARY)):  # noqa: S108
        yield f"--tmpfs={path}:rw,exec,nosuid,nodev,size={size},mode=1777{own}"
    yield "--tmpfs=/dev/mqueue:ro,size=4096"  # else files there are message queues
    yield f"--volume={programs}:{BIN}:ro,z"
    if podman:
        yield f"--security-opt=mask={':'.join(MASKED)}"  # docker has its own list and no other
        yield "--read-only-tmpfs=false"  # else it adds places of any size


def _runner(limits: Limits, *, prefork: bool) -> dict[str, Any]:
    rules = [("/", "read"), *((path, "write") for path in (WORKSPACE, *WRITABLE))]
    spec = runner_spec(limits, own_user=True, prefork=prefork, rules=rules)
    return spec | {"filter": {"loopback": limits.loopback}}


_RUNTIME_FAILED = re.compile(r" failed: exit status \d+$")


def _reason(complaints: IO[bytes]) -> str:
    """The last thing the engine said, but for docker's advice to read its help.

    Where that is only that its runtime failed, what was said before it too: the runtime's reason.
    """
    text = os.pread(complaints.fileno(), 1 << 16, 0).decode(errors="replace")
    lines = [line for line in text.splitlines() if line and "docker run --help" not in line]
    told = 2 if lines and _RUNTIME_FAILED.search(lines[-1]) else 1
    return "; ".join(reversed(lines[-told:]))


async def _end(process: asyncio.subprocess.Process) -> None:
    """It ends by itself once its runner has; a stuck one is killed."""
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
