"""Texts as they are stored: what a database would refuse, what is long, and what agents began with.

Of these each message once in a run, named by its digest.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from agenteval.errors import fault
from agenteval.trial.call import ToolCall
from agenteval.trial.trial import Message, Trial

Prompts = Mapping[str, Sequence[Message]]  # by the label of the agent
Messages = Mapping[str, Message]  # by the digest
NO_PROMPTS: Prompts = {}
Query = Callable[..., Sequence[Sequence[Any]]]
_ALL = "SELECT digest, data FROM message WHERE run_id = :run"
_ONE = f"{_ALL} AND digest = :digest"


@contextmanager
def as_written() -> Iterator[None]:
    """Around what makes a value of ours of a row. Raises HostError where it was damaged there."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
        raise fault("of this run", f"a value is no text of ours: {error}") from error


def prompt_values(trial: Trial) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The digests of the messages that each agent of a trial began with; and these messages."""
    prompts: dict[str, list[str]] = {}
    messages: dict[str, str] = {}
    beginnings = {"": trial.prompt} | {part.label: part.prompt for part in trial.agents}
    for label, prompt in beginnings.items():
        for message in prompt:
            data = _data(message)
            digest = hashlib.sha256(data.encode()).hexdigest()
            messages[digest] = data
            prompts.setdefault(label, []).append(digest)
    return prompts, messages


def messages_of(query: Query, run: str, digests: Iterable[str] | None = None) -> Messages:
    """The stored messages of a run by their digests: those that are wanted, or all."""
    if digests is None:
        rows = [*query(_ALL, run=run)]
    else:
        rows = []
        for digest in digests:
            rows += query(_ONE, run=run, digest=digest)
    return {digest: _message(data) for digest, data in rows}


def prompts_of(digests: Mapping[str, Sequence[str]], messages: Messages) -> Prompts:
    prompts = {}
    for agent, of_agent in digests.items():
        prompts[agent] = [messages[digest] for digest in of_agent]
    return prompts


def _data(message: Message) -> str:
    """Return a message as ASCII, as it may hold what no text column can."""
    fields = {
        "role": message.role,
        "content": message.content,
        "calls": [call_fields(call) for call in message.calls],
        "call_id": message.call_id,
        "reasoning": message.reasoning,
    }
    return json.dumps(fields)


@as_written()
def _message(data: str) -> Message:
    stored = json.loads(data)
    stored["calls"] = tuple(map(written_call, stored["calls"]))
    return Message(**stored)


def call_fields(call: ToolCall) -> dict[str, Any]:
    """Return the fields that `asdict` gives, without its deep copy of the arguments."""
    return {
        "id": call.id,
        "name": call.name,
        "raw": call.raw,
        "arguments": None if call.arguments is None else dict(call.arguments),
        "garbled": call.malformed,
    }


def written_call(stored: dict[str, Any]) -> ToolCall:
    return ToolCall(*map(stored.__getitem__, ("id", "name", "raw", "arguments", "garbled")))


MARK = "\x02json:"
PACKED = "\x02zlib:"
_MARKS = (MARK, PACKED)
LARGEST = 1 << 28  # bytes of a text that was packed; no reply may have an eighth of it
_WORTH = 512  # characters; most shorter ones get longer
# Level, method, window, memory: of a reply of 2 KB most of the time went into zlib's usual 256 KB.
_SQUEEZED = (4, zlib.DEFLATED, 14, 5)


def to_column(value: str) -> str:
    """Return the text unchanged, or MARK and its JSON in ASCII if a database would refuse it."""
    if value.isascii() and "\0" not in value and not value.startswith(_MARKS):
        return value  # nearly all
    marked = value.startswith(_MARKS) or "\0" in value or _has_surrogate(value)
    return MARK + json.dumps(value) if marked else value


def packed(value: str) -> str:
    """Return the text as `to_column` does, compressed if that makes it shorter."""
    plain = to_column(value)
    if len(value) < _WORTH:
        return plain
    squeezing = zlib.compressobj(*_SQUEEZED)
    squeezed = squeezing.compress(value.encode("utf-8", "surrogatepass")) + squeezing.flush()
    short = PACKED + base64.b64encode(squeezed).decode("ascii")
    return short if len(short) < len(plain.encode()) else plain


def _unpacked(squeezed: bytes) -> bytes:
    """Raises ValueError for what is cut off, and for more than any text of ours has."""
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(squeezed, LARGEST)
    if not unpacking.eof:
        raise ValueError(f"cut off, or more than {LARGEST:,} bytes")
    return content


def from_column(stored: str) -> str:
    """Raises HostError where the file was damaged within the text."""
    try:
        if stored.startswith(PACKED):
            squeezed = base64.b64decode(stored.removeprefix(PACKED))
            return _unpacked(squeezed).decode("utf-8", "surrogatepass")
        if stored.startswith(MARK):
            return str(json.loads(stored.removeprefix(MARK)))
    except (ValueError, zlib.error) as error:
        raise fault("of this run", f"{stored[:20]!r} is no text of ours: {error}") from error
    return stored


def _has_surrogate(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False
