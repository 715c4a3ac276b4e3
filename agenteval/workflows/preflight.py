"""Asking servers what they serve, before a run and for `agenteval models`."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agenteval.config.models import ModelEntry, at_url, load_models
from agenteval.config.roots import roots
from agenteval.core.run import ModelCard
from agenteval.errors import UsageError
from agenteval.models.identity import SIMULATOR, served, told
from agenteval.models.persona import NAMES


@dataclass(frozen=True, slots=True)
class Answer:
    """The ids a server lists, or why it lists none."""

    ids: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """A configured model, and what its server answered."""

    name: str
    entry: ModelEntry
    answer: Answer


def list_models(base_url: str | None) -> tuple[list[Listed], tuple[str, ...]]:
    """The configured models, or what one server has; then the names of the simulated ones."""
    entries = load_models(roots()) if base_url is None else {base_url: at_url(base_url, "any")}
    answers = asyncio.run(ask_all(list(entries.values())))
    listed = [
        Listed(name, entry, answer)
        for (name, entry), answer in zip(entries.items(), answers, strict=True)
    ]
    return listed, NAMES


async def ask_all(entries: Sequence[ModelEntry]) -> list[Answer]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ask(entry)) for entry in entries]
    return [task.result() for task in tasks]


async def _ask(entry: ModelEntry) -> Answer:
    try:
        return Answer(ids=tuple(await served(entry)))
    except UsageError as error:
        problem = str(error).split(". Start one", maxsplit=1)[0]
        return Answer(problem=problem.replace(f" at {entry.base_url}", ""))


async def preflight(entry: ModelEntry) -> str:
    """Who owns this model, by the server's list; the server is ready for it.

    Raises UsageError when no server answers or it serves other models only: a number about
    another model than the one named is worse than none.
    """
    known = await served(entry)
    if known and entry.model not in known:
        raise UsageError(
            f"{entry.base_url} does not serve {entry.model!r} but {', '.join(sorted(known))}; "
            "name one of these with --model, or as `model` of the entry in agenteval.toml"
        )
    return known.get(entry.model, "")


async def served_card(name: str, entry: ModelEntry) -> ModelCard:
    """What is served, by the user's word and the server's. Raises UsageError as `preflight`."""
    owner = await preflight(entry)
    simulated = owner == SIMULATOR
    facts = {} if simulated else await told(entry, owner)
    return replace(entry.card(name, simulated=simulated), told=facts)
