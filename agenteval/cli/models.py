"""`agenteval models`: what is configured, and what each server says it serves."""

import json
from typing import TYPE_CHECKING

import typer

from agenteval.cli.options import AsJson, BaseUrl

NO_LIST = "but lists no models: a base URL usually ends in /v1"

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agenteval.cli.served import Answer
    from agenteval.config.models import ModelEntry


def models(*, base_url: BaseUrl = None, as_json: AsJson = False) -> None:
    """List the configured models, and ask each one's server what it serves.

    Examples:
    - `agenteval models`

    - `agenteval models --base-url http://localhost:8000/v1`
    """
    import asyncio  # noqa: PLC0415 -- start-up time, as all imports below

    from agenteval.cli.served import ask_all  # noqa: PLC0415
    from agenteval.config.models import at_url, load_models  # noqa: PLC0415
    from agenteval.config.paths import roots  # noqa: PLC0415
    from agenteval.models.persona import NAMES  # noqa: PLC0415

    entries: Mapping[str, ModelEntry] = load_models(roots())
    if base_url is not None:
        entries = {base_url: at_url(base_url, "any")}
    answers = asyncio.run(ask_all(list(entries.values())))
    if as_json:
        typer.echo(json.dumps(_as_data(entries, answers, NAMES), indent=2))
    else:
        _print(entries, answers, NAMES)


def _as_data(
    entries: "Mapping[str, ModelEntry]", answers: "list[Answer]", simulated: tuple[str, ...]
) -> list[dict[str, object]]:
    served: list[dict[str, object]] = [
        {
            "name": name,
            "simulated": False,
            **entry.model_dump(exclude_defaults=True),
            "serves": sorted(answer.ids),
            "problem": answer.problem,
        }
        for (name, entry), answer in zip(entries.items(), answers, strict=True)
    ]
    return served + [{"name": name, "simulated": True} for name in simulated]


def _print(
    entries: "Mapping[str, ModelEntry]", answers: "list[Answer]", simulated: tuple[str, ...]
) -> None:
    for (name, entry), answer in zip(entries.items(), answers, strict=True):
        listed = f"serves {', '.join(sorted(answer.ids))}" if answer.ids else "answers, " + NO_LIST
        typer.echo(f"{name}  {entry.architecture}  {entry.base_url}")
        typer.echo(f"    {answer.problem or listed}")
    for name in simulated:
        typer.echo(f"{name}  SIMULATED, started by agenteval itself")
