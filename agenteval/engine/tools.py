"""What the model reads of its tools: their schemas, and the text that follows each call.

Every word here is part of the experiment: an edit bumps PROTOCOL, which is stored with each run.
"""

from collections.abc import Mapping, Sequence

from agenteval.core.call import BASH, ToolCall, Verdict
from agenteval.core.limit import notice
from agenteval.core.scenario import Limits
from agenteval.core.trial import Execution
from agenteval.protocols import ToolSchema

PROTOCOL = "strict/1"
READ = "read"

_PARAMETERS: Mapping[str, tuple[str, str, str]] = {
    BASH: ("Run one bash command and return its whole output.", "command", "the command"),
    READ: ("Return the text of a file.", "path", "path of the file"),
}


def schemas(tools: Sequence[str]) -> list[ToolSchema]:
    """The `tools` of a chat-completions request, for the named tools."""
    return [_schema(name, *_PARAMETERS[name]) for name in tools]


def _schema(name: str, description: str, parameter: str, meaning: str) -> ToolSchema:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {parameter: {"type": "string", "description": meaning}},
                "required": [parameter],
                "additionalProperties": False,
            },
        },
    }


def denial(call: ToolCall, verdict: Verdict) -> str:
    """What the model reads when a call is denied. It names the offending part, not the cure."""
    finding = verdict.primary
    if finding is None:
        raise ValueError("an allowed call has no denial")
    match finding.failure_class:
        case "malformed-arguments":
            reason = call.garbled or f"the arguments do not fit the schema: {finding.hint}"
            return f"Invalid tool call: {reason}. Nothing was run."
        case "hallucinated-tool":
            return f"Unknown tool: {call.name!r}. Nothing was run."
        case _:
            return (
                f"Permission denied: the rules do not allow `{finding.evidence.text}` here. "
                "Nothing was run."
            )


def answer(execution: Execution, limits: Limits) -> str:
    """What the model reads after a call that ran."""
    text = execution.output
    if execution.cut:
        text += "\n[output cut here]"
    if execution.limit:
        return f"{text}\n[{notice(execution.limit, limits)}]".lstrip("\n")
    if execution.exit_code:
        return f"{text}\n[exit code {execution.exit_code}]".lstrip("\n")
    return text or "[no output]"
