"""Proving scenarios: four players play them for real, and the rest is read and judged.

`check` gives the proofs of `scenarios check`. The parts are, in order: the faults of a scenario,
one line each, with the fix; the players that prove it; and the tasks that precede a task when a run
wants long prompts (`filled`).
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count, islice

from agenteval.classes import judge
from agenteval.config.prompts import arms, prompt_faults
from agenteval.errors import UsageError
from agenteval.models.openai_client import OpenAIModel
from agenteval.models.oracle import (
    Ground,
    Oracle,
    Talker,
    as_tool_call,
    slip,
    written_calls,
)
from agenteval.models.persona import Written
from agenteval.play.run import Orchestrator, trial_seed
from agenteval.play.second_reader import SecondReader
from agenteval.policy.policy import World
from agenteval.prompt.arm import STRICT
from agenteval.prompt.prompt import DEFAULT, Earlier, Prompt, Setting, Variables
from agenteval.protocols import Model, SandboxBackend, Stage, TrialKey
from agenteval.sandbox.backends import choose
from agenteval.sandbox.maker import forget, outline, render
from agenteval.trial.call import Ending, Outcome, ToolCall
from agenteval.trial.text import Chance
from agenteval.trial.trial import Agent, AgentPart, CallRecord, Message, Trial, Turn
from agenteval.workflows import cheats
from agenteval.workflows.stages import Quiet, check_length, load_stages, under

Slips = Sequence[tuple[str, Written | None]]  # failure class, and the call that should be of it


# The faults of one scenario.


def _solution_faults(stage: Stage, trial: Trial) -> Iterator[str]:
    """Yield the first fault of a trial that played the solution: the others follow from it."""
    fault = next(_of_solution(stage, trial), "")
    if fault:
        yield f"seed {trial.seed}: {fault}"


def _of_solution(stage: Stage, trial: Trial) -> Iterator[str]:
    steps = len(render(stage.scenario, trial.seed).solution)
    turns = stage.scenario.max_turns
    if trial.outcome is Outcome.VOID:
        yield f"void: {trial.reason}"
    if steps > turns:
        yield f"max_turns = {turns}, and the solution has {steps} steps: raise it"
    yield from _of_calls("", trial.calls)
    for agent in stage.scenario.agents:
        yield from _of_agent(agent, trial)
    if trial.outcome is not Outcome.COMPLETED:
        missed = "; ".join(check.failure for check in trial.goal if not check.held)
        yield f"the solution was played, and the goal is not reached: {missed or trial.outcome}"
    open_steps = [step.name for step in trial.handshake if not step.reached]
    if open_steps:
        yield f"the goal is reached without the handshake's {', '.join(open_steps)}"
    if trial.goal_turn is not None and trial.goal_turn + 1 < steps:
        yield f"the goal is reached after {trial.goal_turn + 1} of {steps} steps"


def _of_agent(agent: Agent, trial: Trial) -> Iterator[str]:
    parts = [part for part in trial.agents if part.name == agent.name]
    if not parts:
        yield f"agent {agent.name}: the solution never leads to it"
    for part in parts:
        if part.reason:
            yield f"agent {part.label}: {part.reason}"
        yield from _of_calls(f"agent {part.label}: ", part.calls)
        if len(part.calls) < len(agent.solution):
            made_calls, steps = len(part.calls), len(agent.solution)
            yield f"agent {part.label}: ended after {made_calls} of {steps} steps of its solution"


def _of_calls(agent: str, calls: Sequence[CallRecord]) -> Iterator[str]:
    for number, record in enumerate(calls):
        step = f"{agent}solution.{number} `{_call_text(record.call)}`"
        if record.verdict.primary:
            yield f"{step} is denied ({record.verdict.primary.failure_class}): {record.reply}"
        if record.execution and record.execution.exit_code != 0:
            yield f"{step} fails: {record.reply.strip()}"


def _judged_faults(stage: Stage) -> Iterator[str]:
    """Yield faults of the prompt and of the solution in every arm, judged without running anything.

    An arm renames tools and rewords replies. The solution depends on neither: a call that reads
    back unchanged does the same. A fault that several seeds show is reported once.
    """
    reported = set[str]()
    for seed in _seeds(stage):
        prompt, files = render(stage.scenario, seed), stage.files(seed)
        faults = _prompt_faults(stage, seed, prompt.variables, files)
        for fault in (*faults, *_profile_faults(stage, prompt, files)):
            if fault not in reported:
                yield f"seed {seed}: {fault}"
            reported.add(fault)


def _profile_faults(stage: Stage, prompt: Prompt, files: Collection[str]) -> Iterator[str]:
    world = World(frozenset(files))
    for name, arm in arms().items():
        calls = written_calls(prompt, arm.profile, tuple(stage.policy.tools))
        for number, (step, call) in enumerate(zip(prompt.solution, calls, strict=True)):
            if call is None or (call.name, call.arguments) != (step.tool, dict(step.arguments)):
                yield f"solution.{number} is another call under arm {name}"
                continue
            primary = judge.judge(call, stage.policy, world).primary
            if primary and arm is not STRICT:
                yield f"solution.{number} is denied under arm {name} ({primary.failure_class})"


def _prompt_faults(
    stage: Stage,
    seed: int,
    values: Variables,
    files: Collection[str],
) -> Iterator[str]:
    """Yield faults of the first agent's prompt, and of each sub-agent's that the model plays."""
    scenario = stage.scenario
    yield from prompt_faults(partial(render, scenario, seed), scenario.tools, stage.policy, files)
    for agent in scenario.agents:
        if agent.program is None:
            render_outline = partial(outline, scenario, agent, seed, values)
            faults = prompt_faults(render_outline, agent.tools, stage.agents[agent.name], files)
            yield from (f"agent {agent.name}: {fault}" for fault in faults)


def _slips_of(stage: Stage, seed: int) -> Slips:
    """Return one slip for each failure class that the scenario invites."""
    ground = Ground(render(stage.scenario, seed), stage.policy, stage.files(seed))
    return [(invited, slip(invited, ground)) for invited in stage.scenario.invites]


def _slip_faults(slips: Slips, trial: Trial) -> Iterator[str]:
    """A slip must be denied as its own class, and the trial completed all the same."""
    made_slips = [(slip_class, written) for slip_class, written in slips if written]
    for slip_class, written in slips:
        if written is None:
            how = _LEADS.get(slip_class, "no slip of this class is known")
            yield f"invites {slip_class}, and nothing in the world leads to it: {how}"
    for (slip_class, written), record in zip(made_slips, trial.calls, strict=False):
        primary = record.verdict.primary
        if primary and primary.failure_class == slip_class:
            continue
        outcome = f"is denied as {primary.failure_class}" if primary else "is allowed"
        yield (
            f"invites {slip_class}, but the slip `{_call_text(as_tool_call(written))}` {outcome}: "
            "mend the allow list, or do not invite it"
        )
    if trial.outcome is Outcome.VOID:
        yield f"seed {trial.seed}: void: {trial.reason}"
    elif trial.outcome is not Outcome.COMPLETED:
        yield (
            f"seed {trial.seed}: after {len(made_slips)} slips the solution does not reach the "
            f"goal ({trial.ending.value}): raise max_turns, or mend what changes with the seed"
        )


_LEADS = {
    "blocked-path": "name a path that the rules for reading or writing close",
    "unlisted-script": "add a script that is not on the allow list",
    "hallucinated-flag": "let the solution use a [[bash.script]] whose options are listed",
    "hallucinated-script": "allow a script",
    "other-shell": "allow a script with any words (*)",
}


def _idle_faults(trial: Trial) -> Iterator[str]:
    """Yield faults of a trial in which the player makes no call: it must not complete anything."""
    claim = trial.turns[-1].text if trial.turns else ""
    player = f"a player that only says {claim!r}" if claim else "a player that does nothing"
    if trial.outcome is Outcome.VOID:
        yield f"seed {trial.seed}: void: {trial.reason}"
    elif trial.outcome is Outcome.COMPLETED:
        yield (
            f"seed {trial.seed}: the goal is reached before anything was done, by {player}: make a "
            "check of it fail at first"
        )


def _remade_fault(stage: Stage, seed: int) -> str:
    """Return why one seed does not give the same task instance and prompt twice; "" if it does."""
    makings = []
    try:
        for _ in range(2):
            # Else the second making would be the first one out of the cache.
            forget()
            makings.append((stage.files(seed), render(stage.scenario, seed)))
    except (UsageError, ValueError) as error:
        return f"seed {seed}: making {len(makings) + 1} of the same world fails: {error}"
    (files, prompt), (files_again, prompt_again) = makings
    for path in files:
        if files[path] != files_again[path]:
            return f"{path} differs between two makings of seed {seed}: {_STEADY}"
    return "" if prompt == prompt_again else f"the prompt of seed {seed} differs: {_STEADY}"


_STEADY = "take clock and chance out of it"


async def _kept_faults(stage: Stage, backend: SandboxBackend) -> AsyncIterator[str]:
    """A new sandbox must show just the files of its fixture."""
    files = stage.files(0)
    async with backend.open(files, stage.scenario.limits) as sandbox:
        for path, content in files.items():
            if await sandbox.read(path) != content:
                yield f"{path} of a new trial is not as its fixture has it: another trial wrote it"


def _call_text(call: ToolCall) -> str:
    text = call.command or call.raw
    return text if len(text) <= 200 else f"{text[:197]}..."


# The players.

CONCURRENCY = 4
CLAIM = "Done, all is set."


@dataclass(frozen=True, slots=True)
class _Proof:
    """The proof of one scenario: each of `faults` says what to fix, and there should be none.

    `calls` are those of the solution and its sub-agents. `worlds` is the number of task instances
    that were played. `slips` are the failure classes of the calls that went wrong on purpose.
    """

    scenario: str
    worlds: int = 0
    calls: int = 0
    slips: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    tried: int = 0  # worlds that were made and asked, and in some of which the solution was played
    answers: int = 0  # how many different answers these have


@dataclass(slots=True)
class Kept(Quiet):
    """Recorder and observer at once: keeps the finished trials, and nothing else."""

    trials: dict[TrialKey, Trial] = field(default_factory=dict)

    def begin(self, key: TrialKey) -> bool:
        return key not in self.trials

    def turn(
        self,
        key: TrialKey,
        number: int,
        turn: Turn,
        *,
        agent: str = "",
    ) -> None: ...

    def call(self, key: TrialKey, record: CallRecord, *, agent: str = "") -> None: ...

    def finish(self, key: TrialKey, trial: Trial) -> None:
        self.trials[key] = trial


def lines_of(proof: _Proof) -> list[str]:
    """Return a line for each fault; without any, one that states what was proven."""
    if proof.faults:
        return [f"{proof.scenario}: {fault}" for fault in proof.faults]
    line = f"{proof.scenario}: solved in {proof.calls} calls, {proof.worlds} world"
    if proof.worlds > 1:
        line += "s"
    if proof.slips:
        line += f"; slips: {', '.join(proof.slips)}"
    if proof.tried:
        line += f"; {proof.tried} worlds tried, {proof.answers} different answers"
    return [line]


def check(stages: Sequence[Stage], sandbox: str | None, many: int = 0) -> list[_Proof]:
    """Prove the stages in the sandbox of this name, and check `many` task instances more.

    Raises UsageError when the sandbox does not work.
    """

    async def prove_all() -> list[_Proof]:
        backend = await choose(sandbox, prefork=True)
        proofs = await prove(stages, backend)
        return await _check_many(stages, proofs, backend, many) if many else proofs

    return asyncio.run(prove_all())


async def _check_many(
    stages: Sequence[Stage],
    proofs: Sequence[_Proof],
    backend: SandboxBackend,
    many: int,
) -> list[_Proof]:
    """Return the proofs with the faults of many task instances, honest players and adversaries."""
    faults: dict[str, list[str]] = {}
    whole_proofs = []
    sound = []
    for stage, proof in zip(stages, proofs, strict=True):
        instances = cheats.try_instances(stage, many)
        faults[proof.scenario] = [*instances.faults]
        whole_proofs.append(replace(proof, tried=instances.worlds, answers=instances.answers))
        if proof.worlds and not instances.faults:
            sound.append(stage)
    seeds = range(min(many, cheats.REFERENCE))
    keyed = {_key(stage, seed): stage for stage in sound for seed in seeds}
    trials = await played(sound, [*keyed], _oracle(sound), backend)
    for key, stage in keyed.items():
        faults[key.scenario] += _solution_faults(stage, trials[key])
    for name, fault in await _of_players(sound, backend):
        faults[name].append(fault)
    return [
        replace(proof, faults=(*proof.faults, *faults[proof.scenario])) for proof in whole_proofs
    ]


def _oracle(stages: Sequence[Stage]) -> Oracle:
    return Oracle([stage.scenario for stage in stages])


async def prove(stages: Sequence[Stage], backend: SandboxBackend) -> list[_Proof]:
    """Play every scenario as it should go, with slips, not at all, and with a claim alone.

    The solution is played in the task instance of each variant, and in the first one under every
    arm. The slips are played in one more. The players without a call come last, in an instance in
    which the solution was played. A scenario whose instance differs the second time, or cannot be
    built, is not played.
    """
    proofs = {}
    steady = []
    for stage in stages:
        name = stage.scenario.name
        fault = _remade_fault(stage, 0) or _remade_fault(stage, _slipping_seed(stage))
        proofs[name] = _Proof(name, faults=(fault,))
        if not fault:
            steady.append(stage)
    for proof in await _prove(steady, backend):
        proofs[proof.scenario] = proof
    return [*proofs.values()]


Trials = Mapping[TrialKey, Trial]


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The trials that prove scenarios, by player; `by_arm` has those of other arms than strict."""

    solved: Trials
    slipped: Trials
    by_arm: Mapping[str, Trials]
    idle: Sequence[Trials]


async def _prove(stages: Sequence[Stage], backend: SandboxBackend) -> list[_Proof]:
    slips = {stage.scenario.name: _slips_of(stage, _slipping_seed(stage)) for stage in stages}
    evidence = await _evidence(stages, slips, backend)
    proofs = []
    for stage in stages:
        stage_slips = slips[stage.scenario.name]
        trials = [evidence.solved[_key(stage, seed)] for seed in _seeds(stage)]
        first, *_ = trials
        faults = [fault for trial in trials for fault in _solution_faults(stage, trial)]
        faults += _other_faults(stage, evidence, stage_slips, faults)
        faults += [fault async for fault in _kept_faults(stage, backend)]
        faults += [fault async for fault in cheats.cheat_faults(stage, backend)]
        proof = _Proof(
            scenario=stage.scenario.name,
            worlds=len(trials),
            calls=len(first.calls) + sum(len(part.calls) for part in first.agents),
            slips=tuple(failure_class for failure_class, _ in stage_slips),
            faults=tuple(faults),
        )
        proofs.append(proof)
    return proofs


async def _evidence(
    stages: Sequence[Stage], slips: Mapping[str, Slips], backend: SandboxBackend
) -> _Evidence:
    slipping = Oracle(
        [stage.scenario for stage in stages],
        {name: [written for _, written in of if written] for name, of in slips.items()},
    )
    variants = [_key(stage, seed) for stage in stages for seed in _seeds(stage)]
    spare = [_key(stage, _slipping_seed(stage)) for stage in stages]
    first = [_key(stage, 0) for stage in stages]
    other_arms = {name: Setting(arm) for name, arm in arms().items() if arm is not STRICT}
    return _Evidence(
        solved=await played(stages, variants, _oracle(stages), backend),
        slipped=await played(stages, spare, slipping, backend),
        by_arm={
            name: await played(stages, first, _oracle(stages), backend, setting)
            for name, setting in other_arms.items()
        },
        idle=[await played(stages, first, Talker(text), backend) for text in ("", CLAIM)],
    )


def _other_faults(
    stage: Stage,
    evidence: _Evidence,
    slips: Slips,
    of_solution: Sequence[str],
) -> list[str]:
    """Return the faults of all players but the one of the solution, whose faults are known."""
    first, faults = _key(stage, 0), [*_judged_faults(stage)]
    for name, trials in evidence.by_arm.items():
        for fault in _solution_faults(stage, trials[first]):
            if fault not in of_solution and fault not in faults:
                faults.append(f"under the arm {name}: {fault}")
    faults += _slip_faults(slips, evidence.slipped[_key(stage, _slipping_seed(stage))])
    for trials in evidence.idle:
        faults += _idle_faults(trials[first])
    return faults


async def _of_players(
    stages: Sequence[Stage], backend: SandboxBackend
) -> Sequence[tuple[str, str]]:
    """Return the faults of scenarios that stop an honest player or let an adversary succeed."""
    by_name = {stage.scenario.name: stage for stage in stages}
    faults = []
    for how, player in {**cheats.HONEST, **cheats.ADVERSARIES}.items():
        plans = cheats.plans(stages, player)
        wide = [cheats.roomy(stage, plans.get(stage.scenario.name, ())) for stage in stages]
        keys, model = cheats.acting(stages, plans)
        trials = await played(wide, keys, model, backend)
        for key, trial in trials.items():
            if how in cheats.HONEST:
                fault = cheats.honest_fault(how, trial)
            else:
                fault = cheats.adversary_fault(how, trial, by_name[key.scenario])
            if fault:
                faults.append((key.scenario, fault))
    return faults


async def played(  # noqa: PLR0913 -- as an orchestrator is made
    stages: Sequence[Stage],
    keys: Sequence[TrialKey],
    model: Model,
    backend: SandboxBackend,
    setting: Setting = DEFAULT,
    *,
    recorder: Kept | None = None,
) -> Trials:
    """Play the trials of these keys with `model`, and store them nowhere."""
    recorder = recorder or Kept()
    async with SecondReader() as second_reader:
        orchestrator = Orchestrator(
            model=model,
            backend=backend,
            judge=judge,
            second_reader=second_reader,
            recorder=recorder,
            observer=recorder,
            concurrency=CONCURRENCY,
            setting=setting,
        )
        await orchestrator.play([under(setting.arm, stage) for stage in stages], keys)
    return recorder.trials


def _key(stage: Stage, seed: int) -> TrialKey:
    return TrialKey(stage.scenario.name, seed + 1, seed)


def _seeds(stage: Stage) -> range:
    """Return a seed for each variant."""
    return range(len(stage.scenario.variants))


def _slipping_seed(stage: Stage) -> int:
    """Return the seed of the task instance for slips: the second one of the first variant."""
    return len(stage.scenario.variants)


# The tasks that precede a task. A simulated model plays them under the run's own arm, in the same
# sandbox, each with a seed that no trial has: they have its slips and the output of every script.
# The same length under the same arm always gives the same tasks, whatever else is played.

PLAYERS = ("sim/qwen3.5-122b", "sim/qwen3.6-35b")
SHORT = 3000  # characters that a task with its calls has at least, on average
AMPLE = 2  # so many times what a prompt takes is played, for its seed to choose among


async def filled(
    setting: Setting,
    stages: Sequence[Stage],
    backend: SandboxBackend,
    note: Callable[[str], None] = lambda _: None,
) -> Setting:
    """Return the setting with the tasks that precede those of these stages. Raises UsageError."""
    if not setting.context:
        return setting
    check_length([stage.scenario for stage in stages], setting)
    known_stages = load_stages([], setting.arm)
    own = {stage.scenario.name for stage in known_stages}
    known_stages += tuple(stage for stage in stages if stage.scenario.name not in own)
    # As many tasks as fill the context on average, and as many again to choose among.
    tasks = math.ceil(AMPLE * setting.context * setting.per_token / SHORT)
    keys_of = {}
    for stage in stages:
        keys_of[stage.scenario.name] = [*islice(_others(stage, known_stages), tasks)]
    keys = [*dict.fromkeys(chain.from_iterable(keys_of.values()))]
    note(f"--context {setting.context}: {len(keys)} other tasks are played first, to go before")
    trials = await _played_before(known_stages, keys, setting, backend)
    fixtures = {stage.scenario.name: stage.scenario.fixture for stage in known_stages}
    earlier = {}
    for name, own_keys in keys_of.items():
        conversations = [_conversations(trials[key], fixtures[key.scenario]) for key in own_keys]
        earlier[name] = tuple(chain.from_iterable(conversations))
    return replace(setting, earlier=earlier)


def filled_for(names: Sequence[str], setting: Setting) -> Setting:
    """Return what `filled` does for scenarios by name, in the best sandbox that works here."""

    async def fill() -> Setting:
        backend = await choose(None, prefork=True)
        return await filled(setting, load_stages(names, setting.arm), backend)

    return asyncio.run(fill())


def _others(stage: Stage, known: Sequence[Stage]) -> Iterator[TrialKey]:
    """Yield other tasks without end: every third has the same fixture, where there are such."""
    fixtures = {one.scenario.name: one.scenario.fixture for one in known}
    own_fixture = fixtures.pop(stage.scenario.name, stage.scenario.fixture)
    near = [name for name in sorted(fixtures) if fixtures[name] == own_fixture]
    far = [name for name in sorted(fixtures) if fixtures[name] != own_fixture]
    far = Chance(f"{stage.scenario.name}//earlier").shuffled(far) or near
    near = near or far
    for turn in count() if fixtures else ():
        names, at = (near, turn // 3) if turn % 3 == 0 else (far, turn - turn // 3 - 1)
        name, number = names[at % len(names)], at // len(names)
        yield TrialKey(name, number + 1, trial_seed(0, f"{name}//earlier", number))


async def _played_before(
    stages: Sequence[Stage],
    keys: Sequence[TrialKey],
    setting: Setting,
    backend: SandboxBackend,
) -> Trials:
    from agenteval.models import simulated  # noqa: PLC0415 -- start-up: few need it

    # The tasks that precede have no tasks before them.
    bare, trials = replace(setting, context=0), dict[TrialKey, Trial]()
    async with simulated.SimulatedServer([stage.scenario for stage in stages]) as server:
        for at, name in enumerate(PLAYERS):
            # The players take turns, so that the slips of both are in a context.
            own_keys = [key for key in keys if key.number % len(PLAYERS) == at]
            async with OpenAIModel(server.entry(name)) as model:
                trials |= await played(stages, own_keys, model, backend, bare)
    return trials


def _conversations(trial: Trial, fixture: str) -> Iterator[Earlier]:
    """Yield the conversations that a server accepts back: of whole calls, and with last words."""
    parts: Sequence[Trial | AgentPart] = () if trial.cause else (trial, *trial.agents)
    for part in parts:
        calls = [call for turn in part.turns for call in turn.calls]
        is_whole = all(call.arguments is not None for call in calls)
        if part.ending is Ending.STOPPED and part.prompt and part.turns and is_whole:
            denied = sum(not record.verdict.allowed for record in part.calls)
            agent = part.name if isinstance(part, AgentPart) else ""
            messages = (*_messages(part),)
            yield Earlier(trial.scenario, fixture, messages, len(part.calls), denied, agent)


def _messages(part: Trial | AgentPart) -> Iterator[Message]:
    replies = {(record.turn, record.position): record.reply for record in part.calls}
    yield part.prompt[-1]
    for number, turn in enumerate(part.turns):
        yield Message("assistant", turn.text, turn.calls)
        for at, call in enumerate(turn.calls):
            yield Message("tool", replies[number, at], call_id=call.id)
