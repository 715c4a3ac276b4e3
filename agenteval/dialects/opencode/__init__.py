"""OpenCode: verdicts under its configs (1.1 and later, and 1.0), and its tools and words.

`engine` gives the verdicts, `config` reads and writes the files.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agenteval.dialects.opencode import config
from agenteval.dialects.opencode.engine import DEFAULTS, OpenCode, OpenCode10, PermissionRule
from agenteval.dialects.registry import (
    NOT_AT_ALL,
    PROBABLY,
    SURELY,
    Dialect,
    Settings,
    home,
    load_table,
)
from agenteval.policy.policy import Policy
from agenteval.prompt.arm import Profile
from agenteval.trial.call import BASH

# What stands in a config, whether it speaks of permissions or not.
_USUAL = {"permission", "agent", "mode", "tools", "provider", "mcp", "instructions", "plugin"}


def _likeness(name: str, content: Settings) -> int:
    if isinstance(content.get("permissions"), list):
        return SURELY
    is_named = "opencode" in f"{name} {content.get('$schema')}"
    return PROBABLY if is_named or _USUAL & content.keys() else NOT_AT_ALL


def _quoted(
    version: str,
    agent: str,
    rules: Sequence[Mapping[str, str]],
) -> Policy:
    """Return the policy of rules as that version of the program takes them.

    The defaults stand before the rules anyway.
    """
    own_rules = [PermissionRule(**rule) for rule in rules]  # type: ignore[arg-type]
    old = version.startswith("1.0.")
    # Nothing quoted speaks of folders, and an agent's own section opens them.
    if old:
        own_rules.append(PermissionRule("external_directory", "*", "allow"))
    while own_rules and own_rules[0] in DEFAULTS:
        del own_rules[0]
    path = Path(f"{agent or 'agent'}.json")
    at_home = home(path)
    engine = (
        OpenCode10.of(own_rules, {}, at_home)
        if old
        else OpenCode((*DEFAULTS, *own_rules), home=at_home)
    )
    return config.engine_policy(path, engine, tuple(own_rules))


def _left_behind(engine: OpenCode | OpenCode10) -> Iterator[str]:
    """The rules that no list for anyone else can hold: all but allowed commands."""
    return _old_rules(engine) if isinstance(engine, OpenCode10) else _rules_left(engine)


def _rules_left(engine: OpenCode) -> Iterator[str]:
    for rule in engine.rules[len(DEFAULTS) :]:
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
    readers={"opencode": config.read, "opencode-1.0": config.read_as_1_0},
    write=config.write,
    left_behind=_left_behind,
    suffix=".md",
    likeness=_likeness,
    lint=config.lint,
    beside=(
        "opencode:.opencode/agents/{agent}.md",
        "opencode:.opencode/agent/{agent}.md",
        "opencode:opencode.json",
    ),
    quoted=_quoted,
)
