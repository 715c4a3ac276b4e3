"""Garble kinds: what can be wrong with how a call arrived, and which layer is to blame.

A verdict is about what a call wants; a garble is about how it came. The blame follows from what is
seen and no more: the model is blamed where nothing points to another layer.
"""

from agenteval.core.garble import Asked, Garble, Received
from agenteval.taxonomy import garbles_of_calls, garbles_of_text
from agenteval.taxonomy.garble_registry import GarbleKind

SHOWN = 500  # characters of evidence; the turn keeps every byte
KINDS = tuple(
    found
    for family in (garbles_of_calls, garbles_of_text)
    for found in vars(family).values()
    if isinstance(found, GarbleKind)
)
FAULTS = frozenset(kind.id for kind in KINDS if not kind.note)


def garbles_in(received: Received, asked: Asked) -> tuple[Garble, ...]:
    """All garbles of a reply, in the order of the kinds."""
    return tuple(
        Garble(kind.id, sight.blame, sight.evidence[:SHOWN], sight.why, sight.position)
        for kind in KINDS
        for sight in kind.look(received, asked)
    )
