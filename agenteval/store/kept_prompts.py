"""What agents began with, as it is stored: each message once in a run, named by its digest."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agenteval.core.call import ToolCall
from agenteval.core.trial import Message, Trial
from agenteval.store.location import as_written

Prompts = Mapping[str, Sequence[Message]]  # by the label of the agent
NO_PROMPTS: Prompts = {}
Query = Callable[..., Sequence[Sequence[Any]]]

_ALL = "SELECT digest, data FROM message WHERE run_id = :run"
_ONE = f"{_ALL} AND digest = :digest"


def prompt_values(trial: Trial) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The digests of the messages that each agent of a trial began with; and these messages."""
    prompts: dict[str, list[str]] = {}
    messages: dict[str, str] = {}
    for label, prompt in (("", trial.prompt), *((one.label, one.prompt) for one in trial.agents)):
        kept = [_data(message) for message in prompt]
        digests = [hashlib.sha256(one.encode()).hexdigest() for one in kept]
        messages.update(zip(digests, kept, strict=True))
        if kept:
            prompts[label] = digests
    return prompts, messages


def messages_of(query: Query, run: str, digests: Iterable[str] | None = None) -> dict[str, Message]:
    """The stored messages of a run by their digests: those that are wanted, or all."""
    if digests is None:
        rows = query(_ALL, run=run)
    else:
        rows = [row for one in digests for row in query(_ONE, run=run, digest=one)]
    return {digest: _message(data) for digest, data in rows}


def prompts_of(digests: Mapping[str, Sequence[str]], messages: Mapping[str, Message]) -> Prompts:
    return {agent: [messages[one] for one in of] for agent, of in digests.items()}


def _data(message: Message) -> str:
    """In ASCII: a message may hold what no column of text can."""
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
    return Message(**(stored | {"calls": tuple(map(written_call, stored["calls"]))}))


def call_fields(call: ToolCall) -> dict[str, Any]:
    """As `asdict` gives them, but without its deep copy of the arguments."""
    return {
        "id": call.id,
        "name": call.name,
        "raw": call.raw,
        "arguments": None if call.arguments is None else dict(call.arguments),
        "garbled": call.malformed,
    }


def written_call(stored: dict[str, Any]) -> ToolCall:
    return ToolCall(*map(stored.__getitem__, ("id", "name", "raw", "arguments", "garbled")))
