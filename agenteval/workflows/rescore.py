"""Stored runs judged again: by today's taxonomy, or under another allow list, without a model."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self

from agenteval.classes.catalogue import TAXONOMY_VERSION
from agenteval.classes.judge import deny, judge
from agenteval.config.allowlists import load_any
from agenteval.config.files import LISTS
from agenteval.config.trust import roots
from agenteval.errors import UsageError
from agenteval.play.tools import shown_part
from agenteval.policy.policy import UNKNOWN_WORLD, Policy, World, files_written
from agenteval.prompt.arm import STRICT, Arm
from agenteval.protocols import Stage
from agenteval.store.ingesting import Basis, Place, Rescored
from agenteval.store.location import Location
from agenteval.store.search import Spot
from agenteval.store.sql import SqlStore
from agenteval.trial.call import BASH, ToolCall, Verdict
from agenteval.trial.run import Run
from agenteval.trial.trial import AgentPart, CallRecord, Execution, Trial
from agenteval.workflows.stages import arm_played, judges, load_stages, policies_of


def rescore(
    run: str,
    store: str,
    *,
    allowlist: str | None = None,
    own: bool = False,
) -> Rescored:
    """Judge a run's stored calls again; both judgements are kept, and the new one is in force.

    They are judged by `allowlist`, in any format. With `own`, it is by today's version of the lists
    that the run was played under; else by the lists that judged it, which must be unchanged. Raises
    UsageError.
    """
    if own and allowlist:
        raise UsageError("--own and --allowlist: two allow lists; give one of them")
    Location(store).check_there()
    with closing(SqlStore(store)) as opened:
        stored_run, summaries = opened.summarized(run)
        scenarios = {trial.scenario for trial in summaries}
        judging = Judging.of(stored_run, scenarios, allowlist, own=own)
        basis = judging.basis(datetime.now(UTC).isoformat(timespec="seconds"))
        with opened.claimed(stored_run.id):
            return opened.rescore(stored_run.id, judging.judged, basis)


def policy_names() -> Sequence[str]:
    """Return the names of the project's allow lists and the shipped ones."""
    return sorted({file.stem for root in roots() for file in (root / LISTS).glob("*.toml")})


def otherwise(
    run: Run,
    trial: Trial,
    allowlist: str,
) -> Mapping[Spot, Verdict]:
    """Return the verdicts of this allow list on a trial's calls; nothing is stored.

    The list must be one of `policy_names`, as a web page may choose it. Raises UsageError.
    """
    if allowlist not in policy_names():
        raise UsageError(
            f"no allow list {allowlist[:80]!r}; known: {', '.join(policy_names())}. Put yours into "
            f"{LISTS}/ of the project"
        )
    judging = Judging.of(run, {trial.scenario}, allowlist)
    stage = judging.stages.get(trial.scenario)
    for part in trial.agents:
        if stage and part.calls and part.name not in stage.agents:
            raise UsageError(
                f"{trial.scenario} has no sub-agent {part.name!r} any more, which made calls"
            )
    verdicts = {}
    for label, call, record in calls_in_order(trial):
        place = Place(trial.scenario, trial.seed, label.rpartition("/")[0], trial.number)
        spot = (label, record.turn, record.position)
        verdicts[spot], _ = judging.judged(place, call, record)
    return verdicts


def calls_in_order(trial: Trial) -> Iterator[tuple[str, ToolCall, CallRecord]]:
    """Yield each call with the label of its agent, as written and as stored."""
    return _in_order(trial, trial, 0)


def _in_order(
    trial: Trial,
    acted: Trial | AgentPart,
    number: int,
) -> Iterator[tuple[str, ToolCall, CallRecord]]:
    """Yield the calls of the agent of this number, each before those of agents it started."""
    label = acted.label if isinstance(acted, AgentPart) else ""
    waiting = [part for part in trial.agents if part.parent == number]
    for record in acted.calls:
        yield label, acted.turns[record.turn].calls[record.position], record
        spot = (record.turn, record.position)
        for part in [part for part in waiting if (part.turn, part.position) == spot]:
            waiting.remove(part)
            yield from _in_order(trial, part, part.number)
    for part in waiting:
        yield from _in_order(trial, part, part.number)


def _in_force(run: Run, stages: Sequence[Stage]) -> Policy | None:
    """The list that judged the run in place of those of its scenarios; None where these did.

    Raises UsageError where what judged it is not the same any more.
    """
    problem = _changed(run, stages)
    if not problem:
        return None
    # With one list for all scenarios it may be one that was given in place of theirs.
    for name in run.policies if len(run.policies) == 1 else ():
        with suppress(UsageError):  # rules of another harness are not found by their name
            other = load_any(name, roots=roots())
            if other.digest == run.policies[name]:
                return other
    raise UsageError(
        f"{run.id}: {problem}; --own judges by the scenarios' own lists of today, --allowlist by "
        "one that you name"
    )


def _changed(run: Run, stages: Sequence[Stage]) -> str:
    """Return the first thing that judged the run and is not the same any more; empty if none."""
    lists = policies_of(stages)
    for name, digest in _that_judged(run, stages).items():
        if lists.get(name) != digest:
            return f"allow list {name!r}, which judged it, is not there as it was"
    for agent, digest in judges(stages).items():
        if run.judged.get(agent, digest) != digest:
            return f"another allow list judges {agent!r} now than did then"
    return ""


def _that_judged(run: Run, stages: Sequence[Stage]) -> Mapping[str, str]:
    """The run's lists but for those of scenarios of which no trial is looked at."""
    names = {stage.scenario.name for stage in stages}
    digests = set()
    for agent, digest in run.judged.items():
        if agent.partition(":")[0] in names:
            digests.add(digest)
    # Older versions did not store which list judged whom: then all of them count.
    digests = digests or {*run.policies.values()}
    return {name: digest for name, digest in run.policies.items() if digest in digests}


@dataclass(slots=True)
class Judging:
    """Calls of a run judged again, trial by trial and in order; by `other` where it is given."""

    run: Run
    stages: Mapping[str, Stage]
    other: Policy | None = None
    _trial: int | None = None  # whose state `_world` is
    _world: World = UNKNOWN_WORLD

    @classmethod
    def of(
        cls,
        run: Run,
        scenarios: Collection[str],
        allowlist: str | None,
        *,
        own: bool = False,
    ) -> Self:
        """Return the judging for `rescore`. Raises UsageError if its allow lists are missing."""
        if run.source is not None and allowlist is None:  # their own rules are not stored
            raise UsageError(
                f"{run.id}: it was read from logs: name what judges it with --allowlist"
            )
        other = load_any(allowlist, roots=roots()) if allowlist else None
        if run.source is not None:
            return cls(run, {}, other)
        begun = run.options.allowlist if run.options and not allowlist else ""
        loaded = load_stages(sorted(scenarios), _arm(run), allowlist=begun)
        if not allowlist and not own:
            other = _in_force(run, loaded)
        return cls(run, {stage.scenario.name: stage for stage in loaded}, other)

    def basis(self, at: str) -> Basis:
        """Return the versions that judge, to be stored; `at` is the time, ISO 8601."""
        stages = [*self.stages.values()]
        by, judged = policies_of(stages), judges(stages)
        if self.other is not None:
            by = {self.other.name: self.other.digest}
            judged = dict.fromkeys(judged, self.other.digest)
        return Basis(TAXONOMY_VERSION, by, judged, at)

    def policy(self, place: Place) -> Policy:
        return self._own_policy(place) if self.other is None else self.other

    def _own_policy(self, place: Place) -> Policy:
        stage = self.stages[place.scenario]
        return stage.agents[place.agent] if place.agent else stage.policy

    def own_call(self, place: Place, call: ToolCall) -> ToolCall | None:
        """Return the call in our own names, as in logs; None if its tool was not offered."""
        if place.scenario not in self.stages:
            return call
        return _arm(self.run).profile.as_own_call(call, tuple(self._own_policy(place).tools))

    def world(self, place: Place) -> World:
        if place.scenario not in self.stages:
            return UNKNOWN_WORLD
        # Calls of a trial come in order, and each new trial begins with the files of its fixture.
        if self._trial != place.trial:
            self._trial = place.trial
            self._world = World(frozenset(self.stages[place.scenario].files(place.seed)))
        return self._world

    def judged(
        self,
        place: Place,
        call: ToolCall,
        record: CallRecord,
    ) -> tuple[Verdict, str]:
        policy = self.policy(place)
        world = self.world(place)
        own_call = self.own_call(place, call)
        # A tool that was not offered is denied, whatever the list says of it.
        if own_call is None:
            return deny(call, replace(policy, tools={}), world), policy.digest
        if record.execution is not None and place.scenario in self.stages:
            self._world = _after(world, own_call, record.execution, _arm(self.run))
        verdict = judge(own_call, policy, world)
        # The second reader's objection was stored with the call, and stands.
        if verdict.allowed and record.objection:
            verdict = deny(own_call, policy, world, objection=record.objection)
        return verdict, policy.digest


def _after(
    world: World,
    call: ToolCall,
    done: Execution,
    arm: Arm,
) -> World:
    """The world with what this call wrote, and with the file that keeps what was not shown."""
    saved = dict.fromkeys(world.saved, "")
    if call.name == BASH:
        shown_part(done.output, arm.cut, saved)
    written = files_written(call, world.root) if done.exit_code == 0 else ()
    return replace(
        world,
        saved=frozenset(saved),
        written=world.written.union(written),
    )


def _arm(run: Run) -> Arm:
    """Return the arm whose tools the model called; before there was a choice it was ours."""
    return STRICT if run.options is None else arm_played(run.options)
