"""Malformed calls by kind and layer to blame; all `KINDS`, in the order in which they are listed.

A kind looks at a received reply and yields what it sees: first of calls that arrived whole, by
their arguments, id or name; then of calls in text, cut, repaired or lost. A repaired call, or one
that was only noted, is judged as any other.
"""

import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from agenteval.policy.policy import schema_complaint
from agenteval.replies import arrival
from agenteval.replies.text_calls import Dialect, TextCall, calls_left
from agenteval.trial.call import (
    CUT,
    LENGTH,
    LONGEST_ARGUMENTS,
    Asked,
    Blame,
    MalformedCall,
    Received,
)
from agenteval.trial.recovery import repeated
from agenteval.trial.text import REPLACEMENT, read


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


def _malformed_kind(*, note: bool = False) -> Callable[[Look], MalformedKind]:
    """Make a kind of the function below it: id, title and rationale are its own."""

    def block(look: Look) -> MalformedKind:
        return _describe(look.__name__.replace("_", "-"), look.__doc__ or "", look, note=note)

    return block


def _describe(
    id_: str,
    text: str,
    look: Look,
    *,
    note: bool,
) -> MalformedKind:
    """Make a kind whose text is its title, an empty line, and its rationale."""
    title, _, rationale = inspect.cleandoc(text).partition("\n\n")
    return MalformedKind(id_, title, rationale, look, note)


@lru_cache(maxsize=16)
def read_arguments(raw: str) -> Mapping[str, Any] | None:
    """Return the arguments in a text, or None for a text that is no JSON object, or too long.

    Every kind reads those of the same few calls, one after the other.
    """
    if len(raw) > LONGEST_ARGUMENTS:
        return None
    try:
        arguments = read(raw)
    except ValueError:
        return None
    return arguments if isinstance(arguments, dict) else None


def _has_spent_all(received: Received, request: Asked) -> bool:
    """Return True if the reply has all the tokens that our own limit leaves it."""
    return request.max_tokens is not None and received.completion_tokens >= request.max_tokens


def _is_cut(received: Received, request: Asked, position: int) -> bool:
    """Return True if this call is the last one of a reply that ran out of tokens, and not whole.

    vLLM reports no `length` where it found a call.
    """
    last = position == len(received.calls) - 1
    ran_out = received.finish_reason in CUT or _has_spent_all(received, request)
    return last and ran_out and not read_arguments(received.calls[-1].raw)


# Parsers that read tags and write the JSON of the arguments themselves.
_WRITES_JSON = frozenset(("glm45", "glm47", "minimax_m2", "qwen3_coder", "qwen3_xml", "seed_oss"))
_MARKUP = re.compile(r"</(?:tool_call|function|parameter)>\s*$|<\|[a-z_]+\|>")


@_malformed_kind()
def broken_json(received: Received, request: Asked) -> Iterator[Sight]:
    """Arguments that are not JSON, or no JSON object, or longer than any that are read.

    JSON is what every program reads the same: no NaN, no number beyond all bounds, no half of a
    character, not nested deeper than 100 levels. The model is blamed, but for two cases: the
    server's parser writes the JSON itself (as that of qwen3_coder does), or nothing but the opening
    brace is missing, which parsers of streams lose.
    """
    for position, call in enumerate(received.calls):
        is_whole = read_arguments(call.raw) is not None
        if is_whole or not call.raw.strip() or _is_cut(received, request, position):
            continue
        blame, why = Blame.MODEL, "the text is the model's own"
        if request.parser in _WRITES_JSON:
            blame, why = Blame.PARSER, f"the parser {request.parser} writes the JSON"
        elif read_arguments("{" + call.raw) is not None:
            blame, why = Blame.PARSER, "nothing but the opening brace is missing"
        yield Sight(blame, call.raw, why, position)


@_malformed_kind()
def lost_arguments(received: Received, request: Asked) -> Iterator[Sight]:
    """No arguments where the tool needs some.

    A parser lost them when not even `{}` came, or when another call of the same turn to the same
    tool has some; else the model wrote none.
    """
    full = {call.name for call in received.calls if read_arguments(call.raw)}
    for position, call in enumerate(received.calls):
        needed = request.schemas.get(call.name, {}).get("required")
        empty = not call.raw.strip() or read_arguments(call.raw) == {}
        if not needed or not empty or _is_cut(received, request, position):
            continue
        blame, why = Blame.MODEL, "an empty object is what the model wrote"
        if not call.raw.strip():
            blame, why = Blame.PARSER, "not even an empty object came"
        elif call.name in full:
            blame, why = Blame.PARSER, f"another call of {call.name} in this turn has arguments"
        yield Sight(blame, call.raw, why, position)


@_malformed_kind()
def schema_mismatch(received: Received, request: Asked) -> Iterator[Sight]:
    """Arguments that break the schema that was offered.

    The parser is blamed when they fit once its texts are read as JSON: it left numbers or lists as
    text. The policy may still take them: a verdict is about what is asked for.
    """
    for position, call in enumerate(received.calls):
        arguments = read_arguments(call.raw)
        if call.name not in request.schemas or not arguments:
            continue
        text = json.dumps(request.schemas[call.name])
        if not (complaint := schema_complaint(text, arguments)):
            continue
        read_again = {name: _read_text(value) for name, value in arguments.items()}
        if read_again != arguments and not schema_complaint(text, read_again):
            why = f"{complaint}; its texts hold the JSON that fits"
            yield Sight(Blame.PARSER, call.raw, why, position)
        else:
            yield Sight(Blame.MODEL, call.raw, complaint, position)


def _read_text(value: object) -> object:
    """Return the value that a text holds as JSON; any other value, and any other text, as it is."""
    if not isinstance(value, str):
        return value
    try:
        return read(value)
    except ValueError:
        return value


@_malformed_kind()
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


@_malformed_kind(note=True)
def object_arguments(received: Received, request: Asked) -> Iterator[Sight]:
    """Arguments as an object, where the protocol has text.

    Taken as they are. The server writes them so.
    """
    del request
    for position, call in enumerate(received.calls):
        if call.as_object:
            why = "the protocol has JSON text here"
            yield Sight(Blame.SERVER, call.raw, why, position)


@_malformed_kind()
def markup_in_arguments(received: Received, request: Asked) -> Iterator[Sight]:
    """Tags of the chat template at the end of an argument, or special tokens in it.

    The parser did not cut where the value ends, so that a right call becomes a wrong one.
    """
    del request
    for position, call in enumerate(received.calls):
        arguments = read_arguments(call.raw) or {}
        for value in arguments.values():
            if isinstance(value, str) and (markup := _MARKUP.search(value)):
                why = "tags of the template are no part of a value"
                yield Sight(Blame.PARSER, markup.group(), why, position)


@_malformed_kind()
def missing_id(received: Received, request: Asked) -> Iterator[Sight]:
    """A call without an id.

    Calls are paired with their results by place then. Ids are the server's to give.
    """
    del request
    for position, call in enumerate(received.calls):
        if not call.id:
            yield Sight(Blame.SERVER, "", "ids are the server's to give", position)


@_malformed_kind()
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


@_malformed_kind()
def empty_name(received: Received, request: Asked) -> Iterator[Sight]:
    """A call without a name.

    A parser makes no call of a text without a name, so it lost the name itself.
    """
    del request
    for position, call in enumerate(received.calls):
        if not call.name.strip():
            why = "a call is only made of a text that names a tool"
            yield Sight(Blame.PARSER, call.raw, why, position)


@_malformed_kind()
def channel_tokens(received: Received, request: Asked) -> Iterator[Sight]:
    """Special tokens in the name of a tool, such as `bash<|channel|>commentary`.

    They belong to the template; the parser should have taken them away. Where an offered tool is
    left without them, it is read.
    """
    del request
    for position, call in enumerate(received.calls):
        names = [name for kind, name in call.mends if kind == arrival.TOKENS]
        if not names and "<|" in call.name:
            names = [call.name]
        for name in names:
            yield Sight(Blame.PARSER, name, "special tokens are the template's", position)


_CALLED = frozenset((arrival.CALLED, "function_call"))  # finish reasons

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


@_malformed_kind()
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


@_malformed_kind(note=True)
def call_in_fence(received: Received, request: Asked) -> Iterator[Sight]:
    """A call in a code fence of the reply.

    The model speaks about a call and makes none.
    """
    for dialect, call, in_fence in calls_left(received.text, request.schemas):
        if in_fence:
            why = f"the dialect {dialect.name}, in a code fence"
            shown = received.text[call.start : call.end]
            yield Sight(Blame.MODEL, shown, why)


@_malformed_kind()
def call_in_reasoning(received: Received, request: Asked) -> Iterator[Sight]:
    """A whole call that ends the reasoning of a reply with neither words nor calls.

    The parser of the reasoning took what was meant for the parser of the calls.
    """
    for dialect, call in _calls_ending_reasoning(received, request):
        why = f"a whole call in the dialect {dialect.name}, and nothing after it"
        yield Sight(Blame.PARSER, received.reasoning[call.start : call.end], why)


@_malformed_kind()
def cut_call(received: Received, request: Asked) -> Iterator[Sight]:
    """A call cut by `length`: the reply ran out of tokens inside it.

    The harness is to blame where our own `max_tokens` was reached, else the limit is the server's.
    """
    blame, why = _limit(received, request)
    for position, call in enumerate(received.calls):
        if _is_cut(received, request, position):
            yield Sight(blame, call.raw, why, position)
    if received.finish_reason in CUT and not received.calls:
        for _, left, _ in calls_left(received.text, request.schemas):
            if not left.whole:
                yield Sight(blame, received.text[left.start : left.end], why)


@_malformed_kind()
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
    if _has_spent_all(received, request):
        return Blame.HARNESS, f"our max_tokens = {request.max_tokens} was reached"
    return Blame.SERVER, "the server's own limit, or its context"


@_malformed_kind()
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
        if match and read_arguments(match[1]) is not None:
            blame, why = Blame.PARSER, "the text that the server shows is a JSON object"
        yield Sight(blame, received.refusal, why, 0)


@_malformed_kind(note=True)
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


def _repair(
    id_: str,
    blame: Blame,
    why: str,
    text: str,
    *,
    note: bool = False,
) -> MalformedKind:
    """Make a kind of the calls that were repaired so; `text` is its title and its rationale."""

    def look(received: Received, _request: Asked) -> Iterator[Sight]:
        for position, call in enumerate(received.calls):
            for repair, evidence in call.mends:
                if repair == id_:
                    yield Sight(blame, evidence, why, position)

    return _describe(id_, text, look, note=note)


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


@_malformed_kind()
def lost_call(received: Received, request: Asked) -> Iterator[Sight]:
    """A reply that ends for its calls, and has none.

    The server saw that a call was made, and threw its text away: it could not read it.
    """
    is_lost = received.finish_reason in _CALLED and not received.calls
    if is_lost and not _has_whole_call(received, request):
        why = f"finish_reason is {received.finish_reason}"
        yield Sight(Blame.PARSER, received.text, why)


_UNSEEN = 8  # tokens: the marks of an empty thought and the end of the reply


@_malformed_kind()
def lost_reply(received: Received, request: Asked) -> Iterator[Sight]:
    """Tokens that were counted, and nothing in the reply.

    No silence of the model: the server's parser lost what it wrote.
    """
    del request
    tokens = received.completion_tokens - received.hidden_tokens
    silent = not (received.text.strip() or received.reasoning.strip() or received.calls)
    refused = received.refusal or received.finish_reason in {*_CALLED, arrival.WITHHELD}
    if silent and not refused and tokens > _UNSEEN:
        yield Sight(Blame.PARSER, "", f"{tokens} tokens were counted, and none of them came")


@_malformed_kind()
def reasoning_only(received: Received, request: Asked) -> Iterator[Sight]:
    """Reasoning, and neither words nor calls behind it, in a reply that came to its end.

    A parser of reasoning that waits for a mark which the model did not write takes all for
    reasoning.
    """
    silent = not received.calls and not received.text.strip()
    ended = received.finish_reason in {"stop", ""}
    if silent and ended and received.reasoning.strip() and not _has_whole_call(received, request):
        yield Sight(Blame.PARSER, received.reasoning, "all that was written is in the reasoning")


@_malformed_kind()
def withheld_reply(received: Received, request: Asked) -> Iterator[Sight]:
    """A reply that the server withheld, or cut: its filter of contents struck.

    What the model would have done is not known.
    """
    del request
    if received.finish_reason == arrival.WITHHELD:
        yield Sight(Blame.SERVER, received.text, f"finish_reason is {arrival.WITHHELD}")


SHOWN = 500  # characters of evidence; the turn keeps every byte
# In the order in which the faults of a reply are listed, that of the source: the first is primary.
KINDS = tuple(kind for kind in tuple(globals().values()) if isinstance(kind, MalformedKind))
FAULTS = frozenset(kind.id for kind in KINDS if not kind.note)


def malformed_in(received: Received, request: Asked) -> tuple[MalformedCall, ...]:
    """All malformed calls of a reply, in the order of the kinds."""
    return tuple(
        MalformedCall(kind.id, sight.blame, sight.evidence[:SHOWN], sight.why, sight.position)
        for kind in KINDS
        for sight in kind.look(received, request)
    )
