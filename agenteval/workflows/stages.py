"""The plan of a run: options, levels, and resolved scenarios with fixtures and allow lists."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from agenteval.config.allowlists import find, load_any, load_policy
from agenteval.config.arms import arm_named
from agenteval.config.fixtures import check_scripts, load_fixture
from agenteval.config.models import SIMULATED
from agenteval.config.prompts import load_setting
from agenteval.config.roots import roots
from agenteval.config.scenario_files import load_scenarios
from agenteval.core.cards import ModelCard
from agenteval.core.plain import as_file_part
from agenteval.core.policy.relaxation import NOTHING, Relaxation, relaxed
from agenteval.core.prompt.arm import STRICT, Arm
from agenteval.core.prompt.setting import Setting
from agenteval.core.run import Options, Run, judged_by
from agenteval.core.scenario import Scenario
from agenteval.core.served import DENSEST
from agenteval.errors import InfrastructureError, UsageError
from agenteval.harness.recipes import arm_of, playing
from agenteval.protocols import Model, Stage
from agenteval.sandbox.maker import posed, render
from agenteval.store.location import Location
from agenteval.store.shards import Part
from agenteval.taxonomy.judge import TAXONOMY_VERSION
from agenteval.workflows.armed import arm_card, offered_by, under
from agenteval.workflows.resuming import Suite, agreed, check_same, resuming, stored_run


def digests(stages: Sequence[Stage]) -> Mapping[str, str]:
    """Return the digest of each scenario: its requests, its fixture's files and its allow lists."""
    return {stage.scenario.name: _digest(stage) for stage in stages}


def _digest(stage: Stage) -> str:
    parts = hashlib.sha256(repr(stage.scenario).encode())
    for path, content in sorted(stage.files(0).items()):
        parts.update(f"\n{path}\n".encode() + hashlib.sha256(content).digest())
    for name, policy in sorted({"": stage.policy, **stage.agents}.items()):
        parts.update(f"\n{name} {policy.digest}".encode())
    return parts.hexdigest()[:16]


def policies_of(stages: Sequence[Stage]) -> Mapping[str, str]:
    """The digest of each allow list that judges anybody."""
    return {
        policy.name: policy.digest
        for stage in stages
        for policy in (stage.policy, *stage.agents.values())
    }


def check_unchanged(run: Run, stages: Sequence[Stage], setting: Setting) -> None:
    """Raises UsageError for what is no longer as it was when the run began, by its name."""
    now = Suite(policies_of(stages), judges(stages), digests(stages), setting.protocol)
    check_same(run, now, resuming(run))


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of trials to play; `resume` is the run to go on with."""

    options: Options
    setting: Setting
    store: str
    resume: Run | None = None
    retry_void: bool = False
    power: bool = False
    part: Part | None = None  # where several processes play it together
    more: Relaxation = NOTHING  # what each allow list has beside its own rules

    @property
    def joins(self) -> bool:
        """True if others play it, or played it, so that its servers answered once."""
        return self.part is not None or self.resume is not None

    @property
    def before(self) -> int:
        """The number of trials that others play at a time, before those of this process."""
        first = int(self.options.concurrency.partition(",")[0])
        return self.part.others_before(first) if self.part else 0


def new_run(  # noqa: PLR0913 -- what its numbers depend on
    plan: Plan,
    stages: Sequence[Stage],
    *,
    card: ModelCard,
    sandbox: str,
    setting: Setting,
    level: int,
) -> Run:
    """A run as it begins, now, by the id that it would like to have."""
    options, now = plan.options, datetime.now(UTC)
    return Run(
        id=f"{now:%Y%m%d-%H%M%S}-{as_file_part(card.name)}",
        model=card,
        started=now.isoformat(timespec="milliseconds"),
        seed=options.seed,
        trials_planned=options.trials * len(stages),
        max_turns=options.max_turns,
        concurrency=level,
        sandbox=sandbox,
        prefork=options.prefork,
        protocol=setting.protocol,
        taxonomy=TAXONOMY_VERSION,
        policies=policies_of(stages),
        judged=judges(stages),
        options=replace(options, model=[card.name], sandbox=sandbox, concurrency=str(level)),
        scenarios=digests(stages),
        per_token=setting.per_token,
        arm=arm_card(stages, setting, options.harness),
    )


def options_of(asked: Mapping[str, Any]) -> Options:
    """Out of all that a command was given; lists may be None where nothing was."""
    wanted = {name: asked[name] for name in Options.__dataclass_fields__}
    wanted["harness"] = wanted["harness"] or ""
    wanted["base_url"] = " ".join(wanted["base_url"] or ()) or None
    return Options(**(wanted | {name: list(wanted[name] or ()) for name in ("targets", "model")}))


def plan_of(  # noqa: PLR0913 -- what a run is asked for, and each has a default
    requested: Options,
    store: str,
    *,
    resume: str | None = None,
    given_names: Collection[str] = (),
    retry_void: bool = False,
    power: bool = False,
    part: Part | None = None,
) -> Plan:
    """Return the plan of these options.

    `given_names` are the options that the user gave, which must not contradict the run to go on
    with. Raises UsageError.
    """
    Location(store).check_ours()
    begun = stored_run(resume, store) if resume else None
    named = [name for name in Options.__dataclass_fields__ if name in given_names]
    options = agreed(begun, requested, named) if begun else requested
    if not options.model:
        raise UsageError("--model: name what is to be evaluated; `agenteval models` lists it")
    if "base_url" in given_names and all(name.startswith(SIMULATED) for name in options.model):
        raise UsageError(f"--base-url: {', '.join(options.model)} is simulated and on no server")
    arm = arm_of(options.harness) if options.harness else options.arm
    setting = load_setting(arm, options.prompt_variant, options.rules, options.context)
    setting = replace(setting, arm=arm_played(options))
    options = replace(options, prompt_variant=options.prompt_variant or setting.arm.rules)
    return Plan(options, setting, store, begun, retry_void, power, part)


def arm_played(options: Options) -> Arm:
    """Whose tools a run's model calls: the chosen arm's, or a real harness's own."""
    if options.harness:
        return playing(arm_named(arm_of(options.harness)), options.harness)
    return arm_named(options.arm)


def levels_of(text: str) -> tuple[int, ...]:
    """Every level of `4`, or `1,2,4`, once and in the order given. Raises UsageError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 1 <= len(part) <= 4 for part in parts) or any(
        int(part) < 1 for part in parts
    ):
        raise UsageError(
            f"--concurrency {text!r}: numbers from 1 to 9999, such as 4 or 1,2,4; each is a level"
        )
    return tuple(dict.fromkeys(map(int, parts)))


def load_stages(
    targets: Sequence[str], arm: Arm = STRICT, more: Relaxation = NOTHING, allowlist: str = ""
) -> tuple[Stage, ...]:
    """Return the scenarios under an arm, each with its allow list and fixture. Raises UsageError.

    The rules `more` are added to each allow list; `allowlist`, in any format, replaces them all.
    """
    where = roots()
    scenarios = load_scenarios(targets, roots=where)
    played = {one.name: [each for each in one.agents if not each.program] for one in scenarios}
    names = {scenario.policy for scenario in scenarios}
    names |= {agent.policy for agents in played.values() for agent in agents}
    own = load_any(allowlist, roots=where) if allowlist else None
    policies = {
        name: relaxed(own or load_policy(name, roots=where, by_user=False), more) for name in names
    }
    for scenario in scenarios:
        files = load_fixture(scenario, 0, roots=where)  # a world that cannot be made is told now
        judging = {scenario.policy, *(agent.policy for agent in played[scenario.name])}
        for name in judging if own is None else ():
            check_scripts(policies[name], find(name, where), scenario, files)
    return tuple(
        under(
            arm,
            Stage(
                scenario,
                policies[scenario.policy],
                partial(load_fixture, scenario, roots=where),
                {one.name: policies[one.policy] for one in played[scenario.name]},
            ),
        )
        for scenario in scenarios
    )


def judges(stages: Sequence[Stage]) -> dict[str, str]:
    """Whose calls are judged by which allow list."""
    return {
        judged_by(stage.scenario.name, agent): policy.digest
        for stage in stages
        for agent, policy in {"": stage.policy, **stage.agents}.items()
    }


async def measured(model: Model, stage: Stage, setting: Setting) -> Setting:
    """The setting with the characters that this model's tokenizer puts into a token.

    Asks once with a prompt of the wanted length and reads the server's own count; a server that
    gives none leaves the estimate. Raises UsageError when it does not take so long a prompt.
    """
    if not setting.context:
        return setting
    messages = posed(stage.scenario, 0, setting).messages
    try:
        turn = await model.ask(messages, offered_by(stage, setting), seed=0)
    except InfrastructureError as error:
        raise UsageError(
            f"asked with {setting.context} tokens of context, {error}. "
            "Give a smaller --context, or start the server with a longer one"
        ) from error
    counted = turn.usage.prompt_tokens
    characters = sum(len(message.content) for message in messages)
    believed = counted and characters / counted <= DENSEST  # what was cached may be left out
    return replace(setting, per_token=characters / counted) if believed else setting


def check_length(scenarios: Sequence[Scenario], setting: Setting) -> None:
    """Raises UsageError when a prompt is longer by itself than it is to be filled up to."""
    for scenario in scenarios if setting.context else ():
        bare = sum(len(message.content) for message in render(scenario, 0, setting).messages)
        if bare > setting.context * setting.per_token:
            raise UsageError(
                f"--context {setting.context}: the prompt of {scenario.name} alone has about "
                f"{round(bare / setting.per_token)} tokens. Give more, or 0 for none"
            )
