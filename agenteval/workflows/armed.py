"""A stage under an arm: its tools, its judge, its rules for a harness, and what a run keeps."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from agenteval.bounded import read_text
from agenteval.config.allowlists import load_any
from agenteval.config.arms import judging
from agenteval.config.roots import roots
from agenteval.core.cards import REAL, ArmCard
from agenteval.core.policy.policy import Policy
from agenteval.core.prompt.arm import Arm
from agenteval.core.prompt.setting import Setting
from agenteval.dialects.config_files import json_with_comments
from agenteval.dialects.registry import dialects
from agenteval.engine.tool_texts import schemas
from agenteval.protocols import Stage, ToolSchema
from agenteval.sandbox.maker import posed
from agenteval.taxonomy.catalogue import failure_classes


def under(arm: Arm, stage: Stage) -> Stage:
    """The stage with the tools that are offered under the arm, judged by its engine."""
    tools = {one.name: one.tools for one in stage.scenario.agents}
    agents = {
        name: judging(arm, policy).offering(arm.offered(tools[name]))
        for name, policy in stage.agents.items()
    }
    policy = judging(arm, stage.policy).offering(arm.offered(stage.scenario.tools))
    return replace(stage, policy=policy, agents=agents)


def offered_by(stage: Stage, setting: Setting) -> list[ToolSchema]:
    """Return the tools that a request of a trial of this stage offers."""
    shown = under(setting.arm, stage).policy.tools
    return schemas(setting.profile, setting.arm.offered(stage.scenario.tools, visible=shown))


def arm_card(stages: Sequence[Stage], setting: Setting, harness: str = "") -> ArmCard:
    """Return the card of the arm that a run stores.

    Its length is the median over the first requests of the scenarios, in tokens. With a `harness`,
    everything but the rules and the judge is the real program's own.
    """
    if harness:
        card = setting.card(classes=len(failure_classes()), tokens=0)
        own = "its own prompt, tools, results and denials"
        named = f"{REAL}{harness}"
        return _judged(
            replace(card, name=named, words=harness, denials="its own", summary=own), stages
        )
    lengths = []
    for stage in stages:
        tools = offered_by(stage, setting)
        words = (message.content for message in posed(stage.scenario, 0, setting).messages)
        lengths.append(sum(map(len, words)) + len(json.dumps(tools)))
    tokens = round(median(lengths) / setting.per_token)
    return _judged(setting.card(classes=len(failure_classes()), tokens=tokens), stages)


def _judged(card: ArmCard, stages: Sequence[Stage]) -> ArmCard:
    """With whose rules judge where the user's own stand in place of the scenarios'."""
    engines = {stage.policy.engine.name for stage in stages if stage.policy.engine}
    if len(engines) != 1:
        return card
    return replace(card, engine=engines.pop())


def cost_told(stages: Sequence[Stage], setting: Setting, trials: int) -> str:
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
