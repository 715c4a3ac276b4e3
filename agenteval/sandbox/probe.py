"""The probe of a backend: real commands, and a small battery of escapes that must all fail."""

import asyncio
import json
import os
import socket
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from inspect import getsource
from pathlib import Path

from agenteval.core.scenario import Limits
from agenteval.errors import InfrastructureError
from agenteval.protocols import Sandbox, SandboxBackend
from agenteval.sandbox.cures import cure
from agenteval.sandbox.inside import battery
from agenteval.sandbox.interpreter import interpreter
from agenteval.sandbox.world import SHOWN

SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Probe:
    """What a backend showed. `blocked` maps each escape that was tried to what stopped it."""

    backend: str
    works: bool
    reason: str = ""
    cure: str = ""
    blocked: tuple[tuple[str, str], ...] = ()


async def probe(backend: SandboxBackend) -> Probe:
    """Run real commands and the battery in a sandbox of this backend."""
    try:
        async with asyncio.timeout(SECONDS):
            return await _probe(backend)
    except InfrastructureError as error:
        reason = str(error).removeprefix("sandbox: ")
        return Probe(backend.name, works=False, reason=reason, cure=cure(backend.name, reason))
    except TimeoutError:
        return Probe(backend.name, works=False, reason=f"no answer within {SECONDS:g} s")


async def _probe(backend: SandboxBackend) -> Probe:
    with ExitStack() as stack:
        bait = _bait(stack)
        files = {"battery.py": getsource(battery).encode(), "bait.json": bait}
        async with backend.open(files, Limits()) as sandbox:
            if broken := await _broken(sandbox):
                return Probe(backend.name, works=False, reason=broken)
            report = await sandbox.run(["python3", "battery.py", "bait.json"])
    try:
        tried: dict[str, str] = json.loads(report.output)
    except ValueError:
        return Probe(backend.name, works=False, reason=f"battery: {report.output.strip()[-200:]}")
    blocked = tuple((name, why) for name, why in tried.items() if why)
    if through := [name for name, why in tried.items() if not why]:
        reason = f"got through: {', '.join(through)}"
        return Probe(backend.name, works=False, reason=reason, blocked=blocked)
    return Probe(backend.name, works=True, blocked=blocked)


async def _broken(sandbox: Sandbox) -> str:
    """Why real commands do not run there, or nothing."""
    await sandbox.write("hello.py", b"print('hello')\n")
    for argv, expected in (
        (["/bin/sh", "-c", "pwd; echo $HOME"], "/workspace\n/workspace\n"),
        (["python3", "hello.py"], "hello\n"),
        (["uv", "run", "hello.py"], "hello\n"),
    ):
        done = await sandbox.run(argv)
        if (done.exit_code, done.output) != (0, expected):
            return f"{' '.join(argv)}: exit {done.exit_code}, {done.output.strip()[-200:]!r}"
    return ""


def _bait(stack: ExitStack) -> bytes:
    """What the battery goes for: a file, a port, an abstract socket and a process of ours."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="agenteval-bait-"))
    Path(folder).chmod(0o755)  # so that nothing but the sandbox keeps it from other users
    Path(folder, "secret").write_text("found")
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
    name = f"agenteval-bait-{os.getpid()}-{server.getsockname()[1]}"
    abstract.bind(f"\0{name}")
    abstract.listen()
    return json.dumps(
        {
            "abstract": name,
            "command": Path("/proc/self/cmdline").read_text(),
            "home": str(Path.home()),
            "names": sorted(_private_names()),
            "pid": os.getpid(),
            "port": server.getsockname()[1],
            "secret": str(Path(folder, "secret")),
        }
    ).encode()


def _private_names() -> set[str]:
    """What stands in the user's home, but the first steps of the ways to what a world shows."""
    home, prefix = Path.home(), interpreter().prefix
    shown = (Path(path) for path in (*SHOWN, prefix) if path)
    steps = {path.relative_to(home).parts[0] for path in shown if home in path.parents}
    try:
        return {path.name for path in home.iterdir()} - steps
    except OSError:
        return set()
