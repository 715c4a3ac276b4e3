"""A log in which a line is {"did": COMMAND}."""

from collections.abc import Mapping
from typing import Any

from agenteval.core.call import ToolCall


def calls(content: Mapping[str, Any]) -> list[ToolCall]:
    command = content.get("did")
    return [ToolCall("", "bash", command, {"command": command})] if command else []
