"""Tools that harnesses offer in addition to bash, read and write: what they take, open and do."""

import json
from collections.abc import Mapping
from typing import Any

from agenteval.core.call import FileSearch, Note, Runnable, ToolCall
from agenteval.core.policy.arguments import ToolRule
from agenteval.core.policy.patterns import normalise

EDIT, GLOB, GREP, TODO, FETCH = "edit", "glob", "grep", "todo", "webfetch"
_TEXT: Mapping[str, Any] = {"type": "string"}


def _rule(name: str, required: Mapping[str, Any], **others: Any) -> ToolRule:
    schema = {"type": "object", "properties": {**required, **others}, "required": [*required]}
    return ToolRule(name, schema=json.dumps(schema))


RULES: Mapping[str, ToolRule] = {
    EDIT: _rule(EDIT, {"path": _TEXT, "old": _TEXT, "new": _TEXT}),
    GLOB: _rule(GLOB, {"pattern": _TEXT}, path=_TEXT),
    GREP: _rule(GREP, {"pattern": _TEXT}, path=_TEXT, include=_TEXT),
    TODO: _rule(TODO, {"todos": {"type": "array", "items": {"type": "object"}}}),
    FETCH: _rule(FETCH, {"url": _TEXT}),
}


def closed(call: ToolCall, rule: ToolRule | None, root: str) -> str:
    """Return the folder or address of a call if no call may use it; "" otherwise.

    There is no network, and files are searched in the workspace alone. A `rule` of the user's own
    for a tool of that name opens all that it takes.
    """
    arguments = call.arguments or {}
    if rule is None or rule is not RULES.get(call.name):
        return ""
    if call.name == FETCH:
        return str(arguments.get("url") or call.raw)
    folder = str(arguments.get("path") or ".") if call.name in {GLOB, GREP} else "."
    return "" if normalise(folder, root) else folder


def to_runnable(call: ToolCall, rule: ToolRule | None, root: str) -> Runnable | None:
    """Return what an open call does; None for a tool that nothing here carries out."""
    arguments = call.arguments or {}
    if rule is None or rule is not RULES.get(call.name) or call.name == FETCH:  # there is no net
        return None
    if call.name == TODO:
        return Note(json.dumps(arguments.get("todos"), indent=2))
    folder = normalise(str(arguments.get("path") or "."), root)
    if folder is None:
        return None
    include = str(arguments.get("include") or "")
    return FileSearch(call.name, str(arguments.get("pattern")), folder, include)
