"""What the model reads of its tools: their schemas, and the text that follows each call.

Every word here is part of the experiment: an edit bumps PROTOCOL, which is stored with each run.
"""

from collections.abc import Mapping, Sequence

from agenteval.core.call import BASH, ToolCall, Verdict
from agenteval.core.limit import Limit
from agenteval.core.policy_tools import READ, WRITE
from agenteval.core.scenario import Limits
from agenteval.core.trial import Execution
from agenteval.protocols import ToolSchema

PROTOCOL = "strict/2"

_PARAMETERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    BASH: ("Run one bash command and return its whole output.", {"command": "the command"}),
    READ: ("Return the text of a file.", {"path": "path of the file"}),
    WRITE: (
        "Write a text file, in place of what it held before.",
        {"path": "path of the file", "content": "all of its text"},
    ),
}


def schemas(tools: Sequence[str]) -> list[ToolSchema]:
    """The `tools` of a chat-completions request, for the named tools."""
    return [_schema(name, *_PARAMETERS[name]) for name in tools]


def _schema(name: str, description: str, parameters: Mapping[str, str]) -> ToolSchema:
    properties = {
        parameter: {"type": "string", "description": meaning}
        for parameter, meaning in parameters.items()
    }
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(parameters),
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
        return f"{text}\n[{_struck(execution.limit, limits)}]".lstrip("\n")
    if execution.exit_code:
        return f"{text}\n[exit code {execution.exit_code}]".lstrip("\n")
    return text or "[no output]"


def _struck(limit: str, limits: Limits) -> str:
    """One plain sentence about the limit that struck the command."""
    return {
        Limit.WALL_TIME: f"The command was stopped: it ran longer than {limits.call_seconds:g} s.",
        Limit.CPU: f"The command was stopped: it used {limits.cpu_seconds} s of CPU time.",
        Limit.MEMORY: f"The command hit the memory limit of {limits.memory >> 20} MiB.",
        Limit.PROCESSES: f"The command hit the limit of {limits.processes} processes.",
        Limit.OPEN_FILES: f"The command hit the limit of {limits.open_files} open files.",
        Limit.FILE_SIZE: f"The command hit the limit of {limits.file_size >> 20} MiB for a file.",
        Limit.WORKSPACE: f"The disk is full: the workspace holds {limits.workspace >> 20} MiB.",
        Limit.INODES: f"The disk is full: the workspace holds {limits.inodes} files.",
        Limit.OUTPUT: f"The command was stopped: it wrote over {limits.output_killed >> 20} MiB.",
    }[Limit(limit)]
