"""A log in which a line is {"did": COMMAND}."""

from collections.abc import Mapping
from typing import Any

from agenteval.trial.call import ToolCall


def calls(content: Mapping[str, Any]) -> list[ToolCall]:
    if "did" not in content:
        return []
    command = content["did"].strip()
    return [ToolCall("", "bash", command, {"command": command})] if command else []
