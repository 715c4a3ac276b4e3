"""Proving scenarios: four players play them for real, and the rest is read and judged."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agenteval.cli.checking_faults import (
    every_call,
    idle_faults,
    judged_faults,
    kept_faults,
    slip_faults,
    slips_of,
    solution_faults,
)
from agenteval.core.trial import CallRecord, Trial, Turn
from agenteval.engine.orchestrator import Orchestrator, Stage
from agenteval.engine.second_reader import SecondReader
from agenteval.models.oracle import Oracle, Talker
from agenteval.models.slips import Written
from agenteval.protocols import Model, SandboxBackend, TrialKey
from agenteval.sandbox.choose import choose

CONCURRENCY = 4
CLAIM = "Done, all is set."


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of one scenario: each of `faults` says what to mend, and there should be none.

    `calls` are those of the solution, `worlds` is in how many it was played, `slips` are the
    failure classes of the calls that went wrong on purpose.
    """

    scenario: str
    worlds: int
    calls: int
    slips: tuple[str, ...]
    faults: tuple[str, ...]


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


def told(proof: Proof) -> list[str]:
    """A line for each fault; without any, one that says what was proven."""
    if proof.faults:
        return [f"{proof.scenario}: {fault}" for fault in proof.faults]
    worlds = f"{proof.worlds} world{'s' if proof.worlds > 1 else ''}"
    slips = f"; slips: {', '.join(proof.slips)}" if proof.slips else ""
    return [f"{proof.scenario}: solved in {proof.calls} calls, {worlds}{slips}"]


def check(stages: Sequence[Stage], sandbox: str | None) -> list[Proof]:
    """Prove the stages in the sandbox of this name. Raises UsageError when it does not work."""

    async def prove_there() -> list[Proof]:
        return await prove(stages, await choose(sandbox, prefork=True))

    return asyncio.run(prove_there())


async def prove(stages: Sequence[Stage], backend: SandboxBackend) -> list[Proof]:
    """Play every scenario as it should go, with slips, not at all, and with a claim alone.

    The solution is played in the world of each variant, the slips in one world more. Whoever does
    nothing comes last, in a world that the solution was played in before.
    """
    slips = {stage.scenario.name: slips_of(stage, _slipping(stage)) for stage in stages}
    written = {name: [one for _, one in made if one] for name, made in slips.items()}
    async with SecondReader() as second_reader:
        theatre = Theatre(stages, backend, second_reader)
        solved = await theatre.play(theatre.oracle(), {s.scenario.name: _seeds(s) for s in stages})
        slipped = await theatre.play(
            theatre.oracle(written), {s.scenario.name: [_slipping(s)] for s in stages}
        )
        first = {stage.scenario.name: [0] for stage in stages}
        idle = [await theatre.play(Talker(text), first) for text in ("", CLAIM)]
    proofs = []
    for stage in stages:
        name = stage.scenario.name
        faults = [f for seed in _seeds(stage) for f in solution_faults(stage, solved[name, seed])]
        faults += [f for seed in _seeds(stage) for f in judged_faults(stage, seed)]
        faults += slip_faults(slips[name], slipped[name, _slipping(stage)])
        faults += [f for trials in idle for f in idle_faults(trials[name, 0])]
        faults += [f async for f in kept_faults(stage, backend)]
        calls = len(every_call(solved[name, 0]))
        classes = tuple(failure_class for failure_class, _ in slips[name])
        proofs.append(Proof(name, len(_seeds(stage)), calls, classes, tuple(faults)))
    return proofs


def _seeds(stage: Stage) -> range:
    """One for each variant."""
    return range(len(stage.scenario.variants))


def _slipping(stage: Stage) -> int:
    """The seed of the world in which slips are made: another one of the first variant."""
    return len(stage.scenario.variants)


@dataclass(frozen=True, slots=True)
class Theatre:
    """Plays scenarios with any model, and keeps their trials nowhere else."""

    stages: Sequence[Stage]
    backend: SandboxBackend
    second_reader: SecondReader

    def oracle(self, slips: Mapping[str, Sequence[Written]] | None = None) -> Oracle:
        return Oracle([stage.scenario for stage in self.stages], slips or {})

    async def play(
        self, model: Model, seeds: Mapping[str, Sequence[int]]
    ) -> dict[tuple[str, int], Trial]:
        """The trial of each scenario and seed, with this model."""
        kept = _Kept()
        orchestrator = Orchestrator(
            model=model,
            backend=self.backend,
            second_reader=self.second_reader,
            recorder=kept,
            observer=kept,
            concurrency=CONCURRENCY,
        )
        keys = [TrialKey(name, seed + 1, seed) for name, each in seeds.items() for seed in each]
        await orchestrator.play(self.stages, keys)
        return {(key.scenario, key.seed): trial for key, trial in kept.trials.items()}
