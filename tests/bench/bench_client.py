"""What a call costs through `agenteval run`, all work included, beside a bare SDK loop.

An instant mock server answers in a process of its own. `agenteval run` plays the shipped scenario
notes/append by it: a world for each trial, every call judged, read twice, run in the sandbox and
stored, the goal asked after each turn, the report written. The peers of `peer_places.py` ask the
same server with the prompts of a trial that was played, and start for each call a process that
prints what the model read there: same turns, same tool results.

Own CPU, user and system, is that of the one process, without those it starts. It is what a call
more costs: the difference of a run of few trials and one of many, by their calls. The start of the
command is told by itself: CPU until the first byte, and the least peak memory of a run.

    python tests/bench/bench_client.py [--repeats 5] [--trials 40] [--turns 10 50] [--crowds 32 512]
    python tests/bench/bench_client.py --pieces        # what a streamed piece costs, with spread
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from statistics import median

import aiohttp
from mock_server import CHUNKS, LAST, PIECE, SECONDS, TOKENS_PER_SECOND, mock
from peer_places import PEERS, Peer, made

from agenteval.config.models import ModelEntry
from agenteval.models.openai_client import OpenAIModel
from agenteval.models.stream import StreamReader
from agenteval.play.tools import schemas
from agenteval.prompt.arm import STRICT
from agenteval.store.sql import SqlStore
from agenteval.trial.trial import Message

SCENARIO = "notes/append"
FEW, CONCURRENCY = 8, 8  # trials of the run that is taken off
STREAMS = 16
CROWDS = (32, 512)  # trials at a time, for the peak memory
LONGEST = 300.0  # seconds of a run of a peer, and one more for each call
TASK = [Message("system", "You echo."), Message("user", "Echo.")]
TOOLS = schemas(STRICT.profile, ["bash"])

# The bare SDK of our own environment, where no other needs to be made.
OWN_OPENAI = replace(PEERS[0], version=version("openai"), own_place=Path(sys.prefix))

Figures = dict[str, float]


class PeerError(Exception):
    """A peer did not play what it was asked to."""


@dataclass(frozen=True, slots=True)
class Played:
    """One run: seconds of CPU and MB, of its own process; `others` are its children."""

    calls: int
    own: float
    others: float
    first_byte: float
    peak: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of CPU that a call more takes, and MB of the larger of the two runs."""

    own: float
    others: float
    peak: float


PLAY = """
import atexit, io, json, resource, sys, time
class Noted(io.FileIO):
    first = None
    def write(self, text):
        if Noted.first is not None and self.isatty():
            return len(text)  # nobody reads that terminal
        Noted.first = Noted.first or time.process_time()
        return super().write(text)
sys.stderr = io.TextIOWrapper(io.BufferedWriter(Noted(2, "w")), line_buffering=True)
def told(file):
    own = resource.getrusage(resource.RUSAGE_SELF)
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = [one.ru_utime + one.ru_stime for one in (own, others)]
    # Of this program: ru_maxrss begins with the memory of the process that started it.
    (peak,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    with open(file, "w") as used:
        json.dump([*seconds, Noted.first or 0.0, int(peak.split()[1]) / 1024], used)
atexit.register(told, sys.argv.pop(1))
from agenteval.cli.app import main
main()
"""


def agenteval(
    url: str,
    turns: int,
    trials: int,
    *,
    stream: bool,
    at_once: int = CONCURRENCY,
    at_terminal: bool = False,
    kept: Path | None = None,
) -> Played:
    """A run of the command in an empty folder. Ends the program where it was not what is asked.

    Its store is `kept` there.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entry = f'[models.m]\nbase_url = "{url}"\nmodel = "m"\nstream = {str(stream).lower()}\n'
        (folder / "agenteval.toml").write_text(entry)
        words = ["run", "--model", "m", "--trials", str(trials), "--concurrency", str(at_once)]
        words += ["--max-turns", str(turns), "--store", "runs.db", SCENARIO]
        command = [sys.executable, "-c", PLAY, "used.json", *words]
        terminal, screen = os.openpty()
        seen = screen if at_terminal else subprocess.STDOUT
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=seen) as process:
            said = process.stdout.read()
        os.close(screen)
        os.close(terminal)
        with closing(SqlStore(str(folder / "runs.db"))) as store, store.connect() as asked:
            made = asked.exec_driver_sql(
                "SELECT count(*), sum(allowed AND output IS NOT NULL) FROM call"
            ).one()
        if tuple(made) != (trials * turns,) * 2 or not [*(folder / "reports").glob("*.html")]:
            raise SystemExit(f"not what was to be measured: {made}\n{said.decode()}")
        if kept:
            (folder / "runs.db").rename(kept)
        return Played(trials * turns, *json.loads((folder / "used.json").read_text()))


def own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measured(work: Awaitable[None], units: int) -> float:
    """Milliseconds of our own CPU for each unit."""
    gc.collect()  # of what was imported, and of what the harness before left
    before = own_cpu()
    await work
    return 1000 * (own_cpu() - before) / units


@dataclass(frozen=True, slots=True)
class Recorded:
    """A trial that was played: what its model read, and a folder whose `uv` says that again."""

    folder: Path
    system: str
    user: str


PRINTS = """#!/bin/sh
exec cat "${0%/*}/reply-$3"
"""


@contextmanager
def recorded(url: str, turns: int) -> Iterator[Recorded]:
    with tempfile.TemporaryDirectory() as name:
        store, folder = Path(name, "runs.db"), Path(name, "peer")
        agenteval(url, turns, 1, stream=False, kept=store)
        folder.mkdir()
        with closing(SqlStore(str(store))) as opened, opened.connect() as asked:
            replies = asked.exec_driver_sql("SELECT reply FROM call ORDER BY turn").scalars().all()
            told = asked.exec_driver_sql("SELECT data FROM message").scalars().all()
        for number, reply in enumerate(replies):
            (folder / f"reply-{number}").write_text(reply)
        (folder / "uv").write_text(PRINTS)
        (folder / "uv").chmod(0o755)
        said = {one["role"]: one["content"] for one in map(json.loads, told)}
        yield Recorded(folder, said["system"], said["user"])


def peer_played(
    peer: Peer, url: str, trial: Recorded, turns: int, trials: int, *, stream: bool
) -> Played:
    asked = {
        "url": url, "system": trial.system, "user": trial.user, "folder": str(trial.folder),
        "trials": trials, "turns": turns, "stream": stream,
    }  # fmt: skip
    command = [str(peer.python), str(peer.script), json.dumps(asked)]
    # It has an environment of its own: no path to our modules, and its modules compiled once.
    own = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    bare = {name: value for name, value in os.environ.items() if name not in own}
    seconds = LONGEST + trials * turns
    try:
        done = subprocess.run(
            command, cwd=trial.folder, env=bare, capture_output=True, text=True, check=False,
            timeout=seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"had not ended after {seconds:.0f} s") from error
    if done.returncode:
        sys.stderr.write(f"{peer.name}: {done.stdout[-2000:]}{done.stderr[-2000:]}\n")
        *_, last = ["", *(done.stderr or done.stdout).strip().split("\n")]
        raise PeerError(f"ended with {done.returncode}: {last}".rstrip(": "))
    used = json.loads((trial.folder / "used.json").read_text())
    if used["version"] != peer.version:
        raise PeerError(f"is version {used['version']}")
    return Played(used["calls"], used["own"], used["others"], 0.0, used["peak"])


def cost(few: Played, many: Played) -> Cost:
    more = 1000 / (many.calls - few.calls)
    return Cost(more * (many.own - few.own), more * (many.others - few.others), many.peak)


def per_call(
    url: str, turns: int, trials: int, peers: Sequence[Peer], failed: dict[str, str]
) -> dict[tuple[str, str], Cost]:
    """By program and form of the reply. One after another, so that a busy machine slows all.

    A peer that fails stands in `failed` with the reason, and is not asked again.
    """
    counts, found = (FEW, FEW + trials), {}
    with recorded(url, turns) as trial:
        for stream, form in ((False, "whole"), (True, "33 pieces")):
            few, many = [agenteval(url, turns, count, stream=stream) for count in counts]
            found["agenteval run", form] = cost(few, many)
            for peer in peers:
                if peer.name in failed or (stream and not peer.streams):
                    continue
                try:
                    few, many = [
                        peer_played(peer, url, trial, turns, count, stream=stream)
                        for count in counts
                    ]
                except PeerError as error:
                    failed[peer.name] = str(error)
                else:
                    found[peer.name, form] = cost(few, many)
    return found


async def per_run(url: str, crowds: Sequence[int]) -> dict[str, float]:
    """What a run takes once."""
    one = await asyncio.to_thread(agenteval, url, 2, 1, stream=True, at_terminal=True)
    found = {"first byte, s of CPU": one.first_byte}
    for crowd in crowds:
        run = await asyncio.to_thread(agenteval, url, 4, crowd, stream=True, at_once=crowd)
        found[f"peak at {crowd} trials at a time, MB"] = run.peak
    return found


async def per_chunk(url: str) -> dict[str, float]:
    """Streams at a steady pace, so that every chunk is a read of its own.

    Beside a loop that reads the same bytes by the same client and drops them: most of what a piece
    costs is the system's wake-up and read, which differ from machine to machine.
    """
    chunks = STREAMS * TOKENS_PER_SECOND * SECONDS
    entry = ModelEntry(base_url=url, model="paced")
    async with OpenAIModel(entry) as model, aiohttp.ClientSession() as session:
        await asyncio.gather(_read(session, url, "m"), model.ask(TASK, TOOLS, seed=1))  # connected
        bare = await measured(_streams(lambda: _read(session, url, "paced")), chunks)
        started = time.perf_counter()
        ours = await measured(_streams(lambda: model.ask(TASK, TOOLS, seed=1)), chunks)
        seconds = time.perf_counter() - started
    alone = await measured(_fed(), chunks)
    return {
        "a piece of 16 streams of 150 tokens/s, ms of CPU": ours,
        "the same, read and dropped, ms of CPU": bare,
        "what reading a piece adds, ms of CPU": ours - bare,
        "the arrival layer alone, of a piece, ms of CPU": alone,
        "these 16 streams, % of a core": ours * chunks / seconds / 10,
    }


def in_a_run(each: Mapping[tuple[str, str], Cost], name: str = "agenteval run") -> float:
    """A piece of a call that came in 33 writes at once: the call's cost beside that of a whole."""
    return (each[name, "33 pieces"].own - each[name, "whole"].own) / CHUNKS


async def _fed() -> None:
    """The same streams from memory, to the reader that a reply of a server goes to."""
    pieces = TOKENS_PER_SECOND * SECONDS
    for _ in range(STREAMS):
        reader = StreamReader()
        for at in range(pieces):
            reader.feed(PIECE, at / TOKENS_PER_SECOND)
        reader.feed(LAST, SECONDS)
        received, _ = reader.received()
        if (received.text, reader.pieces) != ("word " * pieces, pieces):
            raise SystemExit("the reader lost pieces")


async def _streams(ask: Callable[[], Awaitable[object]]) -> None:
    await asyncio.gather(*(ask() for _ in range(STREAMS)))


async def _read(session: aiohttp.ClientSession, url: str, model: str) -> None:
    asked = {"model": model, "stream": True, "messages": []}
    async with session.post(f"{url}/chat/completions", json=asked) as reply:
        while await reply.content.readany():
            continue


async def figures(
    url: str,
    turns: Sequence[int],
    trials: int,
    crowds: Sequence[int],
    failed: dict[str, str],
) -> Figures:
    """Of one repeat: by what is measured, in the order of the table."""
    found: Figures = {}
    for many in turns:
        each = await asyncio.to_thread(per_call, url, many, trials, PEERS, failed)
        for (name, form), spent in each.items():
            found[f"{name}, {form}, {many} turns, ms of own CPU a call"] = spent.own
            found[f"{name}, {form}, {many} turns, ms in processes it started"] = spent.others
        found[f"a piece in a run, {many} turns, ms of own CPU"] = in_a_run(each)
        if "openai" not in failed:
            bare = in_a_run(each, "openai")
            found[f"a piece in a bare SDK loop, {many} turns, ms of own CPU"] = bare
        for form in ("whole", "33 pieces"):
            if "openai" in failed:
                continue
            share = each["agenteval run", form].own / each["openai", form].own
            found[f"agenteval run by bare SDK loop, {form}, {many} turns"] = share
    return found | await per_run(url, crowds) | await per_chunk(url)


async def bench(
    repeats: int,
    turns: Sequence[int],
    trials: int,
    crowds: Sequence[int],
    failed: dict[str, str],
) -> Figures:
    """The medians, of repeats in each of which everything is measured once."""
    for peer in PEERS:
        made(peer)
    async with mock() as url:
        every = [await figures(url, turns, trials, crowds, failed) for _ in range(repeats)]
    return {name: median(one[name] for one in every) for name in every[-1]}


async def pieces(repeats: int, trials: int) -> dict[str, list[float]]:
    """What a streamed piece costs, so many times."""
    async with mock() as url:
        every = []
        for _ in range(repeats):
            each = await asyncio.to_thread(per_call, url, 10, trials, (), {})
            found = {"a piece in a run, 10 turns, ms of own CPU": in_a_run(each)}
            every.append(found | await per_chunk(url))
    return {name: [one[name] for one in every] for name in every[-1]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--trials", type=int, default=40, help="more than the few of the start")
    parser.add_argument("--turns", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--crowds", type=int, nargs="*", default=CROWDS)
    parser.add_argument("--pieces", action="store_true", help="only what a streamed piece costs")
    asked = parser.parse_args()
    if asked.pieces:
        for name, seen in asyncio.run(pieces(asked.repeats, asked.trials)).items():
            spread = f"[{min(seen):.3g}, {max(seen):.3g}]"
            sys.stdout.write(f"{name}\t{median(seen):.3g}\t{spread}\n")
        return
    failed: dict[str, str] = {}
    found = asyncio.run(bench(asked.repeats, asked.turns, asked.trials, asked.crowds, failed))
    for name, value in found.items():
        sys.stdout.write(f"{name}\t{value:.3g}\n")
    for name, why in failed.items():
        sys.stdout.write(f"{name}\t{why}\n")


if __name__ == "__main__":
    main()
