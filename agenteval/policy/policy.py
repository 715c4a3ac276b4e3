"""A policy: what a model may do. It decides by the gate alone, and denies by default.

The rules for tools: which exist, and what their arguments must be.

Tools that harnesses offer in addition to bash, read and write: what they take, open and do.
"""

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from agenteval.policy.command_lines import PathRules, normalise
from agenteval.policy.rules import BashRules, changes_folder, run_of_simple, run_of_text
from agenteval.shell.facts import Redirect, RedirectKind
from agenteval.shell.gate import NotSimple, Simple, new, read_simple
from agenteval.shell.leaves import Leaves, read_leaves
from agenteval.trial.call import (
    BASH,
    Allowed,
    FileEdit,
    FileRead,
    FileSearch,
    FileWrite,
    Note,
    Runnable,
    ToolCall,
)

READ, WRITE = "read", "write"
Arguments = Mapping[str, Any]  # of a tool call
_DIGITS = re.compile(r"[0-9]{1,9}(?:\.0+)?")
# Lines; no file here has as many.
_MOST = 10**9
# What befalls fastjsonschema in one that is none; its own error is a ValueError.
_NO_SCHEMA = (ArithmeticError, AttributeError, LookupError, RecursionError, SyntaxError, TypeError,
              ValueError, re.error)  # fmt: skip
_PATHS = ("path", "filePath", "file_path", "notebook_path")


@dataclass(frozen=True, slots=True)
class ToolRule:
    """A listed tool. `schema` is the JSON text of its parameters' schema; "" takes any object."""

    name: str
    description: str = ""
    schema: str = ""

    def complaint(self, arguments: Arguments) -> str:
        """Return the fault of the arguments, phrased as the fix; "" if they fit."""
        fault = _built_in_complaint(self.name, arguments)
        if fault or not self.schema:
            return fault
        return schema_complaint(self.schema, arguments)


def path_argument(arguments: Arguments) -> str | None:
    """Return the path in a file tool's arguments, under any name that harnesses give it."""
    return next(iter(path_arguments(arguments)), None)


def path_arguments(arguments: Arguments) -> tuple[str, ...]:
    """Return the different paths in the arguments; more than one makes a call ambiguous."""
    values = map(arguments.get, _PATHS)
    return tuple(dict.fromkeys(value for value in values if isinstance(value, str)))


def _number(value: object) -> int | None:
    """Return a number of lines, also as a text or with a point: models write it so.

    A value that is no such number counts as not given, as it does in other harnesses.
    """
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    is_whole = 1 <= value <= _MOST and value % 1 == 0
    return int(value) if is_whole else None


def _built_in_complaint(name: str, arguments: Arguments) -> str:
    if name == BASH and not isinstance(arguments.get("command"), str):
        return "bash needs `command`, a string"
    if name in {READ, WRITE} and path_argument(arguments) is None:
        return f"{name} needs `path`, a string"
    if name == WRITE and not isinstance(arguments.get("content"), str):
        return "write needs `content`, a string"
    return ""


def schema_complaint(schema: str, arguments: Arguments) -> str:
    """Return the fault of the arguments under a JSON Schema given as text; "" if they fit."""
    return _complaint_of(schema)(arguments)


@cache
def _complaint_of(schema: str) -> Callable[[Arguments], str]:
    from fastjsonschema import (  # noqa: PLC0415 -- 30 ms of start-up that no bash call needs
        JsonSchemaValueException,
    )

    check = compile_schema(schema)

    def complaint(arguments: Arguments) -> str:
        try:
            check(arguments)
        except JsonSchemaValueException as error:
            return str(error.message).replace("data.", "").replace("data ", "the arguments ", 1)
        except (ArithmeticError, RecursionError) as error:
            return f"its schema holds against nothing ({type(error).__name__})"
        return ""

    return complaint


@cache
def compile_schema(schema: str) -> Callable[[Arguments], object]:
    """The check that a JSON Schema describes. Raises ValueError when it is no valid schema."""
    import fastjsonschema  # noqa: PLC0415 -- as above

    no_remote = dict.fromkeys(("http", "https", "file", "ftp"), _refuse)
    try:
        check: Callable[[Arguments], object] = fastjsonschema.compile(
            json.loads(schema), handlers=no_remote, use_default=False
        )
    except _NO_SCHEMA as error:
        raise ValueError(" ".join(str(error).split())) from error
    return check


def _refuse(uri: str) -> Any:
    raise ValueError(f"a schema may not point elsewhere: {uri}")


EDIT = "edit"
GLOB = "glob"
GREP = "grep"
TODO = "todo"
FETCH = "webfetch"
_TEXT: Mapping[str, Any] = {"type": "string"}


def _rule(
    name: str,
    required: Mapping[str, Any],
    **others: Any,
) -> ToolRule:
    schema = {"type": "object", "properties": {**required, **others}, "required": [*required]}
    return ToolRule(name, schema=json.dumps(schema))


RULES: Mapping[str, ToolRule] = {
    EDIT: _rule(EDIT, {"path": _TEXT, "old": _TEXT, "new": _TEXT}),
    GLOB: _rule(GLOB, {"pattern": _TEXT}, path=_TEXT),
    GREP: _rule(GREP, {"pattern": _TEXT}, path=_TEXT, include=_TEXT),
    TODO: _rule(TODO, {"todos": {"type": "array", "items": {"type": "object"}}}),
    FETCH: _rule(FETCH, {"url": _TEXT}),
}


def closed(call: ToolCall, rule: ToolRule | None, root: str) -> str:
    """Return the folder or address of a call if no call may use it; "" otherwise.

    There is no network, and files are searched in the workspace alone. A `rule` of the user's own
    for a tool of that name opens all that it takes.
    """
    arguments = call.arguments or {}
    if rule is None or rule is not RULES.get(call.name):
        return ""
    if call.name == FETCH:
        return str(arguments.get("url") or call.raw)
    is_search = call.name in {GLOB, GREP}
    folder = str(arguments.get("path") or ".") if is_search else "."
    return "" if normalise(folder, root) else folder


def _to_runnable(
    call: ToolCall,
    rule: ToolRule | None,
    root: str,
) -> Runnable | None:
    """Return what an open call does; None for a tool that nothing here carries out."""
    arguments = call.arguments or {}
    if rule is None or rule is not RULES.get(call.name) or call.name == FETCH:  # there is no net
        return None
    if call.name == TODO:
        return Note(json.dumps(arguments.get("todos"), indent=2))
    folder = normalise(str(arguments.get("path") or "."), root)
    if folder is None:
        return None
    include = str(arguments.get("include") or "")
    return FileSearch(call.name, str(arguments.get("pattern")), folder, include)


@dataclass(frozen=True, slots=True)
class World:
    """The files of a trial, as far as they are known.

    `files` are the fixture's paths relative to `root`, the workspace as the model sees it. They are
    None if it is unknown which files there are. `written` are the files that the trial's calls
    have written since. `saved` are files outside the workspace, by their whole paths, in which the
    harness keeps results that were too long to be shown: they are open to be read.
    """

    files: frozenset[str] | None = None
    root: str = "/workspace"
    saved: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()


UNKNOWN_WORLD = World()


class Engine(Protocol):
    """The rules of another harness, which decide in place of ours (agenteval/dialects)."""

    @property
    def name(self) -> str: ...

    def knows(self, tool: str) -> bool:
        """Return True if its rules name a tool, in lower case, that not every user has (MCP)."""
        ...

    def allows(self, tool: str, arguments: Arguments, root: str) -> bool:
        """Return True if that harness allows a tool, in lower case, that takes the arguments."""
        ...


@runtime_checkable
class Quoting(Protocol):
    """An engine whose harness quotes rules when it denies."""

    def quoted(
        self,
        tool: str,
        arguments: Arguments,
        root: str,
    ) -> Sequence[Mapping[str, str]]:
        """The rules that its denial of such a call quotes, in their order."""
        ...


@runtime_checkable
class Stopping(Protocol):
    """An engine that can report at which part of a command it stops."""

    def stops_at(self, text: str, root: str, start: str) -> str:
        """The first part that no rule allows; "" where there is none."""
        ...


OtherTools = Literal["deny", "pass"]


class UnheededKey(NamedTuple):
    """A key of a harness's settings that may change verdicts and changes none here.

    `reason` says what it would do, or for an unknown one what may have been meant.
    """

    key: str
    reason: str
    is_known: bool = True

    @property
    def line(self) -> str:
        """The warning about it."""
        said = "is not heeded" if self.is_known else "is not known"
        return f"{self.key}: {said}: {self.reason}"


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """A named set of rules; two are the same when their digests are.

    `tools` holds every tool there is, bash, read and write among them. `files` are paths that the
    allow list itself says exist, for when no fixture does. `stated` names the failure classes
    that a scenario's instructions warn of. With an `engine` the other rules only explain.
    `other_tools` is what a hook does with a tool that is neither listed nor known. `unheeded` are
    the keys of another harness's settings that the verdicts do not follow.
    """

    name: str
    digest: str = ""
    description: str = ""
    bash: BashRules = field(default_factory=BashRules)
    read: PathRules = field(default_factory=PathRules)
    write: PathRules = field(default_factory=PathRules)
    tools: Mapping[str, ToolRule] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    stated: frozenset[str] = frozenset()
    engine: Engine | None = None
    other_tools: OtherTools = "deny"
    unheeded: tuple[UnheededKey, ...] = ()
    # No schema says what its bash takes beside one.
    takes_any_command: bool = field(init=False)

    def __post_init__(self) -> None:
        bash = self.tools.get(BASH)
        takes_any_command = bash is not None and not bash.schema
        object.__setattr__(self, "takes_any_command", takes_any_command)

    def tool(self, name: str) -> ToolRule | None:
        """The tool of that name; the other harnesses repair a name in capitals."""
        if self.engine is None:
            return self.tools.get(name)
        name = name.lower()
        if name in self.tools:
            return self.tools[name]
        return ToolRule(name) if self.engine.knows(name) else None

    def offering(self, tools: Sequence[str]) -> "Policy":
        """The policy of an agent that is offered these tools, of which an engine shows some."""
        own = {name: rule for name, rule in self.tools.items() if name in tools}
        if self.engine is not None:
            return replace(self, tools={name: RULES.get(name, rule) for name, rule in own.items()})
        for name in tools:
            if name in RULES:
                own.setdefault(name, RULES[name])
        return replace(self, tools=own)

    def paths(self, tool: str) -> PathRules | None:
        """The rules for the paths of a file tool; None for any other tool."""
        if tool == WRITE or self.tools.get(tool) is RULES[EDIT]:
            return self.write
        return self.read if tool == READ else None


Gate = Simple | NotSimple


def allows(call: ToolCall, policy: Policy, world: World = UNKNOWN_WORLD) -> bool:
    """Return True if the call may happen. Never raises, whatever the model wrote."""
    return decide(call, policy, world) is not None


def decide(
    call: ToolCall,
    policy: Policy,
    world: World = UNKNOWN_WORLD,
    *,
    gate: Gate | None = None,
) -> Allowed | None:
    """Return the call allowed, with what it runs; None if it is denied.

    `gate` is the result of `read_simple` for a bash call's command, if that is known already.
    """
    tool = policy.tool(call.name)
    if tool is None or call.arguments is None or tool.complaint(call.arguments):
        return None
    if policy.engine is not None:
        if not policy.engine.allows(tool.name, call.arguments, world.root):
            return None
        return Allowed(_as_asked(replace(call, name=tool.name), world, gate))
    if call.name == BASH:
        if elsewhere(call.arguments, world):
            return None
        return decide_command(str(call.arguments["command"]), policy, world, gate=gate)
    return _decide_other(call, tool, policy, world)


def _decide_other(
    call: ToolCall,
    tool: ToolRule,
    policy: Policy,
    world: World,
) -> Allowed | None:
    """Decide a call of another tool than bash."""
    rules = policy.paths(call.name)
    if rules is not None:
        path = admitted_path(call, rules, world)
        return None if path is None else Allowed(_file(call.name, path, call.arguments or {}))
    if closed(call, tool, world.root):
        return None
    return Allowed(_to_runnable(call, tool, world.root))


def _as_asked(call: ToolCall, world: World, gate: Gate | None) -> Runnable | None:
    """Return what a call runs that another harness's rules allow."""
    tool, arguments = call.name, call.arguments or {}
    if tool == BASH:
        text = str(arguments["command"])
        gate = gate or read_simple(text)
        if isinstance(gate, Simple):
            return run_of_simple(gate)
        split = read_leaves(text)
        return run_of_text(text, split if isinstance(split, Leaves) else None)
    # A harness whose edits have other arguments: nothing here can carry one out.
    if tool == EDIT and not {"old", "new"} <= {*arguments}:
        return None
    if tool not in {READ, WRITE, EDIT}:
        return _to_runnable(call, RULES.get(tool), world.root)
    path = path_argument(arguments) or ""
    whole = posixpath.normpath(posixpath.join(world.root, path))
    return _file(tool, normalise(path, world.root) or whole, arguments)


def _file(tool: str, path: str, arguments: Arguments) -> Runnable:
    if tool == READ:
        first = _number(arguments.get("offset")) or 1
        return FileRead(path, first, _number(arguments.get("limit")))
    if tool == EDIT:
        return FileEdit(path, str(arguments["old"]), str(arguments["new"]))
    return FileWrite(path, str(arguments["content"]))


def only_command(call: ToolCall, policy: Policy) -> str | None:
    """The command, when it is a bash call of which nothing else matters."""
    if not policy.takes_any_command or call.arguments is None or len(call.arguments) > 1:
        return None
    return call.command


def elsewhere(arguments: Arguments, world: World) -> tuple[str, ...]:
    """The folders other than the workspace, from which a rule's paths count, to start bash in."""
    if arguments.keys().isdisjoint(_FOLDERS):
        return ()
    others: list[str] = []
    for folder in map(arguments.get, _FOLDERS):
        is_workspace = isinstance(folder, str) and normalise(folder, world.root) == "."
        if folder is not None and not is_workspace:
            others.append(str(folder))
    return tuple(others)


_FOLDERS = ("workdir", "cwd", "working_directory")


def allows_command(text: str, policy: Policy, world: World = UNKNOWN_WORLD) -> bool:
    """Return True if bash may run the text."""
    return decide_command(text, policy, world) is not None


def decide_command(
    text: str,
    policy: Policy,
    world: World = UNKNOWN_WORLD,
    *,
    gate: Gate | None = None,
) -> Allowed | None:
    """The text as what bash may run: a rule fits each of its commands word by word.

    That is one simple command, unless the policy names the constructs that join more of them.
    """
    gate = gate or read_simple(text)
    if isinstance(gate, Simple):
        if not policy.bash.admits(gate.argv, gate.dynamic, root=world.root):
            return None
        return new(Allowed, (run_of_simple(gate),))
    if not policy.bash.constructs:
        return None
    split = read_leaves(text)
    if isinstance(split, NotSimple) or not _admits_joined(split, policy, world):
        return None
    return Allowed(run_of_text(text, split))


def _admits_joined(split: Leaves, policy: Policy, world: World) -> bool:
    rules = policy.bash
    if not split.constructs <= rules.constructs:
        return False
    # Paths of the other commands would be relative to a folder that no rule means.
    if len(split.leaves) > 1 and any(changes_folder(leaf.argv) for leaf in split.leaves):
        return False
    for leaf in split.leaves:
        assignments = (word.text for word in leaf.assignments)
        if not rules.sets_only_named(assignments):
            return False
        if not rules.admits(leaf.argv, leaf.dynamic, root=world.root):
            return False
    return all(admits_redirect(redirect, policy, world) for redirect in split.redirects)


def admits_redirect(
    redirect: Redirect,
    policy: Policy,
    world: World = UNKNOWN_WORLD,
) -> bool:
    """Return True if the file behind a redirect is open to this policy's file tools."""
    if redirect.kind in _NO_FILE or redirect.target == "/dev/null":
        return True
    if _DESCRIPTOR.fullmatch(redirect.span.text):
        return True
    rules = policy.read if redirect.kind is RedirectKind.INPUT else policy.write
    path = normalise(redirect.target, world.root)
    return path is not None and rules.admits(path)


_NO_FILE = frozenset((RedirectKind.HEREDOC, RedirectKind.HERESTRING))
_WRITES = frozenset((RedirectKind.FILE, RedirectKind.STDERR))
# Not by the target: `> 5` writes a file named 5.
_DESCRIPTOR = re.compile(r"\|&|[0-9]*[<>]&[ \t]*(?:[0-9]+-?|-)")


def files_written(call: ToolCall, root: str) -> Iterator[str]:
    """Yield the files inside the workspace that a call is to write: by a tool, or by redirects."""
    path = path_argument(call.arguments or {}) if call.name == WRITE else None
    if path is not None and (inside := normalise(path, root)):
        yield inside
    command = call.command or ""
    split = read_leaves(command) if ">" in command else None
    if not isinstance(split, Leaves):
        return
    for redirect in split.redirects:
        is_file = redirect.kind in _WRITES and not _DESCRIPTOR.fullmatch(redirect.span.text)
        if is_file and (inside := normalise(redirect.target, root)):
            yield inside


def admitted_path(call: ToolCall, rules: PathRules, world: World) -> str | None:
    """The normalised path of a file tool's call, if the rules allow it."""
    paths = path_arguments(call.arguments or {})
    # Each harness reads another key of them.
    if len(paths) != 1:
        return None
    return open_path(paths[0], call.name, rules, world)


def open_path(
    path: str,
    tool: str,
    rules: PathRules,
    world: World,
) -> str | None:
    """The normalised path, if the rules let the tool have it."""
    if tool == READ and path in world.saved:
        return path
    inside = normalise(path, world.root)
    return inside if inside is not None and rules.admits(inside) else None
