"""The world of one seed: what its variables are, and the database it starts with."""

import sqlite3
from collections import deque
from collections.abc import Mapping
from contextlib import closing
from functools import lru_cache
from types import MethodType
from typing import Any

from jinja2 import DictLoader, StrictUndefined, Template, TemplateError, TemplateRuntimeError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from agenteval.core.chance import DRAWS, Chance, Value
from agenteval.core.scenario import Scenario


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's own; what worlds name at every line it need not look at again: draws and texts."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if type(obj) is Chance and attribute in DRAWS:
            return getattr(obj, attribute)
        if type(obj) is Namespace and attribute.isalpha():
            kept = getattr(obj, attribute, None)
            if type(kept) is str:
                return kept
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if type(obj) is Chance:
            return attr in DRAWS
        return super().is_safe_attribute(obj, attr, value)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        if type(obj) is MethodType and type(obj.__self__) is Chance:
            kwargs.pop("_loop_vars", None)  # a template adds both, for functions that ask for them
            kwargs.pop("_block_vars", None)
            return obj(*args, **kwargs)
        return super().call(context, obj, *args, **kwargs)


_TEMPLATES = _Sandbox(
    loader=DictLoader({}),  # no file is ever included
    undefined=StrictUndefined,
    autoescape=False,  # the reader is a model and no browser
    keep_trailing_newline=True,
)


@lru_cache(maxsize=4096)
def _template(text: str) -> Template:
    return _TEMPLATES.from_string(text)


def fill(text: str, variables: Mapping[str, Any]) -> str:
    """`text` as a template; raises jinja2.TemplateError for whatever is wrong with it."""
    if "{" not in text:
        return text  # most queries and words hold nothing to fill
    try:
        return _template(text).render(variables)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise TemplateRuntimeError(f"{type(error).__name__}: {error}") from error


Variables = Mapping[str, Value]


class WorldError(ValueError):
    """The fixture's world.sql makes no database."""


def variables(scenario: Scenario, seed: int) -> Variables:
    """Everything that the templates of this scenario may name, for the trial with this seed.

    A `[[variant]]` comes by turns, so neighbouring seeds use all equally; each `[draw]` has a
    stream of its own, so that one more changes no other; an `[ask]` is answered by the fresh world.
    Raises WorldError, and ValueError when an `[ask]` cannot be answered.
    """
    found = _drawn(scenario, seed)
    if scenario.asks:
        with closing(_world(scenario, found, seed)) as world:
            for name, query in scenario.asks.items():
                found[name] = _answer(world, name, query, found)
    return found


def database(scenario: Scenario, seed: int) -> bytes:
    """The SQLite file that the world's script makes. Raises WorldError."""
    return _image(scenario, _drawn(scenario, seed), seed)


def columns(scenario: Scenario, seed: int, query: str) -> tuple[str, ...]:
    """What the columns of a query to the fresh world are called.

    Raises WorldError, and ValueError for a query that cannot be run or asks for something already.
    """
    with closing(_world(scenario, _drawn(scenario, seed), seed)) as world:
        try:
            asked = world.execute(query)
        except sqlite3.Error as error:
            raise ValueError(f"{error}, in `{query}`") from error
        if asked.fetchone():
            raise ValueError(f"the fresh world has rows for it already, in `{query}`")
        names = tuple(name for name, *_ in asked.description or ())
    if not all(name.isidentifier() for name in names) or not names:
        raise ValueError(f"every column needs a name (`count(*) AS number`), in `{query}`")
    return names


def _drawn(scenario: Scenario, seed: int) -> dict[str, Value]:
    found: dict[str, Value] = dict(scenario.variants[seed % len(scenario.variants)])
    for name, draw in scenario.draws.items():
        found[name] = draw.drawn(Chance(f"{scenario.name}/{seed}/{name}"))
    return found


def _world(scenario: Scenario, drawn: Variables, seed: int) -> sqlite3.Connection:
    """In memory, and nobody else's."""
    image = _image(scenario, drawn, seed)
    world = sqlite3.connect(":memory:")
    world.deserialize(image)
    return world


# A trial asks twice, for its files and for its prompt; every model of a run meets the same worlds.
_MADE: deque[tuple[Scenario, int, bytes]] = deque(maxlen=64)


def _image(scenario: Scenario, drawn: Variables, seed: int) -> bytes:
    """What its script draws comes from the seed too: however often made, one world."""
    for known, at, image in tuple(_MADE):
        if at == seed and (known is scenario or _makes_as(known, scenario)):
            return image
    names = {**drawn, "words": scenario.words, "chance": Chance(f"{scenario.name}/{seed}//world")}
    with closing(sqlite3.connect(":memory:")) as world:
        try:
            world.executescript(fill(scenario.world, names))
            if world.execute("PRAGMA page_count").fetchone() == (0,):
                world.execute("VACUUM")  # without a page there is nothing to serialize
            image = world.serialize()
        except (TemplateError, sqlite3.Error) as error:
            raise WorldError(f"makes no database: {error}") from error
    _MADE.append((scenario, seed, image))
    return image


def _makes_as(known: Scenario, scenario: Scenario) -> bool:
    """Whether both, read from their files at different times, make the same worlds."""
    parts = "name", "world", "words", "variants", "draws"
    return all(getattr(known, part) == getattr(scenario, part) for part in parts)


def one_line(query: str) -> str:
    return " ".join(query.split())


def _answer(
    world: sqlite3.Connection, name: str, query: str, found: Variables
) -> str | int | float:
    try:
        asked = fill(query, found)
        row = world.execute(asked).fetchone()
    except (TemplateError, sqlite3.Error) as error:
        raise ValueError(f"ask.{name}: {error}, in `{one_line(query)}`") from error
    if row is None or not isinstance(row[0], str | int | float):
        raise ValueError(f"ask.{name}: the fresh world has no answer to `{one_line(asked)}`")
    return row[0]
