"""The allow lists that are known of a session: given, quoted in its denials, or beside the log."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from agenteval.config.allowlists import load_any
from agenteval.config.roots import roots
from agenteval.core.call import ToolCall, Verdict
from agenteval.core.logged import Session
from agenteval.core.policy.policy import UNKNOWN_WORLD, Policy, Stopping
from agenteval.dialects.registry import dialect_of, dialects
from agenteval.errors import UsageError

QUOTED, BESIDE, GIVEN = "quoted in denials", "beside the log", "--allowlist"


@dataclass(frozen=True, slots=True)
class Known:
    """An allow list that is known of a session, for calls of these tools (None: all)."""

    policy: Policy
    where: str
    tools: frozenset[str] | None = None

    def covers(self, call: ToolCall) -> bool:
        return self.tools is None or call.name.lower() in self.tools


def quoted(session: Session, format_name: str) -> Known | None:
    """The rules that a session's denials quote, where that program's do."""
    dialect = dialects().get(format_name)
    if dialect is None or dialect.quoted is None:
        return None
    policy = dialect.quoted(session.version, session.agent, session.rules)
    tools = frozenset(rule["permission"] for rule in session.rules) - {"*"}
    return Known(policy, QUOTED, tools)


@cache
def beside(format_name: str, project: str, agent: str) -> Known | None:
    if not PurePosixPath(project).is_absolute() or "/" in agent:
        return None
    dialect = dialects().get(format_name)
    for place in dialect.beside if dialect else ():
        reader, _, name = place.format(agent=agent).partition(":")
        path = Path(project, name)
        try:
            if path.is_file():
                policy = load_any(f"{reader}:{path}", roots=roots())
                return Known(policy, f"{BESIDE}: {path}")
        except (UsageError, OSError, ValueError):
            continue  # another version's file: what was recorded still counts
    return None


@cache
def in_mode(policy: Policy, mode: str) -> Policy:
    """The list as its harness takes it in the mode that a log names."""
    dialect = dialect_of(policy) if mode else None
    return dialect.in_mode(policy, mode) if dialect else policy


def stops_at(policy: Policy, call: ToolCall, verdict: Verdict, root: str) -> str:
    """The part of a denied call that the list stops at, where its engine tells, or its evidence."""
    primary = verdict.primary
    if primary is None:
        return ""
    if policy.engine is None or call.command is None or not isinstance(policy.engine, Stopping):
        return primary.evidence.text
    start = root or UNKNOWN_WORLD.root
    return policy.engine.stops_at(call.command, start, start) or primary.evidence.text
