"""Payloads that each harness sends of a call, and the form of an answer that it takes.

Pure, but for the model of Claude Code, which stands in its transcript only.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from agenteval.core.call import BASH
from agenteval.hook.tool_inputs import Reading, command_of, read_call

TAIL: Final = 1 << 16  # bytes of a transcript in which the model that speaks is looked for


class UnreadableCallError(ValueError):
    """The payload is no call of that harness."""


@dataclass(frozen=True, slots=True)
class HookedCall:
    """A call that a harness sent, and what it would do; `arguments` are the harness's own."""

    reading: Reading
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
    """The wire form of a harness.

    `read` takes a payload and the client's variables; `denied` puts a reason in the harness's form.
    """

    read: Callable[[bytes, Mapping[str, str]], HookedCall]
    denied: Callable[[str], Answer]


def _hooked(payload: bytes, variables: Mapping[str, str]) -> HookedCall:
    """Claude Code and Codex send the same keys; the root is where the session began."""
    sent = _object(payload)
    tool, arguments = sent.get("tool_name"), sent.get("tool_input")
    if not isinstance(tool, str):
        raise UnreadableCallError("it has no tool_name")
    tool_input = _arguments(arguments)
    cwd = str(sent.get("cwd") or variables["cwd"])
    root = variables.get("CLAUDE_PROJECT_DIR") or cwd
    identifier = str(sent.get("tool_use_id") or "")
    return HookedCall(
        reading=read_call(identifier, tool, tool_input, cwd, root),
        root=root,
        arguments=tool_input,
        session=str(sent.get("session_id") or ""),
        agent=str(sent.get("agent_type") or ""),
        model=str(sent.get("model") or _speaking(sent.get("transcript_path"))),
        cwd=cwd,
    )


def _plugged(payload: bytes, variables: Mapping[str, str]) -> HookedCall:
    """Read what our plug-in of OpenCode sends."""
    sent = _object(payload)
    tool, arguments = sent.get("tool"), sent.get("args")
    if not isinstance(tool, str):
        raise UnreadableCallError("it has no tool")
    tool_input = _arguments(arguments)
    root = str(sent.get("directory") or variables["cwd"])
    cwd = str(tool_input.get("workdir") or root)
    return HookedCall(
        reading=read_call(str(sent.get("call") or ""), tool, tool_input, cwd, root),
        root=root,
        arguments=tool_input,
        session=str(sent.get("session") or ""),
        agent=str(sent.get("agent") or ""),
        model=str(sent.get("model") or ""),
        cwd=cwd,
    )


def _guarded(payload: bytes, variables: Mapping[str, str]) -> HookedCall:
    """The words of a shell: one command behind -c, and nothing that makes it something else."""
    words = payload.decode("utf-8", "surrogateescape").split("\0")
    command = command_of(words[1:])
    if command is None:
        raise UnreadableCallError(
            "a guarded shell takes one command behind -c, and neither a script, nor what comes on "
            "its standard input"
        )
    cwd = variables["cwd"]
    arguments = {"command": command}
    reading = replace(read_call("", BASH, arguments, cwd, cwd), tool=words[0])
    return HookedCall(reading, cwd, arguments, cwd=cwd)


def _object(payload: bytes) -> Mapping[str, Any]:
    try:
        sent = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise UnreadableCallError(f"it is no JSON: {error}") from error
    if not isinstance(sent, dict):
        raise UnreadableCallError("it is no JSON object")
    return sent


def _arguments(sent: object) -> Mapping[str, Any]:
    """The input of a tool; one that is no table stands under `input`."""
    if isinstance(sent, dict):
        return sent
    return {} if sent is None else {"input": sent}


def _speaking(transcript: object) -> str:
    """Return the model of the last reply in a session of Claude Code: its hook does not get it."""
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
