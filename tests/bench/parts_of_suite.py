"""The tables of `make bench`: each measures what it shows, in turns."""

import asyncio
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import median

import bench_classify
import bench_ingest
import bench_reading
import bench_sandbox
from bench_client import CROWDS, Cost, per_call, per_run
from page import Options, Part, figure, middle, ratio
from peer_places import PEERS

from agenteval.sandbox.backends import BACKENDS
from agenteval.sandbox.launch import interpreter
from agenteval.trial.trial import Limits

BARE = "openai"
OWN = "agenteval run"
LONG = 50  # turns
# A command that is installed has its modules compiled.
COMPILED = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def orchestrators(url: str, asked: Options) -> Part:
    costs: dict[tuple[str, str], list[Cost]] = {}
    failed: dict[str, str] = {}
    for _ in range(asked.repeats):
        for key, one in per_call(url, asked.turns, asked.trials, PEERS, failed).items():
            costs.setdefault(key, []).append(one)
    if BARE in failed:
        raise SystemExit(f"{BARE}: {failed[BARE]}")

    def cell(name: str, form: str) -> tuple[str, str]:
        own = [one.own for one in costs.get((name, form), [])]
        return (
            (middle(own), ratio(own, [one.own for one in costs[BARE, form]])) if own else ("", "")
        )

    rows = []
    lacks = {peer.name: (peer.version, peer.less) for peer in PEERS} | {OWN: ("", "")}
    for name, (number, less) in lacks.items():
        if name in failed:
            empty = [""] * 6
            rows.append([f"{name} {number}", *empty, f"failed here: {failed[name]}"])
            continue
        whole = costs[name, "whole"]
        said = [middle([getattr(one, what) for one in whole]) for what in ("others", "peak")]
        rows.append(
            [
                f"{name} {number}".strip(),
                *cell(name, "whole"),
                *cell(name, "33 pieces"),
                *said,
                less,
            ]
        )
    return Part(
        "A call of an orchestrator",
        f"One mock server process, {asked.turns} turns a trial, eight trials at a time, the "
        "prompts and tool results of a played trial of notes/append. A call is one request, its "
        "reply and the process that its command starts. `agenteval run` does all of its work: "
        "a world for each trial, each call judged, read twice, contained and stored, the goal "
        "asked after each turn, the report written. Milliseconds of own CPU for a call more: the "
        f"difference between 8 and {8 + asked.trials} trials. Beside it CPU in the processes that "
        "were started: of agenteval its worlds, where each command runs as the Python script that "
        "it names, the goal's questions and the second reader; of the others a shell that prints "
        "the result of a played trial.",
        ["", "whole, ms", "of the bare SDK", "33 pieces, ms", "of the bare SDK",
         "in processes it started, ms", "peak, MB", "what it leaves out"],
        rows,
        "`openai` is the bare SDK in a loop. Where a column is empty the program was measured with "
        "whole replies alone.",
    )  # fmt: skip


def longer_trials(url: str, asked: Options) -> Part:
    """Short trials again, so that both lengths stand in the same repeats."""
    costs: dict[tuple[str, str, int], list[float]] = {}
    (bare,) = (peer for peer in PEERS if peer.name == BARE)
    for _ in range(asked.repeats):
        for turns in (asked.turns, LONG):
            for (name, form), one in per_call(url, turns, asked.trials, [bare], {}).items():
                costs.setdefault((name, form, turns), []).append(one.own)
    rows = []
    for form in ("whole", "33 pieces"):
        short = costs[OWN, form, asked.turns]
        for turns in (asked.turns, LONG):
            own, sdk = costs[OWN, form, turns], costs[BARE, form, turns]
            rows.append(
                [f"{form}, {turns} turns", middle(sdk), middle(own), ratio(own, sdk),
                 ratio(own, short)]
            )  # fmt: skip
    return Part(
        "A call of a longer trial",
        "As above, of the bare SDK and `agenteval run` alone. The SDK walks every message of a "
        "request, so that its calls cost more with each turn.",
        ["", "openai, ms", "agenteval run, ms", "of the bare SDK", f"of {asked.turns} turns"],
        rows,
    )


async def whole_runs(url: str, asked: Options) -> Part:
    spent: dict[str, list[float]] = {}
    for _ in range(asked.repeats):
        for name, one in (await per_run(url, CROWDS)).items():
            spent.setdefault(name, []).append(one)
    return Part(
        "What a run takes once",
        "`agenteval run` of notes/append, in 33 pieces: CPU until its first words on a terminal, "
        "and the peak memory of its process.",
        ["", ""],
        [[name, middle(each)] for name, each in spent.items()],
    )


def classifier(asked: Options) -> Part:
    texts = bench_classify.corpus(bench_classify.OWN)
    some = texts[:: max(1, len(texts) // bench_classify.BASHLEX_SAMPLE)]
    readers: dict[str, tuple[str, Callable[[str], object]]] = {
        f"tree-sitter-bash {version('tree-sitter-bash')}, parse": ("a tree", _tree),
        "agenteval, verdict under the demo list": ("a verdict, its class and hint", _verdict),
        "agenteval, facts of a command": ("what it runs, reads and writes", _facts),
        f"bashlex {version('bashlex')}, parse": ("a tree, or fails", bench_classify.parse_bashlex),
        "shlex.split": ("words, no shell", _words),
    }
    spent: dict[str, list[float]] = {}
    for _ in range(asked.repeats):
        for name, (_, read) in readers.items():
            each = (bench_classify.seconds(read, text) for text in some)
            spent.setdefault(name, []).append(1e6 * sum(each) / len(some))
    reference = next(iter(spent.values()))
    return Part(
        "A command is read and judged",
        f"{len(some)} commands of tests/corpus, each read alone and without any cache: "
        "microseconds of CPU a command, the mean. Hooks that guard an agent's shell read by "
        "`shlex` and regular expressions, by bashlex or by tree-sitter.",
        ["", "µs", "of tree-sitter's parse", "what comes of it"],
        [[name, middle(spent[name]), ratio(spent[name], reference), told]
         for name, (told, _) in readers.items()],
    )  # fmt: skip


def _tree(text: str) -> object:
    return bench_classify.parse_tree(text)


def _verdict(text: str) -> object:
    return bench_classify.verdict(text)


def _facts(text: str) -> object:
    return bench_classify.read_facts(text)


def _words(text: str) -> object:
    try:
        return shlex.split(text)
    except ValueError:
        return None


CALLS = 40  # of a round
PYTHON = interpreter().executable


class _Fresh:
    """Starts each command anew, by a program that contains it where there is one."""

    def __init__(self, *before: str, cwd: str | None = None) -> None:
        self.before, self.cwd = before, cwd

    async def run(self, argv: Sequence[str]) -> None:
        process = await asyncio.create_subprocess_exec(
            *self.before, PYTHON, *argv[1:], cwd=self.cwd, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
        )
        said, _ = await process.communicate()
        if process.returncode:
            raise SystemExit(f"{self.before}: {said.decode()}")


def _closed(folder: str) -> _Fresh:
    """As closed as bubblewrap makes it by itself."""
    return _Fresh(
        "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/",
        "--proc", "/proc", "--dev", "/dev", "--bind", folder, folder, "--chdir", folder,
    )  # fmt: skip


@contextmanager
def _container(folder: str) -> Iterator[_Fresh | None]:
    """A container that is there already; none where no engine can start the image of the tests."""
    image = os.environ.get("AGENTEVAL_CONTAINER_IMAGE", "localhost/agenteval-test")
    limits = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000", "--network=none")
    start = ["podman", "run", "--detach", "--rm", "--pull=never", *limits, f"--volume={folder}:/w"]
    try:
        done = subprocess.run(
            [*start, "--workdir=/w", image, "sleep", "3600"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        yield None
        return
    name = done.stdout.strip()
    try:
        yield _Fresh("podman", "exec", name)
    finally:
        subprocess.run(["podman", "kill", name], capture_output=True, check=False)


async def sandbox(asked: Options) -> Part:
    spent: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        for path, content in bench_sandbox.FILES.items():
            Path(folder, path).parent.mkdir(exist_ok=True)
            Path(folder, path).write_bytes(content)
        Path(folder).chmod(0o755)
        worlds: dict[str, bench_sandbox.World | _Fresh] = {"a plain process": _Fresh(cwd=folder)}
        for told, prefork in ((", pre-forked", True), ("", False)):
            opened = BACKENDS["bubblewrap"](prefork=prefork).open(bench_sandbox.FILES, Limits())
            worlds[f"agenteval, bubblewrap{told}"] = await stack.enter_async_context(opened)
        worlds["bwrap for each call"] = _closed(folder)
        container = stack.enter_context(_container(folder))
        if container:
            worlds["podman exec"] = container
        for _ in range(asked.repeats):
            each = await bench_sandbox.per_call(worlds, bench_sandbox.SCRIPT, CALLS)
            for name, one in each.items():
                spent.setdefault(name, []).append(one)
    plain = spent["a plain process"]
    return Part(
        "A command is run in a sandbox",
        f"A Python script that prints its arguments: milliseconds by the clock, the median of "
        f"{CALLS} calls in each repeat. Pre-forked: Python is there already, as it is for the "
        "scripts of a scenario. The last rows contain and do nothing else: no limits on memory, "
        "processes or output, no list of what may be started.",
        ["", "ms", "of a plain process"],
        [[name, middle(each), ratio(each, plain)] for name, each in spent.items()],
        "" if container else "No container could be started here.",
    )


STARTS = {
    "python -c ''": ("-c", ""),
    "python -c 'import openai'": ("-c", "import openai"),
    "agenteval classify": ("-m", "agenteval", "classify", "ls"),
    "agenteval show, an empty store": ("-m", "agenteval", "show"),
    "agenteval --help": ("-m", "agenteval", "--help"),
}


def starts(asked: Options) -> Part:
    spent: dict[str, list[float]] = {}
    for _ in range(asked.repeats):
        for name, words in STARTS.items():
            spent.setdefault(name, []).append(1000 * started(*words))
    bare = spent["python -c ''"]
    return Part(
        "A command starts",
        "The whole of a process, milliseconds of CPU.",
        ["", "ms", "of a bare Python"],
        [[f"`{name}`", middle(each), ratio(each, bare)] for name, each in spent.items()],
    )


def started(*words: str) -> float:
    """Seconds of CPU of a Python with these words, in an empty folder, whatever it answers."""
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *words], cwd=folder, capture_output=True, check=False, env=COMPILED
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def reading(asked: Options) -> Part:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in (one for one in bench_reading.SIZES if one <= asked.largest):
            spent: dict[str, list[tuple[float, float]]] = {}
            store, logs = Path(folder, f"{size}.db"), Path(folder, f"logs-{size}")
            # Elsewhere: a process starts with the memory of the one that starts it on its account.
            own = [sys.executable, bench_reading.__file__, "--make", str(store), str(size)]
            subprocess.run(own, check=True)
            logs.mkdir()
            bench_ingest.write(logs, size)
            for _ in range(asked.repeats):
                for name, one in _read(folder, store, logs).items():
                    spent.setdefault(name, []).append(one)
            for name, each in spent.items():
                runs = bench_reading.COMMANDS.get(name, (1, ()))[0]
                seconds = median(one for one, _ in each)
                rows.append(
                    [f"`{name}`", f"{size:,}", figure(seconds), middle([peak for _, peak in each]),
                     figure(1e6 * seconds / (runs * size))]
                )  # fmt: skip
            store.unlink()
            shutil.rmtree(logs)
    return Part(
        "Runs are read, logs are taken in",
        "Two runs that met the same worlds, copied from 240 drawn trials of 20 calls in the mean; "
        "the second errs oftener, and fails the gate. Logs of Claude Code of 1,000 calls a "
        "session. CPU of the whole command with the processes that it starts, and the peak memory "
        "of the largest. A call counts once for each run that is read.",
        ["", "calls in a run", "CPU, s", "peak, MB", "CPU a call, µs"],
        sorted(rows, key=lambda row: row[0]),
    )


def _read(folder: str, store: Path, logs: Path) -> dict[str, tuple[float, float]]:
    """CPU seconds and MB of each command."""
    fresh = Path(folder, "taken.db")
    words = ["ingest", "claude-code", str(logs), "--store", str(fresh), "--allowlist", "demo"]
    found = {"ingest": bench_reading.spent(words)}
    for path in Path(folder).glob("taken.db*"):
        path.unlink()
    for name, (_, asked) in bench_reading.COMMANDS.items():
        told = [word.format(folder=folder) for word in asked]
        found[name] = bench_reading.spent([*told, "--store", str(store)])
    return found
