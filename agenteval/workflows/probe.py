"""`agenteval speed --model`: requests of our own at each level of concurrency."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from agenteval.config.models import SIMULATED, ModelEntry, load_models, resolve
from agenteval.config.paths import roots
from agenteval.core.prompt.probe import probe_prompt
from agenteval.core.trial import Turn
from agenteval.engine.probe import Probed, probe
from agenteval.errors import UsageError
from agenteval.models.openai_client import SIMULATOR, OpenAIModel
from agenteval.models.simulated import SimulatedServer
from agenteval.report.speed import Served
from agenteval.stats.speeds import speed_of
from agenteval.workflows.preflight import preflight
from agenteval.workflows.stages import levels_of

PER_TOKEN = 4.0  # characters, until the server has counted
LEAST = 8  # requests of a level, and four rounds of them where that is more
ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Probe:
    """What is asked of each model at each level. `nonce` makes its prompts new to every cache."""

    levels: Sequence[int]
    prompt_tokens: int
    completion_tokens: int
    requests: int | None
    nonce: str

    def number(self, level: int) -> int:
        return self.requests or max(LEAST, ROUNDS * level)


def probe_of(
    levels: str, prompt_tokens: int, completion_tokens: int, requests: int | None
) -> Probe:
    """Raises UsageError for levels that are none."""
    nonce = secrets.token_hex(8)
    return Probe(levels_of(levels), prompt_tokens, completion_tokens, requests, nonce)


def probe_models(names: Sequence[str], base_url: str | None, asked: Probe) -> list[Served]:
    """The speed of each model at each level. Raises UsageError."""
    return asyncio.run(_probe_models(names, base_url, asked))


async def _probe_models(names: Sequence[str], base_url: str | None, asked: Probe) -> list[Served]:
    served = []
    for name in names:
        async with _serving(name, base_url) as entry:
            sampling = entry.sampling.model_copy(update={"max_tokens": asked.completion_tokens})
            limited = entry.model_copy(update={"sampling": sampling, "tools": "native"})
            async with OpenAIModel(limited) as model:
                simulated = await preflight(model, limited) == SIMULATOR
                served.extend(await _levels(name, model, asked, simulated=simulated))
    return served


@asynccontextmanager
async def _serving(name: str, base_url: str | None) -> AsyncIterator[ModelEntry]:
    if not name.startswith(SIMULATED):
        yield resolve(name, load_models(roots()), base_url)
        return
    async with SimulatedServer([]) as server:
        yield server.entry(name)


async def _levels(name: str, model: OpenAIModel, asked: Probe, *, simulated: bool) -> list[Served]:
    """The first request warms the server, and tells how many characters make a token."""
    key = f"{asked.nonce}/{name}"
    characters = round(asked.prompt_tokens * PER_TOKEN)
    first = await probe(model, [probe_prompt(key, characters)], 1)
    counted = sum(turn.usage.prompt_tokens for turn in _replies(name, first))
    if counted:
        characters = round(characters * asked.prompt_tokens / counted)
    served = []
    for level in asked.levels:
        numbers = range(asked.number(level))
        prompts = [probe_prompt(f"{key}/{level}/{number}", characters) for number in numbers]
        found = await probe(model, prompts, level)
        turns = _replies(name, found)
        speed = speed_of(turns, concurrency=level, seconds=found.seconds, new=True)
        speed = replace(speed, failed=len(found.failures))
        served.append(Served(name, simulated, speed))
    return served


def _replies(name: str, found: Probed) -> Sequence[Turn]:
    """Raises UsageError when there are none."""
    if not found.turns:
        raise UsageError(
            f"{name}: no reply to {len(found.failures)} requests, nothing was measured. The first "
            f"one: {found.failures[0]}. Look at the server's log, or give fewer --prompt-tokens"
        )
    return found.turns
