"""Kill -9 at random moments of a run, of its evaluator, launcher or runner: what is left, or lost?

A round begins a run against a model of its own, kills one process after a random time, and goes on
with `--resume` until the run has ended. Then no process, mount or folder of it may be left, each
call whose answer the model was sent must be stored once, the store must be whole, and its figures
those of a run that nobody disturbed. A campaign that never hit one of them shows nothing: it fails.

    python tests/chaos_kill.py ROUNDS [BACKEND]
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from scripted_server import answers, bash, scripted

from agenteval.sandbox.backends import AUTOMATIC
from agenteval.store.sql import SqlStore
from agenteval.workflows import shelf

WHO = ("evaluator", "launcher", "runner")
CALLS, LEFT_AFTER = 6, 10.0
SECONDS = 600.0  # where others use the machine, too, the few of a run become minutes
STORE = "reports/agenteval.db"
RUN = ("run", "-m", "m", "--trials", "2", "--seed", "7", "coding/slug-function")


@dataclass
class Model:
    """Asks for a few commands, and remembers to which it was sent an answer.

    A trial's first request has more than one message; what is asked before a run has one.
    """

    answered: set[str] = field(default_factory=set)
    begun: threading.Event = field(default_factory=threading.Event)

    def __call__(self, messages):
        if len(messages) > 1:
            self.begun.set()
        self.answered.update(one["tool_call_id"] for one in messages if one["role"] == "tool")
        if answers(messages) == CALLS:
            return "It is done."
        return bash("uv run scripts/tickets.py list")


@dataclass(frozen=True)
class Seen:
    """Processes, mounts and folders that a round left, and answered calls that are not stored."""

    left: tuple[str, ...]
    lost: frozenset[str]
    killed: str
    ended: bool
    doubled: frozenset[str] = frozenset()
    told: str = ""
    wrong: tuple[str, ...] = ()  # of what is stored

    @property
    def faults(self) -> list[str]:
        lost = [f"lost {ident}" for ident in sorted(self.lost)]
        lost += [f"doubled {ident}" for ident in sorted(self.doubled)]
        return [
            *self.left,
            *lost,
            *self.wrong,
            *([] if self.ended else [f"the run did not end: {self.told}"]),
        ]


def played(backend: str, who: str, chance: random.Random) -> Seen:
    model = Model()
    with tempfile.TemporaryDirectory(prefix="chaos-") as name, scripted(model) as url:
        folder = Path(name)
        (folder / "tmp").mkdir()
        with begun(folder, *RUN, "--base-url", url, "--sandbox", backend) as running:
            model.begun.wait(60)
            killed = strike(who, running.pid, chance.uniform(0, 1.5))
            ending(running)
        ended = any(resumed(folder, url) for _ in range(3))
        seen = looked(folder, model, killed, ended=ended)
        return replace(seen, wrong=tuple(wrong(folder / STORE, backend))) if ended else seen


def wrong(store: Path, backend: str) -> Iterator[str]:
    """Damage of a store, and whether its run has other figures than one that was let alone."""
    yield from shelf.faults(str(store))
    if figures(store) != undisturbed(backend):
        yield "other figures than of an undisturbed run"


def figures(store: Path) -> list[object]:
    """All that the statistics of its last run come from."""
    with closing(SqlStore(str(store))) as opened:
        run = opened.load("last")
    return [
        (trial.scenario, trial.number, trial.seed, trial.outcome, trial.ending, run.complete,
         [(one.turn, one.position, one.call.raw, one.verdict, one.reply) for one in trial.calls])
        for trial in run.trials
    ]  # fmt: skip


@cache
def undisturbed(backend: str) -> list[object]:
    with tempfile.TemporaryDirectory(prefix="chaos-") as name, scripted(Model()) as url:
        (Path(name) / "tmp").mkdir()
        with begun(Path(name), *RUN, "--base-url", url, "--sandbox", backend) as running:
            ending(running)
        return figures(Path(name) / STORE)


def looked(folder: Path, model: Model, killed: str, *, ended: bool, store: str = "") -> Seen:
    """What is there after the end of a run. `store` is its URL, where it is not that of `RUN`."""
    left = [f"process {one}" for one in remaining(folder)]
    left += [f"mount {one}" for one in mounts(folder)]
    left += [f"folder {one.name}" for one in (folder / "tmp").iterdir()]
    kept = Counter(stored(store or str(folder / STORE)))
    doubled = frozenset(ident for ident, count in kept.items() if count > 1)
    lost, told = frozenset(model.answered - kept.keys()), (folder / "told").read_text()
    return Seen(tuple(left), lost, killed, ended, doubled, told)


@contextmanager
def begun(folder: Path, *words: str) -> Iterator[subprocess.Popen]:
    """Its working folder and its temporary files are below the folder, by which it is known.

    What it says of errors is in the file `told` there.
    """
    with (
        (folder / "told").open("w") as told,
        subprocess.Popen(
            [sys.executable, "-m", "agenteval", *words],
            cwd=folder,
            env=os.environ | {"TMPDIR": str(folder / "tmp"), "AGENTEVAL_CHAOS": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=told,
        ) as running,
    ):
        try:
            yield running
        finally:
            running.kill()


def strike(who: str, evaluator: int, pause: float) -> str:
    """Kill one after a pause, noting all that there was; "" where that one had ended."""
    time.sleep(pause)
    family = below(evaluator)
    FAMILY.update((one, start) for one, _, start in family)
    match who:
        case "evaluator":
            those = [evaluator]
        case "launcher":  # the child that has children; the second reader has none
            parents = {parent for _, parent, _ in family}
            those = [one for one, parent, _ in family if parent == evaluator and one in parents]
        case _:
            those = [one for one, _, _ in family if is_first(one)]
    if not those:
        return ""
    with suppress(ProcessLookupError):
        os.kill(those[-1], signal.SIGKILL)
        return who
    return ""


def is_first(pid: int) -> bool:
    """Whether it is process 1 of a namespace of its own, as a runner is."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    (numbers,) = (line.split()[1:] for line in lines if line.startswith("NSpid:"))
    return len(numbers) > 1 and numbers[-1] == "1"


FAMILY: set[tuple[int, int]] = set()  # number and time of start of what was below an evaluator


def resumed(folder: Path, url: str, *words: str) -> bool:
    """Whether the run is at its end, with nothing void that can be played again.

    `words` name a store that has the run.
    """
    if not words and not (folder / STORE).exists():
        with begun(folder, *RUN, "--base-url", url) as running:
            return ending(running) == 0
    with begun(
        folder, "run", "--resume", "last", "--retry-void", "--base-url", url, *words
    ) as running:
        return ending(running) == 0


def ending(running: subprocess.Popen) -> int | None:
    """Its exit code; None where it does not end, which is a fault of its round."""
    with suppress(subprocess.TimeoutExpired):
        return running.wait(SECONDS)
    return None


def remaining(folder: Path) -> set[int]:
    """Processes that outlive their run by some seconds: of a family, or with its mark."""
    until = time.monotonic() + LEFT_AFTER
    while time.monotonic() < until:
        there = {one: start for one, _, start in processes()}
        left = {one for one, start in FAMILY if there.get(one) == start} | marked(folder, there)
        if not left:
            break
        time.sleep(0.05)
    FAMILY.clear()
    return left


def marked(folder: Path, there: dict[int, int]) -> set[int]:
    found = set()
    for one in there.keys() - {os.getpid()}:
        try:
            environment = Path(f"/proc/{one}/environ").read_bytes()
        except OSError:
            continue
        if f"AGENTEVAL_CHAOS={folder}".encode() in environment:
            found.add(one)
    return found


def below(pid: int) -> list[tuple[int, int, int]]:
    """Its children, theirs, and so on, the deepest last: as `processes` has them."""
    known, family, found = list(processes()), [], {pid}
    while found:
        young = [one for one in known if one[1] in found]
        family += young
        found = {one for one, _, _ in young}
    return family


def processes() -> Iterator[tuple[int, int, int]]:
    """Number, parent and time of start of each that is more than an entry to be reaped."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            yield int(path.parent.name), int(fields[1]), int(fields[19])


def mounts(folder: Path) -> list[str]:
    """Those of ours: others on this machine mount what they like."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(folder) in line or " /workspace " in line]


def stored(store: str) -> list[str]:
    """The ids of all calls, of trials too that were replaced."""
    with closing(SqlStore(store)) as opened, opened.connect() as connection:
        return list(connection.exec_driver_sql("SELECT call_id FROM call").scalars())


def working() -> tuple[str, ...]:
    """The backends that a run may choose and that are installed here."""
    return tuple(name for name in AUTOMATIC if name != "bubblewrap" or shutil.which("bwrap"))


def planned(rounds: int, backends: Sequence[str]) -> list[tuple[str, str]]:
    """The backend and the victim of each round: all pairs in turn."""
    pairs = [(backend, who) for who in WHO for backend in backends]
    return [pairs[number % len(pairs)] for number in range(rounds)]


def main(rounds: int, *backends: str) -> int:
    chance, faults = random.Random(rounds), 0
    killed: Counter[str] = Counter()
    spared = {who for _, who in planned(rounds, backends or working())}
    for number, (backend, who) in enumerate(planned(rounds, backends or working()), 1):
        seen = played(backend, who, chance)
        killed[f"{seen.killed or 'nobody, it had ended'} ({backend})"] += 1
        faults += len(seen.faults)
        spared.discard(seen.killed)
        told = "; ".join(seen.faults) or "nothing left, nothing lost, the same figures"
        sys.stdout.write(f"{number} of {rounds}, {backend}, {seen.killed or 'ended'}: {told}\n")
        sys.stdout.flush()
    hit = ", ".join(f"{count} {who}" for who, count in sorted(killed.items()))
    sys.stdout.write(f"killed: {hit}; faults: {faults}\n")
    if spared:
        sys.stdout.write(f"never killed, so nothing is shown of it: {', '.join(sorted(spared))}\n")
    return 1 if faults or spared else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
