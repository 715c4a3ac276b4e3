"""What the conversation has in the place of a garbled call, so that a server takes it back. Pure.

Servers answer a replayed broken call with 400 or 500, which would void the trial for the model's
own mistake.
"""

from collections.abc import Iterator, Sequence

from agenteval.core.call import ToolCall
from agenteval.core.garble import Received, Repair

LONGEST_NAME = 256
NAMELESS = "invalid"  # as OpenCode calls what it cannot name


def sent_arguments(call: ToolCall) -> str:
    """The argument text as it is sent back: `{}` for what is no JSON object."""
    return "{}" if call.garbled or not call.raw.strip() else call.raw


def sent_name(call: ToolCall) -> str:
    """The name as it is sent back: printable, of no odd length, without special tokens."""
    name = "".join(filter(str.isprintable, call.name.partition("<|")[0]))
    return name.strip()[:LONGEST_NAME] or NAMELESS


def unique_ids(idents: Sequence[str]) -> list[str]:
    """The ids of one turn: as received, `call-POSITION` for one that is missing or repeated."""
    made: list[str] = []
    for position, ident in enumerate(idents):
        made.append(ident if ident and ident not in made else f"call-{position}")
    return made


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
