"""The turn in a reply: its calls, native or read from the text, and what is malformed. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agenteval.core import plain
from agenteval.core.arrival import mended
from agenteval.core.call import ToolCall
from agenteval.core.loops import repeated
from agenteval.core.malformed import (
    CUT,
    LONGEST_ARGUMENTS,
    Asked,
    Received,
    ReceivedCall,
    Repair,
    arrived,
)
from agenteval.core.text_calls.dialects import DIALECTS, read_calls
from agenteval.core.trial import Timing, Turn, Usage
from agenteval.taxonomy.malformed_kinds import malformed_in

LONGEST_NAME = 256
NAMELESS = "invalid"  # as OpenCode calls what it cannot name


def sent_arguments(call: ToolCall) -> str:
    """The argument text as it is sent back: `{}` for what is no JSON object."""
    return "{}" if call.malformed or not call.raw.strip() else call.raw


def sent_name(call: ToolCall) -> str:
    """The name as it is sent back: printable, of no odd length, without special tokens."""
    name = call.name.partition("<|")[0]
    if not name.isprintable():
        name = "".join(filter(str.isprintable, name))
    return name.strip()[:LONGEST_NAME] or NAMELESS


def unique_ids(idents: Sequence[str]) -> list[str]:
    """The ids of one turn: as received, `call-POSITION` for one that is missing or repeated.

    Where another call has that id, the position counts on.
    """
    received, taken_ids, number = set(idents), {""}, -1
    ids: list[str] = []
    for position, ident in enumerate(idents):
        if ident in taken_ids:
            number = max(position, number + 1)
            while f"call-{number}" in received:
                number += 1
        ids.append(f"call-{number}" if ident in taken_ids else ident)
        taken_ids.add(ident)
    return ids


def repairs(received: Received, calls: Sequence[ToolCall]) -> tuple[Repair, ...]:
    """Everything in which the calls that are sent back differ from those that came."""
    return tuple(
        Repair(position, part, came, sent)
        for position, call in enumerate(calls)
        for part, came, sent in _parts(received, position, call)
        if came != sent
    )


def _parts(received: Received, position: int, call: ToolCall) -> Iterator[tuple[str, str, str]]:
    came = received.calls[position].id if received.calls else ""
    yield "id", came, call.id
    yield "name", call.name, sent_name(call)
    yield "arguments", call.raw, sent_arguments(call)


UNREADABLE = "the server could not read the call"


def turn_of(  # noqa: PLR0913 -- a turn has that many sources
    received: Received,
    request: Asked,
    *,
    usage: Usage,
    raw: str,
    seconds: float,
    timing: Timing | None = None,
    ended: float | None = None,
) -> Turn:
    """Return the turn of a reply, with every call that came or was refused. It never raises."""
    received = mended(arrived(received), request.schemas)
    text = received.text
    if request.dialect:
        received = _with_calls_of_text(received, request)
    calls = _calls(received) if received.calls else _refused(received.refusal)
    return Turn(
        text=text,
        calls=calls,
        finish_reason=received.finish_reason,
        usage=usage,
        raw=raw,
        seconds=seconds,
        timing=timing,
        malformed=malformed_in(received, request),
        repairs=() if request.dialect else repairs(received, calls),
        repeats=received.repeats or _repeats(received),
        model=received.model,
        ended=ended,
        reasoning=received.reasoning,
    )


def _repeats(received: Received) -> str:
    """Return the repetition in which an endless generation was cut; "" for none."""
    if received.finish_reason not in CUT:
        return ""
    last = received.calls[-1].raw if received.calls else received.text
    return repeated(last or received.reasoning)


def _with_calls_of_text(received: Received, request: Asked) -> Received:
    """The calls as if they had come as calls, and the text without them."""
    calls_of_text = read_calls(received.text, DIALECTS[request.dialect], request.schemas)
    text = received.text
    for call in reversed(calls_of_text):
        text = text[: call.start] + text[call.end :]
    calls = [
        ReceivedCall(call.name, call.raw, f"call-{at}") for at, call in enumerate(calls_of_text)
    ]
    return replace(received, text=text, calls=(*received.calls, *calls))


def _calls(received: Received) -> tuple[ToolCall, ...]:
    idents = unique_ids([call.id for call in received.calls])
    return tuple(map(_call, received.calls, idents))


def _refused(said: str) -> tuple[ToolCall, ...]:
    return (ToolCall("call-0", "", said, None, UNREADABLE),) if said else ()


def _call(call: ReceivedCall, ident: str) -> ToolCall:
    arguments, malformed = parse_arguments(call.raw)
    return ToolCall(ident, call.name, call.raw[:LONGEST_ARGUMENTS], arguments, malformed)


def parse_arguments(raw: str) -> tuple[Mapping[str, Any] | None, str]:
    """Parse an argument text; return None and the reason if it is no JSON object."""
    if not raw.strip():
        return {}, ""
    if len(raw) > LONGEST_ARGUMENTS:
        return None, f"arguments are longer than {LONGEST_ARGUMENTS} characters"
    try:
        parsed = plain.read(raw)
    except ValueError as error:
        return None, f"arguments are not JSON: {error}"
    if not isinstance(parsed, dict):
        return None, f"arguments are a JSON {type(parsed).__name__}, not an object"
    return parsed, ""
