"""A run that several processes play: joined, played until no trial is left to anybody, and closed.

Any scheduler that starts processes will do. What they know of one another is in the store.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from agenteval.core.plain import as_word
from agenteval.core.run import Options, Run
from agenteval.errors import HostError, UsageError, unwrapped
from agenteval.protocols import TrialKey
from agenteval.store.location import Location
from agenteval.store.recorder import Hold
from agenteval.store.shards import BEATS, Part, Shard
from agenteval.store.sql import SqlStore
from agenteval.workflows.resuming import Suite, agreed, check_same, serve_on

_PART = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")
_ALONE = {
    "resume": "the same shards, started again, go on with their run",
    "retry_void": "when the run is closed, --resume RUN --retry-void plays its voids again",
    "power": "no shard sees what the others' machines draw",
    "gate": "no shard sees the whole run: hold it against a gate when it is closed",
    "baseline": "no shard sees the whole run: hold it against a gate when it is closed",
}
_ON_A_CLUSTER = {
    "shard": "the cluster says who plays what",
    "retry_void": "when the run is closed, --resume RUN --retry-void plays its voids again",
    "power": "no worker sees what the others' machines draw",
    "gate": "no worker sees the whole run: hold it against a gate when it is closed",
    "baseline": "no worker sees the whole run: hold it against a gate when it is closed",
}
_LONGEST = 2.0  # seconds between two looks at what others play


def part_of(text: str, job: str, lease: float, version: str = "") -> Part:
    """The K-th of N. Raises UsageError."""
    found = _PART.fullmatch(text)
    number, of = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= of:
        raise UsageError(f"--shard {text!r}: K/N, such as 1/3, 2/3 and 3/3; K is counted from 1")
    return Part(number, of, job, lease, version)


def check_alone(**options: object) -> None:
    """Raises UsageError for an option that no shard or worker can have, by its name."""
    local = options["executor"] == "local"
    for name, why in (_ALONE if local else _ON_A_CLUSTER).items():
        if options[name]:
            option = "--shard" if local else f"--executor {options['executor']}"
            raise UsageError(f"--{name.replace('_', '-')} and {option}: {why}")


@contextmanager
def joined(store: SqlStore, shard: Shard, make: Callable[[], Run]) -> Iterator[Run]:
    """Yield the run of the shard's job, which the first shard begins. Raises UsageError."""
    with store.claimed("of shards: joining", Hold.WAITING):
        new = make()
        run_id = shard.joins(new.model.name)
        if run_id is None:
            run = store.add(new)
        else:
            run, _ = store.summarized(run_id)
            _check_same_suite(run, new, shard)
            serve_on(run, new.model, store, f"{shard.part}, run {run.id}")
        shard.arrive(run.id)
    with store.claimed(run.id, Hold.TOGETHER):
        yield run


def _check_same_suite(run: Run, new: Run, shard: Shard) -> None:
    """Raises UsageError where this shard would play another run than the others."""
    who = f"{shard.part}, run {run.id}"
    shard.check(run.id)
    if new.options:
        agreed(run, new.options, [*Options.__dataclass_fields__], who)
    check_same(run, Suite(new.policies, new.judged, new.scenarios, new.protocol), who)


async def play_beside_others(
    shard: Shard,
    store: SqlStore,
    keys: Sequence[TrialKey],
    play: Callable[[Sequence[TrialKey]], Awaitable[None]],
    note: Callable[[str], None],
) -> None:
    """Play until every trial of the run has ended. Raises UsageError and HostError."""
    with unwrapped(UsageError, HostError):
        async with asyncio.TaskGroup() as group:
            telling = group.create_task(_tell(shard))
            try:
                await _play_what_is_left(shard, store, keys, play, note)
            finally:
                telling.cancel()


async def _tell(shard: Shard) -> None:
    while True:
        await asyncio.sleep(shard.part.lease / BEATS)
        shard.beat()


async def _play_what_is_left(
    shard: Shard,
    store: SqlStore,
    keys: Sequence[TrialKey],
    play: Callable[[Sequence[TrialKey]], Awaitable[None]],
    note: Callable[[str], None],
) -> None:
    """First each N-th trial, then what others have not begun, or left behind."""
    own, waited = set(keys[shard.part.number - 1 :: shard.part.of]), False
    while True:
        shard.take_over()
        taken = store.played(shard.run)
        left = [key for key in keys if (key.scenario, key.number) not in taken]
        if left:
            await play([key for key in left if key in own] or _from(left, shard.part))
        elif not (others := shard.in_flight()):
            return
        else:
            if not waited and shard.part.agreed:  # a worker's driver shows who plays what
                note(f"{shard.run}: nothing is left to begin; waiting for {others} under way")
            waited = True
            await asyncio.sleep(min(_LONGEST, shard.part.lease / BEATS))


def _from(left: Sequence[TrialKey], part: Part) -> list[TrialKey]:
    """All of them, each shard from a place of its own, so that few ask for the same one."""
    start = len(left) * (part.number - 1) // part.of
    return [*left[start:], *left[:start]]


def finish(word: str, url: str) -> Run:
    """Close a run whose trials have all ended but that was not closed. Raises UsageError."""
    Location(url).check_there()
    with closing(SqlStore(url)) as store:
        run_id = store.resolve_name(word, whatever=True)
        with store.claimed(run_id):
            run, _ = store.summarized(run_id)
            if missing := run.trials_planned - store.ended(run_id):
                raise UsageError(
                    f"run {run_id}: {missing} of {run.trials_planned} trials have not ended. Start "
                    f"the shards again, or play them here: agenteval run --resume {as_word(run_id)}"
                )
            store.close_part(run_id, complete=True, second_reader={})
        return run
