"""The verdict on a call: the policy decides, and only a denied call is explained."""

from agenteval.core.call import Evidence, Finding, ToolCall, Verdict
from agenteval.core.facts import Command, ShellFacts, Span
from agenteval.core.policy import UNKNOWN_WORLD, Gate, Policy, World, allows
from agenteval.core.shell import Simple, read_simple
from agenteval.core.shell_facts import read_facts
from agenteval.core.shell_wrappers import is_wrapper
from agenteval.taxonomy import structure
from agenteval.taxonomy.catalogue import TAXONOMY_VERSION, failure_classes
from agenteval.taxonomy.denied import DeniedCall, parts_of
from agenteval.taxonomy.registry import FailureClass, Seen, classes_of

__all__ = ["TAXONOMY_VERSION", "deny", "judge"]

ALLOWED = Verdict(allowed=True)
_NO_SHELL = ShellFacts("")
_CLASSES = tuple(each for each in failure_classes() if not each.rest)
(_REST,) = (each for each in failure_classes() if each.rest)
_STRUCTURE = frozenset(each.id for each in classes_of(structure))
_PLAIN = tuple(each for each in _CLASSES if each.id not in _STRUCTURE)


def judge(call: ToolCall, policy: Policy, world: World = UNKNOWN_WORLD) -> Verdict:
    """Allowed, or denied with every class that explains it. Never raises, whatever the call."""
    command = call.command
    gate = None if command is None else read_simple(command)
    if allows(call, policy, world, gate=gate):
        return ALLOWED
    return _denied(call, policy, world, _facts(command, gate), "")


def deny(
    call: ToolCall, policy: Policy, world: World = UNKNOWN_WORLD, *, objection: str
) -> Verdict:
    """The verdict on a call that the second reader objects to: ambiguous-shell, come what may."""
    return _denied(call, policy, world, _facts(call.command, None), objection)


def _facts(command: str | None, gate: Gate | None) -> ShellFacts:
    """Facts without a parse tree for what the gate read as one command, unless it wraps others."""
    if command is None:
        return _NO_SHELL
    if isinstance(gate, Simple):
        words = gate.words
        if not is_wrapper(words[0]):
            start, end = words[0].span.start, words[-1].span.end
            return ShellFacts(command, (Command(words, Span(start, end, command[start:end])),))
    return read_facts(command)


def _denied(
    call: ToolCall, policy: Policy, world: World, shell: ShellFacts, objection: str
) -> Verdict:
    denied = DeniedCall(call, policy, world, shell, parts_of(shell, policy, world), objection)
    alone = denied.alone
    permitted = policy.bash.constructs
    findings = [
        _finding(each, seen, policy, alone)
        for each in (_CLASSES if _has_structure(shell) else _PLAIN)
        if (seen := each.look(denied)) and each.construct not in permitted
    ]
    if not findings and (seen := _REST.look(denied)):
        findings.append(_finding(_REST, seen, policy, alone))
    return Verdict(allowed=False, findings=tuple(findings))


def _has_structure(shell: ShellFacts) -> bool:
    """Whether any class of shell structure can be seen: most denied commands are plain ones."""
    return bool(
        shell.redirects
        or shell.pipelines
        or shell.chains
        or shell.substitutions
        or shell.control
        or shell.background
        or shell.subshells
        or shell.heredocs
    )


def _finding(failure_class: FailureClass, seen: Seen, policy: Policy, alone: str) -> Finding:
    hint = seen.hint or failure_class.cure
    if "{alone}" in hint:
        hint = hint.replace("`{alone}`" if not alone else "{alone}", alone or "one listed command")
    facets = seen.facets
    if alone:
        facets += ("script-listed",)
    if failure_class.id in policy.stated:
        facets += ("rule-stated",)
    span = seen.span
    return Finding(failure_class.id, Evidence(span.text, span.start, span.end), hint, facets)
