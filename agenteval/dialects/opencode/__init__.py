"""OpenCode: its files read and written (1.1 and later, and 1.0), and its tools and words.

`engine` gives the verdicts, and comes first. Here `read` takes an opencode.json or an agent's front
matter as 1.1 and later do, `_read_as_1_0` as 1.0 did, and `write` writes the first. `lint` adds the
faults of a list in which the last matching rule counts. keys.toml has all keys.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from agenteval.dialects.opencode.engine import (
    DEFAULTS,
    TABLES,
    Action,
    OpenCode,
    OpenCode10,
    PermissionRule,
    wildcard,
)
from agenteval.dialects.registry import (
    NOT_AT_ALL,
    PROBABLY,
    SURELY,
    Dialect,
    Settings,
    SettingsKeys,
    Written,
    commands,
    denied,
    home,
    json_text,
    json_with_comments,
    load_table,
    lost_everywhere,
    other_tools,
    path_rules,
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
from agenteval.prompt.arm import Profile
from agenteval.shell.leaves import Construct
from agenteval.trial.call import BASH
from agenteval.trial.redaction import is_secret

# The tables in which agents stand.
AGENTS = ("mode", "agent", "agents")
CONFIG, AGENT, OTHER_AGENT = (
    SettingsKeys.load("opencode", name) for name in ("config", "agent", "other_agent")
)
# What stands in a config, whether it speaks of permissions or not.
_USUAL = {"permission", "agent", "mode", "tools", "provider", "mcp", "instructions", "plugin"}
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
_PASSES = _AROUND - {
    Construct.PIPE,
    Construct.CHAIN,
    Construct.BACKGROUND,
    Construct.COMMAND_SUBSTITUTION,
}


def _unheeded(path: Path, config: Settings) -> Iterator[UnheededKey]:
    """Yield the keys that may change what OpenCode allows, and are not followed here."""
    if path.suffix == ".md":
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
    own = []
    if content.get("default_agent") == "plan":
        own += [PermissionRule(*rule) for rule in TABLES.plan]
    for layer in _layers(content):
        own += _own_rules(path, layer)
    engine = OpenCode((*DEFAULTS, *own), home=home(path))
    policy = _engine_policy(path, engine, own)
    return replace(policy, unheeded=tuple(_unheeded(path, content)))


def _read_as_1_0(path: Path) -> Policy:
    """Read the same file as OpenCode 1.0 does.

    There an agent's own section takes away that it asks about folders outside the project.
    """
    content = _content(path)
    layers = list(_layers(content))
    own: list[PermissionRule] = []
    switches: dict[str, bool] = {}
    is_agent = path.suffix == ".md" or len(layers) > 1
    if is_agent and any("permission" in layer for layer in layers):
        own.append(PermissionRule("external_directory", "*", "allow"))
    for layer in layers:
        own += _rules(path, _permission(path, layer))
        switches |= _switches(path, layer)
    engine = OpenCode10.of(own, switches, home(path))
    policy = _engine_policy(path, engine, own)
    return replace(policy, unheeded=tuple(_unheeded(path, content)))


def _content(path: Path) -> dict[str, Any]:
    text = read_text(path, encoding="utf-8-sig")
    if path.suffix == ".md":
        return _front_matter(path, text)
    return json_with_comments(path, _VARIABLE.sub(_from_environment, text))


def _front_matter(path: Path, text: str) -> dict[str, Any]:
    """Return the YAML table between the two lines of dashes that begin a Markdown file."""
    match = _FRONT.match(text)
    if not match:
        raise UsageError(f"{path}: no front matter: expected a line of --- first, and one after it")
    try:
        content = yaml.load(_with_quotes(match[1]), _Loader)  # noqa: S506 -- it is a safe loader
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise UsageError(f"{path}: front matter: {why}: quote what holds a * or a colon") from error
    return table(path, {} if content is None else content)


def _with_quotes(front: str) -> str:
    """Return it with quotes around plain texts that hold a colon, which harnesses forgive."""
    return _LOOSE_TEXT.sub(lambda found: f"{found[1]}: {json.dumps(found[2])}", front)


def _from_environment(match: re.Match[str]) -> str:
    """Return the value of `{env:NAME}` in a JSON text: nothing if there is no such variable.

    A variable that holds a key stays as it is written: rules are stored, and the model reads them.
    """
    value = os.environ.get(match[1], "")
    if is_secret(match[1], value):
        return match[0]
    return json.dumps(value)[1:-1]


def _layers(content: Settings) -> Iterator[Settings]:
    """Yield the config itself, and its sections for the agent that OpenCode starts with."""
    yield content
    agent = str(content.get("default_agent", "build"))
    for section in AGENTS:
        table = _agents(content, section).get(agent)
        if isinstance(table, Mapping):
            yield table


def _own_rules(path: Path, table: Settings) -> Iterator[PermissionRule]:
    """Yield its rules: a permission replaces the switch of its name, and stands in its place."""
    switches: dict[str, Action] = {}
    for name, is_on in _switches(path, table).items():
        permission = "edit" if name in TABLES.edit_tools else name
        switches[permission] = "allow" if is_on else "deny"
    yield from _rules(path, {**switches, **_permission(path, table)})
    yield from _ordered(path, table)


def _permission(path: Path, table: Settings) -> Settings:
    permission = table.get("permission", {})
    if isinstance(permission, str):
        return {"*": permission}
    if not isinstance(permission, Mapping):
        raise wrong(f"{path}: permission", "a table or an action", permission)
    return permission


def _engine_policy(
    path: Path,
    engine: OpenCode | OpenCode10,
    own: Sequence[PermissionRule],
) -> Policy:
    """Return the policy of an engine, whose user has his `own` rules."""
    rules: list[object] = [*own]
    if isinstance(engine, OpenCode10):
        rules += [f"{tool}: {is_on}" for tool, is_on in engine.switches.items()]
    return policy_of(
        engine,
        path.stem,
        f"{engine.name} permissions of {path.name}",
        rules,
        bash=[rule.pattern for rule in own if _allows_commands(rule)],
        passes=_PASSES,
        tools=filter(engine.offers, TABLES.tools),
    )


def _allows_commands(rule: PermissionRule) -> bool:
    is_of_bash = (rule.permission, rule.action) == (BASH, "allow")
    return is_of_bash and rule.pattern.strip() != ""


def _rules(path: Path, permission: Settings) -> Iterator[PermissionRule]:
    for key, value in permission.items():
        patterns = value if isinstance(value, Mapping) else {"*": value}
        where = f"{path}: permission.{key}"
        for pattern, action in patterns.items():
            yield _rule(where, str(key), str(pattern), action)


def _rule(
    where: str,
    permission: str,
    pattern: str,
    action: Any,
) -> PermissionRule:
    if action not in _ACTIONS:
        raise wrong(where, "allow, ask or deny", action)
    return PermissionRule(permission, _HOME.sub(lambda _: home(where), pattern), action)


def _ordered(path: Path, table: Settings) -> Iterator[PermissionRule]:
    """Yield the rules of OpenCode 2's form, a list, by its documentation: it could not be run."""
    rules = table.get("permissions", [])
    if not isinstance(rules, list):
        if path.suffix == ".md":  # 1.18 does not heed it
            return
        raise wrong(f"{path}: permissions", "a list of rules", rules)
    for number, rule in enumerate(rules, 1):
        where = f"{path}: permissions, rule {number}"
        match rule:
            case {"action": str(tool), "resource": str(of), "effect": effect} if len(rule) == 3:
                yield _rule(where, _by_old_name(where, tool), of, effect)
            case _:
                raise wrong(where, "action, resource, effect", rule)


def _by_old_name(where: str, tool: str) -> str:
    is_whole = tool in {"*", *_RENAMED}
    if not is_whole and any(wildcard(tool, name) for name in _BOTH_NAMES):
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
    """Return an allow list as an opencode.json."""
    bash = {"*": "deny"}
    bash |= dict.fromkeys(_patterns(commands(policy)), "allow")
    # Last: there the last match counts.
    for pattern in _patterns(denied(policy)):
        bash.pop(pattern, None)
        bash[pattern] = "deny"
    permission: dict[str, Any] = {"*": "deny"}
    if BASH in policy.tools:
        permission["bash"] = bash
    for tool, rules in path_rules(policy):
        permission["edit" if tool == "write" else tool] = _path_table(rules)
    permission |= dict.fromkeys(other_tools(policy), "allow")
    content = {"$schema": "https://opencode.ai/config.json", "permission": permission}
    lost = (*lost_everywhere(policy, _AROUND), *_lost_here(policy))
    return Written(json_text(content), lost)


def _patterns(starts: Iterable[tuple[str, bool]]) -> Iterator[str]:
    for start, is_open in starts:
        yield f"{start} *" if is_open else start


def _lost_here(policy: Policy) -> Iterator[str]:
    if BASH in policy.tools and policy.engine is None:
        yield "that quotes and blanks do not matter: there a rule fits a text as it is written"
        yield "that X=1, [[ x ]] and cd need a rule: there they pass, cd inside the project"
        for rule in policy.bash.patterns:
            if any(word.wild for word in rule.words):
                yield f"{rule.text}: that a * stands for a part of one word"
            if "?" in rule.text:
                yield f"{rule.text}: that a ? stands for itself"
    for tool, rules in path_rules(policy):
        for glob in (*rules.allow, *rules.deny):
            if _ONE_FOLDER.search(glob):
                yield f"{tool}: {glob}: that only ** crosses folders"


def _path_table(rules: PathRules) -> dict[str, str]:
    """Return the rules for files, those that deny last: there the last match counts."""
    actions = {"*": "deny"}
    for action, globs in (("allow", rules.allow), ("deny", rules.deny)):
        for glob in globs:
            # Its `*` crosses folders already.
            actions[glob.replace("**/", "*").replace("**", "*")] = action
    return actions


def lint(policy: Policy) -> list[Remark]:
    """Return the faults of any list, and those of one in which the last matching rule counts."""
    engine = policy.engine
    if not isinstance(engine, OpenCode):
        return lint_any(policy)
    return [*lint_any(policy, _between_denials(engine)), *_overruled(engine)]


def _between_denials(engine: OpenCode) -> Iterator[Sequence[CommandPattern]]:
    """Yield lists of rules among which it does not matter which comes first."""
    allowed: list[CommandPattern] = []
    for rule in engine.rules:
        if _allows_commands(rule):
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


def _likeness(name: str, content: Settings) -> int:
    if isinstance(content.get("permissions"), list):
        return SURELY
    is_named = "opencode" in f"{name} {content.get('$schema')}"
    return PROBABLY if is_named or _USUAL & content.keys() else NOT_AT_ALL


def _quoted(version: str, agent: str, rules: Sequence[Mapping[str, str]]) -> Policy:
    """Return the policy of rules as that version of the program takes them.

    The defaults stand before the rules anyway.
    """
    own_rules = [PermissionRule(**rule) for rule in rules]  # type: ignore[arg-type]
    is_old = version.startswith("1.0.")
    # Nothing quoted speaks of folders, and an agent's own section opens them.
    if is_old:
        own_rules.append(PermissionRule("external_directory", "*", "allow"))
    while own_rules and own_rules[0] in DEFAULTS:
        del own_rules[0]
    path = Path(f"{agent or 'agent'}.json")
    engine: OpenCode | OpenCode10 = OpenCode((*DEFAULTS, *own_rules), home=home(path))
    if is_old:
        engine = OpenCode10.of(own_rules, {}, home(path))
    return _engine_policy(path, engine, own_rules)


def _left_behind(engine: OpenCode | OpenCode10) -> Iterator[str]:
    """Yield the rules that no list for anyone else can hold: all but allowed commands."""
    return _old_rules(engine) if isinstance(engine, OpenCode10) else _rules_left(engine)


def _rules_left(engine: OpenCode) -> Iterator[str]:
    for rule in engine.own_rules:
        if (rule.permission, rule.action) != (BASH, "allow"):
            yield f"permission.{rule.permission}: {rule.pattern} {rule.action}"


def _old_rules(engine: OpenCode10) -> Iterator[str]:
    for pattern, action in engine.patterns.items():
        if action != "allow":
            yield f"permission.bash: {pattern} {action}"
    for key, action in engine.actions.items():
        yield f"permission.{key}: {action}"
    for tool, is_on in engine.switches.items():
        yield f"tools.{tool}: {str(is_on).lower()}"


DIALECT = Dialect(
    name="opencode",
    checked=("1.18.33", "1.0.152"),
    profile=load_table("opencode/profile.toml", Profile),
    readers={"opencode": read, "opencode-1.0": _read_as_1_0},
    write=write,
    left_behind=_left_behind,
    suffix=".md",
    likeness=_likeness,
    lint=lint,
    beside=(
        "opencode:.opencode/agents/{agent}.md",
        "opencode:.opencode/agent/{agent}.md",
        "opencode:opencode.json",
    ),
    quoted=_quoted,
)
