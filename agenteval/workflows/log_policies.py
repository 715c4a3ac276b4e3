"""The allow lists that are known of a session: given, quoted in its denials, or beside the log."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from agenteval.config.allowlists import load_any
from agenteval.config.roots import roots
from agenteval.core.call import ToolCall, Verdict
from agenteval.core.logged import Session
from agenteval.core.policy.policy import UNKNOWN_WORLD, Policy
from agenteval.dialects.opencode.config import policy_of
from agenteval.dialects.opencode.engine.current import DEFAULTS, OpenCode, PermissionRule
from agenteval.dialects.opencode.engine.version_1_0 import OpenCode10
from agenteval.errors import UsageError

QUOTED, BESIDE, GIVEN = "quoted in denials", "beside the log", "--allowlist"
# Where a project keeps the rules of its agents, by format; {agent} is the session's.
_FILES: Mapping[str, tuple[str, ...]] = {
    "opencode": (
        "opencode:.opencode/agents/{agent}.md",
        "opencode:.opencode/agent/{agent}.md",
        "opencode:opencode.json",
    ),
    "claude-code": ("claude-code:.claude/settings.json",),
}


@dataclass(frozen=True, slots=True)
class Known:
    """An allow list that is known of a session, for calls of these tools (None: all)."""

    policy: Policy
    where: str
    tools: frozenset[str] | None = None

    def covers(self, call: ToolCall) -> bool:
        return self.tools is None or call.name.lower() in self.tools


def quoted(session: Session) -> Known:
    """The rules that a session's denials quote, as the program of that version takes them."""
    rules = [PermissionRule(**rule) for rule in session.rules]  # type: ignore[arg-type]
    old = session.version.startswith("1.0.")
    if old:  # nothing quoted speaks of folders, and an agent's own section opens them
        rules.append(PermissionRule("external_directory", "*", "allow"))
    while rules and rules[0] in DEFAULTS:
        del rules[0]
    home, engine = str(Path.home()), OpenCode((*DEFAULTS, *rules), home=str(Path.home()))
    policy = policy_of(
        Path(f"{session.agent or 'agent'}.json"),
        OpenCode10.of(rules, {}, home) if old else engine,
        tuple(rules),
    )
    return Known(policy, QUOTED, frozenset(rule.permission for rule in rules) - {"*"})


@cache
def beside(format_name: str, project: str, agent: str) -> Known | None:
    if not PurePosixPath(project).is_absolute() or "/" in agent:
        return None
    for place in _FILES.get(format_name, ()):
        reader, _, name = place.format(agent=agent).partition(":")
        path = Path(project, name)
        try:
            if path.is_file():
                policy = load_any(f"{reader}:{path}", roots=roots())
                return Known(policy, f"{BESIDE}: {path}")
        except (UsageError, OSError, ValueError):
            continue  # another version's file: what was recorded still counts
    return None


def stops_at(policy: Policy, call: ToolCall, verdict: Verdict, root: str) -> str:
    """The part of a denied call that the list stops at, where its engine tells, or its evidence."""
    primary = verdict.primary
    if primary is None:
        return ""
    if isinstance(policy.engine, OpenCode) and call.command is not None:
        start = root or UNKNOWN_WORLD.root
        return policy.engine.stops_at(call.command, start, start) or primary.evidence.text
    return primary.evidence.text
