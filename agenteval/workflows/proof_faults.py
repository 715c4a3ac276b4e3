"""The faults of a scenario, one line each, with the fix."""

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from functools import partial

from agenteval.config.arms import arms
from agenteval.config.prompt_check import prompt_faults
from agenteval.core.call import ToolCall
from agenteval.core.outcome import Outcome
from agenteval.core.policy.policy import World
from agenteval.core.prompt.arm import STRICT
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.prompt.variant import Variables
from agenteval.core.scenario import Agent
from agenteval.core.trial import CallRecord, Trial
from agenteval.errors import UsageError
from agenteval.models.invited import Ground, slip
from agenteval.models.oracle import as_tool_call, written_calls
from agenteval.models.slips import Written
from agenteval.protocols import SandboxBackend, Stage
from agenteval.sandbox.maker import forget, outline, render
from agenteval.taxonomy.judge import judge

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
            verdict = judge(call, stage.policy, World(frozenset(files))) if call else None
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
