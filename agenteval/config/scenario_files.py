"""Scenarios as their authors wrote them, read and checked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt

from agenteval.config.agents import (
    AgentSchema,
    DrawSchema,
    Inside,
    SpawnSchema,
    StepSchema,
    Tool,
    agents,
    draw,
    load_words,
    spawn_limits,
)
from agenteval.config.beneath import read
from agenteval.config.fixtures import find_world
from agenteval.config.project_files import SCENARIOS
from agenteval.config.proofread import INSTRUCTIONS, proofread
from agenteval.config.roots import FILE, find, first
from agenteval.config.toml import load_toml
from agenteval.core.chance import Draw
from agenteval.core.plain import as_name
from agenteval.core.scenario import Check, CodeTest, Limits, Scenario, Step, Trace
from agenteval.errors import UsageError
from agenteval.taxonomy.catalogue import failure_classes

FOLDER = SCENARIOS
_MOST_TIMES = 16  # of a usual limit: a scenario may be a stranger's
_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


_Text = Annotated[str, Field(min_length=1)]


def _checked(name: str) -> str:
    if as_name(name) != name:
        raise ValueError("is a name: one line, without control characters")
    return name


_Name = Annotated[str, Field(min_length=1), AfterValidator(_checked)]


class _CheckSchema(BaseModel):
    model_config = _STRICT

    name: _Name
    query: _Text
    expect: str | int | float


class _TraceSchema(BaseModel):
    model_config = _STRICT

    name: _Name
    calls: Annotated[list[_Text], Field(min_length=1)]


class _TestSchema(BaseModel):
    model_config = _STRICT

    name: _Name
    python: Annotated[Inside, Field(min_length=1)]


class _ScenarioSchema(BaseModel):
    """The keys of scenario.toml; scenarios/README.md explains each."""

    model_config = _STRICT

    title: _Name
    policy: Annotated[Inside, Field(min_length=1)]
    fixture: Annotated[Inside, Field(min_length=1)]
    tools: Annotated[list[Tool], Field(min_length=1)]
    database: Annotated[Inside, Field(min_length=1)]
    goal: Annotated[list[_CheckSchema], Field(min_length=1)]
    solution: Annotated[list[StepSchema], Field(min_length=1)]
    another: list[StepSchema] = []
    closing: PositiveInt | None = None
    agent: list[AgentSchema] = []
    spawn: SpawnSchema = SpawnSchema()
    handshake: list[_CheckSchema] = []
    test: list[_TestSchema] = []
    trace: list[_TraceSchema] = []
    variant: list[dict[str, str | int]] = []
    draw: dict[str, DrawSchema] = {}
    ask: dict[str, _Text] = {}
    invites: list[_Text] = []
    max_turns: PositiveInt = 20
    limits: dict[str, int | float] = {}


def load_scenarios(targets: Sequence[str], *, roots: Sequence[Path]) -> tuple[Scenario, ...]:
    """The scenarios that `targets` name, each once, in that order.

    A target is a folder that holds scenarios at any depth, the folder of one scenario, or a name
    or group below scenarios/ in one of `roots`, as `config.roots.roots` gives them, with or without
    that folder's name; without any target, everything below the first scenarios/ there is. Raises
    UsageError.
    """
    places = [root / FOLDER for root in roots]
    chosen: dict[str, Path] = {}
    for target in targets or [str(first(places))]:
        for name, folder in find(target, places):
            if as_name(name) != name:
                raise UsageError(f"{folder}: the name of a scenario is one line. Rename the folder")
            if chosen.setdefault(name, folder).resolve() != folder.resolve():
                raise UsageError(
                    f"{folder}: a scenario {name!r} was already taken from {chosen[name]}. "
                    "Rename one of the folders"
                )
    words = load_words(places)
    return tuple(_load_scenario(folder, name, words, roots) for name, folder in chosen.items())


HOLDS = "It holds what the model reads, under `# System` and `# Task`"


def _load_scenario(
    folder: Path, name: str, words: Mapping[str, tuple[str, ...]], roots: Sequence[Path]
) -> Scenario:
    """Raises UsageError: one line with the file, the key and what was expected there."""
    path, base = folder / FILE, _base(folder, roots)
    schema = load_toml(path, _ScenarioSchema, base)
    world, root = _world(path, schema, roots)
    scenario = Scenario(
        name=name,
        instructions=_text(folder / INSTRUCTIONS, HOLDS, base),
        title=schema.title,
        policy=schema.policy,
        fixture=schema.fixture,
        tools=tuple(schema.tools),
        database=schema.database,
        goal=tuple(Check(**check.model_dump()) for check in schema.goal),
        solution=tuple(Step(**step.model_dump()) for step in schema.solution),
        another=tuple(Step(**step.model_dump()) for step in schema.another),
        handshake=tuple(Check(**check.model_dump()) for check in schema.handshake),
        tests=tuple(_test(folder, test, base) for test in schema.test),
        traces=tuple(Trace(trace.name, tuple(trace.calls)) for trace in schema.trace),
        variants=tuple(schema.variant) or ({},),
        draws=_draws(path, schema, words),
        asks=schema.ask,
        words=words,
        world=_text(world, "It makes the world's database", root) if world else "",
        invites=tuple(schema.invites),
        agents=agents(
            path, schema.agent, lambda name, purpose: _text(folder / name, purpose, base)
        ),
        spawn=spawn_limits(schema.spawn),
        closing=schema.closing or 0,
        max_turns=schema.max_turns,
        limits=_limits(path, schema.limits),
    )
    _check_names(path, scenario)
    proofread(folder, scenario, world)
    return scenario


def _world(path: Path, schema: _ScenarioSchema, roots: Sequence[Path]) -> tuple[Path | None, Path]:
    """Return the script of the scenario's database, if it has one, and the root that it lies in."""
    script, root = find_world(schema.fixture, roots)
    asking = "ask" if schema.ask else "agent" if schema.agent else ""
    if asking and script is None:
        raise UsageError(
            f"{path}: {asking}: no fixture {schema.fixture!r} with a world.sql, so there is no "
            "world to ask. Add one, or mend the name"
        )
    return script, root


def _test(folder: Path, test: _TestSchema, base: Path) -> CodeTest:
    return CodeTest(
        test.name, _text(folder / test.python, f"test {test.name!r} is made of it", base)
    )


def _base(folder: Path, roots: Sequence[Path]) -> Path:
    """Return the folder beneath which a scenario's files are read: its project, else its own."""
    return next((root for root in roots if folder.is_relative_to(root)), folder)


def _text(path: Path, purpose: str, base: Path) -> str:
    try:
        return read(path, base).decode("utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error}). {purpose}") from error


def _draws(
    path: Path, schema: _ScenarioSchema, words: Mapping[str, tuple[str, ...]]
) -> dict[str, Draw]:
    draws = {}
    for name, one in schema.draw.items():
        try:
            draws[name] = draw(one, words)
        except ValueError as error:
            raise UsageError(f"{path}: draw.{name}: {error}") from error
    return draws


def _limits(path: Path, limits: dict[str, int | float]) -> Limits:
    limit_fields = Limits.__dataclass_fields__
    usual = Limits()
    for key, value in limits.items():
        if key not in limit_fields:
            raise UsageError(f"{path}: limits.{key}: no such key. Known: {', '.join(limit_fields)}")
        if not value > 0 or (isinstance(value, float) and limit_fields[key].type is int):
            raise UsageError(f"{path}: limits.{key}: must be a {limit_fields[key].type} above 0")
        most = _MOST_TIMES * getattr(usual, key)
        if value > most:
            raise UsageError(f"{path}: limits.{key}: {value} is above {most}, the most there is")
    return Limits(**limits)  # type: ignore[arg-type]


def _check_names(path: Path, scenario: Scenario) -> None:
    class_ids = [each.id for each in failure_classes()]
    for name in scenario.invites:
        if name not in class_ids:
            raise UsageError(
                f"{path}: invites: no failure class {name!r}. Known: {', '.join(class_ids)}"
            )
    for number, step in enumerate(scenario.solution):
        if step.tool not in scenario.tools:
            raise UsageError(
                f"{path}: solution.{number}.tool: {step.tool!r} is not in tools. "
                f"Known: {', '.join(scenario.tools)}"
            )
    if len({frozenset(variant) for variant in scenario.variants}) > 1:
        raise UsageError(f"{path}: variant: every [[variant]] must set the same variables")
