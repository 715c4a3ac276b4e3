"""Playing runs: scenarios, allow lists, sandbox, store and server put together, and closed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from agenteval import models, workflows
from agenteval.config.models import SIMULATED, ModelEntry, load_models, resolve
from agenteval.config.roots import roots
from agenteval.config.trust import remember_run
from agenteval.core.cards import ModelCard
from agenteval.core.plain import as_word
from agenteval.core.prompt.setting import Setting
from agenteval.core.run import Run
from agenteval.engine.orchestrator import Orchestrator, trial_keys
from agenteval.engine.second_reader import SecondReader
from agenteval.errors import UsageError
from agenteval.models.endpoints import Endpoints, health_of, model_of
from agenteval.models.openai_client import OpenAIModel
from agenteval.models.persona import load_persona
from agenteval.models.power import Spent, power_meter
from agenteval.protocols import Health, Progress, SandboxBackend, Stage, TrialKey
from agenteval.sandbox.backends import choose
from agenteval.store.sql import SqlStore
from agenteval.taxonomy import judge as judging
from agenteval.workflows.armed import cost_told
from agenteval.workflows.preflight import answering, served_card
from agenteval.workflows.resuming import serve_on
from agenteval.workflows.sharding import joined, play_beside_others
from agenteval.workflows.stages import (
    Plan,
    check_length,
    check_unchanged,
    judges,
    levels_of,
    load_stages,
    measured,
    new_run,
)

if TYPE_CHECKING:  # what shows a run is imported when it has ended
    from agenteval.report.side import Side
    from agenteval.store.shards import Shard
    from agenteval.workflows.harnesses import Harness
    from agenteval.workflows.interim_looks import InterimLooks


class Quiet:
    """A Progress that shows nothing; also the Observer of each run."""

    def run(self, model: str, *, trials: int, simulated: bool) -> "Quiet":  # noqa: ARG002
        return self

    def note(self, line: str) -> None: ...

    def wrote(self, trial: TrialKey, tokens: int) -> None: ...

    def called(self, trial: TrialKey, *, failure_class: str) -> None: ...

    def finished(self, trial: TrialKey, *, void: str) -> None: ...


def run_models(
    plan: Plan, watch: "InterimLooks | None" = None, progress: Progress | None = None
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
        return workflows.views.played(session.started, plan.store), interrupted


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
        harness, plan, stages = workflows.harnesses.joined(plan, stages, progress.note)
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
        entries = {
            name: await self._ready_entry(name, configured) for name in self.plan.options.model
        }
        backend = await self._backend()
        if (filled_setting := self.plan.setting).context:
            filled_setting = await workflows.earlier.filled(
                filled_setting, self.stages, backend, self.progress.note
            )
        for name, entry in entries.items():
            async with (
                self._serving(name, entry) as ready,
                model_of(ready, self.progress.note, self.plan.before) as model,
            ):
                asks = partial(served_card, again=self.plan.resume, some=self.plan.joins)
                card = await asks(name, ready, self.progress.note)
                setting = await self._measured(model, filled_setting)
                for level in self.levels:
                    make = partial(self._new_run, card, backend, setting, level)
                    with self._claimed(make, card) as run:
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
        self, name: str, configured: Mapping[str, ModelEntry]
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

    @asynccontextmanager
    async def _serving(self, name: str, entry: ModelEntry | None) -> AsyncIterator[ModelEntry]:
        if entry is not None:
            yield entry
            return
        scenarios = [stage.scenario for stage in self.stages]
        async with models.simulated.SimulatedServer(scenarios) as server:
            yield server.entry(name)

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
        run = self.plan.resume or self.store.add(make())  # and its id is known
        with self.store.claimed(run.id):
            yield self._begun(run, card)

    def _begun(self, run: Run, card: ModelCard) -> Run:
        """The run as it is stored now. Raises UsageError when it cannot be gone on with."""
        if self.plan.resume:
            run, _ = self.store.summarized(run.id)  # another process may just have ended it
            serve_on(run, card, self.store)
        self.started.append(run.id)
        return run

    def _keys(self, run: Run) -> Sequence[TrialKey]:
        """The trials that are still to be played; those in flight when it died are among them."""
        names, options = [stage.scenario.name for stage in self.stages], self.plan.options
        keys = trial_keys(names, options.trials, options.seed)
        if self.plan.resume is None:  # shards too: which of them are left, changes all the time
            return keys
        self.store.set_aside(run.id, voids=self.plan.retry_void)
        if run.complete:  # also when a gate ended it early
            left = self.store.trials_set_aside(run.id)
            remaining = [key for key in keys if (key.scenario, key.number) in left]
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
        keys, card, note, part = self._keys(run), run.model, self.progress.note, self.plan.part
        label = f"{card.name} {part.label}" if part and part.agreed else card.name
        observer = self.progress.run(label, trials=len(keys), simulated=card.simulated)
        async with SecondReader() as second_reader:
            orchestrator = Orchestrator(
                model=model,
                backend=backend,
                judge=judging,
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
                with spent.measured(power_meter(run, note) if self.plan.power else None):
                    await self._play_blocks(run, keys, partial(orchestrator.play, self.stages))
                complete = True
            finally:
                self._close(run, second_reader.counts, spent, complete=complete, keys=keys)

    async def _play_blocks(
        self,
        run: Run,
        keys: Sequence[TrialKey],
        play: Callable[[Sequence[TrialKey]], Awaitable[None]],
    ) -> None:
        if self.shard:
            await play_beside_others(self.shard, self.store, keys, play, self.progress.note)
            return
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
            self.store.close_part(run.id, self.shard, complete=complete, second_reader=answers)
            return
        counts = Counter(run.second_reader)
        counts.update(answers)
        effort = spent.effort if not self.plan.resume else None if keys else run.effort
        self.store.close_run(run.id, complete=complete, second_reader=counts, effort=effort)

    def _new_run(
        self, card: ModelCard, backend: SandboxBackend, setting: Setting, level: int
    ) -> Run:
        run = new_run(
            self.plan, self.stages, card=card, sandbox=backend.name, setting=setting, level=level
        )
        if self.watch:
            self.watch.check(run, self.progress.note)
        return run
