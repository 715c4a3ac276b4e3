"""Runs in which a real harness is the agent: which program, in which world, under whose rules."""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from agenteval.config.arms import judging
from agenteval.config.project_files import DEFAULT_ARM
from agenteval.core.call import ToolCall
from agenteval.core.policy.policy import UNKNOWN_WORLD, Policy
from agenteval.core.prompt.arm import STRICT
from agenteval.core.prompt.prompt import Prompt
from agenteval.core.run import Options
from agenteval.core.trial import CallRecord
from agenteval.errors import UsageError
from agenteval.harness.app_server import shows_open_files
from agenteval.harness.install import Installed, install, installed
from agenteval.harness.play import HarnessLoop, Played
from agenteval.harness.recipes import PROGRAMS, arm_of
from agenteval.harness.trial_socket import Hosting
from agenteval.protocols import Host, Relay, SandboxBackend, Stage
from agenteval.sandbox.backends import Bubblewrap
from agenteval.taxonomy import judge
from agenteval.workflows.armed import own_rules, rules_for
from agenteval.workflows.stages import Plan, load_stages
from agenteval.workflows.views import loaded

if TYPE_CHECKING:
    from agenteval.engine.orchestrator import Orchestrator
    from agenteval.engine.tool_executor import ToolExecutor
    from agenteval.engine.trial_runner import TrialRunner

EXAMPLES = 3  # of each way to differ
_HERE = "a harness plays in bubblewrap only: leave it away"


class Read(NamedTuple):
    """An allow list as a harness reads it; `asked` as it stands, for one that asks us too."""

    theirs: Policy
    asked: Policy | None


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
        """What the starts alone will take, before a run."""
        program, cores = self.installed.program, os.cpu_count() or 1
        least = trials * program.first / cores
        remark = f"; it {program.remark}" if program.remark else ""
        return (
            f"{self.installed.label} plays: about {program.first:g} s of CPU a trial, so at least "
            f"{least:.0f} s for {trials} trials on {cores} cores{remark}"
        )

    def playing(self, orchestrator: "Orchestrator", relay: Relay) -> "Orchestrator":
        """The same, in worlds with the program, which plays there. Raises UsageError."""
        hosting = self.hosting(orchestrator.backend)
        return replace(orchestrator, backend=hosting, guest=partial(self.loop, hosting, relay))

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
            judge=executor.judged,
            trial=trial,
            starts=self.starts,
        )

    def told(self) -> Iterator[str]:
        """What of a run its tables do not show."""
        program = self.installed.program
        made = [(call, one.scenario) for one in self.played for call in one.calls]
        theirs = as_it_judges(program.name, self.stages)
        yield from differences(program.name, [c for c, _ in made], theirs, [s for _, s in made])
        cpu = sorted(one.cpu for one in self.played)
        if cpu:
            yield (
                f"{program.name}: {sum(cpu):.1f} s of CPU in {len(cpu)} trials, of which "
                f"{cpu[len(cpu) // 2]:.1f} s in the median one"
            )
        if refused := sum(one.refused for one in self.played):
            yield f"{program.name}: {refused} attempts of commands to ask the model were refused"


def harness_of(options: Options) -> Harness:
    """The program that a run names. Raises UsageError for what does not go together with one."""
    found = installed(options.harness)
    if options.arm not in {DEFAULT_ARM, arm_of(options.harness)}:
        raise UsageError(f"--arm {options.arm}: {options.harness} is an arm itself: leave it away")
    if options.sandbox not in {None, Bubblewrap.name}:
        raise UsageError(f"--sandbox {options.sandbox}: {_HERE}")
    if options.context != "0":
        raise UsageError(
            f"--context {options.context}: a harness makes its own context: leave it away"
        )
    return Harness(found, own_rules(found.program.dialect, options.allowlist))


def joined(
    plan: Plan, stages: Sequence[Stage], note: Callable[[str], None]
) -> tuple[Harness, Plan, tuple[Stage, ...]]:
    """The program that plays, the plan that names it, and what it can play. Raises UsageError."""
    harness = harness_of(plan.options)
    played, others = playable(stages)
    if others:
        note(f"left out, for they start other agents: {', '.join(others)}")
    harness.stages = played
    note(harness.expected(len(played) * plan.options.trials))
    setting = replace(plan.setting, harness=harness.installed.protocol)
    return harness, replace(plan, setting=setting), played


def playable(stages: Sequence[Stage]) -> tuple[tuple[Stage, ...], Sequence[str]]:
    """Those of one agent, and the names of the others: a program waits for none that we start."""
    alone = tuple(stage for stage in stages if not stage.scenario.agents)
    if not alone:
        raise UsageError("--harness: these scenarios start other agents; name one that does not")
    return alone, [stage.scenario.name for stage in stages if stage.scenario.agents]


def allowed(policy: Policy, call: ToolCall) -> bool:
    return judge.judge(call, policy).allowed


def listed() -> Iterator[str]:
    """A line for each harness that is known."""
    for program in PROGRAMS.values():
        try:
            found = installed(program.name)
        except UsageError:
            there = f"not installed ({program.megabytes} MB)"
        else:
            there = f"in {found.folder}"
        yield f"{program.name} {program.version}  {there}"
        cost = f"{program.first:g} s of CPU a trial and {1000 * program.each:.0f} ms a call"
        yield f"    speaks {program.speaks}; {cost}"
        if program.remark:
            yield f"    {program.remark}"


def got(name: str) -> str:
    """The harness installed, and how to play with it. Raises UsageError."""
    found = install(name)
    return f"{found.label} is in {found.folder}\nNext: agenteval run --model NAME --harness {name}"


def verdicts(run: str, store: str) -> Iterator[str]:
    """What a stored run's harness said to its calls, beside our list. Raises UsageError."""
    for one in loaded([run], store):
        named = one.options.harness if one.options else ""
        if not one.options or not named:
            raise UsageError(f"{one.id}: our own loop played it, so there is one verdict a call")
        made = [(call, trial.scenario) for trial in one.trials for call in trial.calls]
        stages = load_stages(
            sorted({scenario for _, scenario in made}), STRICT, allowlist=one.options.allowlist
        )
        theirs = as_it_judges(named, stages)
        yield from differences(named, [c for c, _ in made], theirs, [s for _, s in made])


def differences(
    name: str, calls: Sequence[CallRecord], theirs: Mapping[str, Read], scenarios: Sequence[str]
) -> Iterator[str]:
    """How many verdicts differ, in which ways, with examples.

    `theirs` are the allow lists of the `scenarios`, each a call's, as the harness reads them.
    """
    judged = [(call, theirs.get(of)) for call, of in zip(calls, scenarios, strict=True)]
    judged = [(call, read) for call, read in judged if call.harness]
    found = [(call, read) for call, read in judged if differs(call)]
    alike = len(judged) - len(found)
    yield f"{name}: {alike} of {len(judged)} calls judged as our allow list does"
    ways: dict[str, list[str]] = {}
    for call, read in found:
        ways.setdefault(_way(call, read), []).append(_shown(call))
    for way, shown in ways.items():
        yield f"  {len(shown)} times {way}: {'; '.join(shown[:EXAMPLES])}"


def differs(call: CallRecord) -> bool:
    """Whether a harness and our allow list say different things of it."""
    return bool(call.harness) and (call.harness == "ran") != call.verdict.allowed


def _way(call: CallRecord, read: Read | None) -> str:
    primary = call.verdict.primary
    ours = f"denies ({primary.failure_class})" if primary else "allows"
    way = f"{call.harness} what our list {ours}"
    if read is None or read.theirs.engine is None:
        return way
    if read.asked and shows_open_files(
        partial(allowed, read.asked), call.call.command or "", UNKNOWN_WORLD.root
    ):
        return f"{way}, for it was told yes: the list lets these files be read"
    explained = allowed(read.theirs, call.call) == (call.harness == "ran")
    return f"{way}, {'as its own rules say' if explained else 'unlike our reading of its rules'}"


def _shown(call: CallRecord) -> str:
    text = call.call.command or f"{call.call.name} {call.call.raw}"
    return f"`{text[:80]}`"


def as_it_judges(name: str, stages: Iterable[Stage]) -> Mapping[str, Read]:
    """The allow list of each scenario as our engine of this harness's dialect reads it."""
    dialect = PROGRAMS[name].dialect
    arm = replace(STRICT, engine=dialect if dialect == name else "")
    asked = PROGRAMS[name].asks
    return {
        stage.scenario.name: Read(judging(arm, stage.policy), stage.policy if asked else None)
        for stage in stages
    }
