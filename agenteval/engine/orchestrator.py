"""Many trials at once: one TaskGroup, one semaphore, and a void for what the machine broke."""

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agenteval.core.outcome import Ending, Outcome
from agenteval.core.policy.policy import Policy, World
from agenteval.core.prompt.context import posed
from agenteval.core.prompt.setting import DEFAULT, Setting
from agenteval.core.scenario import Scenario
from agenteval.core.trial import Trial
from agenteval.engine.asking import PAUSES, Asking, Replies, Unwatched
from agenteval.engine.hands import Hands
from agenteval.engine.play import Play
from agenteval.engine.reading import Reading
from agenteval.engine.second_reader import SecondReader
from agenteval.engine.watch import Watch
from agenteval.engine.world import Database, declared
from agenteval.errors import InfrastructureError, UsageError
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

        A trial that the server or the sandbox broke is recorded as void and the run goes on.
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
        files, limits = stage.files(key.seed), stage.scenario.limits
        world = World(frozenset(files))
        try:
            async with self.backend.open(files, limits) as sandbox:
                hands = Hands(
                    self.setting.profile,
                    stage.policy,
                    world,
                    sandbox,
                    self.second_reader,
                    limits,
                    running,
                )
                database = Database(
                    sandbox,
                    stage.scenario.database,
                    declared(files.get(stage.scenario.database, b"")),
                )
                play = self._play(stage, key, hands, database)
                try:
                    trial = await play.play()
                except InfrastructureError as error:
                    trial = play.broken(error)
        except InfrastructureError as error:
            trial = _void(key, error)
        self.recorder.finish(key, trial)
        self.observer.finished(key, void=trial.outcome is Outcome.VOID)

    def _play(self, stage: Stage, key: TrialKey, hands: Hands, database: Database) -> Play:
        prompt = posed(stage.scenario, key.seed, self.setting)
        seconds = stage.scenario.limits.trial_seconds
        return Play(
            scenario=stage.scenario,
            prompt=prompt,
            key=key,
            setting=self.setting,
            max_turns=self.max_turns,
            model=Asking(self.model, seconds, self.health, self.pauses, self.pace),
            hands=hands,
            policies=stage.agents,
            recorder=self.recorder,
            observer=self.observer,
            watch=Watch(stage.scenario, prompt, database),
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


def _void(key: TrialKey, error: InfrastructureError) -> Trial:
    return Trial(
        scenario=key.scenario,
        number=key.number,
        seed=key.seed,
        turns=(),
        calls=(),
        ending=Ending.BROKEN,
        outcome=Outcome.VOID,
        reason=str(error),
        cause=error.cause,
    )


def first(errors: BaseExceptionGroup[UsageError]) -> UsageError:
    """The error that came first, however deep."""
    error = errors.exceptions[0]
    return first(error) if isinstance(error, BaseExceptionGroup) else error
