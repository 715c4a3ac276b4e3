"""Many trials at once: one TaskGroup, one semaphore, and a void for what the machine broke."""

import asyncio
import hashlib
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from agenteval.errors import (
    Cause,
    HostError,
    InfrastructureError,
    UsageError,
    first_error,
    unwrapped,
)
from agenteval.play.second_reader import SecondReader
from agenteval.play.tools import Database, WorldMonitor
from agenteval.play.trial import (
    PAUSES,
    Reading,
    Replies,
    RetryingModel,
    ToolExecutor,
    TrialRunner,
    Unwatched,
)
from agenteval.policy.policy import World
from agenteval.prompt.prompt import DEFAULT, Setting
from agenteval.protocols import (
    Health,
    Judge,
    Loop,
    Model,
    Observer,
    Pace,
    Recorder,
    SandboxBackend,
    Stage,
    TrialKey,
)
from agenteval.sandbox.maker import MakerError, declared, posed
from agenteval.trial.call import Ending, Outcome
from agenteval.trial.text import legible
from agenteval.trial.trial import Trial

T = TypeVar("T")
LONGEST = 20_000  # characters of a traceback, from its end: there it says what happened


def _make_for_seed(key: TrialKey, make: Callable[[], T]) -> T:
    """Make a scenario's part for this seed. Raises InfrastructureError if it cannot be made.

    A scenario that fails for every seed was reported before the run began: this is the seed's.
    """
    try:
        return make()
    except (UsageError, ValueError) as error:
        raise _slip(key, error) from error


def void_of(key: TrialKey, error: Exception) -> InfrastructureError:
    """Return the error that broke the trial, with its traceback if it was not foreseen."""
    if isinstance(error, ExceptionGroup):
        return void_of(key, first_error(error))
    if isinstance(error, InfrastructureError):
        return error
    if isinstance(error, MakerError):
        return _slip(key, error)
    if isinstance(error, OSError):
        return InfrastructureError(legible(str(error)))
    summary = traceback.format_exception_only(error)[-1].strip()
    trace = "".join(traceback.format_exception(error))[-LONGEST:]
    return InfrastructureError(legible(f"{summary}\n{trace}").strip(), Cause.AGENTEVAL)


def _slip(key: TrialKey, error: Exception) -> InfrastructureError:
    message = f"scenario {key.scenario!r}, seed {key.seed}: {error}"
    return InfrastructureError(legible(message), Cause.SCENARIO)


def broken(key: TrialKey, begun: Sequence[TrialRunner], error: InfrastructureError) -> Trial:
    """Return the trial as far as it came, as void."""
    for play in begun:
        return play.broken(error)
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


@dataclass(frozen=True, slots=True)
class Orchestrator:
    """Plays stages. `max_turns`, when given, goes before each scenario's own."""

    model: Model
    backend: SandboxBackend
    judge: Judge
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
    make_loop: Callable[..., Loop] | None = None
    ended: Callable[[int], None] = lambda _seed: None  # told of each trial's seed at its end

    async def play(self, stages: Sequence[Stage], keys: Sequence[TrialKey]) -> None:
        """Play one trial for each key, at most `concurrency` at a time.

        A trial that the server, the sandbox, its scenario or we broke is recorded as void, and the
        run goes on.
        Raises UsageError when only the user can fix what is wrong, and HostError when this machine
        keeps us from going on; what was played is stored.
        """
        by_name = {stage.scenario.name: stage for stage in stages}
        free = asyncio.Semaphore(self.concurrency)
        running = asyncio.Semaphore(2 * (os.cpu_count() or 1))
        with unwrapped(UsageError, HostError):
            async with asyncio.TaskGroup() as group:
                for key in keys:
                    await free.acquire()
                    task = group.create_task(self._trial(by_name[key.scenario], key, running))
                    task.add_done_callback(lambda _: free.release())

    async def _trial(self, stage: Stage, key: TrialKey, running: asyncio.Semaphore) -> None:
        if not self.recorder.begin(key):
            return
        begun: list[TrialRunner] = []
        try:
            trial = await self._played(stage, key, running, begun)
            self.recorder.finish(key, trial)
        except (UsageError, HostError):
            raise
        except Exception as error:  # noqa: BLE001 -- what nobody foresaw costs one trial, no run
            trial = broken(key, begun, void_of(key, error))
            self.recorder.finish(key, trial)
        finally:
            self.ended(key.seed)
        void = trial.outcome is Outcome.VOID
        self.observer.finished(key, void=str(trial.cause or "unknown") if void else "")

    async def _played(
        self, stage: Stage, key: TrialKey, running: asyncio.Semaphore, begun: list[TrialRunner]
    ) -> Trial:
        """Return the trial at its end; `begun` gets its runner as soon as there is one."""
        files, prompt = _make_for_seed(
            key, lambda: (stage.files(key.seed), posed(stage.scenario, key.seed, self.setting))
        )
        limits = stage.scenario.limits
        async with self.backend.open(files, limits) as sandbox:
            executor = ToolExecutor(
                self.setting.arm,
                stage.policy,
                World(frozenset(files)),
                sandbox,
                self.judge,
                self.second_reader,
                limits,
                running,
            )
            path = stage.scenario.database
            database = Database(sandbox, path, declared(files.get(path, b"")))
            watch = WorldMonitor(stage.scenario, prompt, database)
            begun.append(self._play(stage, key, executor, watch))
            return await begun[0].play()

    def _play(
        self, stage: Stage, key: TrialKey, executor: ToolExecutor, watch: WorldMonitor
    ) -> TrialRunner:
        seconds = stage.scenario.limits.trial_seconds
        return TrialRunner(
            scenario=stage.scenario,
            prompt=watch.prompt,
            key=key,
            setting=self.setting,
            max_turns=self.max_turns,
            model=RetryingModel(self.model, seconds, self.health, self.pauses, self.pace),
            executor=executor,
            policies=stage.agents,
            recorder=self.recorder,
            observer=self.observer,
            watch=watch,
            make_loop=self.make_loop,
            reading=self.reading,
        )


def trial_keys(scenarios: Sequence[str], trials: int, seed: int) -> tuple[TrialKey, ...]:
    """Return every trial of a run. A seed gives the same task instances to every model."""
    return tuple(
        TrialKey(scenario, number, trial_seed(seed, scenario, number))
        for number in range(1, trials + 1)
        for scenario in scenarios
    )


def trial_seed(seed: int, scenario: str, number: int) -> int:
    """Return a seed of 31 bits, which every server accepts."""
    digest = hashlib.sha256(f"{seed}/{scenario}/{number}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1
