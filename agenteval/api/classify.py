"""`agenteval.classify`: is a tool call allowed, and if not, why?"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, overload

from agenteval.api.results import Table, text_of
from agenteval.core.call import ToolCall, Verdict
from agenteval.errors import UsageError
from agenteval.formats.tool_calls import tool_calls
from agenteval.workflows.classify import call_of, judge_by

_WANTED = "give a command, or an object with `name` and `arguments`"
Call = str | Mapping[str, Any]  # a command, or an object as `agenteval classify --jsonl` reads it


@dataclass(frozen=True, slots=True)
class Classification:
    """The verdict on one call; `failure_class` is None where it is allowed.

    `also` are the other classes that match, `evidence` is the part of the call that shows the
    first one, and `hint` is the hint that a model would get.
    """

    call: str
    allowed: bool
    failure_class: str | None
    also: tuple[str, ...]
    evidence: str
    hint: str


@overload
def classify(  # type: ignore[overload-overlap]  # a str is a command, never many of them
    call: Call, *, allowlist: str = ...
) -> Classification: ...
@overload
def classify(call: Iterable[Call], *, allowlist: str = ...) -> Table[Classification]: ...
def classify(
    call: Call | Iterable[Call], *, allowlist: str = "demo"
) -> Classification | Table[Classification]:
    """One command or call, or many of them, which is far quicker than one at a time.

    A call is a command for bash, or an object with `command`, or with `name` and `arguments`.
    `allowlist` is a name or path, of any format that `agenteval classify` reads. Raises UsageError.
    """
    is_single = isinstance(call, str | Mapping)
    if not (is_single or isinstance(call, Iterable)) or isinstance(call, bytes):
        raise UsageError(f"{call!r:.200}: no tool call; {_WANTED}")
    calls = [_read(each) for each in ([call] if is_single else call)]  # type: ignore[arg-type]
    judge = judge_by(text_of("allowlist", allowlist), only_bash=isinstance(call, str))
    found = Table(_classified(each, judge(each)) for each in calls)
    return found[0] if is_single else found


def _read(call: Call) -> ToolCall:
    if isinstance(call, str):
        return call_of(call)
    found = (tool_calls(dict(call)) if isinstance(call, Mapping) else None) or ()
    if len(found) != 1:
        raise UsageError(f"{str(call)[:200]}: not one tool call; {_WANTED}")
    return found[0]


def _classified(call: ToolCall, verdict: Verdict) -> Classification:
    first = verdict.primary
    return Classification(
        call=call.raw if call.command is None else call.command,
        allowed=verdict.allowed,
        failure_class=first.failure_class if first else None,
        also=tuple(dict.fromkeys(each.failure_class for each in verdict.findings[1:])),
        evidence=first.evidence.text if first else "",
        hint=first.hint if first else "",
    )
