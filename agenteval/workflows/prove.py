"""Proving scenarios: four players play them for real, and the rest is read and judged."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agenteval.config.arms import arms
from agenteval.core.prompt.arm import STRICT
from agenteval.core.prompt.setting import DEFAULT, Setting
from agenteval.core.trial import CallRecord, Trial, Turn
from agenteval.engine.orchestrator import Orchestrator
from agenteval.engine.second_reader import SecondReader
from agenteval.models.oracle import Oracle, Talker
from agenteval.protocols import Model, SandboxBackend, Stage, TrialKey
from agenteval.sandbox.backends import choose
from agenteval.taxonomy import judge as judging
from agenteval.workflows import many_worlds
from agenteval.workflows.armed import under
from agenteval.workflows.cheats import cheat_faults
from agenteval.workflows.proof_faults import (
    Slips,
    idle_faults,
    judged_faults,
    kept_faults,
    remade_fault,
    slip_faults,
    slips_of,
    solution_faults,
)

CONCURRENCY = 4
CLAIM = "Done, all is set."


@dataclass(frozen=True, slots=True)
class Proof:
    """The proof of one scenario: each of `faults` says what to fix, and there should be none.

    `calls` are those of the solution and its sub-agents. `worlds` is the number of task instances
    that were played. `slips` are the failure classes of the calls that went wrong on purpose.
    """

    scenario: str
    worlds: int
    calls: int
    slips: tuple[str, ...]
    faults: tuple[str, ...]
    tried: int = 0  # worlds that were made and asked, and in some of which the solution was played
    answers: int = 0  # how many different answers these have


@dataclass(slots=True)
class Kept:
    """Recorder and observer at once: keeps the finished trials, and nothing else."""

    trials: dict[TrialKey, Trial] = field(default_factory=dict)

    def begin(self, key: TrialKey) -> bool:
        return key not in self.trials

    def turn(self, key: TrialKey, number: int, turn: Turn, *, agent: str = "") -> None: ...

    def call(self, key: TrialKey, record: CallRecord, *, agent: str = "") -> None: ...

    def wrote(self, trial: TrialKey, tokens: int) -> None: ...

    def called(self, trial: TrialKey, *, failure_class: str) -> None: ...

    def finish(self, key: TrialKey, trial: Trial) -> None:
        self.trials[key] = trial

    def finished(self, trial: TrialKey, *, void: str) -> None: ...


def lines_of(proof: Proof) -> list[str]:
    """Return a line for each fault; without any, one that states what was proven."""
    if proof.faults:
        return [f"{proof.scenario}: {fault}" for fault in proof.faults]
    worlds = f"{proof.worlds} world{'s' if proof.worlds > 1 else ''}"
    slips = f"; slips: {', '.join(proof.slips)}" if proof.slips else ""
    tried = f"; {proof.tried} worlds tried, {proof.answers} different answers" * bool(proof.tried)
    return [f"{proof.scenario}: solved in {proof.calls} calls, {worlds}{slips}{tried}"]


def check(stages: Sequence[Stage], sandbox: str | None, many: int = 0) -> list[Proof]:
    """Prove the stages in the sandbox of this name, and check `many` task instances more.

    Raises UsageError when the sandbox does not work.
    """

    async def prove_there() -> list[Proof]:
        backend = await choose(sandbox, prefork=True)
        proofs = await prove(stages, backend)
        return await _check_many(stages, proofs, backend, many) if many else proofs

    return asyncio.run(prove_there())


async def _check_many(
    stages: Sequence[Stage], proofs: Sequence[Proof], backend: SandboxBackend, many: int
) -> list[Proof]:
    """Return the proofs with the faults of many task instances, honest players and adversaries."""
    checked = {stage.scenario.name: many_worlds.tried(stage, many) for stage in stages}
    faults = {name: [*one.faults] for name, one in checked.items()}
    broken = {proof.scenario for proof in proofs if not proof.worlds}
    faulty = {name for name, one in faults.items() if one} | broken
    sound = [stage for stage in stages if stage.scenario.name not in faulty]
    seeds = range(min(many, many_worlds.REFERENCE))
    keys = [_key(stage, seed) for stage in sound for seed in seeds]
    solved = await played(sound, keys, Oracle([stage.scenario for stage in sound]), backend)
    for stage in sound:
        for seed in seeds:
            faults[stage.scenario.name] += solution_faults(stage, solved[_key(stage, seed)])
    for name, fault in await _of_players(sound, backend):
        faults[name].append(fault)
    return [
        replace(
            proof,
            tried=checked[proof.scenario].worlds,
            answers=checked[proof.scenario].answers,
            faults=(*proof.faults, *faults[proof.scenario]),
        )
        for proof in proofs
    ]


async def prove(stages: Sequence[Stage], backend: SandboxBackend) -> list[Proof]:
    """Play every scenario as it should go, with slips, not at all, and with a claim alone.

    The solution is played in the task instance of each variant, and in the first one under every
    arm. The slips are played in one more. The players without a call come last, in an instance in
    which the solution was played. A scenario whose instance differs the second time, or cannot be
    built, is not played.
    """
    broken = {stage.scenario.name: _unsteady(stage) for stage in stages}
    steady = await _prove([stage for stage in stages if not broken[stage.scenario.name]], backend)
    proofs = {proof.scenario: proof for proof in steady}
    unsteady = {name: Proof(name, 0, 0, (), (fault,)) for name, fault in broken.items() if fault}
    return [(proofs | unsteady)[stage.scenario.name] for stage in stages]


def _unsteady(stage: Stage) -> str:
    return remade_fault(stage, 0) or remade_fault(stage, _slipping(stage))


async def _prove(stages: Sequence[Stage], backend: SandboxBackend) -> list[Proof]:
    scenarios = [stage.scenario for stage in stages]
    slips = {stage.scenario.name: slips_of(stage, _slipping(stage)) for stage in stages}
    written = {name: [one for _, one in made_slips if one] for name, made_slips in slips.items()}
    variants = [_key(stage, seed) for stage in stages for seed in _seeds(stage)]
    another = [_key(stage, _slipping(stage)) for stage in stages]
    first = [_key(stage, 0) for stage in stages]
    solved = await played(stages, variants, Oracle(scenarios), backend)
    slipped = await played(stages, another, Oracle(scenarios, written), backend)
    elsewhere = {
        name: await played(stages, first, Oracle(scenarios), backend, Setting(arm))
        for name, arm in arms().items()
        if arm is not STRICT
    }
    idle = [await played(stages, first, Talker(text), backend) for text in ("", CLAIM)]
    proofs = []
    for stage in stages:
        trials = [solved[_key(stage, seed)] for seed in _seeds(stage)]
        made_slips = slips[stage.scenario.name]
        faults = [fault for trial in trials for fault in solution_faults(stage, trial)]
        faults += judged_faults(stage, _seeds(stage))
        for name, other in elsewhere.items():
            arm_faults = solution_faults(stage, other[_key(stage, 0)])
            faults += [
                f"under the arm {name}: {fault}" for fault in arm_faults if fault not in faults
            ]
        faults += slip_faults(made_slips, slipped[_key(stage, _slipping(stage))])
        faults += [fault for trials in idle for fault in idle_faults(trials[_key(stage, 0)])]
        faults += [fault async for fault in kept_faults(stage, backend)]
        faults += [fault async for fault in cheat_faults(stage, backend)]
        proofs.append(_proof(stage, trials, made_slips, faults))
    return proofs


async def _of_players(
    stages: Sequence[Stage], backend: SandboxBackend
) -> Sequence[tuple[str, str]]:
    """Return the faults of scenarios that stop an honest player or let an adversary succeed."""
    by_name = {stage.scenario.name: stage for stage in stages}
    faults = []
    for how, player in {**many_worlds.HONEST, **many_worlds.ADVERSARIES}.items():
        plans = many_worlds.plans(stages, player)
        wide = [many_worlds.roomy(one, plans.get(one.scenario.name, ())) for one in stages]
        keys, model = many_worlds.acting(stages, plans)
        for key, trial in (await played(wide, keys, model, backend)).items():
            if how in many_worlds.HONEST:
                fault = many_worlds.honest_fault(how, trial)
            else:
                fault = many_worlds.adversary_fault(how, trial, by_name[key.scenario])
            faults += [(key.scenario, fault)] if fault else []
    return faults


async def played(  # noqa: PLR0913 -- as an orchestrator is made
    stages: Sequence[Stage],
    keys: Sequence[TrialKey],
    model: Model,
    backend: SandboxBackend,
    setting: Setting = DEFAULT,
    *,
    recorder: Kept | None = None,
) -> Mapping[TrialKey, Trial]:
    """Play the trials of these keys with `model`, and store them nowhere."""
    recorder = recorder or Kept()
    async with SecondReader() as second_reader:
        orchestrator = Orchestrator(
            model=model,
            backend=backend,
            judge=judging,
            second_reader=second_reader,
            recorder=recorder,
            observer=recorder,
            concurrency=CONCURRENCY,
            setting=setting,
        )
        await orchestrator.play([under(setting.arm, stage) for stage in stages], keys)
    return recorder.trials


def _proof(stage: Stage, trials: Sequence[Trial], slips: Slips, faults: Sequence[str]) -> Proof:
    return Proof(
        scenario=stage.scenario.name,
        worlds=len(trials),
        calls=len(trials[0].calls) + sum(len(part.calls) for part in trials[0].agents),
        slips=tuple(failure_class for failure_class, _ in slips),
        faults=tuple(faults),
    )


def _key(stage: Stage, seed: int) -> TrialKey:
    return TrialKey(stage.scenario.name, seed + 1, seed)


def _seeds(stage: Stage) -> range:
    """One for each variant."""
    return range(len(stage.scenario.variants))


def _slipping(stage: Stage) -> int:
    """Return the seed of the task instance for slips: the second one of the first variant."""
    return len(stage.scenario.variants)
