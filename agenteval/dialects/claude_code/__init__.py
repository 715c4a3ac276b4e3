"""Claude Code: verdicts under its settings.json, and its tools and words.

`engine` gives the verdicts, `settings` reads and writes the file.
"""

from agenteval.dialects.claude_code import settings
from agenteval.dialects.registry import NOT_AT_ALL, PERHAPS, SURELY, Dialect, Settings, load_table
from agenteval.prompt.arm import Profile

# What stands in settings that say nothing of permissions.
_USUAL = {"hooks", "statusLine", "enabledPlugins", "enableAllProjectMcpServers"}


def _likeness(name: str, content: Settings) -> int:
    if not isinstance(content.get("permissions", []), list):
        return SURELY
    return PERHAPS if _USUAL & content.keys() or "settings" in name else NOT_AT_ALL


DIALECT = Dialect(
    name="claude-code",
    checked=("2.1.330",),
    profile=load_table("claude_code/profile.toml", Profile),
    readers={"claude-code": settings.read},
    write=settings.write,
    left_behind=settings.left_behind,
    likeness=_likeness,
    beside=("claude-code:.claude/settings.json",),
)
