"""Requests and whole replies of the chat-completions wire, as servers really speak it. Pure.

A reply that is broken as a *reply* raises ReplyError: the server's fault. A tool call that is
broken inside a good reply is kept as it came. Either becomes a turn (`turn_of`): its calls, native
or read from the text, and what is malformed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from agenteval.classes.malformed import malformed_in
from agenteval.config.models import ModelEntry
from agenteval.models.failures import broken_off, decode_body, error_in, refused_within
from agenteval.protocols import ToolSchema
from agenteval.replies.arrival import (
    LEGACY,
    Call,
    Function,
    ReplyError,
    Said,
    argument_text,
    mended,
    read_chunk,
    usage,
)
from agenteval.replies.text_calls import DIALECTS, Dialect, read_calls
from agenteval.trial import text as plain
from agenteval.trial.call import (
    CUT,
    LONGEST_ARGUMENTS,
    Asked,
    Received,
    ReceivedCall,
    Repair,
    Schemas,
    ToolCall,
    arrived,
)
from agenteval.trial.recovery import repeated
from agenteval.trial.run import FIELD, REQUEST_OPTIONS, Rule
from agenteval.trial.text import excerpt, is_byte, turn_seed
from agenteval.trial.trial import Message, Timing, Turn, Usage

Json = Mapping[str, Any]
LONGEST_NAME = 256
NAMELESS = "invalid"  # as OpenCode calls what it cannot name


def _sent_arguments(call: ToolCall) -> str:
    """The argument text as it is sent back: `{}` for what is no JSON object."""
    return "{}" if call.malformed or not call.raw.strip() else call.raw


def _sent_name(call: ToolCall) -> str:
    """The name as it is sent back: printable, of no odd length, without special tokens."""
    name = call.name.partition("<|")[0]
    if not name.isprintable():
        name = "".join(filter(str.isprintable, name))
    return name.strip()[:LONGEST_NAME] or NAMELESS


def _unique_ids(idents: Sequence[str]) -> list[str]:
    """The ids of one turn: as received, `call-POSITION` for one that is missing or repeated.

    Where another call has that id, the position counts on.
    """
    received = set(idents)
    used = {""}
    number = -1
    ids: list[str] = []
    for position, ident in enumerate(idents):
        if ident in used:
            number = max(position, number + 1)
            while f"call-{number}" in received:
                number += 1
            ids.append(f"call-{number}")
        else:
            ids.append(ident)
            used.add(ident)
    return ids


def repairs(received: Received, calls: Sequence[ToolCall]) -> tuple[Repair, ...]:
    """Everything in which the calls that are sent back differ from those that came."""
    parts: list[Repair] = []
    for position, call in enumerate(calls):
        ident = received.calls[position].id if received.calls else ""
        parts += (
            Repair(position, "id", ident, call.id),
            Repair(position, "name", call.name, _sent_name(call)),
            Repair(position, "arguments", call.raw, _sent_arguments(call)),
        )
    return tuple(repair for repair in parts if repair.received != repair.sent)


# Replies.

UNREADABLE = "the server could not read the call"


def turn_of(  # noqa: PLR0913 -- a turn has that many sources
    received: Received,
    request: Asked,
    *,
    usage: Usage,
    raw: str,
    seconds: float,
    timing: Timing | None = None,
    ended: float | None = None,
) -> Turn:
    """Return the turn of a reply, with every call that came or was refused. It never raises."""
    received = mended(arrived(received), request.schemas)
    text = received.text
    if request.dialect:
        received = _with_calls_of_text(received, request)
    calls = _calls(received) if received.calls else _refused(received.refusal)
    return Turn(
        text=text,
        calls=calls,
        finish_reason=received.finish_reason,
        usage=usage,
        raw=raw,
        seconds=seconds,
        timing=timing,
        malformed=malformed_in(received, request),
        # Calls that were written as text go back as the text that they were.
        repairs=() if request.dialect else repairs(received, calls),
        repeats=received.repeats or _repeats(received),
        model=received.model,
        ended=ended,
        reasoning=received.reasoning,
    )


def _repeats(received: Received) -> str:
    """Return the repetition in which an endless generation was cut; "" for none."""
    if received.finish_reason not in CUT:
        return ""
    last = received.calls[-1].raw if received.calls else received.text
    return repeated(last or received.reasoning)


def _with_calls_of_text(received: Received, request: Asked) -> Received:
    """The calls as if they had come as calls, and the text without them."""
    calls_of_text = read_calls(
        received.text,
        DIALECTS[request.dialect],
        request.schemas,
    )
    text = received.text
    for call in reversed(calls_of_text):
        text = text[: call.start] + text[call.end :]
    calls = [*received.calls]
    for at, call in enumerate(calls_of_text):
        calls.append(ReceivedCall(call.name, call.raw, f"call-{at}"))
    return replace(received, text=text, calls=tuple(calls))


def _calls(received: Received) -> tuple[ToolCall, ...]:
    idents = _unique_ids([call.id for call in received.calls])
    calls = zip(received.calls, idents, strict=True)
    return tuple(parsed_call(ident, call.name, call.raw) for call, ident in calls)


def _refused(text: str) -> tuple[ToolCall, ...]:
    if not text:
        return ()
    call = ToolCall(
        id="call-0",
        name="",
        raw=text,
        arguments=None,
        malformed=UNREADABLE,
    )
    return (call,)


def parsed_call(ident: str, name: str, raw: str) -> ToolCall:
    """Return the call with its arguments parsed."""
    arguments, malformed = parse_arguments(raw)
    return ToolCall(
        ident,
        name,
        raw[:LONGEST_ARGUMENTS],
        arguments,
        malformed,
    )


def parse_arguments(raw: str) -> tuple[Json | None, str]:
    """Parse an argument text; return None and the reason if it is no JSON object."""
    if not raw.strip():
        return {}, ""
    if len(raw) > LONGEST_ARGUMENTS:
        return None, f"arguments are longer than {LONGEST_ARGUMENTS} characters"
    try:
        parsed = plain.read(raw)
    except ValueError as error:
        return None, f"arguments are not JSON: {error}"
    if not isinstance(parsed, dict):
        return None, f"arguments are a JSON {type(parsed).__name__}, not an object"
    return parsed, ""


def readable(received: Received) -> Received:
    """The reply. Raises ReplyError where it has words and no call, and no byte of them is UTF-8."""
    words = received.text.strip() or received.reasoning.strip()
    if words and not received.calls and all(map(is_byte, words)):
        raise ReplyError("nothing in the reply is text: its bytes are no UTF-8")
    return received


def read_reply(body: bytes) -> tuple[Received, Usage]:
    """A whole (not streamed) reply.

    Raises ReplyError when the body is no chat completion, RefusedError when it is an error or was
    broken off.
    """
    try:
        chunk = read_chunk(body)
    except ReplyError as error:
        raise ReplyError(
            f"the reply is no chat completion: {excerpt(decode_body(body))}"
        ) from error
    choice = chunk.choices[0] if chunk.choices else None
    message = choice.message if choice else None
    if choice is None or message is None:
        if fault := error_in(chunk, body):
            raise refused_within(fault)
        raise ReplyError(f"the reply is no chat completion: {excerpt(decode_body(body))}")
    if fault := broken_off(choice):
        raise refused_within(fault, begun=True)
    used = usage(chunk.usage)
    received = Received(
        text=message.words,
        reasoning=message.thought,
        calls=_received_calls(message),
        finish_reason=choice.finish_reason or "",
        completion_tokens=used.completion_tokens,
        hidden_tokens=used.reasoning_tokens,
        model=chunk.model or "",
        thought_in=message.thought_in if message.thought else "",
    )
    return readable(received), used


def _received_calls(message: Said) -> tuple[ReceivedCall, ...]:
    calls = tuple(map(_received_call, message.tool_calls or ()))
    if calls or message.function_call is None:
        return calls
    legacy = _received_call(Call(function=message.function_call))
    return (replace(legacy, id="call-0", mends=((LEGACY, legacy.name),)),)


def _received_call(call: Call) -> ReceivedCall:
    function = call.function or Function()
    raw, as_object = argument_text(function.arguments)
    return ReceivedCall(function.name or "", raw, call.id or "", as_object)


# Requests.

_ENCODER = msgspec.json.Encoder()


def request_body(
    entry: ModelEntry,
    messages: Sequence[Message],
    tools: Sequence[ToolSchema],
    seed: int,
    thought_in: str = FIELD,
) -> bytes:
    """The whole request. A sampling seed of the entry goes before that of trial and turn.

    Reasoning that goes back to the model is put into the field `thought_in`.
    """
    turns = sum(message.role == "assistant" for message in messages)
    request: dict[str, Any] = {
        "model": entry.model,
        "stream": entry.stream,
        "seed": turn_seed(seed, turns),
    }
    if entry.stream:
        request["stream_options"] = {"include_usage": True}
    if entry.tools == "text":
        dialect = DIALECTS[entry.dialect]
        request["messages"] = _text_messages(messages, dialect, _schemas_of(tools))
        if dialect.stop:
            request["stop"] = dialect.stop
    else:
        thoughts = _sent_back(messages, entry.sends_reasoning)
        request["messages"] = [
            _native_message(message, {thought_in: thought} if thought else {})
            for message, thought in zip(messages, thoughts, strict=True)
        ]
        if tools:
            request["tools"] = tools
            options = {option.name: getattr(entry, option.name) for option in REQUEST_OPTIONS}
            request |= {name: value for name, value in options.items() if value}
    return _ENCODER.encode(request | entry.sampling.model_dump(exclude_none=True))


def asked_of(entry: ModelEntry, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Asked:
    """Return the parts of this request that can decide who is to blame for a malformed call."""
    return Asked(
        schemas=_schemas_of(tools),
        max_tokens=entry.sampling.max_tokens,
        parser=entry.tool_parser,
        dialect=entry.dialect if entry.tools == "text" else "",
        prompts=tuple(part.content for part in messages if part.role in {"system", "user"}),
    )


def relayed_body(entry: ModelEntry, request: Json, seed: int) -> bytes:
    """The request of another program, with what a run sets: model, seed, sampling, counts."""
    relayed = dict(request)
    relayed["model"] = entry.model
    relayed["seed"] = turn_seed(seed, count_replies(request["messages"]))
    if request.get("stream"):
        relayed["stream_options"] = {"include_usage": True}
    return _ENCODER.encode(relayed | entry.sampling.model_dump(exclude_none=True))


def count_replies(messages: Sequence[Json]) -> int:
    """Return the number of a model's replies in a conversation; a turn's seed is made of it."""
    return sum(message.get("role") == "assistant" for message in messages)


def asked_by(entry: ModelEntry, request: Json) -> Asked:
    """Return the parts of another program's request that can decide who is to blame for a fault."""
    prompts = []
    for message in request["messages"]:
        content = message.get("content")
        if message.get("role") in {"system", "user"} and isinstance(content, str):
            prompts.append(content)
    return Asked(
        schemas=_schemas_of(request.get("tools") or ()),
        max_tokens=entry.sampling.max_tokens or request.get("max_tokens"),
        parser=entry.tool_parser,
        dialect="",
        prompts=tuple(prompts),
    )


def _schemas_of(tools: Sequence[ToolSchema]) -> Schemas:
    functions = [tool["function"] for tool in tools]
    return {function["name"]: function.get("parameters") or {} for function in functions}


def _sent_back(messages: Sequence[Message], rule: Rule) -> list[str]:
    """The reasoning that goes with each message; "" for none.

    The tool loop is all that came after the last message of the user.
    """
    begins = {"always": 0, "drop": len(messages)}.get(rule)
    if begins is None:
        places = [at for at, message in enumerate(messages) if message.role == "user"]
        begins = max(places, default=0)
    return [""] * begins + [message.reasoning for message in messages[begins:]]


def _native_message(message: Message, thought: Mapping[str, str]) -> Json:
    """A message as a server takes it, with this field; what it would refuse is mended."""
    wire: dict[str, Any] = {
        "role": message.role,
        "content": message.content,
        **thought,
    }
    if message.calls:
        wire["tool_calls"] = [_native_call(call) for call in message.calls]
    if message.role == "tool":
        wire["tool_call_id"] = message.call_id
    return wire


def _native_call(call: ToolCall) -> Json:
    function = {"name": _sent_name(call), "arguments": _sent_arguments(call)}
    return {
        "id": call.id,
        "type": "function",
        "function": function,
    }


def _text_messages(messages: Sequence[Message], dialect: Dialect, schemas: Schemas) -> list[Json]:
    """The conversation of a model without tools: instructions, its own words, results as words.

    All results of a turn are one message of the user: templates want the roles to alternate.
    """
    wire: list[dict[str, Any]] = []
    for role, content in _text_parts(messages, dialect):
        if role == "tool" and wire[-1]["role"] == "user":
            wire[-1]["content"] += "\n" + content
        else:
            wire.append({"role": "user" if role == "tool" else role, "content": content})
    instructions = dialect.instructions(schemas)
    if wire and wire[0]["role"] == "system":
        wire[0]["content"] += "\n\n" + instructions
    else:
        wire.insert(0, {"role": "system", "content": instructions})
    return list(wire)


def _text_parts(messages: Sequence[Message], dialect: Dialect) -> Iterator[tuple[str, str]]:
    names: dict[str, str] = {}
    for message in messages:
        names.update((call.id, call.name) for call in message.calls)
        if message.role == "tool":
            yield "tool", dialect.result(names.get(message.call_id, ""), message.content)
        else:
            yield message.role, message.content
