"""The rules of another harness that no list for anyone else can hold: all but allowed commands."""

from collections.abc import Iterator

from agenteval.core.call import BASH
from agenteval.core.dialects.claude.engine import ClaudeCode
from agenteval.core.dialects.codex.engine import Codex
from agenteval.core.dialects.opencode.engine import DEFAULTS, OpenCode
from agenteval.core.dialects.opencode.engine_1_0 import OpenCode10
from agenteval.core.policy.policy import Engine, Policy


def left_behind(policy: Policy) -> tuple[str, ...]:
    """One line for each, nothing for a list of our own."""
    match policy.engine:
        case OpenCode() as engine:
            return (*_of_opencode(engine), *_of_no_rule(policy, engine))
        case OpenCode10() as engine:
            return (*_of_old_opencode(engine), *_of_no_rule(policy, engine))
        case ClaudeCode() as engine:
            return (*_of_claude(engine), *_of_no_rule(policy, engine))
        case Codex() as engine:
            return tuple(_of_codex(engine))
    return ()


def _of_no_rule(policy: Policy, engine: Engine) -> Iterator[str]:
    unnamed = "a-program-that-no-rule-names"
    is_named = any(rule.matches([unnamed]) for rule in policy.bash.patterns)
    if not is_named and engine.allows(BASH, {"command": unnamed}, "/workspace"):
        yield "that a command of which no rule speaks is allowed"


def _of_opencode(engine: OpenCode) -> Iterator[str]:
    for rule in engine.rules[len(DEFAULTS) :]:
        if (rule.permission, rule.action) != (BASH, "allow"):
            yield f"permission.{rule.permission}: {rule.pattern} {rule.action}"


def _of_old_opencode(engine: OpenCode10) -> Iterator[str]:
    for pattern, action in engine.patterns.items():
        if action != "allow":
            yield f"permission.bash: {pattern} {action}"
    for key, action in engine.actions.items():
        yield f"permission.{key}: {action}"
    for tool, is_on in engine.switches.items():
        yield f"tools.{tool}: {str(is_on).lower()}"


def _of_claude(engine: ClaudeCode) -> Iterator[str]:
    for key, rules in (("allow", engine.allow), ("ask", engine.ask), ("deny", engine.deny)):
        for rule in rules:
            if (key, rule.tool) != ("allow", BASH):
                yield f"permissions.{key}: {rule}"
    if engine.mode != "default":
        yield f"permissions.defaultMode: {engine.mode}"
    for folder in engine.folders:
        yield f"permissions.additionalDirectories: {folder}"


def _of_codex(engine: Codex) -> Iterator[str]:
    for rule in engine.rules:
        words = " ".join("|".join(choices) for choices in rule.pattern)
        if rule.decision != "allow":
            yield f"prefix_rule {words}: {rule.decision}"
        elif rule.caseless:
            yield f"prefix_rule {words}: whatever the case of its letters"
    for name, paths in engine.executables.items():
        yield f"host_executable {name}: {', '.join(sorted(paths)) or 'nowhere but in PATH'}"
    if any(rule.decision == "allow" for rule in engine.rules):
        yield "that a program may be given by its path too"
