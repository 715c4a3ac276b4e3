"""Playing runs: scenarios, allow lists, sandbox, store and server put together, and closed.

`run_models` plays a plan and `session_of` prepares it. A run that several processes play comes
first: it is joined, played until no trial is left to anybody, and closed. Any scheduler that starts
processes will do. What they know of one another is in the store.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from agenteval.classes import judge
from agenteval.config.models import SIMULATED, ModelEntry, load_models, resolve
from agenteval.config.trust import remember_run, roots
from agenteval.errors import HostError, UsageError, unwrapped
from agenteval.models.endpoints import Endpoints, Spent, health_of, model_of, power_meter
from agenteval.models.openai_client import OpenAIModel
from agenteval.models.persona import load_persona
from agenteval.play.run import Orchestrator, trial_keys
from agenteval.play.second_reader import SecondReader
from agenteval.prompt.prompt import Setting
from agenteval.protocols import Health, Progress, SandboxBackend, Stage, TrialKey
from agenteval.sandbox.backends import choose
from agenteval.store.location import Location
from agenteval.store.sql import BEATS, Part, Shard, SqlStore
from agenteval.store.write import Hold
from agenteval.trial.run import ModelCard, Options, Run
from agenteval.trial.text import as_word
from agenteval.workflows import harnesses
from agenteval.workflows.preflight import answering, levels_of, served_card, serving
from agenteval.workflows.stages import (
    Plan,
    Quiet,
    agreed,
    check_length,
    check_same,
    check_unchanged,
    cost_told,
    judges,
    load_stages,
    measured,
    new_run,
    serve_on,
)

if TYPE_CHECKING:
    from agenteval.report.sentences import Side
    from agenteval.workflows.gate import InterimLooks
    from agenteval.workflows.harnesses import Harness
_PART = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")
_WHOLE = "no {} sees the whole run: hold it against a gate when it is closed"
_ALONE = {
    "retry_void": "when the run is closed, --resume RUN --retry-void plays its voids again",
    "power": "no {} sees what the others' machines draw",
    "gate": _WHOLE,
    "baseline": _WHOLE,
}
_LONGEST = 2.0  # seconds between two looks at what others play
Play = Callable[[Sequence[TrialKey]], Awaitable[None]]


def part_of(
    text: str,
    job: str,
    lease: float,
    version: str = "",
) -> Part:
    """The K-th of N. Raises UsageError."""
    # A number or a denominator of 0 is refused below, as is what does not match.
    found = _PART.fullmatch(text)
    number, of = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= of:
        raise UsageError(f"--shard {text!r}: K/N, such as 1/3, 2/3 and 3/3; K is counted from 1")
    return Part(number, of, job, lease, version)


def check_alone(**options: object) -> None:
    """Raises UsageError for an option that no shard or worker can have, by its name."""
    if options["executor"] == "local":
        option, player = "--shard", "shard"
        reasons = {"resume": "the same shards, started again, go on with their run", **_ALONE}
    else:
        option, player = f"--executor {options['executor']}", "worker"
        reasons = {"shard": "the cluster says who plays what", **_ALONE}
    for name, reason in reasons.items():
        if options[name]:
            raise UsageError(f"--{name.replace('_', '-')} and {option}: {reason.format(player)}")


@contextmanager
def joined(
    store: SqlStore,
    shard: Shard,
    make: Callable[[], Run],
) -> Iterator[Run]:
    """Yield the run of the shard's job, which the first shard begins. Raises UsageError."""
    # One shard at a time joins, so that exactly one of them begins the run.
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


def _check_same_suite(
    run: Run,
    new: Run,
    shard: Shard,
) -> None:
    """Raises UsageError where this shard would play another run than the others."""
    who = f"{shard.part}, run {run.id}"
    shard.check(run.id)
    if new.options:
        agreed(run, new.options, [*Options.__dataclass_fields__], who)
    check_same(run, new, who)


async def _beat(shard: Shard) -> None:
    """Tell the other shards, again and again, that this one is alive."""
    while True:
        await asyncio.sleep(shard.part.lease / BEATS)
        shard.beat()


def _from(keys: Sequence[TrialKey], part: Part) -> list[TrialKey]:
    """All of them, each shard from a place of its own, so that few ask for the same one."""
    # Shards that all began at the first trial would ask the store for the same one.
    start = len(keys) * (part.number - 1) // part.of
    return [*keys[start:], *keys[:start]]


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
            store.close_part(
                run_id,
                complete=True,
                second_reader={},
            )
        return run


# All models of one command.


def run_models(
    plan: Plan,
    watch: "InterimLooks | None" = None,
    progress: Progress | None = None,
) -> "tuple[list[Side], bool]":
    """Play every model of the plan; the runs as stored, and whether Ctrl-C ended them early.

    A `watch` looks at each run between its blocks, and ends it when there is nothing left to learn.
    What was played before an interruption is stored and returned. Raises UsageError.
    """
    with closing(SqlStore(plan.store)) as store:
        session, interrupted = session_of(plan, store, watch, progress), False
        try:
            asyncio.run(session.play())
        except KeyboardInterrupt:
            interrupted = True
        from agenteval.workflows import views  # noqa: PLC0415 -- start-up: few need it

        return views.played(session.started, plan.store), interrupted


def session_of(
    plan: Plan,
    store: SqlStore,
    watch: "InterimLooks | None" = None,
    progress: Progress | None = None,
) -> "Session":
    """Raises UsageError for scenarios or levels that are none."""
    levels = levels_of(plan.options.concurrency)
    stages = load_stages(plan.options.targets, plan.setting.arm, plan.more, plan.options.allowlist)
    progress, harness = progress or Quiet(), None
    if plan.options.harness:
        harness, plan, stages = harnesses.joined(plan, stages, progress.note)
    if plan.resume:
        check_unchanged(plan.resume, stages, plan.setting)
    if plan.part and len(levels) > 1:
        raise UsageError("--concurrency and --shard: give one level, that of each shard")
    shard = store.shard(plan.part) if plan.part else None
    return Session(plan, levels, stages, store, progress, watch, harness, shard)


@dataclass(frozen=True, slots=True)
class Session:
    """All models of one command, one after the other. `started` gathers the ids of their runs."""

    plan: Plan
    levels: Sequence[int]
    stages: Sequence[Stage]
    store: SqlStore
    progress: Progress
    watch: "InterimLooks | None" = None
    harness: "Harness | None" = None
    shard: "Shard | None" = None
    started: list[str] = field(default_factory=list)

    async def play(self) -> None:
        """Raises UsageError, which names the runs that are stored by then."""
        try:
            await self._play_all()
        except UsageError as error:
            if not self.started:
                raise
            runs = " ".join(map(as_word, self.started))
            raise UsageError(
                f"{error}. What was played is stored: agenteval show {runs}"
            ) from error

    async def _play_all(self) -> None:
        """Query every server before the first trial, so that no typing error costs a run."""
        served = any(not name.startswith(SIMULATED) for name in self.plan.options.model)
        configured = load_models(roots()) if served else {}
        entries = {}
        for name in self.plan.options.model:
            # Every server is queried before the first trial of any model.
            entries[name] = await self._ready_entry(name, configured)
        backend = await self._backend()
        note = self.progress.note
        filled_setting = self.plan.setting
        if filled_setting.context:
            from agenteval.workflows import prove  # noqa: PLC0415 -- start-up: few need it

            filled_setting = await prove.filled(filled_setting, self.stages, backend, note)
        scenarios = [stage.scenario for stage in self.stages]
        for name, entry in entries.items():
            async with (
                serving(name, entry, scenarios) as ready,
                model_of(ready, note, self.plan.before) as model,
            ):
                is_begun, joins = self.plan.resume is not None, self.plan.joins
                card = await served_card(
                    name,
                    ready,
                    note,
                    is_begun=is_begun,
                    some=joins,
                )
                setting = await self._measured(model, filled_setting)
                make = partial(new_run, self.plan, self.stages, card, backend.name, setting)
                for level in self.levels:
                    with self._claimed(partial(make, level), card) as run:
                        async with health_of(ready, partial(self.store.crash, run.id)) as health:
                            await self._play(run, model, backend, setting, health)

    async def _backend(self) -> SandboxBackend:
        sandbox = self.plan.options.sandbox or ("bubblewrap" if self.harness else None)
        try:
            return await choose(sandbox, prefork=self.plan.options.prefork)
        except UsageError as error:  # of many workers: which one?
            raise UsageError(
                f"{self.plan.part}: {error}" if self.plan.part else str(error)
            ) from error

    async def _ready_entry(
        self,
        name: str,
        configured: Mapping[str, ModelEntry],
    ) -> ModelEntry | None:
        """The entry of a server that answers; None for a simulated model, started when it plays."""
        if name.startswith(SIMULATED):
            load_persona(name)
            return None
        entry = resolve(name, configured, self.plan.options.base_url)
        await answering(entry, self.progress.note, some=self.plan.joins)
        for server in entry.per_server:
            remember_run(server.api_key_env, server.base_url)
        return entry

    async def _measured(self, model: OpenAIModel | Endpoints, asked: Setting) -> Setting:
        if self.plan.resume:
            return replace(asked, per_token=self.plan.resume.per_token)
        setting = await measured(model, self.stages[0], asked)
        model.ended(0)
        check_length([stage.scenario for stage in self.stages], setting)
        if setting.context:
            self.progress.note(cost_told(self.stages, setting, self.plan.options.trials))
        return setting

    @contextmanager
    def _claimed(self, make: Callable[[], Run], card: ModelCard) -> Iterator[Run]:
        """Yield the run, claimed for this process and other shards of it. Raises UsageError."""
        if self.shard:
            with joined(self.store, self.shard, make) as run:
                self.started.append(run.id)
                yield run
            return
        run = self.plan.resume or make()
        if self.plan.resume is None:
            if self.watch:
                self.watch.check(run, self.progress.note)
            run = self.store.add(run)
        with self.store.claimed(run.id):
            if self.plan.resume:
                run, _ = self.store.summarized(run.id)  # another process may just have ended it
                serve_on(run, card, self.store)
            self.started.append(run.id)
            yield run

    def _keys(self, run: Run) -> Sequence[TrialKey]:
        """The trials that are still to be played; those in flight when it died are among them."""
        names, options = [stage.scenario.name for stage in self.stages], self.plan.options
        keys = trial_keys(names, options.trials, options.seed)
        if self.plan.resume is None:  # shards too: which of them are left, changes all the time
            return keys
        self.store.set_aside(run.id, voids=self.plan.retry_void)
        if run.complete:  # also when a gate ended it early
            aside = self.store.trials_set_aside(run.id)
            remaining = [key for key in keys if (key.scenario, key.number) in aside]
        else:
            played = self.store.played(run.id)
            remaining = [key for key in keys if (key.scenario, key.number) not in played]
        if not remaining:
            self.progress.note(f"{run.id}: nothing is left to play; what follows is stored")
        return remaining

    async def _play(
        self,
        run: Run,
        model: OpenAIModel | Endpoints,
        backend: SandboxBackend,
        setting: Setting,
        health: Health,
    ) -> None:
        keys, card, part = self._keys(run), run.model, self.plan.part
        label = f"{card.name} {part.label}" if part and part.agreed else card.name
        observer = self.progress.run(label, trials=len(keys), simulated=card.simulated)
        meter = power_meter(run, self.progress.note) if self.plan.power else None
        async with SecondReader() as second_reader:
            orchestrator = Orchestrator(
                model=model,
                backend=backend,
                judge=judge,
                second_reader=second_reader,
                recorder=self.store.recorder(run, judges(self.stages), self.shard),
                observer=observer,
                concurrency=(part and part.trials) or run.concurrency,
                setting=replace(setting, per_token=run.per_token),  # another shard's, if it began
                max_turns=self.plan.options.max_turns,
                health=health,
                pace=model,
                ended=model.ended,
            )
            if self.harness:
                orchestrator = self.harness.playing(orchestrator, model)
            complete, spent = False, Spent()
            try:
                with spent.measured(meter):
                    await self._play_blocks(run, keys, partial(orchestrator.play, self.stages))
                complete = True
            finally:
                self._close(run, second_reader.counts, spent, complete=complete, keys=keys)

    async def _play_beside_others(
        self,
        shard: Shard,
        keys: Sequence[TrialKey],
        play: Play,
    ) -> None:
        """Play until every trial of the run has ended. Raises UsageError and HostError."""
        with unwrapped(UsageError, HostError):
            async with asyncio.TaskGroup() as group:
                beating = group.create_task(_beat(shard))
                try:
                    await self._play_what_is_left(shard, keys, play)
                finally:
                    beating.cancel()

    async def _play_what_is_left(
        self,
        shard: Shard,
        keys: Sequence[TrialKey],
        play: Play,
    ) -> None:
        """First each N-th trial, then what others have not begun, or left behind."""
        own = set(keys[shard.part.number - 1 :: shard.part.of])
        is_waiting = False
        while True:
            # A dead shard's trials in flight are set aside here, and are then among those left.
            shard.take_over()
            played = self.store.played(shard.run)
            left = [key for key in keys if (key.scenario, key.number) not in played]
            others = 0 if left else shard.in_flight()
            if left:
                await play([key for key in left if key in own] or _from(left, shard.part))
            elif not others:
                return
            else:
                if not is_waiting and shard.part.agreed:  # a worker's driver shows who plays what
                    line = f"nothing is left to begin; waiting for {others} under way"
                    self.progress.note(f"{shard.run}: {line}")
                is_waiting = True
                await asyncio.sleep(min(_LONGEST, shard.part.lease / BEATS))

    async def _play_blocks(
        self,
        run: Run,
        keys: Sequence[TrialKey],
        play: Play,
    ) -> None:
        if self.shard:
            await self._play_beside_others(self.shard, keys, play)
            return
        # Without a gate the whole run is one block.
        for block in self.watch.blocks(keys) if self.watch else [keys]:
            await play(block)
            if self.plan.retry_void and self.plan.resume is None:
                aside = self.store.set_aside(run.id, voids=True)
                await play([key for key in keys if (key.scenario, key.number) in aside])
            if self.watch and self.watch.settled(run.id, self.store, self.progress.note):
                break

    def _close(
        self,
        run: Run,
        answers: Mapping[str, int],
        spent: Spent,
        *,
        complete: bool,
        keys: Sequence[TrialKey],
    ) -> None:
        """Close the run, or this shard's part of it.

        The duration of a part that was cut off is unknown, and so is that of a run played in parts.
        """
        for line in self.harness.lines_after_run() if self.harness else ():
            self.progress.note(line)
        if self.shard:
            self.store.close_part(
                run.id,
                self.shard,
                complete=complete,
                second_reader=answers,
            )
            return
        # A resumed run keeps the answers of its earlier parts.
        counts = Counter(run.second_reader)
        counts.update(answers)
        effort = spent.effort if not self.plan.resume else None if keys else run.effort
        self.store.close_run(
            run.id,
            complete=complete,
            second_reader=counts,
            effort=effort,
        )
