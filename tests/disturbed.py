"""A run that something befalls, and what is left or lost of it.

A fault strikes in mid-run, and the run is gone on with until it has ended. Then no process, mount
or folder of it may be left, each call whose answer the model was sent must be stored once, the
store must be whole, and all figures those of a run that nothing befell.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from process_table import below, mounts, processes
from scripted_server import answers, bash, scripted

from agenteval.store.sql import SqlStore
from agenteval.trial.tally import score
from agenteval.workflows import runs

CALLS, TRIALS, LEFT_AFTER = 6, 2, 10.0
SECONDS = 600.0  # where others use the machine, too, the few of a run become minutes
STORE = "reports/agenteval.db"
BESIDE = "beside"  # the file with what a second process says
RUN = ("run", "-m", "m", "--trials", str(TRIALS), "--seed", "7", "coding/slug-function")
PROGRAM = (sys.executable, "-m", "agenteval")
FAMILY: set[tuple[int, int]] = set()  # number and time of start of what was below an evaluator
OTHER = "other figures than of an undisturbed run"
INTACT = "What was stored before is intact"  # so ends a run that cannot go on


@dataclass
class Model:
    """Asks for a few commands, and remembers to which it was sent an answer."""

    answered: set[str] = field(default_factory=set)

    def __call__(self, messages):
        self.answered.update(one["tool_call_id"] for one in messages if one["role"] == "tool")
        if answers(messages) == CALLS:
            return "It is done."
        return bash(f"uv run scripts/tickets.py show --ticket {answers(messages)}")


@dataclass
class Struck(Model):
    """A model for whose run the moment of the fault comes when `after` calls are answered.

    The next reply waits until the fault has come; `late`, the one after it, so that the fault meets
    a call at work. A run can so not end before its fault.
    """

    after: int = 3
    late: bool = False
    there: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def __call__(self, messages):
        said = super().__call__(messages)
        if len(messages) > 1:  # what is asked before a run has one
            self._meet()
        return said

    def _meet(self) -> None:
        waits = self.there.is_set() or not self.late
        if len(self.answered) >= self.after:
            self.there.set()
            if waits:
                self.over.wait(60)


@dataclass(frozen=True)
class Fault:
    """What befalls a run; `faults` has them."""

    url: str  # where the model is
    codes: Sequence[int]  # how the run may end that it befalls
    strike: Callable[[int], bool]  # with the number of its process; whether anything was struck
    mend: Callable[[], object] = lambda: None  # each time before the run is gone on with
    tries: int = 1  # how often that may take until it ends
    says: str = ""  # what a run says that does not go on
    store: str = ""  # where that is not the one of a folder
    damages: bool = False  # its file, which is checked no more
    words: Sequence[str] = ()  # of the run
    beside: Sequence[str] = ()  # of a second process that plays the same run
    program: Sequence[str] = PROGRAM
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def where(self) -> tuple[str, ...]:
        """The words of a run that name its model and its store."""
        return ("--base-url", self.url, *(("--store", self.store) if self.store else ()))


@dataclass(frozen=True)
class Seen:
    """Processes, mounts and folders that a round left, and answered calls that are not stored."""

    left: tuple[str, ...]
    lost: frozenset[str]
    ended: bool
    doubled: frozenset[str] = frozenset()
    told: str = ""
    wrong: tuple[str, ...] = ()  # of what is stored, and of how it ended
    hit: bool = True
    code: int | None = 0

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


def played(fault: Fault, folder: Path, model: Struck, pause: float) -> Seen:
    """A run in this folder, which the fault befalls so many seconds after its moment has come."""
    code, hit, ended = struck(fault, folder, model, pause)
    told = (folder / "told").read_text()
    wrong = [*ending_faults(fault, code, told, hit=hit)]
    if fault.beside:
        wrong += traceback((folder / BESIDE).read_text())
    for _ in range(fault.tries):
        if not ended:
            fault.mend()
            ended = resumed(folder, fault)
            wrong += resuming_faults(fault, (folder / "told").read_text(), ended=ended)
    store = fault.store or str(folder / STORE)
    seen = looked(folder, model, ended=ended, store=store)
    if ended:
        wrong += [] if fault.damages else damage(store)
        wrong += [] if figures(store) == undisturbed() else [OTHER]
    return replace(seen, hit=hit, code=code, wrong=tuple(wrong))


def struck(
    fault: Fault, folder: Path, model: Struck, pause: float
) -> tuple[int | None, bool, bool]:
    """How the run that was struck ended, whether the fault hit, and whether the run is whole."""
    words = (*RUN, *fault.where, *fault.words)
    with ExitStack() as stack:
        running = stack.enter_context(begun(folder, *words, fault=fault))
        others = []
        if fault.beside:
            words = (*RUN, *fault.where, *fault.beside)
            others.append(stack.enter_context(begun(folder, *words, fault=fault, told=BESIDE)))
        came = model.there.wait(60)
        time.sleep(pause)
        FAMILY.update((one, start) for one, _, start in below(running.pid))
        hit = fault.strike(running.pid) and came
        model.over.set()
        codes = [ending(one) for one in (running, *others)]
    return codes[0], hit, 0 in codes


def ending_faults(fault: Fault, code: int | None, told: str, *, hit: bool) -> Iterator[str]:
    """What is wrong with how a run ended that was struck."""
    if hit and code not in fault.codes:
        yield f"ended with {code}: {told.strip()[-300:]}"
    yield from traceback(told)
    if code == 4 and INTACT not in told.strip().rpartition("\n")[2]:
        yield f"not told that what was stored is intact: {told}"


def resuming_faults(fault: Fault, told: str, *, ended: bool) -> Iterator[str]:
    yield from traceback(told)
    if not ended and fault.says not in told.strip().rpartition("\n")[2]:
        yield f"said otherwise than `{fault.says}`: {told}"


def traceback(told: str) -> list[str]:
    return [f"a traceback: {told}"] if "Traceback" in told else []


def damage(store: str) -> list[str]:
    return [] if "://" in store else runs.faults(store)


def figures(store: str) -> list[object]:
    """All that the statistics of its last run come from.

    But how often a request was sent again, which is what a cut network is to be told by.
    """
    with closing(SqlStore(store)) as opened:
        run = opened.load("last")
    return [
        run.complete, score([replace(trial, retries=0) for trial in run.trials]),
        [(trial.scenario, trial.number, trial.seed, trial.outcome, trial.ending, trial.handshake,
          [(one.turn, one.position, one.call.raw, one.verdict, one.reply) for one in trial.calls])
         for trial in run.trials],
    ]  # fmt: skip


@cache
def undisturbed() -> list[object]:
    with folder_of_a_run() as folder, scripted(Model()) as url:
        with begun(folder, *RUN, "--base-url", url) as running:
            assert ending(running) == 0, (folder / "told").read_text()
        return figures(str(folder / STORE))


def looked(folder: Path, model: Model, *, ended: bool, store: str) -> Seen:
    """What is there after the end of a run."""
    left = [f"process {one}" for one in remaining(folder)]
    left += [f"mount {one}" for one in mounts(folder)]
    left += [f"folder {one.name}" for one in (folder / "tmp").iterdir()]
    kept = Counter(stored(store))
    doubled = frozenset(ident for ident, count in kept.items() if count > 1)
    lost, told = frozenset(model.answered - kept.keys()), (folder / "told").read_text()
    return Seen(tuple(left), lost, ended, doubled, told)


@contextmanager
def folder_of_a_run() -> Iterator[Path]:
    """Its temporary files are in `tmp` there."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        Path(name, "tmp").mkdir()
        yield Path(name)


@contextmanager
def begun(
    folder: Path, *words: str, fault: Fault | None = None, told: str = "told"
) -> Iterator[subprocess.Popen]:
    """Its working folder and its temporary files are below the folder, by which it is known.

    What it says of errors is in the file `told` there.
    """
    environment = dict(fault.environment) if fault else {}
    with (
        (folder / told).open("w") as said,
        subprocess.Popen(
            [*(fault.program if fault else PROGRAM), *words],
            cwd=folder,
            env=os.environ
            | {"TMPDIR": str(folder / "tmp"), "AGENTEVAL_CHAOS": str(folder)}
            | environment,
            stdout=subprocess.DEVNULL,
            stderr=said,
        ) as running,
    ):
        try:
            yield running
        finally:
            running.kill()


def resumed(folder: Path, fault: Fault) -> bool:
    """Whether the run is at its end, with nothing void that can be played again."""
    words = ("run", "--resume", "last", "--retry-void")
    if not fault.store and not (folder / STORE).exists():
        words = RUN
    with begun(folder, *words, *fault.where) as running:
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


def marked(folder: Path, there: Mapping[int, int]) -> set[int]:
    found = set()
    for one in there.keys() - {os.getpid()}:
        try:
            environment = Path(f"/proc/{one}/environ").read_bytes()
        except OSError:
            continue
        if f"AGENTEVAL_CHAOS={folder}".encode() in environment:
            found.add(one)
    return found


def stored(store: str) -> list[str]:
    """The ids of all calls, of trials too that were replaced."""
    with closing(SqlStore(store)) as opened, opened.connect() as connection:
        return list(connection.exec_driver_sql("SELECT call_id FROM call").scalars())
