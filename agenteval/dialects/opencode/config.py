"""OpenCode's permissions, from an opencode.json or an agent's front matter, and into the first.

`read` takes a file as 1.1 and later do, `read_as_1_0` as 1.0 did, and `write` writes one. `lint`
adds the faults of a list in which the last matching rule counts. keys.toml has all keys.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from agenteval.dialects.opencode.engine import (
    DEFAULTS,
    EDIT_TOOLS,
    PLAN,
    TOOLS,
    Action,
    OpenCode,
    OpenCode10,
    PermissionRule,
    wildcard,
)
from agenteval.dialects.registry import (
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
    table,
    wrong,
)
from agenteval.errors import UsageError
from agenteval.host import read_text
from agenteval.policy.command_lines import CommandPattern, PathRules
from agenteval.policy.lint import Remark, Trouble
from agenteval.policy.lint import lint as lint_any
from agenteval.policy.policy import Policy, UnheededKey
from agenteval.shell.leaves import Construct
from agenteval.trial.call import BASH
from agenteval.trial.redaction import is_secret

# The tables in which agents stand.
AGENTS = ("mode", "agent", "agents")
CONFIG, AGENT, OTHER_AGENT = (
    SettingsKeys.load("opencode", name) for name in ("config", "agent", "other_agent")
)


def unheeded(config: Settings, *, is_agent: bool) -> Iterator[UnheededKey]:
    """Yield the keys that may change what OpenCode allows, and are not followed here.

    With `is_agent` it is the front matter of one agent's own file.
    """
    if is_agent:
        yield from AGENT.unheeded(config)
        return
    yield from CONFIG.unheeded(config)
    first = str(config.get("default_agent", "build"))
    for section in AGENTS:
        for name, agent in _agents(config, section).items():
            if isinstance(agent, Mapping):
                keys = AGENT if name == first else OTHER_AGENT
                yield from keys.unheeded(agent, f"{section}.{name}")


def _agents(config: Settings, section: str) -> Settings:
    agents = config.get(section)
    return agents if isinstance(agents, Mapping) else {}


_HOME = re.compile(r"\A(~|\$HOME)(?=/|\Z)")
_VARIABLE = re.compile(r"\{env:([^}]+)\}")
_LOOSE_TEXT = re.compile(r"^(\w+): +(?!['\"\[{|>&*!])([^\n#]*: [^\n]*)$", re.MULTILINE)
_FRONT = re.compile(r"\A---\r?\n(.*?)^---\s*$", re.DOTALL | re.MULTILINE)
_ACTIONS = ("allow", "ask", "deny")
_RENAMED = {"shell": BASH, "subagent": "task"}  # in OpenCode 2
_BOTH_NAMES = (*_RENAMED, *_RENAMED.values())
# What in a glob ends at a / here and not in OpenCode: a single * or ?, and a **/ before a name.
_ONE_FOLDER = re.compile(r"(?<!\*)\*(?!\*)|\?|\*\*/[^*]")
_AROUND = frozenset(Construct) - {Construct.ENV_ASSIGNMENT}
# What OpenCode lets pass around a command that it allows.
_PASSES = frozenset(
    (
        *(Construct.STDERR_REDIRECT, Construct.FILE_REDIRECT, Construct.INPUT_REDIRECT),
        *(Construct.HEREDOC, Construct.HERESTRING, Construct.SUBSHELL),
    )
)


class _Loader(yaml.SafeLoader):
    """A loader that takes no text for a date.

    Harnesses take none, and a day that does not exist would be an error.
    """


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read(path: Path) -> Policy:
    """Read a config. Raises UsageError with the file and the key if it is none."""
    content = _content(path)
    own = tuple(rule for table in _layers(content) for rule in _own_rules(path, table))
    if content.get("default_agent") == "plan":
        own = (*PLAN, *own)
    policy = engine_policy(path, OpenCode((*DEFAULTS, *own), home=home(path)), own)
    return replace(policy, unheeded=_unheeded(path, content))


def _unheeded(path: Path, content: Settings) -> tuple[UnheededKey, ...]:
    return tuple(unheeded(content, is_agent=path.suffix == ".md"))


def read_as_1_0(path: Path) -> Policy:
    """The same file as OpenCode 1.0 reads it.

    There an agent's own section takes away that it asks about folders outside the project.
    """
    content = _content(path)
    layers = list(_layers(content))
    own = [rule for table in layers for rule in _rules(path, _permission(path, table))]
    is_agent = path.suffix == ".md" or len(layers) > 1
    if is_agent and any("permission" in table for table in layers):
        own.insert(0, PermissionRule("external_directory", "*", "allow"))
    switches = {name: on for table in layers for name, on in _switches(path, table).items()}
    policy = engine_policy(path, OpenCode10.of(own, switches, home(path)), tuple(own))
    return replace(policy, unheeded=_unheeded(path, content))


def _content(path: Path) -> dict[str, Any]:
    text = read_text(path, encoding="utf-8-sig")
    if path.suffix == ".md":
        return _front_matter(path, text)
    return json_with_comments(path, _VARIABLE.sub(_from_environment, text))


def _front_matter(path: Path, text: str) -> dict[str, Any]:
    """The YAML table between the two lines of dashes that begin a Markdown file."""
    match = _FRONT.match(text)
    if not match:
        raise UsageError(f"{path}: no front matter: expected a line of --- first, and one after it")
    try:
        content = yaml.load(_quoted(match[1]), _Loader)  # noqa: S506 -- it is a safe loader
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise UsageError(f"{path}: front matter: {why}: quote what holds a * or a colon") from error
    return table(path, {} if content is None else content)


def _quoted(front: str) -> str:
    """With quotes around plain texts that hold a colon, which harnesses forgive."""
    return _LOOSE_TEXT.sub(lambda found: f"{found[1]}: {json.dumps(found[2])}", front)


def _from_environment(match: re.Match[str]) -> str:
    """Return the value of `{env:NAME}` in a JSON text: nothing if there is no such variable.

    A variable that holds a key stays as it is written: rules are stored, and the model reads them.
    """
    value = os.environ.get(match[1], "")
    return match[0] if is_secret(match[1], value) else json.dumps(value)[1:-1]


def _layers(content: Settings) -> Iterator[Settings]:
    """Yield the config itself, and its sections for the agent that OpenCode starts with."""
    yield content
    agent = str(content.get("default_agent", "build"))
    for section in AGENTS:
        table = _agents(content, section).get(agent)
        if isinstance(table, Mapping):
            yield table


def _own_rules(path: Path, table: Settings) -> Iterator[PermissionRule]:
    """A permission replaces the switch of its name, and stands in its place."""
    switches: dict[str, Action] = {}
    for name, enabled in _switches(path, table).items():
        switches["edit" if name in EDIT_TOOLS else name] = "allow" if enabled else "deny"
    yield from _rules(path, {**switches, **_permission(path, table)})
    yield from _ordered(path, table)


def _permission(path: Path, table: Settings) -> Settings:
    permission = table.get("permission", {})
    if isinstance(permission, str):
        return {"*": permission}
    if not isinstance(permission, Mapping):
        raise wrong(f"{path}: permission", "a table or an action", permission)
    return permission


def engine_policy(
    path: Path,
    engine: OpenCode | OpenCode10,
    own: tuple[PermissionRule, ...],
) -> Policy:
    """Return the policy of an engine, whose user has his `own` rules."""
    allowed = [
        rule.pattern
        for rule in own
        if rule.action == "allow" and rule.permission == BASH and rule.pattern.strip()
    ]
    rules: list[object] = [*own]
    if isinstance(engine, OpenCode10):
        rules += [f"{tool}: {is_on}" for tool, is_on in engine.switches.items()]
    return policy_of(
        engine,
        path.stem,
        f"{engine.name} permissions of {path.name}",
        rules,
        bash=allowed,
        passes=_PASSES,
        tools=filter(engine.offers, TOOLS),
    )


def _rules(path: Path, permission: Settings) -> Iterator[PermissionRule]:
    for key, value in permission.items():
        patterns = value if isinstance(value, Mapping) else {"*": value}
        for pattern, action in patterns.items():
            yield _rule(f"{path}: permission.{key}", str(key), str(pattern), action)


def _rule(where: str, permission: str, pattern: str, action: Any) -> PermissionRule:
    if action not in _ACTIONS:
        raise wrong(where, "allow, ask or deny", action)
    return PermissionRule(permission, _HOME.sub(lambda _: home(where), pattern), action)


def _ordered(path: Path, table: Settings) -> Iterator[PermissionRule]:
    """Yield the rules of OpenCode 2's form, a list, by its documentation: it could not be run."""
    rules = table.get("permissions", [])
    if path.suffix == ".md" and not isinstance(rules, list):  # 1.18 does not heed it
        rules = []
    if not isinstance(rules, list):
        raise wrong(f"{path}: permissions", "a list of rules", rules)
    for number, rule in enumerate(rules, 1):
        where = f"{path}: permissions, rule {number}"
        match rule:
            case {"action": str(tool), "resource": str(of), "effect": effect} if len(rule) == 3:
                yield _rule(where, _by_old_name(where, tool), of, effect)
            case _:
                raise wrong(where, "action, resource, effect", rule)


def _by_old_name(where: str, tool: str) -> str:
    if tool not in {"*", *_RENAMED} and any(wildcard(tool, each) for each in _BOTH_NAMES):
        raise UsageError(f"{where}: action: expected shell, subagent or a whole name, got {tool}")
    return _RENAMED.get(tool, tool)


def _switches(path: Path, table: Settings) -> dict[str, bool]:
    """Return the older form, `tools: {write: false}`."""
    tools = table.get("tools", {})
    if not isinstance(tools, Mapping):
        raise wrong(f"{path}: tools", "a table of true and false", tools)
    for name, enabled in tools.items():
        if not isinstance(enabled, bool):
            raise wrong(f"{path}: tools.{name}", "true or false", enabled)
    return {str(name): enabled for name, enabled in tools.items()}


def write(policy: Policy) -> Written:
    bash = {"*": "deny"}
    for start, open_end in commands(policy):
        bash[f"{start} *" if open_end else start] = "allow"
    # Last: there the last match counts.
    for start, open_end in denied(policy):
        text = f"{start} *" if open_end else start
        bash.pop(text, None)
        bash[text] = "deny"
    permission: dict[str, Any] = {"*": "deny"}
    if "bash" in policy.tools:
        permission["bash"] = bash
    for tool, key, rules in (("read", "read", policy.read), ("write", "edit", policy.write)):
        if tool in policy.tools:
            permission[key] = _path_table(rules)
    named = [name for name in policy.tools if name not in {"bash", "read", "write"}]
    permission |= dict.fromkeys(named, "allow")
    content = {"$schema": "https://opencode.ai/config.json", "permission": permission}
    lost = (*lost_everywhere(policy, _AROUND), *_lost_here(policy))
    return Written(json_text(content), lost)


def _lost_here(policy: Policy) -> Iterator[str]:
    if "bash" in policy.tools and policy.engine is None:
        yield "that quotes and blanks do not matter: there a rule fits a text as it is written"
        yield "that X=1, [[ x ]] and cd need a rule: there they pass, cd inside the project"
        for rule in policy.bash.patterns:
            if any(word.wild for word in rule.words):
                yield f"{rule.text}: that a * stands for a part of one word"
            if "?" in rule.text:
                yield f"{rule.text}: that a ? stands for itself"
    for tool, rules in (("read", policy.read), ("write", policy.write)):
        for glob in (*rules.allow, *rules.deny) if tool in policy.tools else ():
            if _ONE_FOLDER.search(glob):
                yield f"{tool}: {glob}: that only ** crosses folders"


def _path_table(rules: PathRules) -> dict[str, str]:
    """Deny last: there the last match counts. Its `*` crosses folders already."""
    marked = [(glob, "allow") for glob in rules.allow] + [(glob, "deny") for glob in rules.deny]
    plain = {glob.replace("**/", "*").replace("**", "*"): action for glob, action in marked}
    return {"*": "deny"} | plain


def lint(policy: Policy) -> list[Remark]:
    """Return the faults of any list, and those of one in which the last matching rule counts."""
    engine = policy.engine
    if not isinstance(engine, OpenCode):
        return lint_any(policy)
    return [*lint_any(policy, _between_denials(engine)), *_overruled(engine)]


def _between_denials(engine: OpenCode) -> Iterator[Sequence[CommandPattern]]:
    """Rules among which it does not matter which comes first."""
    allowed: list[CommandPattern] = []
    for rule in engine.rules:
        if rule.action == "allow" and rule.permission == BASH and rule.pattern.strip():
            allowed.append(CommandPattern.parse(rule.pattern))
        elif rule.action != "allow" and wildcard(rule.permission, BASH):
            yield allowed
            allowed = []
    yield allowed


def _overruled(engine: OpenCode) -> Iterator[Remark]:
    """Yield remarks on rules for bash that never count, as a later and wider one always does."""
    for number, rule in enumerate(engine.rules):
        if rule.permission != BASH:
            continue
        for other in engine.rules[number + 1 :]:
            if other.permission == BASH and wildcard(other.pattern, rule.pattern):
                shown = f"{rule.permission}: {rule.pattern}: {rule.action}"
                reason = f"the later `{other.pattern}: {other.action}` always counts instead"
                yield Remark(shown, Trouble.NEVER, reason)
                break
