"""Many trials at once: one TaskGroup, one semaphore, and a void for what the machine broke."""

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agenteval.core.outcome import Outcome
from agenteval.core.policy.policy import Policy, World
from agenteval.core.prompt.context import posed
from agenteval.core.prompt.setting import DEFAULT, Setting
from agenteval.core.scenario import Scenario
from agenteval.core.trial import Trial
from agenteval.engine.asking import PAUSES, Asking, Replies, Unwatched
from agenteval.engine.play import Play
from agenteval.engine.reading import Reading
from agenteval.engine.second_reader import SecondReader
from agenteval.engine.tool_executor import ToolExecutor
from agenteval.engine.void import broken, made, void_of
from agenteval.engine.watch import Watch
from agenteval.engine.world import Database, declared
from agenteval.errors import UsageError
from agenteval.protocols import (
    Health,
    Model,
    Observer,
    Pace,
    Recorder,
    SandboxBackend,
    TrialKey,
)


@dataclass(frozen=True, slots=True)
class Stage:
    """One scenario, ready to be played: its allow list, and the files its world starts with.

    `files` makes the world of a seed: relative path to content. `agents` are the allow lists of the
    sub-agents that are played by the model, by their names.
    """

    scenario: Scenario
    policy: Policy
    files: Callable[[int], Mapping[str, bytes]]
    agents: Mapping[str, Policy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Orchestrator:
    """Plays stages. `max_turns`, when given, goes before each scenario's own."""

    model: Model
    backend: SandboxBackend
    second_reader: SecondReader
    recorder: Recorder
    observer: Observer
    concurrency: int
    setting: Setting = DEFAULT
    max_turns: int | None = None
    health: Health = field(default_factory=Unwatched)
    pauses: Sequence[float] = PAUSES
    pace: Pace = field(default_factory=Replies)
    reading: Reading = field(default_factory=Reading)

    async def play(self, stages: Sequence[Stage], keys: Sequence[TrialKey]) -> None:
        """Play one trial for each key, at most `concurrency` at a time.

        A trial that the server, the sandbox, its scenario or we broke is recorded as void, and the
        run goes on.
        Raises UsageError when only the user can mend what is wrong; what was played is stored.
        """
        by_name = {stage.scenario.name: stage for stage in stages}
        free = asyncio.Semaphore(self.concurrency)
        running = asyncio.Semaphore(2 * (os.cpu_count() or 1))
        try:
            async with asyncio.TaskGroup() as group:
                for key in keys:
                    await free.acquire()
                    task = group.create_task(self._trial(by_name[key.scenario], key, running))
                    task.add_done_callback(lambda _: free.release())
        except* UsageError as errors:
            raise first(errors) from None

    async def _trial(self, stage: Stage, key: TrialKey, running: asyncio.Semaphore) -> None:
        self.recorder.begin(key)
        begun: list[Play] = []
        try:
            trial = await self._played(stage, key, running, begun)
            self.recorder.finish(key, trial)
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 -- what nobody foresaw costs one trial, no run
            trial = broken(key, begun, void_of(key, error))
            self.recorder.finish(key, trial)
        self.observer.finished(key, void=trial.outcome is Outcome.VOID)

    async def _played(
        self, stage: Stage, key: TrialKey, running: asyncio.Semaphore, begun: list[Play]
    ) -> Trial:
        """The trial at its end; `begun` gets it as soon as there is one."""
        files, prompt = made(
            key, lambda: (stage.files(key.seed), posed(stage.scenario, key.seed, self.setting))
        )
        limits = stage.scenario.limits
        async with self.backend.open(files, limits) as sandbox:
            executor = ToolExecutor(
                self.setting.profile,
                stage.policy,
                World(frozenset(files)),
                sandbox,
                self.second_reader,
                limits,
                running,
            )
            path = stage.scenario.database
            database = Database(sandbox, path, declared(files.get(path, b"")))
            watch = Watch(stage.scenario, prompt, database)
            begun.append(self._play(stage, key, executor, watch))
            return await begun[0].play()

    def _play(self, stage: Stage, key: TrialKey, executor: ToolExecutor, watch: Watch) -> Play:
        seconds = stage.scenario.limits.trial_seconds
        return Play(
            scenario=stage.scenario,
            prompt=watch.prompt,
            key=key,
            setting=self.setting,
            max_turns=self.max_turns,
            model=Asking(self.model, seconds, self.health, self.pauses, self.pace),
            executor=executor,
            policies=stage.agents,
            recorder=self.recorder,
            observer=self.observer,
            watch=watch,
            reading=self.reading,
        )


def trial_keys(scenarios: Sequence[str], trials: int, seed: int) -> tuple[TrialKey, ...]:
    """Every trial of a run. The same seed gives the same worlds, whoever plays them."""
    return tuple(
        TrialKey(scenario, number, trial_seed(seed, scenario, number))
        for number in range(1, trials + 1)
        for scenario in scenarios
    )


def trial_seed(seed: int, scenario: str, number: int) -> int:
    """A seed of 31 bits: what every server takes."""
    digest = hashlib.sha256(f"{seed}/{scenario}/{number}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def first(errors: BaseExceptionGroup[UsageError]) -> UsageError:
    """The error that came first, however deep."""
    error = errors.exceptions[0]
    return first(error) if isinstance(error, BaseExceptionGroup) else error
