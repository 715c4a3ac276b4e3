"""`agenteval speed --model`: requests of our own at each level of concurrency."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from agenteval import models
from agenteval.config.models import SIMULATED, ModelEntry, load_models, resolve
from agenteval.config.roots import roots
from agenteval.core.chance import Chance
from agenteval.core.trial import Message, Turn
from agenteval.errors import InfrastructureError, UsageError, unwrapped
from agenteval.models.identity import SIMULATOR
from agenteval.models.openai_client import OpenAIModel
from agenteval.protocols import Model
from agenteval.report.speed import Served
from agenteval.stats.speeds import speed_of
from agenteval.workflows.preflight import preflight
from agenteval.workflows.stages import levels_of

# What the lines of a prompt are made of: that they differ is all that matters.
AREAS = (
    "archive", "audio", "budget", "calendar", "contacts", "digest", "energy", "feeds", "garden",
    "health", "house", "images", "inbox", "invoices", "library", "maps", "meals", "metrics",
    "news", "notes", "papers", "photos", "podcasts", "reading", "recipes", "research", "shopping",
    "sports", "stocks", "strategy", "tasks", "travel", "video", "weather", "writing",
)  # fmt: skip
DOING = (
    "collects", "compares", "checks", "describes", "draws up", "explains", "files", "finds",
    "keeps", "lists", "marks", "merges", "orders", "plans", "ranks", "reads", "reports on",
    "reviews", "sorts", "summarises", "tags", "translates", "watches", "writes up",
)  # fmt: skip
THINGS = (
    "the monthly figures", "open questions of the last review", "letters that wait for an answer",
    "receipts above the limit", "the reading list of this quarter", "drafts nobody has approved",
    "sources with a date", "rooms that are used at night", "readings of the meters",
    "appointments that clash", "the plan for the weekend", "parts that were ordered twice",
    "warnings of the last run", "pictures without a caption", "the decisions of the last meeting",
    "chapters that were summarised", "subscriptions that end soon", "the weather of the week",
    "stages that were passed", "comments of the evaluator", "the inventory of the cellar",
    "names that are written in two ways", "tickets that were closed", "the route with a stop",
)  # fmt: skip
PLACES = (
    "for the morning digest", "in the family folder", "of the research loop", "before noon",
    "with their sources", "for the next stage", "once a week", "in plain sentences",
    "and says what is missing", "by date", "by the person concerned", "for the archive",
    "without repeating what is known", "with a figure and its unit", "in the order of urgency",
    "for whoever asks next", "as they stood at midnight", "in one table",
)  # fmt: skip
SEED = 1  # speed is measured, and what is said does not matter


@dataclass(frozen=True, slots=True)
class Probed:
    """The replies to some requests, the reasons why others have none, and the seconds of all."""

    turns: tuple[Turn, ...]
    failures: tuple[str, ...]
    seconds: float


async def probe(model: Model, prompts: Sequence[tuple[Message, ...]], concurrency: int) -> Probed:
    """Send all prompts once, `concurrency` at a time. Raises errors that only the user can fix."""
    free = asyncio.Semaphore(concurrency)
    started = time.perf_counter()
    with unwrapped(UsageError):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_reply(model, prompt, free)) for prompt in prompts]
    seconds = time.perf_counter() - started
    results = [task.result() for task in tasks]
    return Probed(
        turns=tuple(one for one in results if isinstance(one, Turn)),
        failures=tuple(one for one in results if isinstance(one, str)),
        seconds=seconds,
    )


async def _reply(model: Model, prompt: tuple[Message, ...], free: asyncio.Semaphore) -> Turn | str:
    async with free:
        try:
            return await model.ask(prompt, [], seed=SEED)
        except InfrastructureError as error:
            return str(error)


TASK = "Write the longest story you can about all of this, and do not stop early."


def probe_prompt(key: str, characters: int) -> tuple[Message, ...]:
    """One message of about so many characters; keys that differ give prompts that do."""
    return (Message("user", f"{''.join(_text(key, characters))}\n\n{TASK}"),)


def _text(key: str, characters: int) -> Iterator[str]:
    chance, remaining = Chance(key), characters - len(TASK)
    line = f"{chance.integer(0, 10**18):018}"
    while remaining > 0:
        yield line
        remaining -= len(line)
        line = "\n" + " ".join(map(chance.choice, (AREAS, DOING, THINGS, PLACES)))


PER_TOKEN = 4.0  # characters, until the server has counted
LEAST = 8  # requests of a level, and four rounds of them where that is more
ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Probe:
    """A load for each model at each level. `nonce` makes its prompts new to every cache."""

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


async def _probe_models(names: Sequence[str], base_url: str | None, load: Probe) -> list[Served]:
    served = []
    for name in names:
        async with _serving(name, base_url) as entry:
            sampling = entry.sampling.model_copy(update={"max_tokens": load.completion_tokens})
            limited = entry.model_copy(update={"sampling": sampling, "tools": "native"})
            simulated = await preflight(limited) == SIMULATOR
            async with OpenAIModel(limited) as model:
                served.extend(await _levels(name, model, load, simulated=simulated))
    return served


@asynccontextmanager
async def _serving(name: str, base_url: str | None) -> AsyncIterator[ModelEntry]:
    if not name.startswith(SIMULATED):
        entry = resolve(name, load_models(roots()), base_url)
        if len(entry.per_server) > 1:
            raise UsageError(f"{name}: measure one server at a time, with --base-url")
        yield entry
        return
    async with models.simulated.SimulatedServer([]) as server:
        yield server.entry(name)


async def _levels(name: str, model: OpenAIModel, load: Probe, *, simulated: bool) -> list[Served]:
    """Measure the levels. A first request warms the server and shows the characters per token."""
    key = f"{load.nonce}/{name}"
    characters = round(load.prompt_tokens * PER_TOKEN)
    first = await probe(model, [probe_prompt(key, characters)], 1)
    counted = sum(turn.usage.prompt_tokens for turn in _replies(name, first))
    if counted:
        characters = round(characters * load.prompt_tokens / counted)
    served = []
    for level in load.levels:
        numbers = range(load.number(level))
        prompts = [probe_prompt(f"{key}/{level}/{number}", characters) for number in numbers]
        probed = await probe(model, prompts, level)
        turns = _replies(name, probed)
        speed = speed_of(turns, concurrency=level, seconds=probed.seconds, new=True)
        served.append(Served(name, simulated, replace(speed, failed=len(probed.failures))))
    return served


def _replies(name: str, probed: Probed) -> Sequence[Turn]:
    """Raises UsageError when there are none."""
    if not probed.turns:
        raise UsageError(
            f"{name}: no reply to {len(probed.failures)} requests, nothing was measured. The first "
            f"one: {probed.failures[0]}. Look at the server's log, or give fewer --prompt-tokens"
        )
    return probed.turns
