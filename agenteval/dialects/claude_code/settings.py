"""Claude Code's permissions, from a settings.json and into one.

The keys of Claude Code's settings.json: read here, without effect on verdicts, or neither.

By the schema of SchemaStore of 7 August 2026 (tests/dialects/published_keys).
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from agenteval.dialects.claude_code.rules import ToolSpecifier
from agenteval.dialects.claude_code.verdict import FREE, ClaudeCode, Sandbox
from agenteval.dialects.registry import (
    Settings,
    SettingsKeys,
    Written,
    commands,
    denied,
    digest,
    home,
    json_text,
    json_with_comments,
    lost_everywhere,
    short_repr,
)
from agenteval.errors import UsageError
from agenteval.host import read_text
from agenteval.policy.command_lines import CommandPattern, PathRules
from agenteval.policy.policy import Policy, ToolRule, UnheededKey
from agenteval.policy.rules import BashRules
from agenteval.shell.leaves import Construct
from agenteval.trial.call import BASH

_OWN_HOOK = "/hook/client.py"  # in the command of the hook that `agenteval hook install` puts in
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
        raise UsageError(f"{path}: permissions: expected a table, got {short_repr(permissions)}")
    at_home = home(path)
    allow, ask, deny = (_specifiers(path, permissions, key, at_home) for key in _LISTS)
    allow = tuple(rule for rule in allow if not _ANY_SERVER.fullmatch(rule.tool))
    mode = _mode(path, permissions)
    folders = tuple(_folders(path, permissions))
    engine = ClaudeCode(allow, ask, deny, mode, folders, at_home, _sandbox(path, content))
    sandboxed = (engine.sandbox,) if engine.sandbox else ()
    commands = [_pattern(rule.what) or "*" for rule in allow if rule.tool == "bash"]
    everything = PathRules(("**",))
    return Policy(
        name=path.stem,
        digest=digest([engine.name, mode, *map(str, (allow, ask, deny, *folders, *sandboxed))]),
        description=f"{engine.name} permissions of {path.name}",
        bash=BashRules((CommandPattern.parse(rule) for rule in commands), constructs=_PASSES),
        read=everything,
        write=everything,
        tools={name: ToolRule(name) for name in _TOOLS},
        engine=engine,
        unheeded=tuple(unheeded(content)),
    )


def _sandbox(path: Path, content: Settings) -> Sandbox | None:
    """The sandbox that spares its commands a rule; None where there is none, or it spares none."""
    table = content.get("sandbox", {})
    if not isinstance(table, Mapping):
        raise UsageError(f"{path}: sandbox: expected a table, got {short_repr(table)}")
    is_on, is_open, may_be_left = (_switch(path, table, key) for key in _SWITCHES)
    excluded = table.get("excludedCommands", [])
    if not isinstance(excluded, list) or not all(isinstance(text, str) for text in excluded):
        raise UsageError(
            f"{path}: sandbox.excludedCommands: expected a list of commands, "
            f"got {short_repr(excluded)}"
        )
    rules = tuple(ToolSpecifier(BASH, "" if text in {"*", ":*"} else text) for text in excluded)
    return Sandbox(rules, may_be_left) if is_on and is_open else None


def _switch(path: Path, table: Settings, key: str) -> bool:
    value = table.get(key, _SWITCHES[key])
    if not isinstance(value, bool):
        raise UsageError(f"{path}: sandbox.{key}: expected true or false, got {short_repr(value)}")
    return value


def _mode(path: Path, permissions: Settings) -> str:
    mode: str = permissions.get("defaultMode", "default")
    if mode not in _MODES:
        expected = ", ".join(_MODES)
        raise UsageError(
            f"{path}: permissions.defaultMode: expected {expected}, got {short_repr(mode)}"
        )
    is_off = permissions.get("disableBypassPermissionsMode") == "disable"
    is_plain = mode == "manual" or (is_off and mode == "bypassPermissions")
    return "default" if is_plain else mode


def _folders(path: Path, permissions: Settings) -> Iterator[str]:
    key = "additionalDirectories"
    for text in _texts(path, permissions, key):
        try:
            folder = str(Path(text).expanduser())
        except (RuntimeError, ValueError) as error:  # ValueError: no name of a user at all
            raise UsageError(
                f"{path}: permissions.{key}: there is no such user, got {short_repr(text)}"
            ) from error
        if _LONE_SURROGATE.search(folder):
            raise UsageError(f"{path}: permissions.{key}: expected a path, got {folder!r}")
        yield folder


def _specifiers(
    path: Path, permissions: Settings, key: str, at_home: str
) -> tuple[ToolSpecifier, ...]:
    rules = _texts(path, permissions, key)
    for rule in rules:
        if not _RULE.fullmatch(rule):
            raise UsageError(
                f"{path}: permissions.{key}: expected Tool or Tool(what), got {short_repr(rule)}"
            )
    return tuple(ToolSpecifier.parse(rule.replace("(~/", f"(/{at_home}/", 1)) for rule in rules)


def _texts(path: Path, permissions: Settings, key: str) -> list[str]:
    texts = permissions.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        what = "rules" if key in _LISTS else "folders"
        raise UsageError(
            f"{path}: permissions.{key}: expected a list of {what}, got {short_repr(texts)}"
        )
    return texts


def _pattern(what: str) -> str:
    return what.removesuffix(":*") + " *" if what.endswith(":*") else what


def write(policy: Policy) -> Written:
    allow: list[str] = []
    deny: list[str] = []
    for rules_of, begins in ((allow, commands(policy)), (deny, denied(policy))):
        for start, open_end in begins:
            escaped = re.sub(r"([()\\])", r"\\\1", start)
            rules_of.append(f"Bash({escaped}:*)" if open_end else f"Bash({escaped})")
    for tool, name, rules in (("read", "Read", policy.read), ("write", "Edit", policy.write)):
        if tool in policy.tools:
            allow += [f"{name}(/{glob})" for glob in rules.allow]
            deny += [f"{name}(/{glob})" for glob in rules.deny]
    losses = list(lost_everywhere(policy, _AROUND))
    losses.append("that nothing else may be read: Claude Code reads any file of the project")
    losses.append("that ls, cat, grep, git log and their like need a rule: there they need none")
    own_tools = {"bash", "read", "write"}
    losses += [
        f"tools.{name}: Claude Code has no such tool"
        for name in policy.tools
        if name not in own_tools
    ]
    return Written(json_text({"permissions": {"allow": allow, "deny": deny}}), tuple(losses))


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
