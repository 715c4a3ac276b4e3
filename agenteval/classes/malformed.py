"""Malformed calls by kind and layer to blame: calls in text, cut, repaired or lost; all `KINDS`.

A kind looks at a received reply and yields what it sees. `malformed_arguments` has the kinds of
calls that arrived whole, and the class of a kind. A repaired call, or one that was only noted, is
judged as any other.
"""

import re
from collections.abc import Iterator

from agenteval.classes import malformed_arguments
from agenteval.classes.malformed_arguments import (
    MalformedKind,
    Sight,
    described,
    is_cut,
    malformed_kind,
    parsed,
    spent,
)
from agenteval.replies import arrival
from agenteval.replies.text_calls import calls_left
from agenteval.replies.text_families import Dialect, TextCall
from agenteval.trial.call import CUT, LENGTH, Asked, Blame, MalformedCall, Received
from agenteval.trial.recovery import repeated
from agenteval.trial.text import REPLACEMENT

CALLED = frozenset((arrival.CALLED, "function_call"))  # finish reasons

# Calls that did not arrive as calls: in the text or the reasoning, cut, or refused.

_CLOSING = re.compile(r"(?:\s|<[^<>\n]{1,40}>|[\])}]|```)*")  # marks that close a call


def _calls_ending_reasoning(
    received: Received, request: Asked
) -> Iterator[tuple[Dialect, TextCall]]:
    """Yield whole calls with nothing but marks behind them, of a reply without words or calls."""
    if received.calls or received.text.strip():
        return
    for dialect, call, in_fence in calls_left(received.reasoning, request.schemas):
        rest = received.reasoning[call.end :]
        if call.whole and not in_fence and _CLOSING.fullmatch(rest):
            yield dialect, call


def _has_whole_call(received: Received, request: Asked) -> bool:
    """Return True if a whole call stands in words or ends the reasoning: it is reported as one."""
    left = calls_left(received.text, request.schemas)
    in_words = any(call.whole and not in_fence for _, call, in_fence in left)
    return in_words or any(True for _ in _calls_ending_reasoning(received, request))


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
    for dialect, call in _calls_ending_reasoning(received, request):
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


# Repairs of `replies.arrival`. Each call keeps what was repaired, under the id of the kind here.


def _repair(id_: str, blame: Blame, why: str, text: str, *, note: bool = False) -> MalformedKind:
    """Make a kind of the calls that were repaired so; `text` is its title and its rationale."""

    def look(received: Received, _request: Asked) -> Iterator[Sight]:
        for position, call in enumerate(received.calls):
            for repair, evidence in call.mends:
                if repair == id_:
                    yield Sight(blame, evidence, why, position)

    return described(id_, text, look, note=note)


repeated_arguments = _repair(
    arrival.REPEATED,
    Blame.PARSER,
    "the same text stands there again, and nothing else",
    """Arguments that came twice, one behind the other.

    Some parsers send a whole call once more at the end of its stream, and some gateways in each
    part of a stream all that came before it. It is read once.
    """,
)
encoded_twice = _repair(
    arrival.ENCODED,
    Blame.PARSER,
    "the text within is a JSON object",
    """Arguments as a JSON text that holds the JSON.

    Who writes the text of the arguments encodes it: the parser did so once too often. The text
    within is read.
    """,
)
surplus_text = _repair(
    arrival.SURPLUS,
    Blame.PARSER,
    "without them the text is a JSON object",
    """Arguments with a brace or quotes too many, before or behind them.

    A parser of a stream wrote them; what they enclose is a whole object, and is read.
    """,
)
prefixed_name = _repair(
    arrival.PREFIXED,
    Blame.PARSER,
    "without the namespace it is an offered tool",
    """The name of an offered tool with a namespace before it, such as `functions.bash`.

    The namespace is the template's, and the parser left it in. The tool is read.
    """,
)
repeated_call = _repair(
    arrival.AGAIN,
    Blame.SERVER,
    "an id is given to one call only",
    """A call that came again with the same id, name and arguments.

    It is run once: no harness answers an id twice.
    """,
)
legacy_call = _repair(
    arrival.LEGACY,
    Blame.SERVER,
    "the protocol has `tool_calls`",
    """A call in `function_call`, as the protocol had it before there were several.

    It is read.
    """,
    note=True,
)

# Replies whose calls were lost or withheld.


@malformed_kind()
def lost_call(received: Received, request: Asked) -> Iterator[Sight]:
    """A reply that ends for its calls, and has none.

    The server saw that a call was made, and threw its text away: it could not read it.
    """
    if (
        received.finish_reason in CALLED
        and not received.calls
        and not _has_whole_call(received, request)
    ):
        why = f"finish_reason is {received.finish_reason}"
        yield Sight(Blame.PARSER, received.text, why)


UNSEEN = 8  # tokens: the marks of an empty thought and the end of the reply


@malformed_kind()
def lost_reply(received: Received, request: Asked) -> Iterator[Sight]:
    """Tokens that were counted, and nothing in the reply.

    No silence of the model: the server's parser lost what it wrote.
    """
    del request
    tokens = received.completion_tokens - received.hidden_tokens
    silent = not (received.text.strip() or received.reasoning.strip() or received.calls)
    refused = received.refusal or received.finish_reason in {*CALLED, arrival.WITHHELD}
    if silent and not refused and tokens > UNSEEN:
        yield Sight(Blame.PARSER, "", f"{tokens} tokens were counted, and none of them came")


@malformed_kind()
def reasoning_only(received: Received, request: Asked) -> Iterator[Sight]:
    """Reasoning, and neither words nor calls behind it, in a reply that came to its end.

    A parser of reasoning that waits for a mark which the model did not write takes all for
    reasoning.
    """
    silent = not received.calls and not received.text.strip()
    ended = received.finish_reason in {"stop", ""}
    if silent and ended and received.reasoning.strip() and not _has_whole_call(received, request):
        yield Sight(Blame.PARSER, received.reasoning, "all that was written is in the reasoning")


@malformed_kind()
def withheld_reply(received: Received, request: Asked) -> Iterator[Sight]:
    """A reply that the server withheld, or cut: its filter of contents struck.

    What the model would have done is not known.
    """
    del request
    if received.finish_reason == arrival.WITHHELD:
        yield Sight(Blame.SERVER, received.text, f"finish_reason is {arrival.WITHHELD}")


SHOWN = 500  # characters of evidence; the turn keeps every byte
# In the order in which the faults of a reply are listed, that of the source: the first is primary.
KINDS = tuple(
    kind
    for kind in (*vars(malformed_arguments).values(), *globals().values())
    if isinstance(kind, MalformedKind)
)
FAULTS = frozenset(kind.id for kind in KINDS if not kind.note)


def malformed_in(received: Received, request: Asked) -> tuple[MalformedCall, ...]:
    """All malformed calls of a reply, in the order of the kinds."""
    return tuple(
        MalformedCall(kind.id, sight.blame, sight.evidence[:SHOWN], sight.why, sight.position)
        for kind in KINDS
        for sight in kind.look(received, request)
    )
