"""RetryingModel a model at one level of concurrency, to see how fast it replies."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from agenteval.core.trial import Message, Turn
from agenteval.engine.orchestrator import first
from agenteval.errors import InfrastructureError, UsageError
from agenteval.protocols import Model

SEED = 1  # speed is measured, and what is said does not matter


@dataclass(frozen=True, slots=True)
class Probed:
    """The replies to some requests, the reasons why others have none, and the seconds of all."""

    turns: tuple[Turn, ...]
    failures: tuple[str, ...]
    seconds: float


async def probe(model: Model, prompts: Sequence[tuple[Message, ...]], concurrency: int) -> Probed:
    """Ask all prompts once, so many at the same time. Raises what only the user can mend."""
    free = asyncio.Semaphore(concurrency)
    started = time.perf_counter()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_asked(model, prompt, free)) for prompt in prompts]
    except* UsageError as errors:
        raise first(errors) from None
    seconds = time.perf_counter() - started
    results = [task.result() for task in tasks]
    return Probed(
        turns=tuple(one for one in results if isinstance(one, Turn)),
        failures=tuple(one for one in results if isinstance(one, str)),
        seconds=seconds,
    )


async def _asked(model: Model, prompt: tuple[Message, ...], free: asyncio.Semaphore) -> Turn | str:
    async with free:
        try:
            return await model.ask(prompt, [], seed=SEED)
        except InfrastructureError as error:
            return str(error)
