"""The report of `hook install` on an allow list: which tools it judges, and which pass."""

from collections.abc import Iterator

from agenteval.config.allowlists import load_any, policy_warnings
from agenteval.config.roots import roots
from agenteval.core.call import BASH
from agenteval.core.policy.arguments import READ, WRITE
from agenteval.core.policy.policy import Policy
from agenteval.hook.tool_inputs import HARMLESS_IN, canonical


def describe(harness: str, allowlist: str, *, observe: bool) -> Iterator[str]:
    """Yield what a user should know before the hook is installed, a line each.

    Raises UsageError.
    """
    policy = load_any(allowlist, roots=roots())
    yield from (f"warning: {line}" for line in policy_warnings(allowlist, policy))
    yield "judged as commands: every tool whose input carries one, whatever its name"
    yield f"judged as files: reading {_files(policy, READ)}, writing {_files(policy, WRITE)}"
    own = [name for name in policy.tools if name not in {BASH, READ, WRITE}]
    if own:
        yield f"judged by a rule of their own: {', '.join(own)}"
    free = [name for name in HARMLESS_IN.get(harness, ()) if not _is_listed(policy, name)]
    yield f"pass, as they change nothing on this machine: {', '.join(free) or 'none'}"
    yield f"any other tool, and PowerShell: {_others(policy, observe=observe)}"


def _files(policy: Policy, tool: str) -> str:
    if policy.tool(tool) is not None:
        return f"by [{tool}]" if policy.engine is None else "by its rules"
    if tool == READ or policy.other_tools == "pass":
        return "passes"
    return "is denied: the list has no [write]"


def _is_listed(policy: Policy, name: str) -> bool:
    return any(canonical(each) == name for each in policy.tools)


def _others(policy: Policy, *, observe: bool) -> str:
    if observe:
        return "counted as not judged, and let pass (--observe)"
    if policy.other_tools == "pass":
        return 'let pass (other_tools = "pass"); what cannot be read is denied'
    return "denied until the list names it"
