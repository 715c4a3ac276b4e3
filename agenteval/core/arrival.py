"""What a reply says, as text that can be judged, stored, shown and sent back, whatever came.

The one place where a model's words come in. What was no text is U+FFFD from here on, and marked.
"""

from dataclasses import replace

from agenteval.core.garble import Received, ReceivedCall
from agenteval.core.legible import is_legible, legible, paired

# Characters. A tool's arguments of more would be 60,000 tokens in one call; the turn's raw bytes
# have all of it.
LONGEST_ARGUMENTS = 1 << 18
LONGEST_NAME = 5_000  # of a tool, an id, a model


def arrived(received: Received) -> Received:
    words = tuple(map(paired, (received.text, received.reasoning)))
    return replace(
        received,
        text=legible(words[0]),
        reasoning=legible(words[1]),
        calls=tuple(map(_call, received.calls)),
        finish_reason=_name(received.finish_reason),
        refusal=legible(received.refusal)[:LONGEST_ARGUMENTS],
        repeats=legible(received.repeats),
        model=_name(received.model),
        broken=not all(map(is_legible, words)),
    )


def _call(call: ReceivedCall) -> ReceivedCall:
    name, raw = paired(call.name), paired(call.raw)
    return replace(
        call,
        name=_name(name),
        raw=legible(raw),
        id=_name(call.id),
        broken=not (is_legible(name) and is_legible(raw)),
    )


def _name(text: str) -> str:
    return legible(paired(text))[:LONGEST_NAME]
