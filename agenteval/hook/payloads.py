"""What each harness sends of a call, and how it takes an answer.

Pure, but for the model of Claude Code, which stands in its transcript only.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from agenteval.core.call import BASH, ToolCall
from agenteval.core.policy.arguments import WRITE, path_argument
from agenteval.core.policy.patterns import normalise

TAIL: Final = 1 << 16  # bytes of a transcript in which the model that speaks is looked for


class UnreadableCallError(ValueError):
    """What was sent is no call of that harness."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call as it was asked about. `call` has our names; `arguments` are the harness's own."""

    call: ToolCall
    tool: str
    root: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    session: str = ""
    agent: str = ""
    model: str = ""
    cwd: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Exit code, standard output and standard error of the client."""

    code: int = 0
    out: str = ""
    err: str = ""


@dataclass(frozen=True, slots=True)
class Harness:
    """`read` takes what was sent and the client's variables; `denied` puts a reason in its form."""

    read: Callable[[bytes, Mapping[str, str]], Asked]
    denied: Callable[[str], Answer]


_TOOLS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("bash", "exec_command", "shell", "shell_command", "local_shell"), BASH),
    "read": "read",
    **dict.fromkeys(("write", "edit", "multiedit", "notebookedit"), WRITE),
}
_SHELLS: Final = ("-c", "-lc", "-cl")
_QUIET: Final = frozenset(("-l", "--login", "--norc", "--noprofile", "--posix"))


def _hooked(payload: bytes, variables: Mapping[str, str]) -> Asked:
    """Claude Code and Codex send the same keys; the root is where the session began."""
    sent = _object(payload)
    tool, arguments = sent.get("tool_name"), sent.get("tool_input")
    if not isinstance(tool, str):
        raise UnreadableCallError("it has no tool_name")
    given = arguments if isinstance(arguments, dict) else {}
    cwd = str(sent.get("cwd") or variables["cwd"])
    root = variables.get("CLAUDE_PROJECT_DIR") or cwd
    identifier = str(sent.get("tool_use_id") or "")
    return Asked(
        call=ours(identifier, tool, given, cwd, root),
        tool=tool,
        root=root,
        arguments=given,
        session=str(sent.get("session_id") or ""),
        agent=str(sent.get("agent_type") or ""),
        model=str(sent.get("model") or _speaking(sent.get("transcript_path"))),
        cwd=cwd,
    )


def _plugged(payload: bytes, variables: Mapping[str, str]) -> Asked:
    """What our plug-in of OpenCode sends."""
    sent = _object(payload)
    tool, arguments = sent.get("tool"), sent.get("args")
    if not isinstance(tool, str):
        raise UnreadableCallError("it has no tool")
    given = arguments if isinstance(arguments, dict) else {}
    root = str(sent.get("directory") or variables["cwd"])
    cwd = str(given.get("workdir") or root)
    return Asked(
        call=ours(str(sent.get("call") or ""), tool, given, cwd, root),
        tool=tool,
        root=root,
        arguments=given,
        session=str(sent.get("session") or ""),
        agent=str(sent.get("agent") or ""),
        model=str(sent.get("model") or ""),
        cwd=cwd,
    )


def _guarded(payload: bytes, variables: Mapping[str, str]) -> Asked:
    """The words of a shell: one command behind -c, and nothing that makes it something else."""
    words = payload.decode("utf-8", "surrogateescape").split("\0")
    command = command_of(words[1:])
    if command is None:
        raise UnreadableCallError(
            "a guarded shell takes one command behind -c, and neither a script, nor what comes on "
            "its standard input"
        )
    cwd = variables["cwd"]
    return Asked(_bash("", command), words[0], cwd, {"command": command}, cwd=cwd)


def command_of(words: Sequence[str]) -> str | None:
    """The command that a shell with these words runs; None where it is not just one behind -c."""
    rest = list(words)
    while rest and rest[0] in _QUIET:
        rest.pop(0)
    return rest[1] if len(rest) == 2 and rest[0] in _SHELLS else None


def _object(payload: bytes) -> Mapping[str, Any]:
    try:
        sent = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise UnreadableCallError(f"it is no JSON: {error}") from error
    if not isinstance(sent, dict):
        raise UnreadableCallError("it is no JSON object")
    return sent


def ours(identifier: str, tool: str, arguments: Mapping[str, Any], cwd: str, root: str) -> ToolCall:
    """The call in our names. A command that starts elsewhere than the session says where."""
    name = _TOOLS.get(tool.lower())
    if name == BASH:
        command = arguments.get("command", arguments.get("cmd"))
        if not isinstance(command, str):
            return ToolCall(identifier, BASH, json.dumps(arguments), arguments)
        call = _bash(identifier, command)
        if normalise(cwd, root) == ".":
            return call
        return replace(call, arguments={"command": command, "cwd": cwd})
    if name == WRITE:  # an edit opens what a write opens
        path = path_argument(arguments)
        return ToolCall(identifier, WRITE, json.dumps(arguments), {"path": path, "content": ""})
    return ToolCall(identifier, name or tool, json.dumps(arguments), arguments)


def _bash(identifier: str, command: str) -> ToolCall:
    return ToolCall(identifier, BASH, command, {"command": command})


def _speaking(transcript: object) -> str:
    """The model of the last reply in a session of Claude Code, which its hook is not told."""
    if not isinstance(transcript, str):
        return ""
    try:
        with Path(transcript).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            lines = file.read().splitlines()
    except (OSError, ValueError):  # ValueError: it is no path
        return ""
    for line in reversed(lines):
        if b'"assistant"' not in line:
            continue
        try:
            return str(json.loads(line)["message"]["model"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return ""


def _decided(reason: str) -> Answer:
    said = {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
    return Answer(
        out=json.dumps({"hookSpecificOutput": said | {"permissionDecisionReason": reason}})
    )


HARNESSES: Final[Mapping[str, Harness]] = {
    "claude-code": Harness(_hooked, _decided),
    "codex": Harness(_hooked, _decided),
    "opencode": Harness(_plugged, lambda reason: Answer(2, err=reason)),
    # What a shell says of a command that it may not run.
    "guard": Harness(_guarded, lambda reason: Answer(126, err=f"{reason}\n")),
}
