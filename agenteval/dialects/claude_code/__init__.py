"""Claude Code: its settings.json, read and written, and its tools and words.

`verdict` decides under the rules of such a file. keys.toml has all its keys, and says which may
change what Claude Code allows and are not followed here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from agenteval.dialects.claude_code.rules import PROGRAMS, ToolSpecifier
from agenteval.dialects.claude_code.verdict import FREE, ClaudeCode, Sandbox
from agenteval.dialects.registry import (
    NOT_AT_ALL,
    PERHAPS,
    SHORT,
    SURELY,
    Dialect,
    Settings,
    SettingsKeys,
    Written,
    commands,
    denied,
    home,
    json_text,
    load_table,
    lost_everywhere,
    other_tools,
    path_rules,
    policy_of,
    read_json,
    texts_at,
    wrong,
)
from agenteval.errors import UsageError
from agenteval.policy.policy import Policy, UnheededKey
from agenteval.prompt.arm import Profile
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
# Every tool exists there, allowed or not.
_TOOLS = (*PROGRAMS["tools"], *sorted(FREE - {"read"}))
_MODES = ("default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions", "manual")
_RULE = re.compile(r"\s*+[\w.:*-]++\s*+(?:\(\s*+\S.*\)\s*)?", re.DOTALL)
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
# A pattern for tools that Claude Code does not heed in `allow`: it names no server.
_ANY_SERVER = re.compile(r"(?!mcp__[^*]+__)[^(]*\*[^(]*")
# What stands in settings that say nothing of permissions.
_USUAL = {"hooks", "statusLine", "enabledPlugins", "enableAllProjectMcpServers"}
_LISTS = ("allow", "ask", "deny")
# Of the sandbox, with what counts where they are not given.
_SWITCHES = {"enabled": False, "autoAllowBashIfSandboxed": False, "allowUnsandboxedCommands": True}
_PASSES = frozenset((Construct.PIPE, Construct.CHAIN, Construct.STDERR_REDIRECT))
_AROUND = _PASSES | {Construct.FILE_REDIRECT, Construct.INPUT_REDIRECT, Construct.HERESTRING}


def _unheeded(settings: Settings) -> Iterator[UnheededKey]:
    """Yield the keys that may change what Claude Code allows, and are not followed here."""
    yield from KEYS.unheeded(_without_own_hook(settings))
    variables = settings.get("env")
    if not isinstance(variables, Mapping):
        return
    reason = "it changes what Claude Code, or a program that a command starts, does"
    for name in variables:
        if _STEERING.fullmatch(str(name)):
            yield UnheededKey(f"env.{name}", reason)


def _without_own_hook(settings: Settings) -> Settings:
    """Return the settings without the hook of ours, which judges by them."""
    hooks = settings.get("hooks")
    if not isinstance(hooks, Mapping):
        return settings
    entries = hooks.get("PreToolUse")
    if not isinstance(entries, list):
        return settings
    others = [entry for entry in entries if _OWN_HOOK not in str(entry)]
    return {**settings, "hooks": {**hooks, "PreToolUse": others}}


def read(path: Path) -> Policy:
    """Read a settings file. Raises UsageError with the file and the key if it is none."""
    content = read_json(path)
    permissions = _table(path, content, "permissions")
    at_home = home(path)
    allow, ask, deny = (_specifiers(path, permissions, key, at_home) for key in _LISTS)
    allow = tuple(rule for rule in allow if not _ANY_SERVER.fullmatch(rule.tool))
    mode = _mode(path, permissions)
    folders = tuple(_folders(path, permissions))
    sandbox = _sandbox(path, content)
    digested: list[object] = [mode, allow, ask, deny, *folders]
    if sandbox:
        digested.append(sandbox)
    engine = ClaudeCode(allow, ask, deny, mode, folders, at_home, sandbox)
    policy = policy_of(
        engine,
        path.stem,
        f"claude-code permissions of {path.name}",
        digested,
        bash=_patterns(allow),
        passes=_PASSES,
        tools=_TOOLS,
    )
    return replace(policy, unheeded=tuple(_unheeded(content)))


def _table(path: Path, content: Settings, key: str) -> Settings:
    value = content.get(key, {})
    if not isinstance(value, Mapping):
        raise wrong(f"{path}: {key}", "a table", value)
    return value


def _sandbox(path: Path, content: Settings) -> Sandbox | None:
    """Return the sandbox that spares its commands a rule; None where none does."""
    table = _table(path, content, "sandbox")
    switches = {key: table.get(key, usual) for key, usual in _SWITCHES.items()}
    for key, value in switches.items():
        if not isinstance(value, bool):
            raise wrong(f"{path}: sandbox.{key}", "true or false", value)
    excluded = texts_at(f"{path}: sandbox", table, "excludedCommands", "commands")
    if not (switches["enabled"] and switches["autoAllowBashIfSandboxed"]):
        return None
    rules = [ToolSpecifier(BASH, "" if text in {"*", ":*"} else text) for text in excluded]
    return Sandbox(tuple(rules), switches["allowUnsandboxedCommands"])


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
    for text in texts_at(f"{path}: permissions", permissions, key, "folders"):
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
    specifiers = []
    for rule in texts_at(f"{path}: permissions", permissions, key, "rules"):
        if not _RULE.fullmatch(rule):
            raise wrong(f"{path}: permissions.{key}", "Tool or Tool(what)", rule)
        specifiers.append(ToolSpecifier.parse(rule.replace("(~/", f"(/{at_home}/", 1)))
    return tuple(specifiers)


def _patterns(rules: Iterable[ToolSpecifier]) -> Iterator[str]:
    """Yield the commands of rules as our patterns."""
    for rule in rules:
        if rule.tool != BASH:
            continue
        start = rule.what.removesuffix(":*")
        if start != rule.what:
            start = f"{start} *"
        yield start or "*"


def write(policy: Policy) -> Written:
    """Return an allow list as a settings.json."""
    allow = [_as_rule(start, is_open) for start, is_open in commands(policy)]
    deny = [_as_rule(start, is_open) for start, is_open in denied(policy)]
    for tool, rules in path_rules(policy):
        name = "Edit" if tool == "write" else "Read"
        allow += [f"{name}(/{glob})" for glob in rules.allow]
        deny += [f"{name}(/{glob})" for glob in rules.deny]
    losses = list(lost_everywhere(policy, _AROUND))
    losses.append("that nothing else may be read: Claude Code reads any file of the project")
    losses.append("that ls, cat, grep, git log and their like need a rule: there they need none")
    losses += [f"tools.{name}: Claude Code has no such tool" for name in other_tools(policy)]
    return Written(json_text({"permissions": {"allow": allow, "deny": deny}}), tuple(losses))


def _as_rule(start: str, is_open: bool) -> str:  # noqa: FBT001 -- as `commands` yields them
    escaped = re.sub(r"([()\\])", r"\\\1", start)
    return f"Bash({escaped}:*)" if is_open else f"Bash({escaped})"


def _left_behind(engine: ClaudeCode) -> Iterator[str]:
    """Yield the rules that no list for anyone else can hold: all but allowed commands."""
    for key in _LISTS:
        for rule in getattr(engine, key):
            if (key, rule.tool) != ("allow", BASH):
                yield f"permissions.{key}: {rule}"
    if engine.mode != "default":
        yield f"permissions.defaultMode: {engine.mode}"
    if engine.sandbox:
        yield "sandbox: that a command which runs in it needs no rule"
    for folder in engine.folders:
        yield f"permissions.additionalDirectories: {folder}"


def _likeness(name: str, content: Settings) -> int:
    if not isinstance(content.get("permissions", []), list):
        return SURELY
    return PERHAPS if _USUAL & content.keys() or "settings" in name else NOT_AT_ALL


DIALECT = Dialect(
    name="claude-code",
    checked=("2.1.330",),
    profile=load_table("claude_code/profile.toml", Profile),
    readers={"claude-code": read},
    write=write,
    left_behind=_left_behind,
    likeness=_likeness,
    beside=("claude-code:.claude/settings.json",),
)
