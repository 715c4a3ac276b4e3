"""Claude Code: verdicts under its settings.json, and its tools and words.

`engine` gives the verdicts, `settings` reads and writes the file.
"""

from agenteval.dialects.claude_code import settings
from agenteval.dialects.registry import NOT_AT_ALL, PERHAPS, SURELY, Dialect, Settings
from agenteval.prompt.arm import (
    COMMAND,
    CONTENT,
    READ,
    RUN,
    SAID,
    WRITE,
    Form,
    Profile,
    Texts,
    path_named,
)

# What stands in settings that say nothing of permissions.
_USUAL = {"hooks", "statusLine", "enabledPlugins", "enableAllProjectMcpServers"}
# Names, parameters and replies are those of the program, as its logs show them; descriptions are
# our own. What differs from call to call there (times, ids of chunks) is left out. An edit changes
# what a model reads: raise the version.
_PROFILE = Profile(
    name="claude-code",
    version=2,
    forms={
        "bash": Form("Bash", RUN, (COMMAND, SAID)),
        "read": Form("Read", READ, (path_named("file_path"),)),
        "write": Form("Write", WRITE, (path_named("file_path"), CONTENT)),
    },
    texts=Texts(
        denied="Permission to use {tool} with command {command} has been denied.",
        denied_path="Permission to use {tool} has been denied.",
        unknown="<tool_use_error>Error: No such tool available: {tool}</tool_use_error>",
        malformed="<tool_use_error>InputValidationError: {tool} failed: {reason}</tool_use_error>",
        invalid="<tool_use_error>InputValidationError: {tool} failed: {reason}</tool_use_error>",
        ran="{output}",
        failed="Exit code {code}\n{output}",
        empty="(no output)",
    ),
)


def _likeness(name: str, content: Settings) -> int:
    if not isinstance(content.get("permissions", []), list):
        return SURELY
    return PERHAPS if _USUAL & content.keys() or "settings" in name else NOT_AT_ALL


DIALECT = Dialect(
    name="claude-code",
    checked=("2.1.330",),
    profile=_PROFILE,
    readers={"claude-code": settings.read},
    write=settings.write,
    left_behind=settings.left_behind,
    likeness=_likeness,
    beside=("claude-code:.claude/settings.json",),
)
