"""Malformed calls by kind and layer to blame; here those that did not arrive as calls at all."""

import re
from collections.abc import Iterator

from agenteval.core.loops import repeated
from agenteval.core.malformed import CUT, LENGTH, Asked, Blame, MalformedCall, Received
from agenteval.core.plain import REPLACEMENT
from agenteval.core.text_calls.dialects import calls_left
from agenteval.taxonomy import malformed_arguments, malformed_replies
from agenteval.taxonomy.malformed_arguments import (
    MalformedKind,
    Sight,
    is_cut,
    malformed_kind,
    parsed,
    spent,
)

# How Ollama tells what it could not read.
_SHOWN = re.compile(r"raw='(.*?)'(?:,|\s+err|$)", re.DOTALL)


@malformed_kind()
def call_in_text(received: Received, request: Asked) -> Iterator[Sight]:
    """A call left as text in the reply.

    Nothing can run: to a harness the model only talked. The parser is blamed when the call is
    whole, the model when it is broken, our prompt when it shows that way to write calls.
    """
    for dialect, call, in_fence in calls_left(received.text, request.schemas):
        if in_fence or (not call.whole and received.finish_reason in CUT):
            continue
        blame, why = Blame.PARSER, f"a whole call in the dialect {dialect.name}"
        if request.dialect:
            blame, why = Blame.MODEL, f"{dialect.name}, where {request.dialect} was asked for"
        elif any(dialect.mark in prompt for prompt in request.prompts):
            blame, why = Blame.PROMPT, f"our prompt shows `{dialect.mark}`"
        elif not call.whole:
            blame, why = Blame.MODEL, f"a broken call in the dialect {dialect.name}"
        yield Sight(blame, received.text[call.start : call.end], why)


@malformed_kind(note=True)
def call_in_fence(received: Received, request: Asked) -> Iterator[Sight]:
    """A call in a code fence of the reply.

    The model speaks about a call and makes none.
    """
    for dialect, call, in_fence in calls_left(received.text, request.schemas):
        if in_fence:
            why = f"the dialect {dialect.name}, in a code fence"
            shown = received.text[call.start : call.end]
            yield Sight(Blame.MODEL, shown, why)


@malformed_kind()
def call_in_reasoning(received: Received, request: Asked) -> Iterator[Sight]:
    """A whole call that ends the reasoning of a reply with neither words nor calls.

    The parser of the reasoning took what was meant for the parser of the calls.
    """
    for dialect, call in malformed_replies.calls_ending_reasoning(received, request):
        why = f"a whole call in the dialect {dialect.name}, and nothing after it"
        yield Sight(Blame.PARSER, received.reasoning[call.start : call.end], why)


@malformed_kind()
def cut_call(received: Received, request: Asked) -> Iterator[Sight]:
    """A call cut by `length`: the reply ran out of tokens inside it.

    The harness is to blame where our own `max_tokens` was reached, else the limit is the server's.
    """
    blame, why = _limit(received, request)
    for position, call in enumerate(received.calls):
        if is_cut(received, request, position):
            yield Sight(blame, call.raw, why, position)
    if received.finish_reason in CUT and not received.calls:
        for _, left, _ in calls_left(received.text, request.schemas):
            if not left.whole:
                yield Sight(blame, received.text[left.start : left.end], why)


@malformed_kind()
def cut_reply(received: Received, request: Asked) -> Iterator[Sight]:
    """Words or thoughts cut by `length`, with no call before the cut.

    What the model would have called is not known: it had not come to it. The blame is that of a
    cut call. A reply that only repeats itself would never have come to one.
    """
    words = received.text.strip() or received.reasoning.strip()
    if received.calls or not words or received.finish_reason != LENGTH or repeated(words):
        return
    if not any(True for _ in calls_left(received.text, request.schemas)):
        blame, why = _limit(received, request)
        yield Sight(blame, words[-SHOWN:], why)


def _limit(received: Received, request: Asked) -> tuple[Blame, str]:
    if spent(received, request):
        return Blame.HARNESS, f"our max_tokens = {request.max_tokens} was reached"
    return Blame.SERVER, "the server's own limit, or its context"


@malformed_kind()
def refused_call(received: Received, request: Asked) -> Iterator[Sight]:
    """A call that the server could not read itself: it answered with an error.

    Some servers answer 500 to what their model wrote. A repeated request would hide it, so it is
    kept as a call, without a name where none is told. The parser is blamed when the text it shows
    is good JSON.
    """
    del request
    if received.refusal:
        match = _SHOWN.search(received.refusal)
        blame, why = Blame.MODEL, "the server says that the model's text does not parse"
        if received.calls:
            why = "the server's grammar knows no tool that begins so"
        if match and parsed(match[1]) is not None:
            blame, why = Blame.PARSER, "the text that the server shows is a JSON object"
        yield Sight(blame, received.refusal, why, 0)


@malformed_kind(note=True)
def broken_words(received: Received, request: Asked) -> Iterator[Sight]:
    """Words that came as no text: half a character, or bytes that are no UTF-8.

    U+FFFD stands in their place.
    """
    del request
    if received.broken:
        text = received.text if REPLACEMENT in received.text else received.reasoning
        at = max(0, text.find(REPLACEMENT) - 40)
        why = "the bytes of a reply are the server's to write"
        yield Sight(Blame.SERVER, text[at : at + 80], why)


SHOWN = 500  # characters of evidence; the turn keeps every byte
# In the order in which the faults of a reply are listed: the first is its primary one.
KINDS: tuple[MalformedKind, ...] = (
    malformed_arguments.broken_json,
    malformed_arguments.lost_arguments,
    malformed_arguments.schema_mismatch,
    malformed_arguments.broken_text,
    malformed_arguments.object_arguments,
    malformed_arguments.markup_in_arguments,
    malformed_arguments.missing_id,
    malformed_arguments.repeated_id,
    malformed_arguments.empty_name,
    malformed_arguments.channel_tokens,
    call_in_text,
    call_in_fence,
    call_in_reasoning,
    cut_call,
    cut_reply,
    refused_call,
    broken_words,
    malformed_replies.repeated_arguments,
    malformed_replies.encoded_twice,
    malformed_replies.surplus_text,
    malformed_replies.prefixed_name,
    malformed_replies.repeated_call,
    malformed_replies.legacy_call,
    malformed_replies.lost_call,
    malformed_replies.lost_reply,
    malformed_replies.reasoning_only,
    malformed_replies.withheld_reply,
)
FAULTS = frozenset(kind.id for kind in KINDS if not kind.note)


def malformed_in(received: Received, request: Asked) -> tuple[MalformedCall, ...]:
    """All malformed calls of a reply, in the order of the kinds."""
    return tuple(
        MalformedCall(kind.id, sight.blame, sight.evidence[:SHOWN], sight.why, sight.position)
        for kind in KINDS
        for sight in kind.look(received, request)
    )
