"""Asking servers what they serve, before a run and for `agenteval models`."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agenteval.config.models import ModelEntry, at_url, load_models
from agenteval.config.roots import roots
from agenteval.core.prompt.context import posed
from agenteval.core.prompt.prompt import render
from agenteval.core.prompt.setting import Setting
from agenteval.core.run import ModelCard
from agenteval.core.scenario import Scenario
from agenteval.core.served import DENSEST
from agenteval.engine.tool_texts import schemas
from agenteval.errors import InfrastructureError, UsageError
from agenteval.models.identity import told
from agenteval.models.openai_client import SIMULATOR, OpenAIModel
from agenteval.models.persona import NAMES
from agenteval.protocols import Model


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
    async with OpenAIModel(entry) as model:
        try:
            return Answer(ids=tuple(await model.served()))
        except UsageError as error:
            problem = str(error).split(". Start one", maxsplit=1)[0]
            return Answer(problem=problem.replace(f" at {entry.base_url}", ""))


async def preflight(model: OpenAIModel, entry: ModelEntry) -> str:
    """Who owns this model, by the server's list; the server is ready for it.

    Raises UsageError when no server answers or it serves other models only: a number about
    another model than the one named is worse than none.
    """
    served = await model.served()
    if served and entry.model not in served:
        raise UsageError(
            f"{entry.base_url} does not serve {entry.model!r} but {', '.join(sorted(served))}; "
            "name one of these with --model, or as `model` of the entry in agenteval.toml"
        )
    return served.get(entry.model, "")


async def served_card(name: str, model: OpenAIModel, entry: ModelEntry) -> ModelCard:
    """What is served, by the user's word and the server's. Raises UsageError as `preflight`."""
    owner = await preflight(model, entry)
    simulated = owner == SIMULATOR
    facts = {} if simulated else await told(entry, owner)
    return replace(entry.card(name, simulated=simulated), told=facts)


async def measured(model: Model, scenario: Scenario, setting: Setting) -> Setting:
    """The setting with the characters that this model's tokenizer puts into a token.

    Asks once with a prompt of the wanted length and reads the server's own count; a server that
    gives none leaves the estimate. Raises UsageError when it does not take so long a prompt.
    """
    if not setting.context:
        return setting
    messages = posed(scenario, 0, setting).messages
    try:
        turn = await model.ask(messages, schemas(setting.profile, scenario.tools), seed=0)
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
