"""`[[agent]]` of a scenario: its sub-agents, read and checked."""

from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, model_validator

from agenteval.core.scenario import Agent, CodeTest, SpawnLimits, Step
from agenteval.errors import UsageError


def _is_inside(path: str) -> str:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError(
            "must be a path inside the workspace or the scenario, such as data/world.db"
        )
    return path


Inside = Annotated[str, AfterValidator(_is_inside)]
Tool = Literal["bash", "read", "write"]
_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)
_Text = Annotated[str, Field(min_length=1)]
_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]
_Few = Annotated[int, Field(ge=1, le=32)]
_NEEDS = {"fixed": ("program",), "model": ("instructions", "policy", "tools", "solution")}


class StepSchema(BaseModel):
    model_config = _STRICT

    tool: _Text
    arguments: dict[str, Any]


class AgentSchema(BaseModel):
    """A sub-agent that the served model plays, or a program that stands for one."""

    model_config = _STRICT

    name: _Name
    spawned: _Text
    evaluator: Literal["model", "fixed"] = "model"
    program: Inside = ""
    instructions: Inside = ""
    policy: str = ""
    tools: list[Tool] = []
    solution: list[StepSchema] = []
    closing: PositiveInt = 1
    max_turns: PositiveInt = 20

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        for kind, keys in _NEEDS.items():
            for key in keys:
                if (kind == self.evaluator) != bool(getattr(self, key)):
                    verb = "needs" if kind == self.evaluator else "has no"
                    raise ValueError(f"evaluator = {self.evaluator!r} {verb} `{key}`")
        return self


class SpawnSchema(BaseModel):
    model_config = _STRICT

    depth: _Few = 2
    count: _Few = 8


def agents(
    path: Path, schemas: Sequence[AgentSchema], text: Callable[[str, str], str]
) -> tuple[Agent, ...]:
    """`text` reads a file beside the scenario, and is told its purpose. Raises UsageError."""
    names = [schema.name for schema in schemas]
    for number, schema in enumerate(schemas):
        if names.index(schema.name) != number:
            raise UsageError(f"{path}: agent.{number}.name: {schema.name!r} is taken. Rename it")
        for at, step in enumerate(schema.solution):
            if step.tool not in schema.tools:
                raise UsageError(
                    f"{path}: agent.{number}.solution.{at}.tool: {step.tool!r} is not in its "
                    f"tools. Known: {', '.join(schema.tools)}"
                )
    return tuple(_agent(schema, text) for schema in schemas)


def spawn_limits(schema: SpawnSchema) -> SpawnLimits:
    return SpawnLimits(schema.depth, schema.count)


def _agent(schema: AgentSchema, text: Callable[[str, str], str]) -> Agent:
    program = None
    if schema.program:
        program = CodeTest(
            schema.name, text(schema.program, f"agent {schema.name!r} is played by it")
        )
    return Agent(
        name=schema.name,
        spawned=schema.spawned,
        instructions=text(schema.instructions, f"agent {schema.name!r} reads it")
        if schema.instructions
        else "",
        policy=schema.policy,
        tools=tuple(schema.tools),
        solution=tuple(Step(**step.model_dump()) for step in schema.solution),
        closing=schema.closing,
        max_turns=schema.max_turns,
        program=program,
    )
