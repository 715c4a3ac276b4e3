"""The turn in a reply: its calls, native or read from the text, and their garbles. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agenteval.core import plain_json
from agenteval.core.arrival import LONGEST_ARGUMENTS, arrived
from agenteval.core.call import ToolCall
from agenteval.core.garble import Asked, Received, ReceivedCall
from agenteval.core.loops import repeated
from agenteval.core.text_calls.dialects import DIALECTS, read_calls
from agenteval.core.timing import Timing
from agenteval.core.trial import Turn, Usage
from agenteval.models.mending import repairs, unique_ids
from agenteval.taxonomy.garbles import garbles_in

UNREADABLE = "the server could not read the call"


def turn_of(  # noqa: PLR0913 -- a turn has that many sources
    received: Received,
    asked: Asked,
    *,
    usage: Usage,
    raw: str,
    seconds: float,
    timing: Timing | None = None,
) -> Turn:
    """What a reply says, with every call that came or was refused. It never raises."""
    received = arrived(received)
    text = received.text
    if asked.dialect:
        received = _with_calls_of_text(received, asked)
    calls = _refused(received) if received.refusal else _calls(received)
    return Turn(
        text=text,
        calls=calls,
        finish_reason=received.finish_reason,
        usage=usage,
        raw=raw,
        seconds=seconds,
        timing=timing,
        garbles=garbles_in(received, asked),
        repairs=() if asked.dialect else repairs(received, calls),
        repeats=received.repeats or _repeats(received),
        model=received.model,
    )


def _repeats(received: Received) -> str:
    """What a generation was cut in that would never have ended."""
    if received.finish_reason != "length":
        return ""
    last = received.calls[-1].raw if received.calls else received.text
    return repeated(last or received.reasoning)


def _with_calls_of_text(received: Received, asked: Asked) -> Received:
    """The calls as if they had come as calls, and the text without them."""
    found = read_calls(received.text, DIALECTS[asked.dialect], asked.schemas)
    text = received.text
    for call in reversed(found):
        text = text[: call.start] + text[call.end :]
    calls = [ReceivedCall(call.name, call.raw, f"call-{at}") for at, call in enumerate(found)]
    return replace(received, text=text, calls=(*received.calls, *calls))


def _calls(received: Received) -> tuple[ToolCall, ...]:
    idents = unique_ids([call.id for call in received.calls])
    return tuple(map(_call, received.calls, idents))


def _refused(received: Received) -> tuple[ToolCall, ...]:
    return (ToolCall("call-0", "", received.refusal, None, UNREADABLE),)


def _call(call: ReceivedCall, ident: str) -> ToolCall:
    arguments, garbled = parse_arguments(call.raw)
    return ToolCall(ident, call.name, call.raw[:LONGEST_ARGUMENTS], arguments, garbled)


def parse_arguments(raw: str) -> tuple[Mapping[str, Any] | None, str]:
    """What an argument text parses to, or None and why it is no JSON object."""
    if not raw.strip():
        return {}, ""
    if len(raw) > LONGEST_ARGUMENTS:
        return None, f"arguments are longer than {LONGEST_ARGUMENTS} characters"
    try:
        parsed = plain_json.read(raw)
    except ValueError as error:
        return None, f"arguments are not JSON: {error}"
    if not isinstance(parsed, dict):
        return None, f"arguments are a JSON {type(parsed).__name__}, not an object"
    return parsed, ""
