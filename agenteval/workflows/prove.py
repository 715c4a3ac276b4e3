"""Proving scenarios: four players play them for real, and the rest is read and judged.

The faults of a scenario, one line each, with the fix.

The tasks that precede a task when a run wants long prompts: other tasks, really played.

A simulated model plays them under the run's own arm, in the same sandbox, each with a seed that no
trial has. They include its slips, the replies to them, and the output of every script. The same
length under the same arm always gives the same tasks, whatever else is played.
"""

import asyncio
import math
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from agenteval.classes import judge
from agenteval.classes.judge import judge as judge_of_judge
from agenteval.config.prompts import arms, prompt_faults
from agenteval.errors import UsageError
from agenteval.models.openai_client import OpenAIModel
from agenteval.models.oracle import Ground, Oracle, Talker, as_tool_call, slip, written_calls
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
from agenteval.workflows.cheats import cheat_faults
from agenteval.workflows.stages import check_length, load_stages, under

Slips = Sequence[tuple[str, Written | None]]  # failure class, and the call that should be of it


def solution_faults(stage: Stage, trial: Trial) -> Iterator[str]:
    """The first fault of a trial that played the solution: the others follow from it."""
    fault = next(_of_solution(stage, trial), "")
    if fault:
        yield f"seed {trial.seed}: {fault}"


def _of_solution(stage: Stage, trial: Trial) -> Iterator[str]:
    prompt = render(stage.scenario, trial.seed)
    if trial.outcome is Outcome.VOID:
        yield f"void: {trial.reason}"
    if (steps := len(prompt.solution)) > (turns := stage.scenario.max_turns):
        yield f"max_turns = {turns}, and the solution has {steps} steps: raise it"
    yield from _of_calls("", trial.calls)
    for agent in stage.scenario.agents:
        yield from _of_agent(agent, trial)
    open_steps = [step.name for step in trial.handshake if not step.reached]
    if trial.outcome is not Outcome.COMPLETED:
        missed = "; ".join(check.failure for check in trial.goal if not check.held)
        yield f"the solution was played, and the goal is not reached: {missed or trial.outcome}"
    if open_steps:
        yield f"the goal is reached without the handshake's {', '.join(open_steps)}"
    if trial.goal_turn is not None and trial.goal_turn + 1 < len(prompt.solution):
        yield f"the goal is reached after {trial.goal_turn + 1} of {len(prompt.solution)} steps"


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


def judged_faults(stage: Stage, seeds: Iterable[int]) -> Iterator[str]:
    """Yield faults of the prompt and of the solution in every arm, judged without running anything.

    An arm renames tools and rewords replies. The solution depends on neither: a call that reads
    back unchanged does the same. A fault that several seeds show is reported once.
    """
    reported = set[str]()
    for seed in seeds:
        prompt, files = render(stage.scenario, seed), stage.files(seed)
        faults = _prompt_faults(stage, seed, prompt.variables, files)
        for fault in (*faults, *_profile_faults(stage, prompt, files)):
            if fault not in reported:
                yield f"seed {seed}: {fault}"
            reported.add(fault)


def _profile_faults(stage: Stage, prompt: Prompt, files: Collection[str]) -> Iterator[str]:
    for name, arm in arms().items():
        calls = written_calls(prompt, arm.profile, tuple(stage.policy.tools))
        for number, (step, call) in enumerate(zip(prompt.solution, calls, strict=True)):
            verdict = judge_of_judge(call, stage.policy, World(frozenset(files))) if call else None
            if call is None or (call.name, call.arguments) != (step.tool, dict(step.arguments)):
                yield f"solution.{number} is another call under arm {name}"
            elif verdict and verdict.primary and arm is not STRICT:
                failure_class = verdict.primary.failure_class
                yield f"solution.{number} is denied under arm {name} ({failure_class})"


def _prompt_faults(
    stage: Stage, seed: int, values: Variables, files: Collection[str]
) -> Iterator[str]:
    """Yield faults of the first agent's prompt, and of each sub-agent's that the model plays."""
    scenario = stage.scenario
    yield from prompt_faults(partial(render, scenario, seed), scenario.tools, stage.policy, files)
    for agent in scenario.agents:
        if agent.program is None:
            render_outline = partial(outline, scenario, agent, seed, values)
            faults = prompt_faults(render_outline, agent.tools, stage.agents[agent.name], files)
            yield from (f"agent {agent.name}: {fault}" for fault in faults)


def slips_of(stage: Stage, seed: int) -> Slips:
    """One slip for each failure class that the scenario invites."""
    ground = Ground(render(stage.scenario, seed), stage.policy, stage.files(seed))
    return [(each, slip(each, ground)) for each in stage.scenario.invites]


def slip_faults(slips: Slips, trial: Trial) -> Iterator[str]:
    """A slip must be denied as its own class, and the trial completed all the same."""
    made_slips = [(slip_class, written) for slip_class, written in slips if written]
    for slip_class, written in slips:
        if written is None:
            how = _LEADS.get(slip_class, "no slip of this class is known")
            yield f"invites {slip_class}, and nothing in the world leads to it: {how}"
    for (slip_class, written), record in zip(made_slips, trial.calls, strict=False):
        primary = record.verdict.primary
        got = f"is denied as {primary.failure_class}" if primary else "is allowed"
        if not primary or primary.failure_class != slip_class:
            yield (
                f"invites {slip_class}, but the slip `{_call_text(as_tool_call(written))}` {got}: "
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


def idle_faults(trial: Trial) -> Iterator[str]:
    """Yield faults of a trial in which the player makes no call: it must not complete anything."""
    said = trial.turns[-1].text if trial.turns else ""
    who = f"a player that only says {said!r}" if said else "a player that does nothing"
    if trial.outcome is Outcome.VOID:
        yield f"seed {trial.seed}: void: {trial.reason}"
    elif trial.outcome is Outcome.COMPLETED:
        yield (
            f"seed {trial.seed}: the goal is reached before anything was done, by {who}: make a "
            "check of it fail at first"
        )


def remade_fault(stage: Stage, seed: int) -> str:
    """Return why one seed does not give the same task instance and prompt twice; "" if it does."""
    makings = []
    try:
        for _ in range(2):
            forget()
            makings.append((stage.files(seed), render(stage.scenario, seed)))
    except (UsageError, ValueError) as error:
        return f"seed {seed}: making {len(makings) + 1} of the same world fails: {error}"
    (files, prompt), (again, prompt_again) = makings
    for path in files:
        if files[path] != again[path]:
            return f"{path} differs between two makings of seed {seed}: {_STEADY}"
    return "" if prompt == prompt_again else f"the prompt of seed {seed} differs: {_STEADY}"


_STEADY = "take clock and chance out of it"


async def kept_faults(stage: Stage, backend: SandboxBackend) -> AsyncIterator[str]:
    """A new sandbox must show just the files of its fixture."""
    files = stage.files(0)
    async with backend.open(files, stage.scenario.limits) as sandbox:
        for path, content in files.items():
            if await sandbox.read(path) != content:
                yield f"{path} of a new trial is not as its fixture has it: another trial wrote it"


def _call_text(call: ToolCall) -> str:
    text = call.command or call.raw
    return text if len(text) <= 200 else f"{text[:197]}..."


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
    checked = {stage.scenario.name: cheats.tried(stage, many) for stage in stages}
    faults = {name: [*one.faults] for name, one in checked.items()}
    broken = {proof.scenario for proof in proofs if not proof.worlds}
    faulty = {name for name, one in faults.items() if one} | broken
    sound = [stage for stage in stages if stage.scenario.name not in faulty]
    seeds = range(min(many, cheats.REFERENCE))
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
    for how, player in {**cheats.HONEST, **cheats.ADVERSARIES}.items():
        plans = cheats.plans(stages, player)
        wide = [cheats.roomy(one, plans.get(one.scenario.name, ())) for one in stages]
        keys, model = cheats.acting(stages, plans)
        for key, trial in (await played(wide, keys, model, backend)).items():
            if how in cheats.HONEST:
                fault = cheats.honest_fault(how, trial)
            else:
                fault = cheats.adversary_fault(how, trial, by_name[key.scenario])
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
            judge=judge,
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
    count = math.ceil(AMPLE * setting.context * setting.per_token / SHORT)
    chosen = {one.scenario.name: [*islice(_others(one, known_stages), count)] for one in stages}
    keys = {key: None for one in chosen.values() for key in one}
    note(f"--context {setting.context}: {len(keys)} other tasks are played first, to go before")
    trials = await _played(known_stages, [*keys], setting, backend)
    fixtures = {stage.scenario.name: stage.scenario.fixture for stage in known_stages}
    conversations = {
        key: [*_conversations(trial, fixtures[key.scenario])] for key, trial in trials.items()
    }
    earlier = {
        name: tuple(e for key in one for e in conversations[key]) for name, one in chosen.items()
    }
    return replace(setting, earlier=earlier)


def filled_for(names: Sequence[str], setting: Setting) -> Setting:
    """Return what `filled` does for scenarios by name, in the best sandbox that works here."""

    async def there() -> Setting:
        return await filled(
            setting, load_stages(names, setting.arm), await choose(None, prefork=True)
        )

    return asyncio.run(there())


def _others(stage: Stage, known: Sequence[Stage]) -> Iterator[TrialKey]:
    """Other tasks without end: of every third the fixture is the same, where there are such."""
    others = [one.scenario for one in known if one.scenario.name != stage.scenario.name]
    others.sort(key=lambda one: one.name)
    near = [one.name for one in others if one.fixture == stage.scenario.fixture]
    far = [one.name for one in others if one.fixture != stage.scenario.fixture]
    far = Chance(f"{stage.scenario.name}//earlier").shuffled(far) or near
    near = near or far
    turn = 0
    while others:
        names, at = (near, turn // 3) if turn % 3 == 0 else (far, turn - turn // 3 - 1)
        name, number = names[at % len(names)], at // len(names)
        yield TrialKey(name, number + 1, trial_seed(0, f"{name}//earlier", number))
        turn += 1


async def _played(
    stages: Sequence[Stage], keys: Sequence[TrialKey], setting: Setting, backend: SandboxBackend
) -> Mapping[TrialKey, Trial]:
    bare, trials = replace(setting, context=0), dict[TrialKey, Trial]()
    async with AsyncExitStack() as stack:
        from agenteval.models import simulated  # noqa: PLC0415 -- start-up: few need it

        server = await stack.enter_async_context(
            simulated.SimulatedServer([one.scenario for one in stages])
        )
        for at, name in enumerate(PLAYERS):
            model = await stack.enter_async_context(OpenAIModel(server.entry(name)))
            mine = [key for key in keys if key.number % len(PLAYERS) == at]
            trials |= await played(stages, mine, model, backend, bare)
    return trials


def _conversations(trial: Trial, fixture: str) -> Iterator[Earlier]:
    """Yield the conversations that a server accepts back: of whole calls, and with last words."""
    first = AgentPart(
        "", 0, 0, 0, trial.ending, trial.turns, trial.calls, trial.reason, prompt=trial.prompt
    )
    for part in () if trial.cause else (first, *trial.agents):
        whole = all(call.arguments is not None for turn in part.turns for call in turn.calls)
        if part.ending is Ending.STOPPED and part.prompt and part.turns and whole:
            denied = sum(not record.verdict.allowed for record in part.calls)
            yield Earlier(
                trial.scenario, fixture, (*_messages(part),), len(part.calls), denied, part.name
            )


def _messages(part: AgentPart) -> Iterator[Message]:
    replies = {(record.turn, record.position): record.reply for record in part.calls}
    yield part.prompt[-1]
    for number, turn in enumerate(part.turns):
        yield Message("assistant", turn.text, turn.calls)
        for at, call in enumerate(turn.calls):
            yield Message("tool", replies[number, at], call_id=call.id)
