"""Repair of calls that a server visibly distorted. Pure.

A distortion is removed only if one reading remains: the same text twice, text within text, a name
with parts of the template. The call keeps what was removed, which counts as a fault of its own.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from agenteval.core import plain
from agenteval.core.malformed import (
    FULL,
    LENGTH,
    LONGEST_ARGUMENTS,
    Received,
    ReceivedCall,
    Schemas,
    changed,
)

REPEATED, ENCODED, SURPLUS = "repeated-arguments", "encoded-twice", "surplus-text"
PREFIXED, TOKENS, AGAIN = "prefixed-name", "channel-tokens", "repeated-call"
LEGACY = "legacy-call"
# Harmony's and Kimi's namespaces, Gemini's, and the number that Kimi puts behind.
_PREFIX = re.compile(r"^(?:functions?|tools?|default_api|multi_tool_use)[.:/]+")
_NUMBER = re.compile(r":\d+$")
CALLED, WITHHELD = "tool_calls", "content_filter"
# The words of Anthropic, Gemini, Mistral, Z.ai, TGI, and what passes them on.
_ENDS = {
    **dict.fromkeys(("stop", "end", "end_turn", "eos", "eos_token", "stop_sequence"), "stop"),
    **dict.fromkeys((LENGTH, "max_tokens", "model_length"), LENGTH),
    **dict.fromkeys((CALLED, "tool_call", "tool_use"), CALLED),
    **dict.fromkeys((WITHHELD, "sensitive", "safety", "refusal", "recitation"), WITHHELD),
    **dict.fromkeys(("blocklist", "prohibited_content", "spii"), WITHHELD),
    FULL: FULL,
}
# vLLM, SGLang, OpenRouter, DeepSeek, Z.ai, TensorRT-LLM: the server broke the reply off.
_BROKEN_OFF = "abort aborted cancelled error insufficient_system_resource network_error timeout"
BROKEN_OFF = frozenset(_BROKEN_OFF.split())


def end_of(reason: str) -> str:
    """Return how a reply ended in the protocol's words; in the server's own if there are none.

    Gemini adds the reason, behind a colon.
    """
    word = reason.lower().partition(":")[0].strip()
    return _ENDS.get(word, reason)


def mended(received: Received, schemas: Schemas) -> Received:
    """Return the reply with its calls repaired; `ReceivedCall.mends` records each repair."""
    calls = _once([_mended(call, schemas) for call in received.calls])
    return changed(received, calls=calls, finish_reason=end_of(received.finish_reason))


def _mended(call: ReceivedCall, schemas: Schemas) -> ReceivedCall:
    name, named = _name(call.name, schemas)
    raw, written = _arguments(call.raw)
    if not (named or written):
        return call
    mends = list(call.mends)
    mends += [(named, call.name)] if named else []
    mends += [(written, call.raw)] if written else []
    return replace(call, name=name, raw=raw, mends=tuple(mends))


def _name(name: str, schemas: Schemas) -> tuple[str, str]:
    """Return the name of an offered tool, if that is what remains, and the kind of the rest."""
    if name in schemas:
        return name, ""
    bare = name.partition("<")[0].strip()
    if bare != name and bare in schemas:
        return bare, TOKENS
    bare = _NUMBER.sub("", _PREFIX.sub("", bare))
    return (bare, PREFIXED) if bare in schemas else (name, "")


def _arguments(raw: str) -> tuple[str, str]:
    text = raw.strip()
    if not text or len(text) > LONGEST_ARGUMENTS:
        return raw, ""
    try:
        value = plain.read(text)
    except ValueError:
        return _first(text) or (raw, "")
    return (value, ENCODED) if isinstance(value, str) and _is_object(value) else (raw, "")


def _first(text: str) -> tuple[str, str] | None:
    """The object that a text begins with, when nothing but it and its ends follow."""
    if text.startswith("{}") and _is_object(text[2:]):
        return text[2:].strip(), SURPLUS
    text, doubled = (text[1:], True) if text.startswith("{{") else (text, False)
    try:
        value, end = plain.read_from(text, 0)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    first, rest = text[:end], text[end:]
    if value and not doubled and not rest.replace(first, "").strip():
        return first, REPEATED
    return (first, SURPLUS) if not rest.strip(' \n}"') else None


def _is_object(text: str) -> bool:
    try:
        return isinstance(plain.read(text), dict)
    except ValueError:
        return False


def _once(calls: Sequence[ReceivedCall]) -> tuple[ReceivedCall, ...]:
    """Return the calls with repetitions merged: a call that came again with its id is one call."""
    repetitions: dict[tuple[str, str, str], list[ReceivedCall]] = {}
    for at, call in enumerate(calls):
        repetitions.setdefault((call.id or f" {at}", call.name, call.raw), []).append(call)
    return tuple(
        replace(first, mends=(*first.mends, *((AGAIN, one.id) for one in again)))
        if again
        else first
        for first, *again in repetitions.values()
    )
