"""A check of a scenario's templates and queries, so that faults appear before any trial."""

from collections.abc import Iterator
from pathlib import Path

from agenteval.config.trust import SCENARIO_FILE
from agenteval.errors import UsageError
from agenteval.prompt.prompt import DEFAULT, Prompt, one_line
from agenteval.sandbox.maker import (
    MakerError,
    TemplateError,
    WorldError,
    database,
    fill,
    render,
    render_agent,
    requested,
    rows,
    variables,
)
from agenteval.trial.trial import Check, Scenario

INSTRUCTIONS = "instructions.md"


def proofread(folder: Path, scenario: Scenario, world: Path | None) -> None:
    """Render one trial for each variant, and run its queries on the database that `world` makes.

    Raises UsageError: file, key, what is wrong.
    """
    path = folder / SCENARIO_FILE
    for seed in range(len(scenario.variants)):
        try:
            image = database(scenario, seed) if world else None
            prompt = _rendered(folder, scenario, seed)
        except WorldError as error:
            raise UsageError(f"{world}: {error}. Mend the script") from error
        except ValueError as error:
            raise UsageError(f"{path}: {error}") from error
        if image is not None:
            _ask_all(path, prompt, image)
        _ask_for_agents(path, scenario, seed, prompt)


def _rendered(folder: Path, scenario: Scenario, seed: int) -> Prompt:
    chosen = variables(scenario, seed)
    named = {"rules": "", **DEFAULT.profile.names(scenario.tools), **chosen}
    path = folder / INSTRUCTIONS
    try:
        fill(scenario.instructions, named)
        path = folder / SCENARIO_FILE
        return render(scenario, seed)
    except TemplateError as error:
        raise UsageError(f"{path}: {error}. Known variables: {', '.join(named)}") from error
    except ValueError as error:
        raise UsageError(f"{folder / INSTRUCTIONS}: {error}") from error


def _ask_for_agents(
    path: Path,
    scenario: Scenario,
    seed: int,
    prompt: Prompt,
) -> None:
    """Render what each sub-agent reads and does, as if it had been started."""
    for number, agent in enumerate(scenario.agents):
        key = f"{path}: agent.{number}"
        try:
            names = requested(scenario, agent, seed, prompt.variables)
        except ValueError as error:
            raise UsageError(f"{key}.spawned: {error}") from error
        if agent.program is not None:
            continue
        requested_values = {**prompt.variables, **dict.fromkeys(names, 0)}
        try:
            render_agent(agent, requested_values)
        except TemplateError as error:
            known = ", ".join(["rules", *requested_values])
            raise UsageError(f"{key}: {error}. Known variables: {known}") from error
        except ValueError as error:
            raise UsageError(f"{key}.instructions: {error}") from error


def _ask_all(path: Path, prompt: Prompt, image: bytes) -> None:
    checks = dict(_checks(prompt))
    try:
        answers = rows(image, [check.query for check in checks.values()])
    except MakerError as error:
        raise UsageError(f"{path}: goal: the queries cannot be asked: {error}") from error
    for (key, check), answer in zip(checks.items(), answers, strict=True):
        if answer.error:
            raise UsageError(
                f"{path}: {key}.query: {answer.error}, in `{one_line(check.query)}`. "
                "Mend the query or world.sql"
            )


def _checks(prompt: Prompt) -> Iterator[tuple[str, Check]]:
    for key, checks in (("goal", prompt.goal), ("handshake", prompt.handshake)):
        yield from ((f"{key}.{number}", check) for number, check in enumerate(checks))
