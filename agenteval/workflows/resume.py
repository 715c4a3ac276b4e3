"""Going on with a run that ended before its time: under its own options, nothing counted twice."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from agenteval.core.prompt.setting import Setting
from agenteval.core.run import ModelCard, Options, Run
from agenteval.engine.orchestrator import Stage
from agenteval.errors import UsageError
from agenteval.store.location import Location
from agenteval.store.sql import SqlStore
from agenteval.taxonomy.judge import TAXONOMY_VERSION

BEGIN_ANEW = "Begin a new run, or put back what it was"


def stored_run(run_id: str, store: str) -> Run:
    """The run to go on with, without its trials. Raises UsageError."""
    Location(store).check_there()
    opened = SqlStore(store)
    try:
        run, _ = opened.summarized(run_id)
    finally:
        opened.close()
    if run.options is None:
        raise UsageError(f"--resume {run.id}: made before runs could be resumed; begin a new one")
    if run.taxonomy != TAXONOMY_VERSION:
        raise UsageError(
            f"--resume {run.id}: judged by taxonomy {run.taxonomy}, this agenteval has "
            f"{TAXONOMY_VERSION}: `agenteval rescore {run.id}` judges it again, then it can go on"
        )
    return run


def agreed(run: Run, asked: Options, given: Sequence[str]) -> Options:
    """The options of the run. Raises UsageError when one that was given says something else."""
    if run.options is None:  # which `stored_run` has refused
        raise ValueError(run.id)
    for name in given:
        wanted, there = getattr(asked, name), getattr(run.options, name)
        if wanted != there and name != "base_url":
            option = "targets" if name == "targets" else f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} {_shown(wanted)} contradicts --resume {run.id}, which was begun with "
                f"{_shown(there)}; leave it away, or begin a new run"
            )
    return replace(run.options, base_url=asked.base_url or run.options.base_url)


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def digests(stages: Sequence[Stage]) -> Mapping[str, str]:
    """Of each scenario all that makes it: what is asked, the fixture's files, the allow lists."""
    return {stage.scenario.name: _digest(stage) for stage in stages}


def _digest(stage: Stage) -> str:
    parts = hashlib.sha256(repr(stage.scenario).encode())
    for path, content in sorted(stage.files(0).items()):
        parts.update(f"\n{path}\n".encode() + hashlib.sha256(content).digest())
    for name, policy in sorted({"": stage.policy, **stage.agents}.items()):
        parts.update(f"\n{name} {policy.digest}".encode())
    return parts.hexdigest()[:16]


def check_unchanged(run: Run, stages: Sequence[Stage], setting: Setting) -> None:
    """Raises UsageError for what is no longer as it was when the run began, by its name."""
    now = {policy.name: policy.digest for s in stages for policy in (s.policy, *s.agents.values())}
    for name, digest in run.policies.items():
        if now.get(name) != digest:
            raise UsageError(f"--resume {run.id}: allow list {name!r} has changed. {BEGIN_ANEW}")
    found = digests(stages)
    for name in sorted({*run.scenarios, *found}):
        if run.scenarios.get(name) != found.get(name):
            raise UsageError(f"--resume {run.id}: scenario {name!r} has changed. {BEGIN_ANEW}")
    if setting.protocol != run.protocol:
        raise UsageError(
            f"--resume {run.id}: the prompt has changed, from {run.protocol!r} to "
            f"{setting.protocol!r}. {BEGIN_ANEW}"
        )


def check_served(run: Run, card: ModelCard) -> None:
    """Raises UsageError when another model, or one asked in another way, would go on with it."""
    there = replace(run.model, base_url=card.base_url)  # a server may come back at another port
    for field in fields(ModelCard):
        now, before = getattr(card, field.name), getattr(there, field.name)
        if now != before:
            raise UsageError(
                f"--resume {run.id}: {field.name} of model {card.name!r} is {now!r} now and was "
                f"{before!r}. {BEGIN_ANEW}"
            )
