"""The probe of how a server treats a conversation: `agenteval models --probe`.

Words that occur nowhere else stand in each place of a conversation. A server that renders a prompt
shows which of them its model reads; of any other, the tokens that it counts say so.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from agenteval.config.models import ModelEntry
from agenteval.core.call import ToolCall
from agenteval.core.cards import TOLD, usual
from agenteval.core.chunk import usage
from agenteval.core.trial import Message
from agenteval.models.chat_completions import request_body
from agenteval.models.identity import FAILURES, exchanged
from agenteval.models.server_questions import LOOK, ask_server

SECONDS: Final = 120.0  # for one reply: a large model reads its first prompt
THOUGHT, ANSWERED = "zirconquill", "umbravex"  # reasoning in the tool loop, and before an answer
FIRST, SECOND, SAID = "marlowhisk", "pellucidor", "quandrift"  # two results, and the answer
IDS: Final = ("call-kestrel", "call-osprey")
Json = Mapping[str, Any]
Ask = Callable[[str, Json], Json | None]  # a path below the server's root, and what is posted


@dataclass(frozen=True, slots=True)
class Probed:
    """`found` are lines of subject and finding; `prompt` is what the model reads, "" if unshown."""

    found: tuple[tuple[str, str], ...]
    prompt: str = ""


def conversation(*, goes_on: bool) -> tuple[Message, ...]:
    """Two calls in one turn with their results; `goes_on`: an answer and a new question after."""
    calls = tuple(
        ToolCall(ident, "look", f'{{"place": "{place}"}}', {"place": place})
        for ident, place in zip(IDS, ("attic", "cellar"), strict=True)
    )
    begun = (
        Message("system", "You look into places."),
        Message("user", "What is in the attic and in the cellar?"),
        Message("assistant", "", calls, reasoning=THOUGHT),
        Message("tool", FIRST, call_id=IDS[0]),
        Message("tool", SECOND, call_id=IDS[1]),
    )
    if not goes_on:
        return begun
    answer = Message("assistant", SAID, reasoning=ANSWERED)
    return (*begun, answer, Message("user", "And in the hall?"))


async def probe(entry: ModelEntry) -> Probed:
    """Probe this server. What it does not show is reported as unknown, and is no error."""
    found, shown = await asyncio.to_thread(_conversed, entry)
    return Probed((*found, *(await ask_server(entry)).items()), shown)


def _conversed(entry: ModelEntry) -> tuple[list[tuple[str, str]], str]:
    root = entry.base_url.rstrip("/").removesuffix("/v1")

    def ask(path: str, content: Json) -> Json | None:
        try:
            sent = msgspec.json.encode(content)
            status, body = exchanged(entry, f"{root}{path}", SECONDS, sent)
            read = json.loads(body) if status == 200 else None
        except (*FAILURES, RecursionError):
            return None
        return read if isinstance(read, dict) else None

    loop = _body(entry, conversation(goes_on=False))
    later = _body(entry, conversation(goes_on=True))
    prompt, by = rendered(ask, loop)
    if prompt:
        findings = [("prompt rendered", f"by {by}")]
        findings += _read_prompts(prompt, rendered(ask, later)[0])
    else:
        findings = [
            ("prompt rendered", "no: the server has no page that renders one; by its counts")
        ]
        findings += counted(ask, loop, later)
    rule = entry.reasoning or usual(entry.model, entry.base_url)
    findings.append(("reasoning, by our rule", TOLD[rule]))
    return findings, prompt


def _body(entry: ModelEntry, messages: Sequence[Message]) -> dict[str, Any]:
    """Return the body that a run sends, but not streamed, and with reasoning in each place."""
    sent = entry.model_copy(update={"reasoning": "always", "stream": False, "tools": "native"})
    body: dict[str, Any] = json.loads(request_body(sent, messages, [LOOK], seed=1))
    return body


def rendered(ask: Ask, body: Json) -> tuple[str, str]:
    """The prompt that the model would read, and the page that shows it; empty where none does."""
    told = {key: body[key] for key in ("model", "messages", "tools") if key in body}
    if (page := ask("/apply-template", told)) and isinstance(page.get("prompt"), str):
        return page["prompt"], "/apply-template"  # llama.cpp
    if (page := ask("/tokenize", told)) and isinstance(page.get("tokens"), list):  # vLLM
        back = ask("/detokenize", {"model": body["model"], "tokens": page["tokens"]})
        if back and isinstance(back.get("prompt"), str):
            return back["prompt"], "/tokenize and /detokenize"
    return "", ""


def _read_prompts(loop: str, later: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of the conversations that two rendered prompts keep."""
    yield "reasoning in the tool loop", "read" if THOUGHT in loop else "dropped"
    if later:
        kept = [word in later for word in (THOUGHT, ANSWERED)]
        yield "reasoning behind an answer", "read" if any(kept) else "dropped"
    places = [loop.find(word) for word in (FIRST, SECOND)]
    if min(places) < 0:
        yield "results of two calls", f"{places.count(-1)} of 2 is not read"
    else:
        yield "results of two calls", "both read" + ("" if places[0] < places[1] else ", swapped")
    both = all(word in loop for word in ("attic", "cellar"))
    yield "two calls in one turn", "both read" if both else "not both read"
    yield "ids of calls", "read" if all(one in loop for one in IDS) else "not read"


def counted(ask: Ask, loop: Json, later: Json) -> Iterator[tuple[str, str]]:
    """The same by the prompt tokens of replies of one token: less sent, less counted."""
    whole, after = _tokens(ask, loop), _tokens(ask, later)
    if not whole:
        yield "conversation", "unknown: the server does not take it, or counts no tokens"
        return
    bare = _tokens(ask, _without_thought(loop))
    yield "reasoning in the tool loop", _differs(whole, bare)
    if after:
        yield "reasoning behind an answer", _differs(after, _tokens(ask, _without_thought(later)))
    for at, name in ((-2, "first"), (-1, "second")):
        cut = [dict(message) for message in loop["messages"]]
        cut[at]["content"] = ""
        yield f"result of the {name} call", _differs(whole, _tokens(ask, {**loop, "messages": cut}))


def _tokens(ask: Ask, body: Json) -> int:
    """0 where the server does not say."""
    reply = ask("/v1/chat/completions", {**body, "max_tokens": 1})
    return usage(reply.get("usage")).prompt_tokens if reply else 0


def _without_thought(body: Json) -> Json:
    fields = ("reasoning_content", "reasoning")
    messages = [
        {key: value for key, value in message.items() if key not in fields}
        for message in body["messages"]
    ]
    return {**body, "messages": messages}


def _differs(whole: int, without: int) -> str:
    if not without:
        return "unknown: without it the server takes no request"
    return f"read ({whole - without} tokens)" if whole > without else "dropped"
