"""Scenarios and their fixtures as their authors wrote them, read and checked.

`load_scenarios` finds the folders of targets and reads each scenario.toml, with its sub-agents
(`agents`) and what it draws by chance (`draw`). `load_fixture` returns the files that a trial
starts with.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, model_validator

from agenteval.classes.catalogue import failure_classes
from agenteval.config.beneath import read, tree
from agenteval.config.files import (
    FIXTURES,
    SCENARIOS,
    Roots,
    check,
    is_folder,
    load_toml,
    note_hidden,
    read_toml,
    shipped,
)
from agenteval.config.proofread import INSTRUCTIONS, proofread
from agenteval.config.trust import SCENARIO_FILE, find, first
from agenteval.errors import UsageError
from agenteval.policy.policy import Policy
from agenteval.sandbox.maker import WorldError, database
from agenteval.trial.text import Day, Draw, Pick, Whole, as_name
from agenteval.trial.trial import Agent, Check, CodeTest, Limits, Scenario, SpawnLimits, Step, Trace

WORLD = "world.sql"
FILES = "files"


def load_fixture(scenario: Scenario, seed: int, *, roots: Roots) -> Mapping[str, bytes]:
    """Return fixtures/NAME/files, and the database that world.sql makes: relative path to content.

    The same seed gives the same bytes. Raises UsageError.
    """
    folder, root = _folder(scenario, roots)
    content = dict(_files(folder / FILES, root))
    if scenario.world:
        try:
            content[scenario.database] = database(scenario, seed)
        except WorldError as error:
            raise UsageError(f"{folder / WORLD}: {error}. Mend the script") from error
    if scenario.database not in content:
        raise UsageError(
            f"{folder}: scenario {scenario.name!r} is judged on {scenario.database!r}, which the "
            f"fixture does not hold. Add {WORLD} or that file"
        )
    return content


def check_scripts(
    policy: Policy,
    where: Path,
    scenario: Scenario,
    files: Collection[str],
) -> None:
    """Raises UsageError when a rule of the policy, read from `where`, is for no file of these."""
    tables = {script.path for script in policy.bash.scripts}
    for script in policy.bash.listed:
        if script not in files:
            key = "script" if script in tables else "allow"
            raise UsageError(
                f"{where}: bash.{key}: a rule is for {script}, and the fixture "
                f"{scenario.fixture!r} of scenario {scenario.name!r} has no such file. Add it to "
                f"{FIXTURES}/{scenario.fixture}/{FILES}/, mend the path, or take the rule out"
            )


def _folder(scenario: Scenario, roots: Roots) -> tuple[Path, Path]:
    """Return the fixture's folder, and the root that it lies in."""
    fixture_names: set[str] = set()
    for root in roots:
        folder = root / FIXTURES / scenario.fixture
        if is_folder(folder / FILES):
            _note_hidden(scenario.fixture, folder)
            return folder, root
        fixture_names |= {path.parent.name for path in (root / FIXTURES).glob(f"*/{FILES}")}
    places = " or ".join(f"{root / FIXTURES}/" for root in roots)
    raise UsageError(
        f"scenario {scenario.name!r}: no fixture {scenario.fixture!r} (a folder with {FILES}/) in "
        f"{places}. Known: {', '.join(sorted(fixture_names)) or 'none'}"
    )


_READ: dict[Path, Mapping[str, bytes]] = {}
# Bytes of fixtures that are read once for all trials.
_KEPT = 64 << 20


def _files(folder: Path, root: Path) -> Mapping[str, bytes]:
    if folder not in _READ:
        try:
            _READ[folder] = tree(folder, root)
        except OSError as error:
            raise UsageError(f"{error.filename or folder}: cannot be read ({error})") from error
    files = _READ[folder]
    sizes = {path: sum(map(len, contents.values())) for path, contents in _READ.items()}
    while sum(sizes.values()) > _KEPT:
        oldest = next(iter(sizes))
        del _READ[oldest], sizes[oldest]
    return files


def _find_world(fixture: str, roots: Roots) -> tuple[Path | None, Path]:
    """Return the script that makes the fixture's database, and the root that it lies in.

    None when the fixture brings a database as a file.
    """
    for root in roots:
        path = root / FIXTURES / fixture / WORLD
        if os.path.lexists(path):
            _note_hidden(fixture, path.parent)
            return path, root
    return None, roots[0]


def _note_hidden(name: str, folder: Path) -> None:
    note_hidden("fixture", name, folder, shipped() / FIXTURES / name)


def _is_inside(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise ValueError(
            "must be a path inside the workspace or the scenario, such as data/world.db"
        )
    if not path.isprintable():
        raise ValueError("must be a path without characters that are not printed")
    return path


Inside = Annotated[str, AfterValidator(_is_inside)]
_Part = TypeVar("_Part")
Tool = Literal["bash", "read", "write"]

_AgentName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]
_Few = Annotated[int, Field(ge=1, le=32)]
_NEEDS = {"fixed": ("program",), "model": ("instructions", "policy", "tools", "solution")}


_Text = Annotated[str, Field(min_length=1)]


class _Schema(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
    )


class _StepSchema(_Schema):
    tool: _Text
    arguments: dict[str, Any]


class _AgentSchema(_Schema):
    """A sub-agent that the served model plays, or a program that stands for one."""

    name: _AgentName
    spawned: _Text
    evaluator: Literal["model", "fixed"] = "model"
    program: Inside = ""
    instructions: Inside = ""
    policy: Inside = ""
    tools: list[Tool] = []
    solution: list[_StepSchema] = []
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


class _SpawnSchema(_Schema):
    depth: _Few = 2
    count: _Few = 8


def _agents(
    path: Path,
    schemas: Sequence[_AgentSchema],
    text: Callable[[str, str], str],
) -> tuple[Agent, ...]:
    """Return the agents of a scenario. `text` reads a file next to it, and gets the file's purpose.

    Raises UsageError.
    """
    agent_names: set[str] = set()
    for number, schema in enumerate(schemas):
        if schema.name in agent_names:
            raise UsageError(f"{path}: agent.{number}.name: {schema.name!r} is taken. Rename it")
        agent_names.add(schema.name)
        _check_tools(path, f"agent.{number}.solution", "its tools", schema.solution, schema.tools)
    return tuple(_agent(schema, text) for schema in schemas)


def _check_tools(
    path: Path,
    key: str,
    where: str,
    steps: Sequence[_StepSchema | Step],
    tools: Sequence[str],
) -> None:
    for number, step in enumerate(steps):
        if step.tool not in tools:
            raise UsageError(
                f"{path}: {key}.{number}.tool: {step.tool!r} is not in {where}. "
                f"Known: {', '.join(tools)}"
            )


def _agent(schema: _AgentSchema, text: Callable[[str, str], str]) -> Agent:
    program = None
    instructions = ""
    if schema.program:
        code = text(schema.program, f"agent {schema.name!r} is played by it")
        program = CodeTest(schema.name, code)
    if schema.instructions:
        instructions = text(schema.instructions, f"agent {schema.name!r} reads it")
    return Agent(
        name=schema.name,
        spawned=schema.spawned,
        instructions=instructions,
        policy=schema.policy,
        tools=tuple(schema.tools),
        solution=_from_schemas(Step, schema.solution),
        closing=schema.closing,
        max_turns=schema.max_turns,
        program=program,
    )


def _from_schemas(kind: type[_Part], schemas: Iterable[_Schema]) -> tuple[_Part, ...]:
    """Return what schemas of the same fields describe."""
    return tuple(kind(**schema.model_dump()) for schema in schemas)


_WordLists = Mapping[str, tuple[str, ...]]


class _DrawSchema(_Schema):
    """`{ from, to }` of whole numbers or days, or `{ of }` with an optional `count`."""

    low: int | str | None = Field(default=None, alias="from")
    high: int | str | None = Field(default=None, alias="to")
    of: list[str | int] | _Text | None = None
    count: PositiveInt | None = None

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        bounds = [bound for bound in (self.low, self.high) if bound is not None]
        if len(bounds) == 2 and self.of is None and self.count is None:
            self._check_range()
        elif self.of is None or bounds:
            raise ValueError(
                "give `from` and `to` (whole numbers, or days as YYYY-MM-DD), or `of` (a list, or "
                "the name of a word list), with `count` for a list of different ones"
            )
        return self

    def _check_range(self) -> None:
        low, high = self.low, self.high
        if isinstance(low, str) and isinstance(high, str):
            low = date.fromisoformat(low).toordinal()
            high = date.fromisoformat(high).toordinal()
        if not isinstance(low, int) or not isinstance(high, int):
            raise ValueError("`from` and `to` are two whole numbers or two days")  # noqa: TRY004 -- pydantic's way
        if low > high:
            raise ValueError("`from` is above `to`")


class _Words(_Schema):
    words: dict[str, Annotated[list[_Text], Field(min_length=1)]]


def _load_words(places: Roots) -> _WordLists:
    """Return the lists of every words.toml in `places`; the first place that has a list wins.

    Raises UsageError.
    """
    word_lists: dict[str, tuple[str, ...]] = {}
    for place in reversed(places):
        path = place / "words.toml"
        if os.path.lexists(path):
            lists = check(path, {"words": read_toml(path, place.parent)}, _Words).words
            word_lists |= {name: tuple(words) for name, words in lists.items()}
    return word_lists


def _draw(schema: _DrawSchema, words: _WordLists) -> Draw:
    """Return what a schema draws. Raises ValueError for an unknown or too short word list."""
    if schema.of is None:
        low, high = schema.low, schema.high
        if isinstance(low, int) and isinstance(high, int):
            return Whole(low, high)
        return Day(str(low), str(high))
    items: Sequence[str | int] = schema.of
    if isinstance(items, str):
        if items not in words:
            known = ", ".join(sorted(words)) or "none"
            raise ValueError(f"no word list {items!r}. Known: {known}")
        items = words[items]
    least = schema.count or 1
    if len(items) < least:
        raise ValueError(f"{least} of a list of {len(items)}")
    return Pick(tuple(items), schema.count or 0)


# Of a usual limit: a scenario may be a stranger's.
_MOST_TIMES = 16


def _checked(name: str) -> str:
    if as_name(name) != name:
        raise ValueError("is a name: one line, without control characters")
    return name


_CheckedName = Annotated[str, Field(min_length=1), AfterValidator(_checked)]


class _CheckSchema(_Schema):
    name: _CheckedName
    query: _Text
    expect: str | int | float


class _TraceSchema(_Schema):
    name: _CheckedName
    calls: Annotated[list[_Text], Field(min_length=1)]


class _TestSchema(_Schema):
    name: _CheckedName
    python: Annotated[Inside, Field(min_length=1)]


class _ScenarioSchema(_Schema):
    """The keys of scenario.toml; scenarios/README.md explains each."""

    title: _CheckedName
    policy: Annotated[Inside, Field(min_length=1)]
    fixture: Annotated[Inside, Field(min_length=1)]
    tools: Annotated[list[Tool], Field(min_length=1)]
    database: Annotated[Inside, Field(min_length=1)]
    goal: Annotated[list[_CheckSchema], Field(min_length=1)]
    solution: Annotated[list[_StepSchema], Field(min_length=1)]
    another: list[_StepSchema] = []
    closing: PositiveInt | None = None
    agent: list[_AgentSchema] = []
    spawn: _SpawnSchema = _SpawnSchema()
    handshake: list[_CheckSchema] = []
    test: list[_TestSchema] = []
    trace: list[_TraceSchema] = []
    variant: list[dict[str, str | int]] = []
    draw: dict[str, _DrawSchema] = {}
    ask: dict[str, _Text] = {}
    invites: list[_Text] = []
    max_turns: PositiveInt = 20
    limits: dict[str, int | float] = {}


def load_scenarios(targets: Sequence[str], *, roots: Roots) -> tuple[Scenario, ...]:
    """Return the scenarios that `targets` name, each once, in that order.

    A target is a folder that holds scenarios at any depth, the folder of one scenario, or a name
    or group below scenarios/ in one of `roots`, with or without that folder's name; without any
    target, everything below the first scenarios/ there is. Raises UsageError.
    """
    places = [root / SCENARIOS for root in roots]
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
    words = _load_words(places)
    return tuple(_load_scenario(folder, name, words, roots) for name, folder in chosen.items())


HOLDS = "It holds what the model reads, under `# System` and `# Task`"


def _load_scenario(
    folder: Path,
    name: str,
    words: _WordLists,
    roots: Roots,
) -> Scenario:
    """Raises UsageError: one line with the file, the key and what was expected there."""
    path, base = folder / SCENARIO_FILE, _base(folder, roots)
    schema = load_toml(path, _ScenarioSchema, base)
    world, root = _world(path, schema, roots)
    text = partial(_neighbour, folder, base)
    scenario = Scenario(
        name=name,
        instructions=text(INSTRUCTIONS, HOLDS),
        title=schema.title,
        policy=schema.policy,
        fixture=schema.fixture,
        tools=tuple(schema.tools),
        database=schema.database,
        goal=_from_schemas(Check, schema.goal),
        solution=_from_schemas(Step, schema.solution),
        another=_from_schemas(Step, schema.another),
        handshake=_from_schemas(Check, schema.handshake),
        tests=tuple(_test(test, text) for test in schema.test),
        traces=tuple(Trace(trace.name, tuple(trace.calls)) for trace in schema.trace),
        variants=tuple(schema.variant) or ({},),
        draws=_draws(path, schema, words),
        asks=schema.ask,
        words=words,
        world=_text(world, "It makes the world's database", root) if world else "",
        invites=tuple(schema.invites),
        agents=_agents(path, schema.agent, text),
        spawn=SpawnLimits(**schema.spawn.model_dump()),
        closing=schema.closing or 0,
        max_turns=schema.max_turns,
        limits=_limits(path, schema.limits),
    )
    _check_names(path, scenario)
    proofread(folder, scenario, world)
    return scenario


def _world(path: Path, schema: _ScenarioSchema, roots: Roots) -> tuple[Path | None, Path]:
    """Return the script of the scenario's database, if it has one, and the root that it lies in."""
    script, root = _find_world(schema.fixture, roots)
    asking = "ask" if schema.ask else "agent" if schema.agent else ""
    if asking and script is None:
        raise UsageError(
            f"{path}: {asking}: no fixture {schema.fixture!r} with a world.sql, so there is no "
            "world to ask. Add one, or mend the name"
        )
    return script, root


def _test(test: _TestSchema, text: Callable[[str, str], str]) -> CodeTest:
    return CodeTest(test.name, text(test.python, f"test {test.name!r} is made of it"))


def _base(folder: Path, roots: Roots) -> Path:
    """Return the folder beneath which a scenario's files are read: its project, else its own."""
    return next((root for root in roots if folder.is_relative_to(root)), folder)


def _neighbour(folder: Path, base: Path, name: str, purpose: str) -> str:
    """Return the text of a file in the folder of a scenario, which is read beneath `base`."""
    return _text(folder / name, purpose, base)


def _text(path: Path, purpose: str, base: Path) -> str:
    try:
        return read(path, base).decode("utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error}). {purpose}") from error


def _draws(path: Path, schema: _ScenarioSchema, words: _WordLists) -> dict[str, Draw]:
    draws = {}
    for name, drawn in schema.draw.items():
        try:
            draws[name] = _draw(drawn, words)
        except ValueError as error:
            raise UsageError(f"{path}: draw.{name}: {error}") from error
    return draws


def _limits(path: Path, limits: dict[str, int | float]) -> Limits:
    limit_fields = Limits.__dataclass_fields__
    usual = Limits()
    for key, value in limits.items():
        if key not in limit_fields:
            raise UsageError(f"{path}: limits.{key}: no such key. Known: {', '.join(limit_fields)}")
        kind = limit_fields[key].type
        if not value > 0 or (isinstance(value, float) and kind is int):
            raise UsageError(f"{path}: limits.{key}: must be a {kind} above 0")
        most = _MOST_TIMES * getattr(usual, key)
        if value > most:
            raise UsageError(f"{path}: limits.{key}: {value} is above {most}, the most there is")
    return Limits(**limits)  # type: ignore[arg-type]


def _check_names(path: Path, scenario: Scenario) -> None:
    class_ids = [known.id for known in failure_classes()]
    for name in scenario.invites:
        if name not in class_ids:
            raise UsageError(
                f"{path}: invites: no failure class {name!r}. Known: {', '.join(class_ids)}"
            )
    _check_tools(path, "solution", "tools", scenario.solution, scenario.tools)
    if len({frozenset(variant) for variant in scenario.variants}) > 1:
        raise UsageError(f"{path}: variant: every [[variant]] must set the same variables")
