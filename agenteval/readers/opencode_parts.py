"""OpenCode's records of a session, a message and a call: a tool part, whose words differ.

A name that is not known, and arguments that are no JSON, become a call of a tool `invalid`, which
counts as completed; where every tool is denied, that one is denied too.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agenteval.core.logged import Building, LoggedCall, LoggedTurn, Recorded, Session
from agenteval.core.trial import Usage
from agenteval.formats.tool_calls import called
from agenteval.readers.json_source import at, code_at, count_at, name_at, objects, text_at, when

Object = Mapping[str, Any]
_DENIED = re.compile(
    r"specifically restricted access|rule which prevents|PermissionDeniedError"
    r"|Permission denied: |\A(?:Error: )?Denied by the allow list "  # the last one is our hook's
)
_REJECTED = re.compile(r"PermissionRejectedError|user rejected permission|PermissionCorrectedError")
_INVALID = re.compile(r"call unavailable tool|NoSuchToolError")
_MALFORMED = re.compile(
    r"was called with invalid arguments|Invalid input for tool|JSON parsing failed"
)
_RULES = 1_000  # that are kept of a session: each is looked for among the others
_ACTIONS = {"allow", "ask", "deny"}


def begun(info: Object, path: Path) -> Building:
    session = Session("", path=str(path))
    fill(session, info)
    return Building(session)


def fill(session: Session, info: Object) -> None:
    session.id = name_at(info, "id")
    session.agent = text_at(info, "agent") or session.agent
    session.version = text_at(info, "version")
    session.project = text_at(info, "directory")
    session.parent = name_at(info, "parentID")


def message_of(building: Building, info: Object, parts: Iterable[Object]) -> None:
    """Add one message with its parts; only the model's messages hold calls."""
    session = building.session
    agent = text_at(info, "agent") or text_at(info, "mode")
    session.agent = session.agent or agent
    if info:
        building.needs(info, "role")
    if info.get("role") != "assistant":
        return
    turn = building.turn(name_at(info, "id"))
    turn.model = text_at(info, "modelID") or text_at(info, "model", "modelID")
    turn.at = when(at(info, "time", "completed")) or when(at(info, "time", "created"))
    turn.finish = text_at(info, "finish")
    turn.usage = _usage(at(info, "tokens"))
    for part in parts:
        part_of(building, turn, part)


def _usage(tokens: object) -> Usage:
    return Usage(
        prompt_tokens=count_at(tokens, "input") + count_at(tokens, "cache", "read"),
        completion_tokens=count_at(tokens, "output"),
        reasoning_tokens=count_at(tokens, "reasoning"),
        cached_tokens=count_at(tokens, "cache", "read"),
    )


def part_of(building: Building, turn: LoggedTurn, part: Object) -> None:
    building.needs(part, "type")
    if part.get("type") == "text" and not part.get("synthetic"):
        turn.says(text_at(part, "text"))
    elif part.get("type") == "tool":
        building.needs(part, "tool", "state")
        if isinstance(state := part.get("state"), dict):
            building.needs(state, "status", "input")
            building.may_have(state, "error", "output", "metadata", "time")
            if part.get("tool") == "invalid" and isinstance(given := state.get("input"), dict):
                building.may_have(given, "tool", "error")
        call = call_of(part)
        if call.recorded is Recorded.PENDING and not building.first(turn, call):
            return  # one malformed call can leave many parts behind
        rules = rules_in(call)
        building.called(turn, call)
        for rule in rules:
            if rule not in building.session.rules and len(building.session.rules) < _RULES:
                building.session.rules.append(rule)


def call_of(part: Object) -> LoggedCall:
    state: Object = part["state"] if isinstance(part.get("state"), dict) else {}
    arguments, output = state.get("input"), text_at(state, "error") or text_at(state, "output")
    recorded = _recorded(part, state)
    name = text_at(part, "tool")
    if name == "invalid" and isinstance(arguments, dict):
        name, output = text_at(arguments, "tool") or name, text_at(arguments, "error") or output
        arguments = _text_in(output) if recorded is Recorded.MALFORMED else {}
    elif recorded is Recorded.MALFORMED and isinstance(at(arguments, "value"), str):
        arguments = (
            arguments["value"] if isinstance(arguments, dict) and len(arguments) == 1 else arguments
        )
    began, ended = when(at(state, "time", "start")), when(at(state, "time", "end"))
    return LoggedCall(
        call=called(name_at(part, "callID"), name, {} if arguments is None else arguments),
        recorded=recorded,
        said=output,
        exit_code=code_at(state, "metadata", "exit"),
        seconds=max(ended - began, 0.0) if began and ended else None,
    )


def _recorded(part: Object, state: Object) -> Recorded:
    status, error = text_at(state, "status"), text_at(state, "error")
    if part.get("tool") == "invalid":
        error = text_at(state, "input", "error") or error
        return Recorded.INVALID_TOOL if _INVALID.search(error) else Recorded.MALFORMED
    if status != "error":
        return Recorded.RAN if status in {"completed", "success"} else Recorded.PENDING
    return _refused(error, state.get("input"))


def _refused(error: str, arguments: object) -> Recorded:
    if _MALFORMED.search(error):
        return Recorded.MALFORMED
    if _INVALID.search(error):
        # Where `invalid` is denied too, a name that is offered was given with broken arguments.
        is_raw = isinstance(arguments, str) or (
            isinstance(arguments, dict) and [*arguments] == ["value"]
        )
        return Recorded.MALFORMED if is_raw else Recorded.INVALID_TOOL
    if _REJECTED.search(error):
        return Recorded.REJECTED
    return Recorded.DENIED if _DENIED.search(error) else Recorded.TOOL_ERROR


def _text_in(error: str) -> str:
    """The arguments that could not be read, which the message quotes."""
    _, _, quoted = error.partition("Text: ")
    return quoted.partition("\nError message:")[0].rstrip(".") or error


def _quoted(said: str, opens: str, closes: str) -> str:
    """From the first mark to the last; a pattern would look for the end from each of the firsts."""
    begin, end = said.find(opens), said.rfind(closes)
    return said[begin : end + len(closes)] if 0 <= begin < end else ""


def rules_in(call: LoggedCall) -> list[Mapping[str, str]]:
    """Return the rules that a denial quotes: a list from 1.1 on, the table of bash in 1.0."""
    if call.recorded is not Recorded.DENIED:
        return []
    listed = _quoted(call.said, "[{", "}]")
    table = _quoted(call.said.partition("settings configured: ")[2], "{", "}")
    try:
        if listed:
            rules = [
                {name: text_at(one, name) for name in ("permission", "pattern", "action")}
                for one in objects(json.loads(listed))
            ]
        else:
            settings = json.loads(table or "{}")
            rules = [
                {"permission": call.call.name, "pattern": str(key), "action": str(action)}
                for key, action in settings.items()
            ]
    except (ValueError, RecursionError, AttributeError):
        return []
    return [rule for rule in rules if rule["action"] in _ACTIONS]
