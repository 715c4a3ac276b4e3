"""What a garble kind is: a function that looks at a reply as it arrived, and its texts."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from agenteval.core import plain_json
from agenteval.core.garble import LONGEST_ARGUMENTS, Asked, Blame, Received


class Sight(NamedTuple):
    """What shows a kind in a reply; the fields are those of `core.garble.Garble`."""

    blame: Blame
    evidence: str
    why: str
    position: int | None = None


Look = Callable[[Received, Asked], Iterator[Sight]]


@dataclass(frozen=True, slots=True)
class GarbleKind:
    """One kind. A `note` is kept and shown, but is no fault: the call was read."""

    id: str
    title: str
    rationale: str
    look: Look
    note: bool = False


def garble_kind(*, note: bool = False) -> Callable[[Look], GarbleKind]:
    """Makes a kind of the function below it: id, title and rationale are its own."""

    def block(look: Look) -> GarbleKind:
        title, _, rationale = inspect.cleandoc(look.__doc__ or "").partition("\n\n")
        return GarbleKind(look.__name__.replace("_", "-"), title, rationale, look, note)

    return block


def parsed(raw: str) -> dict[str, Any] | None:
    """The arguments in a text, or None for a text that is no JSON object, or too long."""
    if len(raw) > LONGEST_ARGUMENTS:
        return None
    try:
        found = plain_json.read(raw)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def is_cut(received: Received, position: int) -> bool:
    """Whether this call is the last one of a reply that ran out of tokens, and not whole."""
    last = position == len(received.calls) - 1
    return last and received.finish_reason == "length" and not parsed(received.calls[-1].raw)
