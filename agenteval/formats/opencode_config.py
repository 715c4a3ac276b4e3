"""OpenCode's permissions, from an opencode.json or from the front matter of an agent's .md."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agenteval.core.dialects.opencode.engine import (
    DEFAULTS,
    EDIT_TOOLS,
    PLAN,
    TOOLS,
    Action,
    OpenCode,
    PermissionRule,
)
from agenteval.core.dialects.opencode.engine_1_0 import OpenCode10
from agenteval.core.policy.bash import BashRules
from agenteval.core.policy.patterns import CommandPattern, PathRules
from agenteval.core.policy.policy import Policy
from agenteval.core.policy.tools import ToolRule
from agenteval.core.shell.leaves import Construct
from agenteval.errors import UsageError
from agenteval.formats.text import digest, front_matter, json_with_comments, shown

_HOME = re.compile(r"\A(~|\$HOME)(?=/|\Z)")
_VARIABLE = re.compile(r"\{env:([^}]+)\}")
_OLD_ACTIONS = frozenset(("edit", "webfetch", "doom_loop", "external_directory"))
_ACTIONS = ("allow", "ask", "deny")
# What OpenCode lets pass around a command that it allows.
_PASSES = frozenset(
    (
        *(Construct.STDERR_REDIRECT, Construct.FILE_REDIRECT, Construct.INPUT_REDIRECT),
        *(Construct.HEREDOC, Construct.HERESTRING, Construct.SUBSHELL),
    )
)


def read(path: Path, *, old: bool = False) -> Policy:
    """The policy of a config file; `old` reads it as OpenCode 1.0 does.

    Raises UsageError with the file and the key when it is no such config.
    """
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix == ".md":
        content = front_matter(path, text)
    else:
        content = json_with_comments(path, _VARIABLE.sub(_from_environment, text))
    layers = list(_layers(content))
    if old:
        engine, own = _old_engine(path, layers, is_agent=path.suffix == ".md" or len(layers) > 1)
        return _policy(path, engine, own)
    own = tuple(rule for table in layers for rule in _own_rules(path, table))
    if content.get("default_agent") == "plan":
        own = (*PLAN, *own)
    return _policy(path, OpenCode((*DEFAULTS, *own), home=str(Path.home())), own)


def _from_environment(found: re.Match[str]) -> str:
    """What `{env:NAME}` stands for in a JSON text: nothing when there is no such variable."""
    return json.dumps(os.environ.get(found[1], ""))[1:-1]


def _layers(content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The config itself, and in it what is said of the agent that OpenCode starts with."""
    yield content
    agent = str(content.get("default_agent", "build"))
    for section in ("mode", "agent"):
        agents = content.get(section)
        table = agents.get(agent) if isinstance(agents, Mapping) else None
        if isinstance(table, Mapping):
            yield table


def _own_rules(path: Path, table: Mapping[str, Any]) -> Iterator[PermissionRule]:
    """A permission replaces the switch of its name, and stands in its place."""
    switches: dict[str, Action] = {}
    for name, enabled in _switches(path, table).items():
        switches["edit" if name in EDIT_TOOLS else name] = "allow" if enabled else "deny"
    yield from _rules(path, {**switches, **_permission(path, table)})


def _permission(path: Path, table: Mapping[str, Any]) -> Mapping[str, Any]:
    permission = table.get("permission", {})
    if isinstance(permission, str):
        return {"*": permission}
    if not isinstance(permission, Mapping):
        raise UsageError(
            f"{path}: permission: expected a table or an action, got {shown(permission)}"
        )
    return permission


def _policy(path: Path, engine: OpenCode | OpenCode10, own: tuple[PermissionRule, ...]) -> Policy:
    allowed = [
        rule.pattern
        for rule in own
        if rule.action == "allow" and rule.permission == "bash" and rule.pattern.strip()
    ]
    everything = PathRules(("**",))
    return Policy(
        name=path.stem,
        digest=digest([engine.name, *map(str, own), *_switched(engine)]),
        description=f"{engine.name} permissions of {path.name}",
        bash=BashRules((CommandPattern.parse(rule) for rule in allowed), constructs=_PASSES),
        read=everything,
        write=everything,
        tools={name: ToolRule(name) for name in TOOLS if engine.offers(name)},
        engine=engine,
    )


def _switched(engine: OpenCode | OpenCode10) -> list[str]:
    return [] if isinstance(engine, OpenCode) else [f"{k}: {v}" for k, v in engine.switches.items()]


def _rules(path: Path, permission: Mapping[str, Any]) -> Iterator[PermissionRule]:
    for key, value in permission.items():
        patterns = value if isinstance(value, Mapping) else {"*": value}
        for pattern, action in patterns.items():
            if action not in _ACTIONS:
                raise UsageError(
                    f"{path}: permission.{key}: expected allow, ask or deny, got {shown(action)}"
                )
            home = _HOME.sub(lambda _: str(Path.home()), str(pattern))
            yield PermissionRule(str(key), home, action)


def _switches(path: Path, table: Mapping[str, Any]) -> dict[str, bool]:
    """The older form, `tools: {write: false}`."""
    tools = table.get("tools", {})
    if not isinstance(tools, Mapping):
        raise UsageError(f"{path}: tools: expected a table of true and false, got {shown(tools)}")
    for name, enabled in tools.items():
        if not isinstance(enabled, bool):
            raise UsageError(f"{path}: tools.{name}: expected true or false, got {shown(enabled)}")
    return {str(name): enabled for name, enabled in tools.items()}


def _old_engine(
    path: Path, layers: Sequence[Mapping[str, Any]], *, is_agent: bool
) -> tuple[OpenCode10, tuple[PermissionRule, ...]]:
    """The engine, and the rules that it was made of.

    1.0 skips what it does not know. An agent's own section takes away that it asks about folders
    outside the project.
    """
    own = [rule for table in layers for rule in _rules(path, _permission(path, table))]
    if is_agent and any("permission" in table for table in layers):
        own.insert(0, PermissionRule("external_directory", "*", "allow"))
    patterns: dict[str, Action] = {"*": "allow"}
    actions: dict[str, Action] = {}
    for rule in own:
        if rule.permission == "bash":
            patterns[rule.pattern] = rule.action
        elif rule.permission in _OLD_ACTIONS:
            actions[rule.permission] = rule.action
    switches = {name: on for table in layers for name, on in _switches(path, table).items()}
    return OpenCode10(patterns, actions, switches, str(Path.home())), tuple(own)
