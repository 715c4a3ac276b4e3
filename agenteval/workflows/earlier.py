"""The tasks that precede a task when a run wants long prompts: other tasks, really played.

A simulated model plays them under the run's own arm, in the same sandbox, each with a seed that no
trial has. They include its slips, the replies to them, and the output of every script. The same
length under the same arm always gives the same tasks, whatever else is played.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import islice

from agenteval import models
from agenteval.core.chance import Chance
from agenteval.core.outcome import Ending
from agenteval.core.prompt.setting import Earlier, Setting
from agenteval.core.trial import AgentPart, Message, Trial
from agenteval.engine.orchestrator import trial_seed
from agenteval.models.openai_client import OpenAIModel
from agenteval.protocols import SandboxBackend, Stage, TrialKey
from agenteval.sandbox.backends import choose
from agenteval.workflows.prove import played
from agenteval.workflows.stages import check_length, load_stages

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
        server = await stack.enter_async_context(
            models.simulated.SimulatedServer([one.scenario for one in stages])
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
