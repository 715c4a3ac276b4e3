"""Faults at random moments of runs, round after round: is a call lost, or is anything left?

A round begins a run against a model of its own. After a random number of answered calls one of
`faults` strikes, while the model is asked or a command is at work. `disturbed` says what is looked
at then. A campaign that never hit with one of its faults shows nothing of it: it fails.

    python tests/chaos.py ROUNDS [FAULT ...]
"""

import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import cycle, islice

from disturbed import CALLS, TRIALS, Seen, Struck, folder_of_a_run, played
from faults import FAULTS, Machines
from postgres import AbsentError
from scripted_server import scripted

from agenteval.sandbox.backends import AUTOMATIC

LONGEST_PAUSE = 0.08  # seconds after the moment: a command takes some 0.04


@dataclass(frozen=True)
class Moment:
    """When a fault strikes, and in which sandbox the run plays."""

    after: int  # answered calls
    late: bool  # whether a command is at work then
    pause: float
    backend: str

    def __str__(self) -> str:
        doing = "a command works" if self.late else "the model is asked"
        return f"{self.backend}, {self.after} answered, {doing}, {self.pause:.3f} s"


def drawn(chance: random.Random) -> Moment:
    """So early that a trial goes on after it."""
    return Moment(
        after=chance.randrange(TRIALS * CALLS - 1),
        late=chance.random() < 0.5,
        pause=chance.uniform(0, LONGEST_PAUSE),
        backend=chance.choice(working()),
    )


def working() -> tuple[str, ...]:
    """The backends that a run may choose and that are installed here."""
    return tuple(name for name in AUTOMATIC if name != "bubblewrap" or shutil.which("bwrap"))


def rounds_of(
    number: int, names: Sequence[str], chance: random.Random, machines: Machines
) -> Iterator[tuple[str, Moment, Seen | AbsentError]]:
    """One after another; a fault that cannot be had here is tried once."""
    absent = set[str]()
    for name in islice(cycle(names), number):
        moment = drawn(chance)
        if name in absent:
            continue
        try:
            seen: Seen | AbsentError = round_of(name, moment, machines)
        except AbsentError as error:
            absent.add(name)
            seen = error
        yield name, moment, seen


def round_of(name: str, moment: Moment, machines: Machines) -> Seen:
    """Raises AbsentError."""
    model = Struck(after=moment.after, late=moment.late)
    with (
        folder_of_a_run() as folder,
        scripted(model) as url,
        FAULTS[name](folder, url, machines) as fault,
    ):
        words = (*fault.words, "--sandbox", moment.backend)
        beside = (*fault.beside, "--sandbox", moment.backend) if fault.beside else ()
        return played(replace(fault, words=words, beside=beside), folder, model, moment.pause)


def main(rounds: int, *names: str) -> int:
    faults, hit, missed = 0, Counter[str](), Counter[str]()
    names = names or tuple(FAULTS)
    began = time.monotonic()
    with ExitStack() as stack:
        those = rounds_of(rounds, names, random.Random(rounds), Machines(stack))
        for number, (name, moment, seen) in enumerate(those, 1):
            if isinstance(seen, AbsentError):
                sys.stdout.write(f"{number}, {name}: left out: {seen}\n")
                continue
            (hit if seen.hit else missed)[name] += 1
            faults += len(seen.faults)
            told = "; ".join(seen.faults) or "nothing left, nothing lost, the same figures"
            ended = f"exit {seen.code}" if seen.hit else "nobody to strike"
            sys.stdout.write(f"{number} of {rounds}, {name} ({moment}), {ended}: {told}\n")
            sys.stdout.flush()
    struck = ", ".join(f"{count} {name}" for name, count in hit.items())
    seconds = time.monotonic() - began
    sys.stdout.write(f"struck: {struck}; nobody to strike: {missed.total()}\n")
    sys.stdout.write(f"faults: {faults}; {seconds / max(1, rounds):.1f} s a round\n")
    if spared := [name for name in missed if not hit[name]]:
        sys.stdout.write(f"never struck, so nothing is shown of it: {', '.join(spared)}\n")
    return 1 if faults or spared else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
