"""A policy: what a model may do. It decides by the gate alone, and denies by default."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from agenteval.core.call import (
    BASH,
    Allowed,
    FileEdit,
    FileRead,
    FileWrite,
    Runnable,
    ToolCall,
)
from agenteval.core.policy.arguments import (
    READ,
    WRITE,
    ToolRule,
    lines_asked,
    path_argument,
    path_arguments,
)
from agenteval.core.policy.bash import BashRules, changes_folder, run_of_simple, run_of_text
from agenteval.core.policy.more_tools import EDIT, RULES, closed, to_runnable
from agenteval.core.policy.patterns import PathRules, normalise
from agenteval.core.shell.facts import Redirect, RedirectKind
from agenteval.core.shell.leaves import Leaf, Leaves, read_leaves
from agenteval.core.shell.simple_command import NotSimple, Simple, read_simple
from agenteval.core.span import new


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

    def allows(self, tool: str, arguments: Mapping[str, Any], root: str) -> bool:
        """That harness's verdict on a tool, in lower case, that exists and takes the arguments."""
        ...


@runtime_checkable
class Quoting(Protocol):
    """An engine whose harness quotes rules when it denies."""

    def quoted(
        self, tool: str, arguments: Mapping[str, Any], root: str
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
    takes_any_command: bool = field(init=False)  # no schema says what its bash takes beside one

    def __post_init__(self) -> None:
        bash = self.tools.get(BASH)
        object.__setattr__(self, "takes_any_command", bash is not None and not bash.schema)

    def tool(self, name: str) -> ToolRule | None:
        """The tool of that name; the other harnesses repair a name in capitals."""
        if self.engine is None:
            return self.tools.get(name)
        low = name.lower()
        return self.tools.get(low) or (ToolRule(low) if self.engine.knows(low) else None)

    def offering(self, tools: Sequence[str]) -> "Policy":
        """The policy of an agent that is offered these tools, of which an engine shows some."""
        own = {name: rule for name, rule in self.tools.items() if name in tools}
        if self.engine is not None:
            return replace(self, tools={name: RULES.get(name, own[name]) for name in own})
        more = {name: RULES[name] for name in tools if name in RULES and name not in own}
        return replace(self, tools=own | more)

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
    call: ToolCall, policy: Policy, world: World = UNKNOWN_WORLD, *, gate: Gate | None = None
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
        command = str(call.arguments["command"])
        is_here = not elsewhere(call.arguments, world)
        return decide_command(command, policy, world, gate=gate) if is_here else None
    rules = policy.paths(call.name)
    if rules is None:
        return (
            None if closed(call, tool, world.root) else Allowed(to_runnable(call, tool, world.root))
        )
    path = admitted_path(call, rules, world)
    return None if path is None else Allowed(_file(call.name, path, call.arguments))


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
    if tool not in {READ, WRITE, EDIT} or (tool == EDIT and not {"old", "new"} <= {*arguments}):
        return to_runnable(call, None if tool == EDIT else RULES.get(tool), world.root)
    path = path_argument(arguments) or ""
    whole = posixpath.normpath(posixpath.join(world.root, path))
    return _file(tool, normalise(path, world.root) or whole, arguments)


def _file(tool: str, path: str, arguments: Mapping[str, Any]) -> Runnable:
    if tool == READ:
        return FileRead(path, *lines_asked(arguments))
    if tool == EDIT:
        return FileEdit(path, str(arguments["old"]), str(arguments["new"]))
    return FileWrite(path, str(arguments["content"]))


def only_command(call: ToolCall, policy: Policy) -> str | None:
    """The command, when it is a bash call of which nothing else matters."""
    if not policy.takes_any_command or call.arguments is None or len(call.arguments) > 1:
        return None
    return call.command


def elsewhere(arguments: Mapping[str, Any], world: World) -> tuple[str, ...]:
    """The folders other than the workspace, from which a rule's paths count, to start bash in."""
    if arguments.keys().isdisjoint(_FOLDERS):
        return ()
    folders = (arguments[key] for key in _FOLDERS if arguments.get(key) is not None)
    return tuple(
        str(folder)
        for folder in folders
        if not isinstance(folder, str) or normalise(folder, world.root) != "."
    )


_FOLDERS = ("workdir", "cwd", "working_directory")


def allows_command(text: str, policy: Policy, world: World = UNKNOWN_WORLD) -> bool:
    """Return True if bash may run the text."""
    return decide_command(text, policy, world) is not None


def decide_command(
    text: str, policy: Policy, world: World = UNKNOWN_WORLD, *, gate: Gate | None = None
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
    if not split.constructs <= policy.bash.constructs:
        return False
    if len(split.leaves) > 1 and any(changes_folder(leaf.argv) for leaf in split.leaves):
        return False
    return all(_admits_leaf(leaf, policy, world) for leaf in split.leaves) and all(
        admits_redirect(redirect, policy, world) for redirect in split.redirects
    )


def _admits_leaf(leaf: Leaf, policy: Policy, world: World) -> bool:
    rules = policy.bash
    set_to = (word.text for word in leaf.assignments)
    return rules.sets_only_named(set_to) and rules.admits(leaf.argv, leaf.dynamic, root=world.root)


def admits_redirect(redirect: Redirect, policy: Policy, world: World = UNKNOWN_WORLD) -> bool:
    """Return True if the file behind a redirect is open to this policy's file tools."""
    target = redirect.target
    if redirect.kind in _NO_FILE or target == "/dev/null":
        return True
    if _DESCRIPTOR.fullmatch(redirect.span.text):
        return True
    rules = policy.read if redirect.kind is RedirectKind.INPUT else policy.write
    path = normalise(target, world.root)
    return path is not None and rules.admits(path)


_NO_FILE = frozenset((RedirectKind.HEREDOC, RedirectKind.HERESTRING))
_WRITES = frozenset((RedirectKind.FILE, RedirectKind.STDERR))
# Not by the target: `> 5` writes a file named 5.
_DESCRIPTOR = re.compile(r"\|&|[0-9]*[<>]&[ \t]*(?:[0-9]+-?|-)")


def files_written(call: ToolCall, root: str) -> Iterator[str]:
    """Yield the files inside the workspace that a call is to write: by a tool, or by redirects."""
    if call.name == WRITE:
        yield from filter(None, [normalise(path_argument(call.arguments or {}) or "", root)])
    command = call.command or ""
    split = read_leaves(command) if ">" in command else None
    for redirect in split.redirects if isinstance(split, Leaves) else ():
        is_file = redirect.kind in _WRITES and not _DESCRIPTOR.fullmatch(redirect.span.text)
        if is_file and (path := normalise(redirect.target, root)):
            yield path


def admitted_path(call: ToolCall, rules: PathRules, world: World) -> str | None:
    """The normalised path of a file tool's call, if the rules allow it."""
    paths = path_arguments(call.arguments or {})
    if len(paths) != 1:  # each harness reads another key of them
        return None
    return open_path(paths[0], call.name, rules, world)


def open_path(path: str, tool: str, rules: PathRules, world: World) -> str | None:
    """The normalised path, if the rules let the tool have it."""
    if tool == READ and path in world.saved:
        return path
    inside = normalise(path, world.root)
    return inside if inside is not None and rules.admits(inside) else None
