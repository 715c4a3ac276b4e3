"""The probe of a backend: real commands, and a small battery of escapes that must all fail.

A backend that fails its probe is not used. `fixes.toml` has what a user can do about it.
"""

import asyncio
import json
import os
import re
import socket
import tomllib
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from inspect import getsource
from pathlib import Path

from agenteval.errors import InfrastructureError
from agenteval.host import temporary_folder
from agenteval.protocols import Sandbox, SandboxBackend
from agenteval.sandbox.inside import battery
from agenteval.sandbox.launch import SHOWN, interpreter
from agenteval.trial.trial import Limits

# How to make a backend work.


def cure(backend: str, reason: str) -> str:
    """Return the fix for this failure of a backend; "" if none is known."""
    if backend == "container":
        return _first_fix("engines", reason)
    if fix := _first_fix("programs", reason):
        return fix
    refusal = _first_fix("refusals", reason)
    if not refusal:
        return ""
    # A setting of this machine says more than the kernel's word of refusal.
    for setting in _fixes()["settings"]:
        path = Path(setting["file"])
        value = path.read_text().strip() if path.exists() else None
        if value == setting["forbids"]:
            return setting["fix"]
    return refusal


def group_cure(lacking: str) -> str:
    """Return how to give sandboxes a control group where `lacking` is in the way."""
    return _first_fix("groups", lacking)


def _first_fix(section: str, reason: str) -> str:
    for entry in _fixes()[section]:
        if re.search(entry["pattern"], reason):
            return entry["fix"]
    return ""


@cache
def _fixes() -> dict[str, list[dict[str, str]]]:
    text = Path(__file__).with_name("fixes.toml").read_text("utf-8")
    return tomllib.loads(text)


# The probe.

SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of probing a backend. `blocked` maps each tried escape to what stopped it."""

    backend: str
    works: bool
    reason: str = ""
    cure: str = ""
    blocked: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Return the line for a backend that failed."""
        return f"{self.backend}: {self.reason}" + (f" ({self.cure})" if self.cure else "")


async def probe(backend: SandboxBackend) -> Probe:
    """Run real commands and the battery in a sandbox of this backend."""
    try:
        async with asyncio.timeout(SECONDS):
            return await _probe(backend)
    except InfrastructureError as error:
        reason = str(error).removeprefix("sandbox: ")
        return Probe(
            backend.name,
            works=False,
            reason=reason,
            cure=cure(backend.name, reason),
        )
    except TimeoutError:
        return Probe(
            backend.name,
            works=False,
            reason=f"no answer within {SECONDS:g} s",
        )


async def _probe(backend: SandboxBackend) -> Probe:
    with ExitStack() as stack:
        bait = _bait(stack)
        program = getsource(battery).encode()
        files = {"battery.py": program, "bait.json": bait}
        async with backend.open(files, Limits()) as sandbox:
            if broken := await _broken(sandbox):
                return Probe(backend.name, works=False, reason=broken)
            report = await sandbox.run(["python3", "battery.py", "bait.json"])
    try:
        attempts: dict[str, str] = json.loads(report.output)
    except ValueError:
        return Probe(
            backend.name,
            works=False,
            reason=f"battery: {report.output.strip()[-200:]}",
        )
    blocked = tuple(item for item in attempts.items() if item[1])
    succeeded = [name for name, obstacle in attempts.items() if not obstacle]
    if succeeded:
        reason = f"got through: {', '.join(succeeded)}"
        return Probe(
            backend.name,
            works=False,
            reason=reason,
            blocked=blocked,
        )
    return Probe(backend.name, works=True, blocked=blocked)


async def _broken(sandbox: Sandbox) -> str:
    """Return why real commands do not run there; "" if they do."""
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
    """Set out the battery's targets: a file, a port, an abstract socket and a process of ours."""
    folder = stack.enter_context(temporary_folder())
    folder.chmod(0o755)  # so that nothing but the sandbox keeps it from other users
    (folder / "secret").write_text("found")
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
    name = f"agenteval-bait-{os.getpid()}-{server.getsockname()[1]}"
    abstract.bind(f"\0{name}")
    abstract.listen()
    bait = {
        "abstract": name,
        "command": Path("/proc/self/cmdline").read_text(errors="replace"),
        "home": str(Path.home()),
        "names": sorted(_private_names()),
        "pid": os.getpid(),
        "port": server.getsockname()[1],
        "secret": str(folder / "secret"),
    }
    return json.dumps(bait).encode()


def _private_names() -> set[str]:
    """Return the names in the user's home, without the first steps to what a sandbox shows."""
    home = Path.home()
    try:
        names = {path.name for path in home.iterdir()}
    except OSError:
        return set()
    places = (*SHOWN, interpreter().prefix)
    for path in map(Path, places):
        if home in path.parents:
            names.discard(path.relative_to(home).parts[0])
    return names
