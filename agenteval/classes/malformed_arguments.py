"""Malformed calls that arrived: by their arguments, id or name; and what a kind is."""

import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from agenteval.policy.policy import schema_complaint
from agenteval.replies.arrival import TOKENS
from agenteval.trial import text as plain
from agenteval.trial.call import CUT, LONGEST_ARGUMENTS, Asked, Blame, Received


class Sight(NamedTuple):
    """The evidence of a kind in a reply; the fields are those of `trial.call.MalformedCall`."""

    blame: Blame
    evidence: str
    why: str
    position: int | None = None


Look = Callable[[Received, Asked], Iterator[Sight]]


@dataclass(frozen=True, slots=True)
class MalformedKind:
    """One kind. A `note` is kept and shown, but is no fault: the call was read."""

    id: str
    title: str
    rationale: str
    look: Look
    note: bool = False


def malformed_kind(*, note: bool = False) -> Callable[[Look], MalformedKind]:
    """Make a kind of the function below it: id, title and rationale are its own."""

    def block(look: Look) -> MalformedKind:
        return described(look.__name__.replace("_", "-"), look.__doc__ or "", look, note=note)

    return block


def described(id_: str, text: str, look: Look, *, note: bool) -> MalformedKind:
    """Make a kind whose text is its title, an empty line, and its rationale."""
    title, _, rationale = inspect.cleandoc(text).partition("\n\n")
    return MalformedKind(id_, title, rationale, look, note)


@lru_cache(maxsize=16)
def parsed(raw: str) -> Mapping[str, Any] | None:
    """Return the arguments in a text, or None for a text that is no JSON object, or too long.

    Every kind reads those of the same few calls, one after the other.
    """
    if len(raw) > LONGEST_ARGUMENTS:
        return None
    try:
        found = plain.read(raw)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def spent(received: Received, request: Asked) -> bool:
    """Return True if the reply has all the tokens that our own limit leaves it."""
    return request.max_tokens is not None and received.completion_tokens >= request.max_tokens


def is_cut(received: Received, request: Asked, position: int) -> bool:
    """Return True if this call is the last one of a reply that ran out of tokens, and not whole.

    vLLM reports no `length` where it found a call.
    """
    last = position == len(received.calls) - 1
    ran_out = received.finish_reason in CUT or spent(received, request)
    return last and ran_out and not parsed(received.calls[-1].raw)


# Parsers that read tags and write the JSON of the arguments themselves.
WRITES_JSON = frozenset(("glm45", "glm47", "minimax_m2", "qwen3_coder", "qwen3_xml", "seed_oss"))
_MARKUP = re.compile(r"</(?:tool_call|function|parameter)>\s*$|<\|[a-z_]+\|>")


@malformed_kind()
def broken_json(received: Received, request: Asked) -> Iterator[Sight]:
    """Arguments that are not JSON, or no JSON object, or longer than any that are read.

    JSON is what every program reads the same: no NaN, no number beyond all bounds, no half of a
    character, not nested deeper than 100 levels. The model is blamed, but for two cases: the
    server's parser writes the JSON itself (as that of qwen3_coder does), or nothing but the opening
    brace is missing, which parsers of streams lose.
    """
    for position, call in enumerate(received.calls):
        if (
            not call.raw.strip()
            or parsed(call.raw) is not None
            or is_cut(received, request, position)
        ):
            continue
        blame, why = Blame.MODEL, "the text is the model's own"
        if request.parser in WRITES_JSON:
            blame, why = Blame.PARSER, f"the parser {request.parser} writes the JSON"
        elif parsed("{" + call.raw) is not None:
            blame, why = Blame.PARSER, "nothing but the opening brace is missing"
        yield Sight(blame, call.raw, why, position)


@malformed_kind()
def lost_arguments(received: Received, request: Asked) -> Iterator[Sight]:
    """No arguments where the tool needs some.

    A parser lost them when not even `{}` came, or when another call of the same turn to the same
    tool has some; else the model wrote none.
    """
    full = {call.name for call in received.calls if parsed(call.raw)}
    for position, call in enumerate(received.calls):
        needed = request.schemas.get(call.name, {}).get("required")
        empty = not call.raw.strip() or parsed(call.raw) == {}
        if not needed or not empty or is_cut(received, request, position):
            continue
        blame, why = Blame.MODEL, "an empty object is what the model wrote"
        if not call.raw.strip():
            blame, why = Blame.PARSER, "not even an empty object came"
        elif call.name in full:
            blame, why = Blame.PARSER, f"another call of {call.name} in this turn has arguments"
        yield Sight(blame, call.raw, why, position)


_TEXTS: dict[int, tuple[Mapping[str, Any], str]] = {}  # of schemas that this keeps alive, by id
_MOST = 64


def _text(schema: Mapping[str, Any]) -> str:
    """Return a schema as JSON. Each turn of a trial offers the same object: it is written once."""
    if id(schema) not in _TEXTS:
        if len(_TEXTS) >= _MOST:
            _TEXTS.clear()
        _TEXTS[id(schema)] = schema, json.dumps(schema)
    return _TEXTS[id(schema)][1]


@malformed_kind()
def schema_mismatch(received: Received, request: Asked) -> Iterator[Sight]:
    """Arguments that break the schema that was offered.

    The parser is blamed when they fit once its texts are read as JSON: it left numbers or lists as
    text. The policy may still take them: a verdict is about what is asked for.
    """
    for position, call in enumerate(received.calls):
        arguments = parsed(call.raw)
        if call.name not in request.schemas or not arguments:
            continue
        text = _text(request.schemas[call.name])
        if not (complaint := schema_complaint(text, arguments)):
            continue
        read = {name: _read(value) for name, value in arguments.items()}
        if read != arguments and not schema_complaint(text, read):
            why = f"{complaint}; its texts hold the JSON that fits"
            yield Sight(Blame.PARSER, call.raw, why, position)
        else:
            yield Sight(Blame.MODEL, call.raw, complaint, position)


@malformed_kind()
def broken_text(received: Received, request: Asked) -> Iterator[Sight]:
    """A name or arguments that came as no text: half a character, or bytes that are no UTF-8.

    U+FFFD stands in its place, and the call is judged so. What is written into a reply, byte for
    byte, is the server's.
    """
    del request
    for position, call in enumerate(received.calls):
        if call.broken:
            why = "the bytes of a reply are the server's to write"
            yield Sight(Blame.SERVER, f"{call.name} {call.raw}", why, position)


@malformed_kind(note=True)
def object_arguments(received: Received, request: Asked) -> Iterator[Sight]:
    """Arguments as an object, where the protocol has text.

    Taken as they are. The server writes them so.
    """
    del request
    for position, call in enumerate(received.calls):
        if call.as_object:
            why = "the protocol has JSON text here"
            yield Sight(Blame.SERVER, call.raw, why, position)


@malformed_kind()
def markup_in_arguments(received: Received, request: Asked) -> Iterator[Sight]:
    """Tags of the chat template at the end of an argument, or special tokens in it.

    The parser did not cut where the value ends, so that a right call becomes a wrong one.
    """
    del request
    for position, call in enumerate(received.calls):
        arguments = parsed(call.raw) or {}
        for value in arguments.values():
            if isinstance(value, str) and (markup := _MARKUP.search(value)):
                why = "tags of the template are no part of a value"
                yield Sight(Blame.PARSER, markup.group(), why, position)


@malformed_kind()
def missing_id(received: Received, request: Asked) -> Iterator[Sight]:
    """A call without an id.

    Calls are paired with their results by place then. Ids are the server's to give.
    """
    del request
    for position, call in enumerate(received.calls):
        if not call.id:
            yield Sight(Blame.SERVER, "", "ids are the server's to give", position)


@malformed_kind()
def repeated_id(received: Received, request: Asked) -> Iterator[Sight]:
    """An id that an earlier call of the same turn has.

    Calls are paired with their results by place then. Ids are the server's to give.
    """
    del request
    counts: Counter[str] = Counter()
    for position, call in enumerate(received.calls):
        if call.id and counts[call.id]:
            why = "ids are the server's to give"
            yield Sight(Blame.SERVER, call.id, why, position)
        counts[call.id] += 1


@malformed_kind()
def empty_name(received: Received, request: Asked) -> Iterator[Sight]:
    """A call without a name.

    A parser makes no call of a text without a name, so it lost the name itself.
    """
    del request
    for position, call in enumerate(received.calls):
        if not call.name.strip():
            why = "a call is only made of a text that names a tool"
            yield Sight(Blame.PARSER, call.raw, why, position)


@malformed_kind()
def channel_tokens(received: Received, request: Asked) -> Iterator[Sight]:
    """Special tokens in the name of a tool, such as `bash<|channel|>commentary`.

    They belong to the template; the parser should have taken them away. Where an offered tool is
    left without them, it is read.
    """
    del request
    for position, call in enumerate(received.calls):
        names = [came for kind, came in call.mends if kind == TOKENS]
        for name in names or ([call.name] if "<|" in call.name else []):
            yield Sight(Blame.PARSER, name, "special tokens are the template's", position)


def _read(value: object) -> object:
    try:
        return plain.read(value) if isinstance(value, str) else value
    except ValueError:
        return value
