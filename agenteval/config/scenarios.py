"""Scenarios as their authors wrote them, read and checked."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import jinja2
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt

from agenteval.config.scenario_folders import FILE, find, first
from agenteval.config.toml import load_toml
from agenteval.core.prompt import fill, render_variant
from agenteval.core.scenario import Check, Limits, Scenario, Step
from agenteval.errors import UsageError
from agenteval.taxonomy.catalogue import failure_classes

FOLDER = "scenarios"
INSTRUCTIONS = "instructions.md"

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


def _inside_workspace(path: str) -> str:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError("must be a path inside the workspace, such as data/world.db")
    return path


_Text = Annotated[str, Field(min_length=1)]


class _CheckSchema(BaseModel):
    model_config = _STRICT

    name: _Text
    query: _Text
    expect: str | int | float


class _StepSchema(BaseModel):
    model_config = _STRICT

    tool: _Text
    arguments: dict[str, Any]


class _ScenarioSchema(BaseModel):
    """The keys of scenario.toml; scenarios/README.md tells what each means."""

    model_config = _STRICT

    title: _Text
    policy: _Text
    fixture: _Text
    tools: Annotated[list[Literal["bash", "read"]], Field(min_length=1)]
    database: Annotated[_Text, AfterValidator(_inside_workspace)]
    goal: Annotated[list[_CheckSchema], Field(min_length=1)]
    solution: Annotated[list[_StepSchema], Field(min_length=1)]
    handshake: list[_CheckSchema] = []
    variant: list[dict[str, str | int]] = []
    invites: list[_Text] = []
    max_turns: PositiveInt = 20
    limits: dict[str, int | float] = {}


def load_scenarios(targets: Sequence[str], *, roots: Sequence[Path]) -> tuple[Scenario, ...]:
    """The scenarios that `targets` name, each once, in that order.

    A target is a folder that holds scenarios at any depth, the folder of one scenario, or a name
    or group below scenarios/ in one of `roots`, as `config.paths.roots` gives them; without any
    target, everything below the first scenarios/ there is. Raises UsageError.
    """
    places = [root / FOLDER for root in roots]
    chosen: dict[str, Path] = {}
    for target in targets or [str(first(places))]:
        for name, folder in find(target, places):
            if chosen.setdefault(name, folder).resolve() != folder.resolve():
                raise UsageError(
                    f"{folder}: a scenario {name!r} was already taken from {chosen[name]}. "
                    "Rename one of the folders"
                )
    return tuple(load_scenario(folder, name) for name, folder in chosen.items())


def load_scenario(folder: Path, name: str) -> Scenario:
    """Raises UsageError: one line with the file, the key and what was expected there."""
    path = folder / FILE
    schema = load_toml(path, _ScenarioSchema)
    scenario = Scenario(
        name=name,
        instructions=_instructions(folder / INSTRUCTIONS),
        title=schema.title,
        policy=schema.policy,
        fixture=schema.fixture,
        tools=tuple(schema.tools),
        database=schema.database,
        goal=tuple(Check(**check.model_dump()) for check in schema.goal),
        solution=tuple(Step(**step.model_dump()) for step in schema.solution),
        handshake=tuple(Check(**check.model_dump()) for check in schema.handshake),
        variants=tuple(schema.variant) or ({},),
        invites=tuple(schema.invites),
        max_turns=schema.max_turns,
        limits=_limits(path, schema.limits),
    )
    _check_names(path, scenario)
    _check_templates(folder, scenario)
    return scenario


def _instructions(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: cannot be read ({error}). It holds what the model reads, under "
            "`# System` and `# Task`"
        ) from error


def _limits(path: Path, given: dict[str, int | float]) -> Limits:
    known = Limits.__dataclass_fields__
    for key, value in given.items():
        if key not in known:
            raise UsageError(f"{path}: limits.{key}: no such key. Known: {', '.join(known)}")
        if value <= 0 or (isinstance(value, float) and known[key].type is int):
            raise UsageError(f"{path}: limits.{key}: must be a {known[key].type} above 0")
    return Limits(**given)  # type: ignore[arg-type]


def _check_names(path: Path, scenario: Scenario) -> None:
    known = [each.id for each in failure_classes()]
    for name in scenario.invites:
        if name not in known:
            raise UsageError(
                f"{path}: invites: no failure class {name!r}. Known: {', '.join(known)}"
            )
    for number, step in enumerate(scenario.solution):
        if step.tool not in scenario.tools:
            raise UsageError(
                f"{path}: solution.{number}.tool: {step.tool!r} is not in tools. "
                f"Known: {', '.join(scenario.tools)}"
            )
    if len({frozenset(variant) for variant in scenario.variants}) > 1:
        raise UsageError(f"{path}: variant: every [[variant]] must set the same variables")


def _check_templates(folder: Path, scenario: Scenario) -> None:
    """Render every variant: what is wrong with a template is told now and not in a trial."""
    path = folder / FILE
    try:
        for variant in scenario.variants:
            path = folder / INSTRUCTIONS
            fill(scenario.instructions, {**variant, "rules": ""})
            path = folder / FILE
            render_variant(scenario, variant)
    except jinja2.TemplateError as error:
        known = ", ".join(["rules", *scenario.variants[0]])
        raise UsageError(f"{path}: {error}. Known variables: {known}") from error
    except ValueError as error:
        raise UsageError(f"{folder / INSTRUCTIONS}: {error}") from error
