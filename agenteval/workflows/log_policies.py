"""The known allow lists of a session.

They are given, quoted in denials, found next to the log, or implied by a mode alone.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath

from agenteval.config.allowlists import load_any
from agenteval.config.roots import roots
from agenteval.core.call import BASH, ToolCall, Verdict
from agenteval.core.logged import Session
from agenteval.core.policy.policy import UNKNOWN_WORLD, Policy, Stopping
from agenteval.dialects.registry import dialect_of, dialects
from agenteval.errors import UsageError

QUOTED, BESIDE, GIVEN = "quoted in denials", "beside the log", "--allowlist"
MODE = "of the mode that the log names"
# Where programs without a dialect of their own keep rules, by the reader of those they come of:
# they are of commands alone, as other tools have other names there.
_ALIKE = {"qwen-code": ("claude-code:.qwen/settings.json", "claude-code:{home}/settings.json")}
_COMMANDS = frozenset((BASH,))
_LOGS = frozenset(("sessions", "archived_sessions", "projects"))  # folders in a program's home


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


def rules_next_to(session: Session, format_name: str) -> Known | None:
    """Return the first readable rules of the project's folder, or of the program's own."""
    above = Path(session.path).parents
    home = next((str(one.parent) for one in above if one.name in _LOGS), "")
    return _rules_next_to(format_name, session.project, session.agent, home)


@cache
def _rules_next_to(format_name: str, project: str, agent: str, home: str) -> Known | None:
    if "/" in agent:
        return None
    dialect = dialects().get(format_name)
    for place in dialect.beside if dialect else _ALIKE.get(format_name, ()):
        reader, _, name = place.partition(":")
        path = Path(project, name.format(agent=agent, home=home))
        is_known = bool(home) if "{home}" in name else PurePosixPath(project).is_absolute()
        try:
            if is_known and path.exists():
                policy = load_any(f"{reader}:{path}", roots=roots())
                return Known(policy, f"{BESIDE}: {path}", None if dialect else _COMMANDS)
        except (UsageError, OSError, ValueError):
            continue  # another version's file: what was recorded still counts
    return None


@cache
def alone(format_name: str, mode: str) -> Known | None:
    """Return the rules of the mode alone, if the program has a mode that decides by itself."""
    dialect = dialects().get(format_name)
    if dialect is None or dialect.unruled is None or not mode:
        return None
    policy = in_mode(dialect.unruled, mode)
    return None if policy is dialect.unruled else Known(policy, f"{MODE}: {mode}", _COMMANDS)


def in_mode(policy: Policy, mode: str) -> Policy:
    """The list as its harness takes it in the mode that a log names."""
    return _in_mode(policy, mode) if mode else policy


@lru_cache(maxsize=8)  # each session may quote a list of its own
def _in_mode(policy: Policy, mode: str) -> Policy:
    dialect = dialect_of(policy)
    return dialect.in_mode(policy, mode) if dialect else policy


def stops_at(policy: Policy, call: ToolCall, verdict: Verdict, root: str) -> str:
    """Return the part of a denied call that the list stops at, if its engine reports it.

    Otherwise return the evidence of the verdict.
    """
    primary = verdict.primary
    if primary is None:
        return ""
    if policy.engine is None or call.command is None or not isinstance(policy.engine, Stopping):
        return primary.evidence.text
    start = root or UNKNOWN_WORLD.root
    return policy.engine.stops_at(call.command, start, start) or primary.evidence.text
