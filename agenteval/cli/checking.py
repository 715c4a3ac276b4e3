"""Proving scenarios: every reference solution is played for real, in the sandbox."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agenteval.core.outcome import Outcome
from agenteval.core.prompt import render
from agenteval.core.scenario import Agent
from agenteval.core.trial import CallRecord, Trial, Turn
from agenteval.engine.orchestrator import Orchestrator, Stage
from agenteval.engine.second_reader import SecondReader
from agenteval.engine.world import holding
from agenteval.models.oracle import Oracle
from agenteval.protocols import Model, SandboxBackend, TrialKey
from agenteval.sandbox.choose import choose

CONCURRENCY = 4


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of one variant; `fault` says why it is no good, and is empty when it is."""

    scenario: str
    seed: int
    steps: int
    fault: str


@dataclass(slots=True)
class _Kept:
    """Recorder and observer at once: keeps the finished trials, and nothing else."""

    trials: dict[TrialKey, Trial] = field(default_factory=dict)

    def begin(self, key: TrialKey) -> None: ...

    def turn(self, key: TrialKey, number: int, turn: Turn, *, agent: str = "") -> None: ...

    def call(self, key: TrialKey, record: CallRecord, *, agent: str = "") -> None: ...

    def called(self, trial: TrialKey, *, denied: bool) -> None: ...

    def finish(self, key: TrialKey, trial: Trial) -> None:
        self.trials[key] = trial

    def finished(self, trial: TrialKey, *, void: bool) -> None: ...


def check(stages: Sequence[Stage], sandbox: str | None) -> list[Proof]:
    """Prove the stages in the sandbox of this name. Raises UsageError when it does not work."""

    async def prove_there() -> list[Proof]:
        return await prove(stages, await choose(sandbox))

    return asyncio.run(prove_there())


async def prove(stages: Sequence[Stage], backend: SandboxBackend) -> list[Proof]:
    """Play the reference solution of every variant of every scenario."""
    keys = [
        TrialKey(stage.scenario.name, number + 1, seed=number)
        for stage in stages
        for number in range(len(stage.scenario.variants))
    ]
    model = Oracle([stage.scenario for stage in stages])
    trials = await played(stages, keys, model, backend)
    by_name = {stage.scenario.name: stage for stage in stages}
    return [_proof(by_name[key.scenario], key, trials[key]) for key in keys]


async def played(
    stages: Sequence[Stage], keys: Sequence[TrialKey], model: Model, backend: SandboxBackend
) -> Mapping[TrialKey, Trial]:
    """The trials of these keys, played by `model` and stored nowhere."""
    kept = _Kept()
    async with SecondReader() as second_reader:
        orchestrator = Orchestrator(
            model=model,
            backend=backend,
            second_reader=second_reader,
            recorder=kept,
            observer=kept,
            concurrency=CONCURRENCY,
        )
        await orchestrator.play(stages, keys)
    return kept.trials


def _proof(stage: Stage, key: TrialKey, trial: Trial) -> Proof:
    fault = next(_faults(stage, key, trial), "")
    steps = len(trial.calls) + sum(len(part.calls) for part in trial.agents)
    return Proof(key.scenario, key.seed, steps, fault)


def _faults(stage: Stage, key: TrialKey, trial: Trial) -> Iterator[str]:
    """What is wrong, the cause before what follows from it, in words that say what to mend."""
    prompt = render(stage.scenario, key.seed)
    world = {"world.db": stage.files(key.seed)[stage.scenario.database]}
    if trial.outcome is Outcome.VOID:
        yield f"void: {trial.reason}"
    if all(holding(world, prompt.goal)):
        yield "the goal is reached before anything was done: make a check of it fail at first"
    yield from _faults_of_calls("", trial.calls)
    for agent in stage.scenario.agents:
        yield from _faults_of_agent(agent, trial)
    open_steps = [step.name for step in trial.handshake if not step.reached]
    if trial.outcome is not Outcome.COMPLETED:
        yield "the solution was played, and the goal is not reached"
    if open_steps:
        yield f"the goal is reached without the handshake's {', '.join(open_steps)}"
    if len(trial.calls) < len(prompt.solution):
        yield f"the goal is reached after {len(trial.calls)} of {len(prompt.solution)} steps"


def _faults_of_agent(agent: Agent, trial: Trial) -> Iterator[str]:
    parts = [part for part in trial.agents if part.name == agent.name]
    if not parts:
        yield f"agent {agent.name}: the solution never leads to it"
    for part in parts:
        if part.reason:
            yield f"agent {part.label}: {part.reason}"
        yield from _faults_of_calls(f"agent {part.label}: ", part.calls)
        if len(part.calls) < len(agent.solution):
            made, all_steps = len(part.calls), len(agent.solution)
            yield f"agent {part.label}: ended after {made} of {all_steps} steps of its solution"


def _faults_of_calls(whose: str, calls: Sequence[CallRecord]) -> Iterator[str]:
    for number, record in enumerate(calls):
        step = f"{whose}solution.{number} `{record.call.command or record.call.raw}`"
        if record.verdict.primary:
            yield f"{step} is denied ({record.verdict.primary.failure_class}): {record.reply}"
        if record.execution and record.execution.exit_code != 0:
            yield f"{step} fails: {record.reply.strip()}"
