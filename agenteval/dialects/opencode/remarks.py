"""What there is to say of OpenCode's rules: which never count, and which no other list can hold."""

from collections.abc import Iterator, Sequence

from agenteval.core.call import BASH
from agenteval.core.policy.patterns import CommandPattern
from agenteval.core.policy.policy import Policy
from agenteval.core.policy_lint import Remark, Trouble
from agenteval.core.policy_lint import lint as lint_any
from agenteval.dialects.opencode.engine.current import DEFAULTS, OpenCode, wildcard
from agenteval.dialects.opencode.engine.version_1_0 import OpenCode10


def lint(policy: Policy) -> list[Remark]:
    """What is wrong with any list, and with one in which the last matching rule counts."""
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
    """In OpenCode the last matching rule counts: one before a wider one never does."""
    for number, rule in enumerate(engine.rules):
        later = engine.rules[number + 1 :]
        for other in later:
            if other.permission == rule.permission and wildcard(other.pattern, rule.pattern):
                shown = f"{rule.permission}: {rule.pattern}: {rule.action}"
                reason = f"the later `{other.pattern}: {other.action}` always counts instead"
                if rule.permission == "bash":
                    yield Remark(shown, Trouble.NEVER, reason)
                break


def left_behind(engine: OpenCode | OpenCode10) -> Iterator[str]:
    """The rules that no list for anyone else can hold: all but allowed commands."""
    return _old_rules(engine) if isinstance(engine, OpenCode10) else _rules(engine)


def _rules(engine: OpenCode) -> Iterator[str]:
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
