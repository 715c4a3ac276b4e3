"""Runs in which a real harness is the agent: its program, its sandbox and its rules."""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from agenteval.classes import judge
from agenteval.config.files import DEFAULT_ARM
from agenteval.config.prompts import judging
from agenteval.errors import UsageError
from agenteval.harness.install import Installed, install, installed
from agenteval.harness.play import HarnessLoop, Hosting, Played
from agenteval.harness.recipes import arm_of, programs, shows_open_files
from agenteval.policy.policy import UNKNOWN_WORLD, Policy
from agenteval.prompt.arm import STRICT
from agenteval.prompt.prompt import Prompt
from agenteval.protocols import Host, Relay, SandboxBackend, Stage
from agenteval.sandbox.backends import Bubblewrap
from agenteval.trial.call import ToolCall
from agenteval.trial.run import Options
from agenteval.trial.trial import CallRecord
from agenteval.workflows.stages import Plan, load_stages, own_rules, rules_for
from agenteval.workflows.views import loaded

if TYPE_CHECKING:
    from agenteval.play.run import Orchestrator
    from agenteval.play.trial import ToolExecutor, TrialRunner
EXAMPLES = 3  # of each way to differ
_HERE = "a harness plays in bubblewrap only: leave it away"


class Read(NamedTuple):
    """An allow list as a harness reads it; `own_policy` is the list, if it asks us too."""

    harness_policy: Policy
    own_policy: Policy | None


@dataclass(slots=True)
class Harness:
    """A program that plays the trials of a run; `played` are those that have begun."""

    installed: Installed
    own: str = ""  # rules of the user's, in the program's own format
    stages: tuple[Stage, ...] = ()
    played: list[Played] = field(default_factory=list)
    starts: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(max(1, os.cpu_count() or 1))
    )

    def expected(self, trials: int) -> str:
        """Return the line that states the CPU time that the starts alone will take."""
        program, cores = self.installed.program, os.cpu_count() or 1
        least = trials * program.first / cores
        remark = f"; it {program.remark}" if program.remark else ""
        return (
            f"{self.installed.label} plays: about {program.first:g} s of CPU a trial, so at least "
            f"{least:.0f} s for {trials} trials on {cores} cores{remark}"
        )

    def playing(self, orchestrator: "Orchestrator", relay: Relay) -> "Orchestrator":
        """Return the orchestrator with sandboxes in which the program plays. Raises UsageError."""
        hosting = self.hosting(orchestrator.backend)
        return replace(
            orchestrator,
            backend=hosting,
            make_loop=partial(self.loop, hosting, relay),
        )

    def hosting(self, backend: SandboxBackend) -> Hosting:
        """Raises UsageError for a backend whose worlds can have no guest."""
        if not isinstance(backend, Bubblewrap):
            raise UsageError(f"--sandbox {backend.name}: {_HERE}")
        host: Host = backend
        return Hosting(host, self.installed)

    def loop(  # noqa: PLR0913, PLR0917 -- as the engine calls it
        self,
        hosting: Hosting,
        relay: Relay,
        trial: "TrialRunner",
        agent: str,
        prompt: Prompt,
        turns: int,
        executor: "ToolExecutor",
    ) -> HarnessLoop:
        self.played.append(played := Played(trial.scenario.name))
        return HarnessLoop(
            played=played,
            agent=agent,
            prompt=prompt,
            rules=self.own or rules_for(self.installed.program.dialect, executor.policy),
            tools=tuple(executor.policy.tools),
            allows=partial(allowed, executor.policy),
            seed=trial.key.seed,
            max_turns=turns,
            seconds=trial.scenario.limits.trial_seconds,
            installed=self.installed,
            sandbox=executor.sandbox,
            way=hosting.ways[id(executor.sandbox)],
            relay=relay,
            insist=trial.model.insist,
            judge=executor.decide,
            trial=trial,
            starts=self.starts,
        )

    def lines_after_run(self) -> Iterator[str]:
        """Yield the facts of a run that its tables do not show."""
        program = self.installed.program
        calls = [(call, one.scenario) for one in self.played for call in one.calls]
        yield from differences(program.name, calls, _readings_of(program.name, self.stages))
        cpu = sorted(one.cpu for one in self.played)
        if cpu:
            yield (
                f"{program.name}: {sum(cpu):.1f} s of CPU in {len(cpu)} trials, of which "
                f"{cpu[len(cpu) // 2]:.1f} s in the median one"
            )
        if refused := sum(one.refused for one in self.played):
            yield f"{program.name}: {refused} attempts of commands to ask the model were refused"


def _harness_of(options: Options) -> Harness:
    """The program that a run names. Raises UsageError for what does not go together with one."""
    program = installed(options.harness)
    if options.arm not in {DEFAULT_ARM, arm_of(options.harness)}:
        raise UsageError(f"--arm {options.arm}: {options.harness} is an arm itself: leave it away")
    if options.sandbox not in {None, Bubblewrap.name}:
        raise UsageError(f"--sandbox {options.sandbox}: {_HERE}")
    if options.context != "0":
        raise UsageError(
            f"--context {options.context}: a harness makes its own context: leave it away"
        )
    return Harness(program, own_rules(program.program.dialect, options.allowlist))


def joined(
    plan: Plan,
    stages: Sequence[Stage],
    note: Callable[[str], None],
) -> tuple[Harness, Plan, tuple[Stage, ...]]:
    """The program that plays, the plan that names it, and what it can play. Raises UsageError."""
    harness = _harness_of(plan.options)
    played, others = _playable(stages)
    if others:
        note(f"left out, for they start other agents: {', '.join(others)}")
    harness.stages = played
    note(harness.expected(len(played) * plan.options.trials))
    setting = replace(plan.setting, harness=harness.installed.protocol)
    return harness, replace(plan, setting=setting), played


def _playable(stages: Sequence[Stage]) -> tuple[tuple[Stage, ...], Sequence[str]]:
    """Return the stages of one agent, and the names of the other scenarios.

    A harness does not wait for sub-agents that we start. Raises UsageError if nothing is left.
    """
    alone = tuple(stage for stage in stages if not stage.scenario.agents)
    if not alone:
        raise UsageError("--harness: these scenarios start other agents; name one that does not")
    return alone, [stage.scenario.name for stage in stages if stage.scenario.agents]


def allowed(policy: Policy, call: ToolCall) -> bool:
    return judge.judge(call, policy).allowed


def listed() -> Iterator[str]:
    """A line for each harness that is known."""
    for program in programs().values():
        try:
            installation = installed(program.name)
        except UsageError:
            there = f"not installed ({program.megabytes} MB)"
        else:
            there = f"in {installation.folder}"
        yield f"{program.name} {program.version}  {there}"
        cost = f"{program.first:g} s of CPU a trial and {1000 * program.per_call:.0f} ms a call"
        yield f"    speaks {program.speaks}; {cost}"
        if program.remark:
            yield f"    {program.remark}"


def got(name: str) -> str:
    """The harness installed, and how to play with it. Raises UsageError."""
    found = install(name)
    return f"{found.label} is in {found.folder}\nNext: agenteval run --model NAME --harness {name}"


def verdicts(run: str, store: str) -> Iterator[str]:
    """Yield how the verdicts of a stored run's harness compare with our allow list's.

    Raises UsageError for a run without a harness.
    """
    for stored in loaded([run], store):
        named = stored.options.harness if stored.options else ""
        if not stored.options or not named:
            raise UsageError(f"{stored.id}: our own loop played it, so there is one verdict a call")
        calls = [(call, trial.scenario) for trial in stored.trials for call in trial.calls]
        stages = load_stages(
            sorted({scenario for _, scenario in calls}),
            STRICT,
            allowlist=stored.options.allowlist,
        )
        yield from differences(named, calls, _readings_of(named, stages))


def differences(
    name: str,
    calls: Sequence[tuple[CallRecord, str]],
    readings: Mapping[str, Read],
) -> Iterator[str]:
    """Yield how many verdicts differ, in which ways, with examples.

    Each call stands with its scenario, and `readings` has the allow list of each scenario as the
    harness reads it.
    """
    judged = [(call, scenario) for call, scenario in calls if call.harness]
    differing = [(call, scenario) for call, scenario in judged if differs(call)]
    agreeing = len(judged) - len(differing)
    yield f"{name}: {agreeing} of {len(judged)} calls judged as our allow list does"
    ways: dict[str, list[str]] = {}
    for call, scenario in differing:
        way = _way(call, readings.get(scenario))
        ways.setdefault(way, []).append(_call_text(call))
    for way, shown in ways.items():
        yield f"  {len(shown)} times {way}: {'; '.join(shown[:EXAMPLES])}"


def differs(call: CallRecord) -> bool:
    """Return True if a harness and our allow list gave a call different verdicts."""
    return bool(call.harness) and (call.harness == "ran") != call.verdict.allowed


def _way(call: CallRecord, read: Read | None) -> str:
    primary = call.verdict.primary
    ours = f"denies ({primary.failure_class})" if primary else "allows"
    way = f"{call.harness} what our list {ours}"
    if read is None or read.harness_policy.engine is None:
        return way
    if read.own_policy and shows_open_files(
        partial(allowed, read.own_policy),
        call.call.command or "",
        UNKNOWN_WORLD.root,
    ):
        return f"{way}, for it was told yes: the list lets these files be read"
    explained = allowed(read.harness_policy, call.call) == (call.harness == "ran")
    return f"{way}, {'as its own rules say' if explained else 'unlike our reading of its rules'}"


def _call_text(call: CallRecord) -> str:
    text = call.call.command or f"{call.call.name} {call.call.raw}"
    return f"`{text[:80]}`"


def _readings_of(name: str, stages: Iterable[Stage]) -> Mapping[str, Read]:
    """The allow list of each scenario as our engine of this harness's dialect reads it."""
    dialect = programs()[name].dialect
    # Only the harness whose own dialect it is judges by that dialect's engine.
    arm = replace(STRICT, engine=dialect if dialect == name else "")
    asked = programs()[name].asks
    return {
        stage.scenario.name: Read(judging(arm, stage.policy), stage.policy if asked else None)
        for stage in stages
    }
