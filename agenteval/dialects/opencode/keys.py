"""The keys of OpenCode's configs and agents: read here, without effect on verdicts, or neither.

By the types of its SDK 1.18.33 (tests/dialects/published_keys), and by what 1.0 and 2 have besides.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from agenteval.core.policy.policy import UnheededKey
from agenteval.dialects.settings_keys import SettingsKeys

AGENTS = ("mode", "agent", "agents")  # the tables in which agents stand
_RULES = ("permission", "permissions", "tools")
_OTHER = "counts for that agent alone, which is not the one that starts"
_AGENT_HARMLESS = (
    *("model", "variant", "temperature", "top_p", "prompt", "description", "mode", "hidden"),
    *("options", "color", "steps", "maxSteps", "name"),
)
_DISABLED = {"disable": "an agent that is switched off does not start"}
AGENT = SettingsKeys.of(_RULES, _AGENT_HARMLESS, _DISABLED)
OTHER_AGENT = SettingsKeys.of((), (*_AGENT_HARMLESS, "disable"), dict.fromkeys(_RULES, _OTHER))
CONFIG = SettingsKeys.of(
    (*_RULES, *AGENTS, "default_agent"),
    (
        *("$schema", "logLevel", "server", "command", "watcher", "snapshot", "share", "autoshare"),
        *("autoupdate", "disabled_providers", "enabled_providers", "model", "small_model"),
        *("subagent_depth", "username", "provider", "mcp", "formatter", "lsp", "instructions"),
        *("layout", "attachment", "enterprise", "tool_output", "compaction", "theme", "keybinds"),
        *("tui", "experimental.disable_paste_summary", "experimental.openTelemetry"),
        *("experimental.continue_loop_on_deny", "experimental.mcp_timeout", "experimental.hook"),
        "experimental.chatMaxRetries",
    ),
    {
        "plugin": "a plug-in may deny a call, or change it",
        "shell": "commands are read here as bash reads them",
        "references": "folders outside of the project may be open",
        "reference": "folders outside of the project may be open",
        "skills": "the folders of skills may be open",
        "experimental.policies": "they may allow or deny calls",
        "experimental.batch_tool": "its tool `batch` makes other calls",
        "experimental.primary_tools": "sub-agents have fewer tools",
    },
)


def unheeded(config: Mapping[str, Any], *, is_agent: bool) -> Iterator[UnheededKey]:
    """The keys that may change what OpenCode allows, and are not followed here.

    With `is_agent` it is the front matter of one agent's own file.
    """
    if is_agent:
        yield from AGENT.unheeded(config)
        return
    yield from CONFIG.unheeded(config)
    first = str(config.get("default_agent", "build"))
    for section in AGENTS:
        agents = config.get(section)
        for name, table in agents.items() if isinstance(agents, Mapping) else ():
            if isinstance(table, Mapping):
                keys = AGENT if name == first else OTHER_AGENT
                yield from keys.unheeded(table, f"{section}.{name}")
