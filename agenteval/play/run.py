"""Many trials at once: `Orchestrator` plays stages, and a trial that broke is recorded as void.

One trial is told in `play/trial`. `trial_keys` says which trials a run has, and with which seeds.
"""

import asyncio
import hashlib
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

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

# Characters of a traceback, from its end: there it says what happened.
LONGEST = 20_000


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
    ended: Callable[[int], None] | None = None  # called with the seed of each trial at its end

    async def play(self, stages: Sequence[Stage], keys: Sequence[TrialKey]) -> None:
        """Play one trial for each key, at most `concurrency` at a time.

        A trial that the server, the sandbox, its scenario or we broke is recorded as void, and the
        run goes on.
        Raises UsageError when only the user can fix what is wrong, and HostError when this machine
        keeps us from going on; what was played is stored.
        """
        by_name = {stage.scenario.name: stage for stage in stages}
        free = asyncio.Semaphore(self.concurrency)
        # Commands use processors, trials mostly wait for the server: hence a bound of their own.
        running = asyncio.Semaphore(2 * (os.cpu_count() or 1))
        with unwrapped(UsageError, HostError):
            async with asyncio.TaskGroup() as group:
                for key in keys:
                    await free.acquire()
                    stage = by_name[key.scenario]
                    task = group.create_task(self._trial(stage, key, running))
                    task.add_done_callback(lambda _: free.release())

    async def _trial(self, stage: Stage, key: TrialKey, running: asyncio.Semaphore) -> None:
        if not self.recorder.begin(key):
            return
        runners: list[TrialRunner] = []
        try:
            trial = await self._play(stage, key, running, runners)
            self.recorder.finish(key, trial)
        except (UsageError, HostError):
            raise
        except Exception as error:  # noqa: BLE001 -- what nobody foresaw costs one trial, no run
            trial = _void_trial(key, runners, _cause_of_void(key, error))
            self.recorder.finish(key, trial)
        finally:
            if self.ended:
                self.ended(key.seed)
        void = ""
        if trial.outcome is Outcome.VOID:
            void = str(trial.cause or "unknown")
        self.observer.finished(key, void=void)

    async def _play(
        self,
        stage: Stage,
        key: TrialKey,
        running: asyncio.Semaphore,
        runners: list[TrialRunner],
    ) -> Trial:
        """Return the trial at its end; `runners` gets its runner as soon as there is one."""
        scenario = stage.scenario
        try:
            files = stage.files(key.seed)
            prompt = posed(scenario, key.seed, self.setting)
        except (UsageError, ValueError) as error:
            # A scenario that fails for every seed was reported before the run began.
            raise _fault_of_scenario(key, error) from error
        limits = scenario.limits
        schema = declared(files.get(scenario.database, b""))
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
            database = Database(sandbox, scenario.database, schema)
            monitor = WorldMonitor(scenario, prompt, database)
            runner = self._runner(stage, key, executor, monitor)
            runners.append(runner)
            return await runner.play()

    def _runner(
        self,
        stage: Stage,
        key: TrialKey,
        executor: ToolExecutor,
        monitor: WorldMonitor,
    ) -> TrialRunner:
        model = RetryingModel(
            model=self.model,
            seconds=executor.limits.trial_seconds,
            health=self.health,
            pauses=self.pauses,
            pace=self.pace,
        )
        return TrialRunner(
            scenario=stage.scenario,
            prompt=monitor.prompt,
            key=key,
            setting=self.setting,
            max_turns=self.max_turns,
            model=model,
            executor=executor,
            policies=stage.agents,
            recorder=self.recorder,
            observer=self.observer,
            monitor=monitor,
            reading=self.reading,
            make_loop=self.make_loop,
        )


# What broke a trial.


def _cause_of_void(key: TrialKey, error: Exception) -> InfrastructureError:
    """Return the error that broke the trial, with its traceback if it was not foreseen."""
    if isinstance(error, ExceptionGroup):
        return _cause_of_void(key, first_error(error))
    if isinstance(error, InfrastructureError):
        return error
    if isinstance(error, MakerError):
        return _fault_of_scenario(key, error)
    if isinstance(error, OSError):
        return InfrastructureError(legible(str(error)))
    summary = traceback.format_exception_only(error)[-1].strip()
    trace = "".join(traceback.format_exception(error))[-LONGEST:]
    message = legible(f"{summary}\n{trace}").strip()
    return InfrastructureError(message, Cause.AGENTEVAL)


def _fault_of_scenario(key: TrialKey, error: Exception) -> InfrastructureError:
    message = f"scenario {key.scenario!r}, seed {key.seed}: {error}"
    return InfrastructureError(legible(message), Cause.SCENARIO)


def _void_trial(key: TrialKey, runners: Sequence[TrialRunner], error: InfrastructureError) -> Trial:
    """Return the trial as far as it came, as void."""
    if runners:
        return runners[0].broken(error)
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


# The trials of a run.


def trial_keys(scenarios: Sequence[str], trials: int, seed: int) -> tuple[TrialKey, ...]:
    """Return every trial of a run. A seed gives the same task instances to every model."""
    instances = product(range(1, trials + 1), scenarios)
    return tuple(
        TrialKey(scenario, number, trial_seed(seed, scenario, number))
        for number, scenario in instances
    )


def trial_seed(seed: int, scenario: str, number: int) -> int:
    """Return a seed of 31 bits, which every server accepts."""
    digest = hashlib.sha256(f"{seed}/{scenario}/{number}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1
