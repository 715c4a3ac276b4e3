"""The plan of a run: options, levels, and resolved scenarios with fixtures and allow lists.

The sections are, in order: a stage under an arm, with its tools, its judge and its rules for a
harness; going on with a stored run, which must ask, judge and be served as it was begun; the plan;
and the stages and lengths of prompts.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Self

from agenteval.classes.catalogue import TAXONOMY_VERSION, failure_classes
from agenteval.config.allowlists import find, load_any, load_policy
from agenteval.config.files import DEFAULT_ARM
from agenteval.config.models import SIMULATED
from agenteval.config.prompts import arm_named, judging, load_setting
from agenteval.config.scenarios import check_scripts, load_fixture, load_scenarios
from agenteval.config.trust import roots
from agenteval.dialects.registry import dialects, json_with_comments
from agenteval.errors import InfrastructureError, UsageError
from agenteval.harness.recipes import arm_of, playing
from agenteval.host import read_text
from agenteval.play.tools import schemas
from agenteval.policy.lint import NOTHING, Relaxation, relaxed
from agenteval.policy.policy import Policy
from agenteval.prompt.arm import STRICT, Arm
from agenteval.prompt.prompt import Setting
from agenteval.protocols import Model, Stage, ToolSchema, TrialKey
from agenteval.sandbox.maker import posed, render
from agenteval.store.location import Location, resolve_name
from agenteval.store.read import summarized
from agenteval.store.sql import Part, SqlStore, opened
from agenteval.store.summaries import known_runs, tables_known
from agenteval.trial.run import REAL, ArmCard, ModelCard, Options, Run, judged_by
from agenteval.trial.tally import DENSEST
from agenteval.trial.text import as_file_part, as_word
from agenteval.trial.trial import Scenario


def under(arm: Arm, stage: Stage) -> Stage:
    """The stage with the tools that are offered under the arm, judged by its engine."""
    tools = {one.name: one.tools for one in stage.scenario.agents}
    agents = {
        name: judging(arm, policy).offering(arm.offered(tools[name]))
        for name, policy in stage.agents.items()
    }
    policy = judging(arm, stage.policy).offering(arm.offered(stage.scenario.tools))
    return replace(
        stage,
        policy=policy,
        agents=agents,
    )


def _offered_by(stage: Stage, setting: Setting) -> list[ToolSchema]:
    """Return the tools that a request of a trial of this stage offers."""
    shown = under(setting.arm, stage).policy.tools
    return schemas(setting.profile, setting.arm.offered(stage.scenario.tools, visible=shown))


def _arm_card(
    stages: Sequence[Stage],
    setting: Setting,
    harness: str = "",
) -> ArmCard:
    """Return the card of the arm that a run stores.

    Its length is the median over the first requests of the scenarios, in tokens. With a `harness`,
    everything but the rules and the judge is the real program's own.
    """
    lengths = []
    for stage in () if harness else stages:
        tools = _offered_by(stage, setting)
        words = (message.content for message in posed(stage.scenario, 0, setting).messages)
        lengths.append(sum(map(len, words)) + len(json.dumps(tools)))
    tokens = round(median(lengths or [0]) / setting.per_token)
    card = setting.card(classes=len(failure_classes()), tokens=tokens)
    if harness:
        card = replace(
            card,
            name=f"{REAL}{harness}",
            words=harness,
            denials="its own",
            summary="its own prompt, tools, results and denials",
        )
    # The engine of the user's own rules, where they stand in place of the scenarios'.
    engines = {stage.policy.engine.name for stage in stages if stage.policy.engine}
    return replace(card, engine=engines.pop()) if len(engines) == 1 else card


def cost_told(
    stages: Sequence[Stage],
    setting: Setting,
    trials: int,
) -> str:
    """Return the line that states the least cost of filling prompts up, for use before a run."""
    requests = trials * sum(len(stage.scenario.solution) + 1 for stage in stages)
    return (
        f"--context {setting.context}: at least {requests * setting.context:,} prompt tokens in "
        f"{requests:,} requests, where no trial takes more turns than its solution"
    )


def own_rules(name: str, allowlist: str) -> str:
    """The user's own rules of this dialect, word for word; "" for any other allow list."""
    harness, colon, path = allowlist.partition(":")
    dialect = dialects().get(name)
    file = Path(path if colon else allowlist)
    if dialect is None or not file.is_file() or file.suffix not in {".json", ".jsonc", ".rules"}:
        return ""
    if colon and harness not in dialect.readers:
        return ""
    engine = load_any(allowlist, roots=roots()).engine
    if engine is None or engine.name not in dialect.readers:
        return ""
    text = read_text(file)
    return text if file.suffix == ".rules" else json.dumps(json_with_comments(file, text))


def rules_for(name: str, policy: Policy) -> str:
    """The allow list as a harness of this dialect writes it; "" for one without rules."""
    dialect = dialects().get(name)
    return dialect.write(policy).text if dialect else ""


# Going on with a stored run.

BEGIN_ANEW = "Begin a new run, or put back what it was"


def stored_run(run_id: str, store: str) -> Run:
    """The run to go on with, without its trials. Raises UsageError."""
    where = str(Location(store))
    with opened(store) as query:
        full_id = resolve_name(
            run_id,
            known_runs(query),
            tables_known(query),
            where=where,
            whatever=True,
        )
        run, _ = summarized(query, full_id, where=where)
    if run.options is None:
        raise UsageError(f"--resume {run.id}: made before runs could be resumed; begin a new one")
    if run.taxonomy != TAXONOMY_VERSION:
        raise UsageError(
            f"--resume {run.id}: judged by taxonomy {run.taxonomy}, this agenteval has "
            f"{TAXONOMY_VERSION}: `agenteval rescore {as_word(run.id)}` judges it again, then it "
            "can go on"
        )
    return run


def agreed(
    run: Run,
    options: Options,
    given_names: Sequence[str],
    who: str = "",
) -> Options:
    """Return the options of the run. Raises UsageError if one that was given contradicts them.

    `who` would go on with it, here and below: --resume, or a shard.
    """
    if run.options is None:  # which `stored_run` has refused
        raise ValueError(run.id)
    for name in given_names:
        new, begun_with = getattr(options, name), getattr(run.options, name)
        if new != begun_with and name != "base_url":
            option = "targets" if name == "targets" else f"--{name.replace('_', '-')}"
            begun = _option_text(begun_with) or "none"
            raise UsageError(
                f"{option} {_option_text(new)} contradicts {who or _resuming(run)}, which was "
                f"begun with {begun}; ask for the same, or begin a new run"
            )
    return replace(run.options, base_url=options.base_url or run.options.base_url)


def _resuming(run: Run) -> str:
    return f"--resume {run.id}"


def _option_text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def check_same(
    run: Run,
    now: Run,
    who: str,
) -> None:
    """Raises UsageError for what is no longer as it was when the run began, by its name.

    Compared are the digests of allow lists and scenarios and the protocol of the prompt.
    """
    _check_lists(run, now, who)
    for name in sorted({*run.scenarios, *now.scenarios}):
        if run.scenarios.get(name) != now.scenarios.get(name):
            raise UsageError(f"{who}: scenario {name!r} has changed. {BEGIN_ANEW}")
    if now.protocol != run.protocol:
        raise UsageError(
            f"{who}: the prompt has changed, from {run.protocol!r} to {now.protocol!r}. "
            f"{BEGIN_ANEW}"
        )


def _check_lists(
    run: Run,
    now: Run,
    who: str,
) -> None:
    for name, digest in run.policies.items():
        if now.policies.get(name, digest) != digest:
            raise UsageError(f"{who}: allow list {name!r} has changed. {BEGIN_ANEW}")
    rescored = any(run.judged.get(one, digest) != digest for one, digest in now.judged.items())
    if rescored or not run.policies.keys() <= now.policies.keys():
        names = ", ".join(run.policies)
        raise UsageError(
            f"{who}: its calls are judged by another allow list ({names}) than it plays under. "
            f"`agenteval rescore {as_word(run.id)} --own` judges them by that again"
        )


def serve_on(
    run: Run,
    card: ModelCard,
    store: SqlStore,
    who: str = "",
) -> None:
    """Add the servers that go on with a run to those that it names.

    Raises UsageError when another model, or another way to query it, would go on with it.
    """
    # A server may come back at another port, and is asked what it does only before a run.
    there = replace(
        run.model,
        base_url=card.base_url,
        seen=card.seen,
    )
    for field in fields(ModelCard):
        now, before = getattr(card, field.name), getattr(there, field.name)
        if now != before:
            raise UsageError(
                f"{who or _resuming(run)}: {field.name} of model {card.name!r} is {now!r} now and "
                f"was {before!r}. {BEGIN_ANEW}"
            )
    if not card.simulated:  # that server is at another port each time
        store.served_at(run.id, card.base_url)


def digests(stages: Sequence[Stage]) -> Mapping[str, str]:
    """Return the digest of each scenario: its requests, its fixture's files and its allow lists."""
    return {stage.scenario.name: _digest(stage) for stage in stages}


def _digest(stage: Stage) -> str:
    # The files of one seed stand for the fixture: all seeds are made by the same scripts.
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


def check_unchanged(
    run: Run,
    stages: Sequence[Stage],
    setting: Setting,
) -> None:
    """Raises UsageError for what is no longer as it was when the run began, by its name."""
    now = replace(
        run,
        policies=policies_of(stages),
        judged=judges(stages),
        scenarios=digests(stages),
        protocol=setting.protocol,
    )
    check_same(run, now, _resuming(run))


# The plan.


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


def new_run(  # noqa: PLR0913, PLR0917 -- what its numbers depend on
    plan: Plan,
    stages: Sequence[Stage],
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
        options=replace(
            options,
            model=[card.name],
            sandbox=sandbox,
            concurrency=str(level),
        ),
        scenarios=digests(stages),
        per_token=setting.per_token,
        arm=_arm_card(stages, setting, options.harness),
    )


# What a run is asked for where neither the user nor the run before it says so.
USUAL: Mapping[str, Any] = {
    "targets": (),
    "trials": 5,
    "seed": 1,
    "concurrency": "4",
    "base_url": None,
    "max_turns": None,
    "arm": DEFAULT_ARM,
    "prompt_variant": None,
    "rules": "start",
    "context": "0",
    "sandbox": None,
    "prefork": True,
}


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
    # What an arm leaves open is stored as it was played, not as it may be read later.
    options = replace(options, prompt_variant=options.prompt_variant or setting.arm.rules)
    return Plan(options, setting, store, begun, retry_void, power, part)


def arm_played(options: Options) -> Arm:
    """Whose tools a run's model calls: the chosen arm's, or a real harness's own."""
    if options.harness:
        return playing(arm_named(arm_of(options.harness)), options.harness)
    return arm_named(options.arm)


class Quiet:
    """A Progress that shows nothing; also the Observer of each run."""

    def run(self, model: str, *, trials: int, simulated: bool) -> Self:  # noqa: ARG002
        return self

    def note(self, line: str) -> None: ...

    def wrote(self, trial: TrialKey, tokens: int) -> None: ...

    def called(self, trial: TrialKey, *, failure_class: str) -> None: ...

    def finished(self, trial: TrialKey, *, void: str) -> None: ...


# Stages, and the lengths of their prompts.


def load_stages(
    targets: Sequence[str],
    arm: Arm = STRICT,
    more: Relaxation = NOTHING,
    allowlist: str = "",
) -> tuple[Stage, ...]:
    """Return the scenarios under an arm, each with its allow list and fixture. Raises UsageError.

    The rules `more` are added to each allow list; `allowlist`, in any format, replaces them all.
    """
    where = roots()
    own = load_any(allowlist, roots=where) if allowlist else None
    policies: dict[str, Policy] = {}
    stages = []
    for scenario in load_scenarios(targets, roots=where):
        files = load_fixture(scenario, 0, roots=where)  # a world that cannot be made is told now
        agents = {agent.name: agent.policy for agent in scenario.agents if not agent.program}
        for name in {scenario.policy, *agents.values()}:
            if name not in policies:
                policy = own or load_policy(name, roots=where, by_user=False)
                policies[name] = relaxed(policy, more)
            if own is None:
                check_scripts(policies[name], find(name, where), scenario, files)
        stage = Stage(
            scenario,
            policies[scenario.policy],
            partial(load_fixture, scenario, roots=where),
            {agent: policies[name] for agent, name in agents.items()},
        )
        stages.append(under(arm, stage))
    return tuple(stages)


def judges(stages: Sequence[Stage]) -> dict[str, str]:
    """Whose calls are judged by which allow list."""
    return {
        judged_by(stage.scenario.name, agent): policy.digest
        for stage in stages
        for agent, policy in {"": stage.policy, **stage.agents}.items()
    }


async def measured(
    model: Model,
    stage: Stage,
    setting: Setting,
) -> Setting:
    """The setting with the characters that this model's tokenizer puts into a token.

    Asks once with a prompt of the wanted length and reads the server's own count; a server that
    gives none leaves the estimate. Raises UsageError when it does not take so long a prompt.
    """
    if not setting.context:
        return setting
    messages = posed(stage.scenario, 0, setting).messages
    try:
        turn = await model.ask(messages, _offered_by(stage, setting), seed=0)
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
