"""What each peer plays: a session with the prompts and the tool result of a trial that was played.

A peer is started with the address of the mock server, a session as JSON, and how many trials of how
many turns. It says as JSON what its process used. It runs in an environment of its own, in which
agenteval is not there: this module imports the standard library alone.
"""

import asyncio
import gc
import json
import os
import resource
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

AT_ONCE = 8


@dataclass(frozen=True)
class Session:
    url: str
    system: str
    user: str
    folder: str  # with a program `uv` that prints the tool result
    trials: int
    turns: int
    stream: bool

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}


def session() -> Session:
    return Session(**json.loads(sys.argv[1]))


class Shell:
    """Runs the commands of a model, a process each; counts them."""

    def __init__(self, told: Session) -> None:
        self.environment, self.folder, self.ran = told.environment(), told.folder, 0

    async def run(self, command: str) -> str:
        name, *words = command.split()
        process = await asyncio.create_subprocess_exec(
            f"{self.folder}/{name}",
            *words,
            cwd=self.folder,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        output = (await process.communicate())[0].decode()
        self.ran += bool(output)  # a command that is not known says nothing
        return output


async def crowd(told: Session, one: Callable[[], Awaitable[None]]) -> None:
    free = asyncio.Semaphore(AT_ONCE)

    async def trial() -> None:
        async with free:
            await one()

    async with asyncio.TaskGroup() as group:
        for _ in range(told.trials):
            group.create_task(trial())


def peak() -> float:
    """MB of this program: `ru_maxrss` begins with the memory of the process that started it."""
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def ended(told: Session, ran: int, package: str) -> None:
    """Says what this process and its children used; ends it where calls are missing."""
    if ran != told.trials * told.turns:
        sys.exit(f"{ran} calls were run, not {told.trials * told.turns}")
    gc.collect()
    own = resource.getrusage(resource.RUSAGE_SELF)
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = {
        "calls": ran,
        "own": own.ru_utime + own.ru_stime,
        "others": others.ru_utime + others.ru_stime,
        "peak": peak(),
        "version": version(package),
    }
    Path(told.folder, "used.json").write_text(json.dumps(used))
