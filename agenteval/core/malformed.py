"""Malformed calls: the fault in how a call arrived, the layer to blame, the call as text."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from agenteval.core.plain import is_legible, legible, paired

Schemas = Mapping[str, Mapping[str, Any]]  # of each offered tool's parameters, by its name


class Blame(StrEnum):
    """The layer that the evidence points to."""

    MODEL = "model"
    PARSER = "template or parser"
    PROMPT = "our prompt"
    HARNESS = "harness"
    SERVER = "server"


@dataclass(frozen=True, slots=True)
class MalformedCall:
    """A fault of form: `kind` is of `taxonomy.malformed_kinds`, `why` is the reason of the blame.

    `evidence` is the text that shows it, as received. `position` is that of the call; it is None
    for text that never arrived as a call.
    """

    kind: str
    blame: Blame
    evidence: str
    why: str
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Repair:
    """The text sent back in place of the received one. `part` is arguments, name or id."""

    position: int
    part: str
    received: str
    sent: str


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    """A call as it arrived. `raw` is its argument text, of an object too; "" where none came.

    `broken` is True if a part of name or arguments was no text; U+FFFD stands for that part.
    `mends` are the repairs of `core.arrival`, each with the text that had come.
    """

    name: str
    raw: str
    id: str = ""
    as_object: bool = False
    broken: bool = False
    mends: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Received:
    """A reply as it arrived, before any repair.

    `refusal` holds the server's words when it answered with an error because it could not read the
    model's call; then there is nothing else. `repeats` is the passage in which we stopped reading.
    `broken` says of its words what it says of a call; `thought_in` names the field that the
    reasoning came in. `hidden_tokens` are those of the completion that were thoughts, as counted.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[ReceivedCall, ...] = ()
    finish_reason: str = ""
    completion_tokens: int = 0
    hidden_tokens: int = 0
    refusal: str = ""
    repeats: str = ""
    model: str = ""
    broken: bool = False
    thought_in: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts of a request that decide a blame.

    `parser` is the tool parser that the server is said to run, `prompts` are our own texts.
    `dialect` is that in which we requested calls as text; it is "" if the server parses them.
    """

    schemas: Schemas = field(default_factory=dict)
    max_tokens: int | None = None
    parser: str = ""
    dialect: str = ""
    prompts: tuple[str, ...] = ()


# Characters. A tool's arguments of more would be 60,000 tokens in one call; the turn's raw bytes
# have all of it.
LONGEST_ARGUMENTS = 1 << 18
LONGEST_NAME = 5_000  # of a tool, an id, a model

LENGTH = "length"  # the finish reason of a reply that a limit of its tokens ended
FULL = "model_context_window_exceeded"  # of one that filled the context, where a server says so
CUT = frozenset((LENGTH, FULL))


def arrived(received: Received) -> Received:
    """Return the reply as text that can be stored and shown: mostly as it came."""
    words = tuple(map(paired, (received.text, received.reasoning)))
    return changed(
        received,
        text=legible(words[0]),
        reasoning=legible(words[1]),
        calls=tuple(map(_arrived_call, received.calls)),
        finish_reason=_name(received.finish_reason),
        refusal=legible(received.refusal)[:LONGEST_ARGUMENTS],
        repeats=legible(received.repeats),
        model=_name(received.model),
        broken=not all(map(is_legible, words)),
    )


def _arrived_call(call: ReceivedCall) -> ReceivedCall:
    name, raw = paired(call.name), paired(call.raw)
    return changed(
        call,
        name=_name(name),
        raw=legible(raw),
        id=_name(call.id),
        broken=not (is_legible(name) and is_legible(raw)),
    )


Arrived = TypeVar("Arrived", Received, ReceivedCall)


def changed(original: Arrived, **parts: Any) -> Arrived:
    """Return a copy with these parts; itself if it has them, in a third of the time of a copy."""
    if all(getattr(original, name) == part for name, part in parts.items()):
        return original
    return replace(original, **parts)


def _name(text: str) -> str:
    return legible(paired(text))[:LONGEST_NAME]
