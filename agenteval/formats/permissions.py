"""An allow list in any form: our TOML, by name or path, or the config of another harness."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from agenteval.config.allowlists import load_policy
from agenteval.core.policy.policy import Policy
from agenteval.errors import UsageError

# What stands in configs that say nothing of permissions.
_OPENCODE = {"permission", "agent", "mode", "tools", "provider", "mcp", "instructions", "plugin"}
_CLAUDE = {"hooks", "statusLine", "enabledPlugins", "enableAllProjectMcpServers"}
_SUFFIXES = (".json", ".jsonc", ".md", ".rules")


def load_any(given: str, *, roots: Sequence[Path], only_bash: bool = False) -> Policy:
    """The policy behind a name or a path; `HARNESS:PATH` says whose config it is.

    Without that, a .rules file is Codex's, a .md an OpenCode agent's, and a JSON file is of the
    harness whose name or keys it has. `only_bash` is as in `load_policy`. Raises UsageError when
    it is none of these.
    """
    harness, colon, path = given.partition(":")
    is_foreign = given.endswith(_SUFFIXES)
    if not colon and not is_foreign:
        return load_policy(given, roots=roots, only_bash=only_bash)
    readers = _readers()
    if colon and harness in readers:
        if not path:
            raise UsageError(f"{given}: names no file: expected one behind the colon")
        return _read(readers[harness], Path(path))
    if not is_foreign:
        return load_policy(given, roots=roots, only_bash=only_bash)
    return _read(lambda path: readers[_guess(path)](path), Path(given))


def _readers() -> dict[str, Callable[[Path], Policy]]:
    from agenteval.formats import (  # noqa: PLC0415 -- start-up: a TOML list needs none of them
        claude_settings,
        codex_rules,
        opencode_config,
    )

    return {
        "opencode": opencode_config.read,
        "opencode-1.0": partial(opencode_config.read, old=True),
        "claude-code": claude_settings.read,
        "codex": codex_rules.read,
    }


def _guess(path: Path) -> str:
    if path.suffix == ".rules":
        return "codex"
    if path.suffix == ".md":
        return "opencode"
    from agenteval.formats.text import json_with_comments  # noqa: PLC0415 -- as above

    content = json_with_comments(path, path.read_text(encoding="utf-8-sig"))
    if "permissions" in content:
        return "claude-code"
    if content.keys() & _OPENCODE or "opencode" in f"{path.name} {content.get('$schema')}":
        return "opencode"
    if content.keys() & _CLAUDE or "settings" in path.name:
        return "claude-code"
    raise UsageError(
        f"{path}: has neither `permission` nor `permissions`: if it is a config of OpenCode or "
        f"Claude Code nonetheless, say which, as in opencode:{path}"
    )


def _read(reader: Callable[[Path], Policy], path: Path) -> Policy:
    from agenteval.formats.text import naming  # noqa: PLC0415 -- as above

    with naming(path):
        return reader(path)
