"""A stage under an arm: its tools, its judge, and what a run keeps of it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from agenteval.config.arms import judging
from agenteval.core.cards import REAL, ArmCard
from agenteval.core.prompt.arm import Arm
from agenteval.core.prompt.context import posed
from agenteval.core.prompt.setting import Setting
from agenteval.engine.tool_texts import schemas
from agenteval.protocols import Stage, ToolSchema
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
    """The tools that a request of such a trial tells."""
    shown = under(setting.arm, stage).policy.tools
    return schemas(setting.profile, setting.arm.offered(stage.scenario.tools, within=shown))


def arm_card(stages: Sequence[Stage], setting: Setting, harness: str = "") -> ArmCard:
    """What a run keeps of its arm; the length is that of the middle one of its first requests.

    With a `harness` all but the rules and the judge is the real program's own.
    """
    if harness:
        card = setting.card(classes=len(failure_classes()), tokens=0)
        own = "its own prompt, tools, results and denials"
        return replace(card, name=f"{REAL}{harness}", words=harness, denials="its own", summary=own)
    told = []
    for stage in stages:
        tools = offered_by(stage, setting)
        words = (message.content for message in posed(stage.scenario, 0, setting).messages)
        told.append(sum(map(len, words)) + len(json.dumps(tools)))
    tokens = round(median(told) / setting.per_token)
    return setting.card(classes=len(failure_classes()), tokens=tokens)


def cost_told(stages: Sequence[Stage], setting: Setting, trials: int) -> str:
    """What filling prompts up will cost at least, so that it is known before the run."""
    requests = trials * sum(len(stage.scenario.solution) + 1 for stage in stages)
    return (
        f"--context {setting.context}: at least {requests * setting.context:,} prompt tokens in "
        f"{requests:,} requests, where no trial takes more turns than its solution"
    )
