"""Claude Code's permissions, from a settings.json and into one.

`read` and `write` are the two ways, `unheeded` yields the keys that may change what Claude Code
allows and are not followed here. keys.toml has all keys.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from agenteval.dialects.claude_code.rules import ToolSpecifier
from agenteval.dialects.claude_code.verdict import FREE, ClaudeCode, Sandbox
from agenteval.dialects.registry import (
    SHORT,
    Settings,
    SettingsKeys,
    Written,
    commands,
    denied,
    home,
    json_text,
    json_with_comments,
    lost_everywhere,
    policy_of,
    texts_at,
    wrong,
)
from agenteval.errors import UsageError
from agenteval.host import read_text
from agenteval.policy.policy import Policy, UnheededKey
from agenteval.shell.leaves import Construct
from agenteval.trial.call import BASH

# In the command of the hook that `agenteval hook install` puts in.
_OWN_HOOK = "/hook/client.py"
# Variables by which Claude Code, or a program that a command starts, does something else.
_STEERING = re.compile(
    r"(?:LD|DYLD|GIT|PIP|NPM|PYTHON|PERL|RUBY|NODE|JAVA)_.*|BASH_ENV|ENV|PATH|IFS|HOME|SHELL|PAGER"
    r"|EDITOR|VISUAL|CDPATH|SHELLOPTS|BASHOPTS|CLAUDE_CODE_SHELL\w*|CLAUDE_ENV_FILE|CLAUDE_CONFIG_DIR"
    r"|CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR|CLAUDE_AGENT_SDK_MCP_NO_PREFIX"
    r"|CLAUDE_CODE_(?:SIMPLE|SUBPROCESS_ENV_SCRUB|USE_POWERSHELL_TOOL|ADDITIONAL_DIRECTORIES\w*)"
)
KEYS = SettingsKeys.load("claude_code", "settings")


def unheeded(settings: Settings) -> Iterator[UnheededKey]:
    """The keys that may change what Claude Code allows, and are not followed here."""
    yield from KEYS.unheeded(_without_own_hook(settings))
    variables = settings.get("env")
    for name in variables if isinstance(variables, Mapping) else ():
        if _STEERING.fullmatch(str(name)):
            reason = "it changes what Claude Code, or a program that a command starts, does"
            yield UnheededKey(f"env.{name}", reason)


def _without_own_hook(settings: Settings) -> Settings:
    """The settings without the hook of ours, which judges by them."""
    hooks = settings.get("hooks")
    entries = hooks.get("PreToolUse") if isinstance(hooks, Mapping) else None
    if not isinstance(hooks, Mapping) or not isinstance(entries, list):
        return settings
    others = [entry for entry in entries if _OWN_HOOK not in str(entry)]
    return {**settings, "hooks": {**hooks, "PreToolUse": others}}


# Every tool exists there, allowed or not.
_TOOLS = (
    *("bash", "read", "write", "edit", "multiedit", "notebookedit", "glob", "grep", "ls"),
    *("webfetch", "websearch", "skill", "slashcommand", "monitor", "powershell"),
    *sorted(FREE - {"read"}),
)
_MODES = ("default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions", "manual")
_RULE = re.compile(r"\s*+[\w.:*-]++\s*+(?:\(\s*+\S.*\)\s*)?", re.DOTALL)
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
# A pattern for tools that Claude Code does not heed in `allow`: it names no server.
_ANY_SERVER = re.compile(r"(?!mcp__[^*]+__)[^(]*\*[^(]*")
_LISTS = ("allow", "ask", "deny")
# Of the sandbox, with what counts where they are not given.
_SWITCHES = {"enabled": False, "autoAllowBashIfSandboxed": False, "allowUnsandboxedCommands": True}
_PASSES = frozenset((Construct.PIPE, Construct.CHAIN, Construct.STDERR_REDIRECT))
_AROUND = _PASSES | {Construct.FILE_REDIRECT, Construct.INPUT_REDIRECT, Construct.HERESTRING}


def read(path: Path) -> Policy:
    """Read a settings file. Raises UsageError with the file and the key if it is none."""
    content = json_with_comments(path, read_text(path, encoding="utf-8-sig"))
    permissions = content.get("permissions", {})
    if not isinstance(permissions, Mapping):
        raise wrong(f"{path}: permissions", "a table", permissions)
    at_home = home(path)
    allow, ask, deny = (_specifiers(path, permissions, key, at_home) for key in _LISTS)
    allow = tuple(rule for rule in allow if not _ANY_SERVER.fullmatch(rule.tool))
    mode = _mode(path, permissions)
    folders = tuple(_folders(path, permissions))
    sandbox = _sandbox(path, content)
    rules: list[object] = [mode, allow, ask, deny, *folders]
    if sandbox:
        rules.append(sandbox)
    policy = policy_of(
        ClaudeCode(allow, ask, deny, mode, folders, at_home, sandbox),
        path.stem,
        f"claude-code permissions of {path.name}",
        rules,
        bash=[_pattern(rule.what) or "*" for rule in allow if rule.tool == BASH],
        passes=_PASSES,
        tools=_TOOLS,
    )
    return replace(policy, unheeded=tuple(unheeded(content)))


def _sandbox(path: Path, content: Settings) -> Sandbox | None:
    """Return the sandbox that spares its commands a rule; None where none does."""
    table = content.get("sandbox", {})
    if not isinstance(table, Mapping):
        raise wrong(f"{path}: sandbox", "a table", table)
    is_on, is_open, may_be_left = (_switch(path, table, key) for key in _SWITCHES)
    key = "excludedCommands"
    excluded = texts_at(f"{path}: sandbox.{key}", table.get(key, []), "commands")
    if not is_on or not is_open:
        return None
    rules = [ToolSpecifier(BASH, "" if text in {"*", ":*"} else text) for text in excluded]
    return Sandbox(tuple(rules), may_be_left)


def _switch(path: Path, table: Settings, key: str) -> bool:
    value = table.get(key, _SWITCHES[key])
    if not isinstance(value, bool):
        raise wrong(f"{path}: sandbox.{key}", "true or false", value)
    return value


def _mode(path: Path, permissions: Settings) -> str:
    mode: str = permissions.get("defaultMode", "default")
    if mode not in _MODES:
        raise wrong(f"{path}: permissions.defaultMode", ", ".join(_MODES), mode)
    is_off = permissions.get("disableBypassPermissionsMode") == "disable"
    if mode == "manual" or (is_off and mode == "bypassPermissions"):
        return "default"
    return mode


def _folders(path: Path, permissions: Settings) -> Iterator[str]:
    key = "additionalDirectories"
    where = f"{path}: permissions.{key}"
    for text in texts_at(where, permissions.get(key, []), "folders"):
        try:
            folder = str(Path(text).expanduser())
        # ValueError: no name of a user at all.
        except (RuntimeError, ValueError) as error:
            raise UsageError(f"{where}: there is no such user, got {SHORT.repr(text)}") from error
        if _LONE_SURROGATE.search(folder):
            raise UsageError(f"{where}: expected a path, got {folder!r}")
        yield folder


def _specifiers(
    path: Path,
    permissions: Settings,
    key: str,
    at_home: str,
) -> tuple[ToolSpecifier, ...]:
    where = f"{path}: permissions.{key}"
    specifiers = []
    for rule in texts_at(where, permissions.get(key, []), "rules"):
        if not _RULE.fullmatch(rule):
            raise wrong(where, "Tool or Tool(what)", rule)
        specifiers.append(ToolSpecifier.parse(rule.replace("(~/", f"(/{at_home}/", 1)))
    return tuple(specifiers)


def _pattern(what: str) -> str:
    return what.removesuffix(":*") + " *" if what.endswith(":*") else what


def write(policy: Policy) -> Written:
    """Return an allow list as a settings.json."""
    allow = [_as_rule(start, is_open) for start, is_open in commands(policy)]
    deny = [_as_rule(start, is_open) for start, is_open in denied(policy)]
    for tool, name, rules in (("read", "Read", policy.read), ("write", "Edit", policy.write)):
        if tool in policy.tools:
            allow += [f"{name}(/{glob})" for glob in rules.allow]
            deny += [f"{name}(/{glob})" for glob in rules.deny]
    losses = list(lost_everywhere(policy, _AROUND))
    losses.append("that nothing else may be read: Claude Code reads any file of the project")
    losses.append("that ls, cat, grep, git log and their like need a rule: there they need none")
    others = [name for name in policy.tools if name not in {"bash", "read", "write"}]
    losses += [f"tools.{name}: Claude Code has no such tool" for name in others]
    return Written(json_text({"permissions": {"allow": allow, "deny": deny}}), tuple(losses))


def _as_rule(start: str, is_open: bool) -> str:  # noqa: FBT001 -- as `commands` yields them
    escaped = re.sub(r"([()\\])", r"\\\1", start)
    return f"Bash({escaped}:*)" if is_open else f"Bash({escaped})"


def left_behind(engine: ClaudeCode) -> Iterator[str]:
    """The rules that no list for anyone else can hold: all but allowed commands."""
    for key, rules in (("allow", engine.allow), ("ask", engine.ask), ("deny", engine.deny)):
        for rule in rules:
            if (key, rule.tool) != ("allow", BASH):
                yield f"permissions.{key}: {rule}"
    if engine.mode != "default":
        yield f"permissions.defaultMode: {engine.mode}"
    if engine.sandbox:
        yield "sandbox: that a command which runs in it needs no rule"
    for folder in engine.folders:
        yield f"permissions.additionalDirectories: {folder}"
