"""Send broken replies the whole way: `python tests/fuzz_replies.py --replies 100000 --asked 3000`.

First each goes from its bytes through parser, judge, the next request, store and reports; then
some are served over HTTP to whole runs. What raises ends the script with status 1.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from broken_replies import broken_wire, good_wire
from hostile import serving
from reply_path import ReplyPath, drawn

from agenteval.classes import judge
from agenteval.config.models import ModelEntry
from agenteval.errors import FAULTS
from agenteval.models.openai_client import OpenAIModel
from agenteval.play.run import Orchestrator, trial_keys
from agenteval.play.second_reader import SecondReader
from agenteval.protocols import TrialKey
from agenteval.sandbox.backends import choose
from agenteval.store.sql import SqlStore
from agenteval.testing import card, run
from agenteval.trial.call import Outcome
from agenteval.trial.trial import Trial, Turn
from agenteval.workflows.stages import judges, load_stages

SCENARIO = "notes/append"
TURNS = 4  # of a trial in a whole run
DRAWN = 60  # turns on a page


@dataclass
class Seen:
    """What came of the replies; `complaints` should stay empty."""

    turns: int = 0
    refused: int = 0
    slowest: float = 0.0
    complaints: list[str] = field(default_factory=list)


def parsed(count: int, seed: int) -> Seen:
    """So many replies on their way; one that fails is told by its seed and place."""
    path, seen, turns = ReplyPath(), Seen(), list[Turn]()
    for at in range(count):
        chance = random.Random(f"{seed}/{at}")
        stream, good = chance.random() < 0.5, chance.random() < 0.5
        body = (good_wire if good else broken_wire)(chance, stream=stream)
        began = time.perf_counter()
        try:
            turn = path.turn(body, chance, stream=stream)
            if len(turns) >= DRAWN or at == count - 1:
                drawn([path.played(turns, 1)])
                turns.clear()
        except Exception:  # noqa: BLE001 -- whatever it is, it is what is looked for
            seen.complaints.append(f"reply {seed}/{at}: {body[:300]!r}\n{traceback.format_exc()}")
            turns.clear()
            continue
        seen.slowest = max(seen.slowest, time.perf_counter() - began)
        if turn is not None:
            seen.turns += 1
            turns.append(turn)
        elif good:
            seen.complaints.append(f"reply {seed}/{at}: void by the model's own words")
        else:
            seen.refused += 1
    return seen


class Nobody:
    """Watches a run, and says nothing."""

    def wrote(self, trial: TrialKey, tokens: int) -> None: ...

    def called(self, trial: TrialKey, *, failure_class: str) -> None: ...

    def finished(self, trial: TrialKey, *, void: str) -> None: ...


def _replies(seed: int) -> Iterator[tuple[bytes, str]]:
    """Bodies and their content types, without end."""
    at = 0
    while True:
        chance = random.Random(f"{seed}//{at}")
        stream = chance.random() < 0.5
        make = broken_wire if chance.random() < 0.3 else good_wire
        yield make(chance, stream=stream), "text/event-stream" if stream else "application/json"
        at += 1


async def asked(replies: int, seed: int, folder: Path) -> tuple[Trial, ...]:
    """Whole runs over HTTP, in real sandboxes, until about so many replies were sent."""
    (stage,) = load_stages([SCENARIO])
    left = _replies(seed)

    async def play(writer: asyncio.StreamWriter) -> None:
        body, kind = next(left)
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n".encode() + body)
        await writer.drain()

    store = SqlStore(str(folder / "runs.db"))
    try:
        begun = run(model=card("m"), run_id="fuzz")
        store.add(begun)
        async with serving(play) as url, SecondReader() as second_reader:
            async with OpenAIModel(ModelEntry(base_url=url, model="m")) as model:
                orchestrator = Orchestrator(
                    model=model,
                    backend=await choose(),
                    judge=judge,
                    second_reader=second_reader,
                    recorder=store.recorder(begun, judges([stage])),
                    observer=Nobody(),
                    concurrency=4,
                    max_turns=TURNS,
                    pauses=(),
                )
                await orchestrator.play([stage], trial_keys([SCENARIO], replies // 2, seed))
        return store.load("fuzz").trials
    finally:
        store.close()


def struck(trials: tuple[Trial, ...]) -> list[str]:
    """The trials that neither their model nor its server ended."""
    return [one.reason for one in trials if one.cause in FAULTS]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replies", type=int, default=100_000, help="through parser and judge")
    parser.add_argument("--asked", type=int, default=3_000, help="about so many in whole runs")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    start = time.perf_counter()
    seen = parsed(options.replies, seed)
    sys.stdout.write(
        f"seed {seed}: {options.replies} replies: {seen.turns} turns, {seen.refused} refused, the "
        f"slowest took {seen.slowest:.2f} s; {len(seen.complaints)} failed; "
        f"{time.perf_counter() - start:.0f} s\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        trials = asyncio.run(asked(options.asked, seed, Path(folder)))
    drawn(trials)
    ends = Counter(str(one.cause or one.outcome) for one in trials)
    turns = sum(len(one.turns) for one in trials)
    sys.stdout.write(f"{len(trials)} trials of {turns} turns: {dict(ends)}\n")
    complaints = [*seen.complaints, *struck(trials)]
    complaints += ["unfinished" for one in trials if one.outcome is Outcome.VOID and not one.cause]
    sys.stdout.writelines(f"{complaint}\n" for complaint in complaints[:20])
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
