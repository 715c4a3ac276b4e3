"""The sub-agents of a scenario, and what it draws by chance, as scenario.toml has them."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, model_validator

from agenteval.config.toml import check, read_toml
from agenteval.core.chance import Day, Draw, Pick, Whole
from agenteval.core.scenario import Agent, CodeTest, SpawnLimits, Step
from agenteval.errors import UsageError


def _is_inside(path: str) -> str:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError(
            "must be a path inside the workspace or the scenario, such as data/world.db"
        )
    if not path.isprintable():
        raise ValueError("must be a path without characters that are not printed")
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
    policy: Inside = ""
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
    """Return the agents of a scenario. `text` reads a file next to it, and gets the file's purpose.

    Raises UsageError.
    """
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


WORDS = "words.toml"
_Word = Annotated[str, Field(min_length=1)]


class DrawSchema(BaseModel):
    """`{ from, to }` of whole numbers or days, or `{ of }` with an optional `count`."""

    model_config = _STRICT

    low: int | str | None = Field(default=None, alias="from")
    high: int | str | None = Field(default=None, alias="to")
    of: list[str | int] | _Word | None = None
    count: PositiveInt | None = None

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        ranged = self.low is not None and self.high is not None and self.of is None
        if ranged and self.count is None:
            self._check_range()
        elif self.of is None or self.low is not None or self.high is not None:
            raise ValueError(
                "give `from` and `to` (whole numbers, or days as YYYY-MM-DD), or `of` (a list, or "
                "the name of a word list), with `count` for a list of different ones"
            )
        return self

    def _check_range(self) -> None:
        low, high = self.low, self.high
        if isinstance(low, str) and isinstance(high, str):
            low, high = date.fromisoformat(low).toordinal(), date.fromisoformat(high).toordinal()
        if not isinstance(low, int) or not isinstance(high, int):
            raise ValueError("`from` and `to` are two whole numbers or two days")  # noqa: TRY004 -- pydantic's way
        if low > high:
            raise ValueError("`from` is above `to`")


class _Words(BaseModel):
    model_config = _STRICT

    words: dict[str, Annotated[list[_Word], Field(min_length=1)]]


def load_words(places: Sequence[Path]) -> Mapping[str, tuple[str, ...]]:
    """The lists of every words.toml in `places`; the first place that has a list wins.

    Raises UsageError.
    """
    word_lists: dict[str, tuple[str, ...]] = {}
    for place in places:
        path = place / WORDS
        if os.path.lexists(path):
            lists = check(path, {"words": read_toml(path, place.parent)}, _Words).words
            word_lists = {name: tuple(words) for name, words in lists.items()} | word_lists
    return word_lists


def draw(schema: DrawSchema, words: Mapping[str, tuple[str, ...]]) -> Draw:
    """Raises ValueError when a word list is unknown or shorter than the count."""
    if schema.of is None:
        low, high = schema.low, schema.high
        return (
            Whole(low, high)
            if isinstance(low, int) and isinstance(high, int)
            else Day(str(low), str(high))
        )
    if isinstance(schema.of, str) and schema.of not in words:
        raise ValueError(f"no word list {schema.of!r}. Known: {', '.join(sorted(words)) or 'none'}")
    items = words[schema.of] if isinstance(schema.of, str) else tuple(schema.of)
    if len(items) < (schema.count or 1):
        raise ValueError(f"{schema.count or 1} of a list of {len(items)}")
    return Pick(items, schema.count or 0)
