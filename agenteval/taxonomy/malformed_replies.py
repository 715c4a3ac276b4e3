"""Malformed calls that were read all the same, and replies whose calls were lost or withheld."""

import re
from collections.abc import Iterator

from agenteval.core import arrival
from agenteval.core.malformed import Asked, Blame, Received
from agenteval.core.text_calls import Dialect, TextCall
from agenteval.core.text_calls.dialects import calls_left
from agenteval.taxonomy.malformed_arguments import Sight, malformed_kind


def _mends(received: Received, kind: str, blame: Blame, why: str) -> Iterator[Sight]:
    for position, call in enumerate(received.calls):
        for mend, evidence in call.mends:
            if mend == kind:
                yield Sight(blame, evidence, why, position)


@malformed_kind()
def repeated_arguments(received: Received, request: Asked) -> Iterator[Sight]:
    """Arguments that came twice, one behind the other.

    Some parsers send a whole call once more at the end of its stream, and some gateways in each
    part of a stream all that came before it. It is read once.
    """
    del request
    why = "the same text stands there again, and nothing else"
    yield from _mends(received, arrival.REPEATED, Blame.PARSER, why)


@malformed_kind()
def encoded_twice(received: Received, request: Asked) -> Iterator[Sight]:
    """Arguments as a JSON text that holds the JSON.

    Who writes the text of the arguments encodes it: the parser did so once too often. The text
    within is read.
    """
    del request
    yield from _mends(received, arrival.ENCODED, Blame.PARSER, "the text within is a JSON object")


@malformed_kind()
def surplus_text(received: Received, request: Asked) -> Iterator[Sight]:
    """Arguments with a brace or quotes too many, before or behind them.

    A parser of a stream wrote them; what they enclose is a whole object, and is read.
    """
    del request
    why = "without them the text is a JSON object"
    yield from _mends(received, arrival.SURPLUS, Blame.PARSER, why)


@malformed_kind()
def prefixed_name(received: Received, request: Asked) -> Iterator[Sight]:
    """The name of an offered tool with a namespace before it, such as `functions.bash`.

    The namespace is the template's, and the parser left it in. The tool is read.
    """
    del request
    why = "without the namespace it is an offered tool"
    yield from _mends(received, arrival.PREFIXED, Blame.PARSER, why)


@malformed_kind()
def repeated_call(received: Received, request: Asked) -> Iterator[Sight]:
    """A call that came again with the same id, name and arguments.

    It is run once: no harness answers an id twice.
    """
    del request
    yield from _mends(received, arrival.AGAIN, Blame.SERVER, "an id is given to one call only")


@malformed_kind(note=True)
def legacy_call(received: Received, request: Asked) -> Iterator[Sight]:
    """A call in `function_call`, as the protocol had it before there were several.

    It is read.
    """
    del request
    yield from _mends(received, arrival.LEGACY, Blame.SERVER, "the protocol has `tool_calls`")


CALLED = frozenset((arrival.CALLED, "function_call"))  # finish reasons


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


_CLOSING = re.compile(r"(?:\s|<[^<>\n]{1,40}>|[\])}]|```)*")  # marks that close a call


def calls_ending_reasoning(
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
    return in_words or any(True for _ in calls_ending_reasoning(received, request))
