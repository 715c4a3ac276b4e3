"""The program of the confined child, in which templates, scripts and queries of strangers run.

`agenteval.sandbox.maker` starts it. Once it serves, it can open no file, no socket and no process:
it computes, and it answers. A request that takes too much ends it, and the next one has another.
"""

import _sqlite3 as sqlite
import gc
import os
import pickle
import resource
import signal
import socket
import sys
import time
import tomllib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from jinja2 import TemplateError

from agenteval.prompt import prompt
from agenteval.prompt.prompt import (
    DEFAULT,
    Prompt,
    Setting,
    Variables,
    drawn,
    fill,
    one_line,
    script,
)
from agenteval.sandbox import seccomp
from agenteval.sandbox.inside import inquiry, kernel, wire
from agenteval.trial.trial import Agent, Scenario, Schema

CPU_SECONDS = float(inquiry.CPU_SECONDS)  # of one request
MEMORY = inquiry.MEMORY  # of address space, beyond what the child has when it begins
LARGEST = inquiry.LARGEST  # of a world's database
LONGEST = 8 << 20  # of any other reply: no model reads a prompt of that size
# Of databases that were made: a trial asks for its files and for its prompt.
_CACHE_BYTES = 32 << 20
_PAGE = 4096
LIMITS = inquiry.LIMITS | {
    sqlite.SQLITE_LIMIT_LENGTH: 16 << 20,
    sqlite.SQLITE_LIMIT_SQL_LENGTH: 16 << 20,
    sqlite.SQLITE_LIMIT_EXPR_DEPTH: 1000,
    sqlite.SQLITE_LIMIT_VDBE_OP: 5_000_000,
    sqlite.SQLITE_LIMIT_TRIGGER_DEPTH: 20,
}
SPENT = f"it needs more than {MEMORY >> 20} MB of memory"
_TEXT = 2000  # characters of what is said of a fault


class _WorldFaultError(ValueError):
    """A script that makes no database."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Stands in a request for a value of many that was sent before, by its number."""

    number: int


@cache
def _lists() -> dict[str, list[str]]:
    """Return what `maker_child.toml` lists."""
    text = Path(__file__).with_suffix(".toml").read_text("utf-8")
    return tomllib.loads(text)


@cache
def _changes() -> set[int]:
    names = _lists()["changes"]
    return {getattr(sqlite, f"SQLITE_{name}") for name in names}


@cache
def _functions() -> set[str]:
    lists = _lists()
    return {*inquiry.FUNCTIONS, *lists["functions"], *lists["own_functions"]}


@dataclass(slots=True)
class _Authorizer:
    """SQLite's authorizer for a database's script, and for queries of a fresh database.

    `denied` is what it denied last.
    """

    denied: str = ""

    def __call__(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        is_known = action in _changes() or action in inquiry.READS
        denied = _DENIED.get(action, "what it asks for")
        if action == sqlite.SQLITE_FUNCTION:
            is_known = (second or "").lower() in _functions()
            denied = f"the function {second}"
        elif action == sqlite.SQLITE_PRAGMA:
            is_known = (first or "").lower() in _lists()["pragmas"]
            denied = f"PRAGMA {first}"
        if is_known:
            return inquiry.OK
        self.denied = denied
        return inquiry.DENY


# The actions that have a name for users.
_DENIED = {
    sqlite.SQLITE_ATTACH: "ATTACH, VACUUM INTO",
    sqlite.SQLITE_DETACH: "DETACH",
    sqlite.SQLITE_CREATE_VTABLE: "a virtual table",
    sqlite.SQLITE_DROP_VTABLE: "a virtual table",
}


def variables(scenario: Scenario, seed: int) -> Variables:
    """Return everything that the templates of this scenario may name.

    A fresh database answers an `[ask]`. Raises _WorldFaultError, and ValueError if an `[ask]` has
    no answer.
    """
    chosen = drawn(scenario, seed)
    if scenario.asks:
        with closing(_opened(database(scenario, seed))) as world:
            for name, query in scenario.asks.items():
                chosen[name] = _answer(world, name, query, chosen)
    return chosen


def _answer(
    world: Any,
    name: str,
    query: str,
    chosen: Variables,
) -> str | int | float:
    try:
        filled = fill(query, chosen)
        row = world.execute(filled).fetchone()
    except (TemplateError, *inquiry.FAULTS) as error:
        raise ValueError(f"ask.{name}: {error}, in `{one_line(query)}`") from error
    answer = row[0] if row else None
    if isinstance(answer, str | int | float):
        return answer
    raise ValueError(f"ask.{name}: the fresh world has no answer to `{one_line(filled)}`")


# The databases that were made last, with their scenarios and seeds.
_CACHE: deque[tuple[Scenario, int, bytes]] = deque()


def database(scenario: Scenario, seed: int) -> bytes:
    """Return the SQLite file that the fixture's script makes. Raises _WorldFaultError."""
    for other, other_seed, image in _CACHE:
        if other_seed == seed and _make_the_same(other, scenario):
            return image
    image = _build(scenario, seed)
    _CACHE.append((scenario, seed, image))
    while sum(len(other) for *_, other in _CACHE) > _CACHE_BYTES:
        _CACHE.popleft()
    return image


def _make_the_same(other: Scenario, scenario: Scenario) -> bool:
    """Return True if both, perhaps read from their files twice, make the same databases."""
    parts = attrgetter("name", "world", "words", "variants", "draws")
    return other is scenario or parts(other) == parts(scenario)


def forget() -> None:
    """Make every database anew from here on, to see whether it is the same."""
    _CACHE.clear()


def _build(scenario: Scenario, seed: int) -> bytes:
    authorizer = _Authorizer()
    with closing(_fresh(authorizer)) as world:
        try:
            world.executescript(script(scenario, seed))
            world.set_authorizer(None)
            if world.execute("PRAGMA page_count").fetchone() == (0,):
                world.setlimit(sqlite.SQLITE_LIMIT_ATTACHED, 1)  # VACUUM asks for it
                world.execute("VACUUM")  # without a page there is nothing to serialize
            image: bytes = world.serialize()
        except (TemplateError, *inquiry.FAULTS) as error:
            text = _message(error)
            if "authorized" in text or "prohibited" in text:
                text += f" (a world may not use {authorizer.denied})"
            raise _WorldFaultError(f"makes no database: {text}") from error
    return image


def _message(error: BaseException) -> str:
    """Return the words of an error; for a full database, with what has how much."""
    text = str(error) or type(error).__name__
    if "is full" in text or "too big" in text or isinstance(error, MemoryError):
        text += f" (a world's database has up to {LARGEST >> 20} MB, a value up to 16 MB)"
    return text


def _fresh(authorizer: _Authorizer) -> Any:
    """Return an empty database in memory, for a stranger's script."""
    world = inquiry.defended(":memory:", LIMITS)
    pages = f"PRAGMA max_page_count={LARGEST // _PAGE};"
    world.executescript(f"PRAGMA query_only=OFF; {pages} {inquiry.HEAPS}")
    world.set_authorizer(authorizer)
    return world


def _opened(image: bytes) -> Any:
    """Open a copy of this database for queries. Raises one of `inquiry.FAULTS`."""
    world = inquiry.defended(":memory:", LIMITS)
    world.executescript("PRAGMA query_only=OFF;")
    content = bytearray(image)
    # These bytes of the header say that there may be a log; here is none.
    content[18:20] = b"\x01\x01"
    world.deserialize(content)
    world.executescript(inquiry.HEAPS)
    world.set_authorizer(_Authorizer())
    return world


def requested(
    scenario: Scenario,
    agent: Agent,
    seed: int,
    values: Variables,
) -> tuple[str, ...]:
    """Return the columns that a request for this agent has, by its query to the fresh database.

    Raises _WorldFaultError, and ValueError for a query that cannot be run or has rows already.
    """
    query = fill(agent.spawned, values)
    with closing(_opened(database(scenario, seed))) as world:
        try:
            cursor = world.execute(query)
            row = cursor.fetchone()
        except inquiry.FAULTS as error:
            raise ValueError(f"{error}, in `{query}`") from error
        if row:
            raise ValueError(f"the fresh world has rows for it already, in `{query}`")
        names = tuple(name for name, *_ in cursor.description or ())
    are_names = all(name.isidentifier() for name in names)
    if not names or not are_names:
        raise ValueError(f"every column needs a name (`count(*) AS number`), in `{query}`")
    return names


def render(scenario: Scenario, seed: int, setting: Setting) -> Prompt:
    return prompt.render(scenario, variables(scenario, seed), setting)


def render_all(seed: int, *scenarios: Scenario) -> list[Prompt]:
    return [render(scenario, seed, DEFAULT) for scenario in scenarios]


def outline(
    scenario: Scenario,
    agent: Agent,
    seed: int,
    values: Variables,
    setting: Setting,
) -> Prompt:
    columns = requested(scenario, agent, seed, values)
    return prompt.outline(agent, columns, values, setting)


def recognised(
    scenario: Scenario,
    agent: Agent,
    seed: int,
    values: Variables,
    transcript: str,
) -> list[Prompt]:
    columns = requested(scenario, agent, seed, values)
    own_prompt = prompt.recognised(agent, columns, values, transcript)
    return [own_prompt] if own_prompt else []


def schema(image: bytes) -> Schema:
    """Return the schema of a fixture's own database; () if the image is no database."""
    try:
        with closing(_opened(image)) as world:
            return tuple(inquiry.schema(world))
    except inquiry.FAULTS:
        return ()


def rows(image: bytes, queries: Sequence[str], most: int) -> list[tuple[list[str], list[Any], str]]:
    """Return for each query the names of its columns, its first rows, and why it failed.

    Raises ValueError if the image is no database.
    """
    try:
        world = _opened(image)
        world.execute("SELECT 1 FROM sqlite_master").fetchone()
    except inquiry.FAULTS as error:
        raise ValueError(f"no database: {error}") from error
    with closing(world):
        return [_query_rows(world, query, most) for query in queries]


def _query_rows(world: Any, query: str, most: int) -> tuple[list[str], list[Any], str]:
    try:
        cursor = world.execute(query)
        names = [name for name, *_ in cursor.description or ()]
        return names, cursor.fetchmany(most), ""
    except inquiry.FAULTS as error:
        reason = str(error) or type(error).__name__
        return [], [], reason


ACTS: Mapping[str, Callable[..., Any]] = {
    act.__name__: act
    for act in (
        *(variables, database, forget, render, render_all, outline, recognised, requested),
        *(schema, rows, fill, prompt.render_agent, prompt.rules_for),
    )
}
_FAULTS = (TemplateError, MemoryError, RecursionError, OverflowError, TypeError, ValueError)


def main(fd: int) -> NoReturn:
    """Serve until the evaluator is gone. What is needed has to be there before: no file opens."""
    peer = socket.socket(fileno=fd)
    _warm()
    gc.freeze()
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stderr.fileno())
    layers = msgspec.msgpack.encode(_confine())
    wire.write(fd, wire.frame(layers, b""))
    values: dict[int, Any] = {}
    while (header := wire.exactly(fd, wire.HEADER)) is not None:
        length = sum(wire.lengths(header))
        request = wire.exactly(fd, length)
        if request is None:
            break
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        fault, text, body = _serve_request(request, values)
        signal.setitimer(signal.ITIMER_PROF, 0)
        head = msgspec.msgpack.encode((fault, text))
        peer.sendall(wire.frame(head, body))
        # What is left of memory may not do for the next request.
        if text == SPENT:
            break
    sys.exit()


def _serve_request(request: bytes, values: dict[int, Any]) -> tuple[str, str, bytes]:
    """Return the kind of the fault and its text, both empty without one; and the result."""
    try:
        numbered, act, arguments = pickle.loads(request)  # noqa: S301 -- the evaluator's own
        values |= numbered
        for place, argument in enumerate(arguments):
            if isinstance(argument, Sent):
                arguments[place] = values[argument.number]
        result = ACTS[act](*arguments)
        if isinstance(result, bytes):
            return "", "", result
        content = msgspec.msgpack.encode(result)
    except _FAULTS as error:
        kind = "value"
        if isinstance(error, TemplateError):
            kind = "template"
        elif isinstance(error, _WorldFaultError):
            kind = "world"
        text = str(error)[:_TEXT] or type(error).__name__
        if _is_memory(error):
            text = SPENT
        return kind, text, b""
    if len(content) > LONGEST:
        return "template", f"it makes a text of more than {LONGEST >> 20} MB", b""
    return "", "", content


def _is_memory(error: BaseException | None) -> bool:
    """Return True if memory was lacking, also as the cause of another error."""
    if error is None:
        return False
    return isinstance(error, MemoryError) or _is_memory(error.__cause__)


def _warm() -> None:
    """Use once what loads a part of itself late, or looks at a file of the system."""
    time.tzset()
    time.strptime("1", "%d")
    fill("{{ '%s' | format(1) }}{{ lipsum(1) }}{{ 'a' | urlize | tojson | pprint }}", {})
    for faulty in ("{{ unknown }}", "{% for %}", "{% include 'a' %}", "{{ 1 / 0 }}"):
        with suppress(TemplateError):
            fill(faulty, {})
    with closing(_fresh(_Authorizer())) as world:
        world.execute("SELECT datetime('now', 'localtime')").fetchone()


def _confine() -> list[str]:
    """Give up all but computing and answering; return the layers by which this machine can.

    Without a descriptor left no file and no socket opens on any system; Linux adds the rest.
    """
    bounds = {
        resource.RLIMIT_AS: _address_space(),
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 0,
    }
    for kind, most in bounds.items():
        with suppress(ValueError, OSError):  # a system that bounds no address space
            resource.setrlimit(kind, (most, most))
    is_linux = sys.platform == "linux"
    program = b""
    if is_linux and kernel.MACHINE in seccomp.ARCH:
        # Read while a file still opens.
        program = seccomp.only(kernel.MACHINE, _lists()["kernel_calls"])
    layers = ["limits"]
    if is_linux and kernel.landlock_version():
        kernel.landlock([], loopback=False)
        layers.append("Landlock")
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    if program:
        kernel.install_filter(program)
        layers.append("seccomp")
    return layers


def _address_space() -> int:
    try:
        return inquiry.address_space() + MEMORY
    except OSError:  # no such file: the limit is then of the whole process
        return 2 * MEMORY
