"""The probe of how a server treats a conversation: `agenteval models --probe`.

Words that occur nowhere else stand in each place of a conversation. A server that renders a prompt
shows which of them its model reads; of any other, the tokens that it counts say so.

A server's treatment of its model, found by a few short requests: before a run and by `--probe`.

They go the way of a run's requests, streamed or whole as these are, so that what is observed of the
parser is what the run will meet. Nothing that a server answers, or does not, is an error.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from agenteval.config.models import ModelEntry
from agenteval.errors import AgentevalError
from agenteval.models.openai_client import OpenAIModel
from agenteval.models.request import request_body
from agenteval.models.servers import FAILURES, exchanged
from agenteval.replies.arrival import usage
from agenteval.trial.call import ToolCall
from agenteval.trial.run import (
    COST,
    FITTED,
    FREE,
    GRAMMAR,
    INVENTED,
    NOT_OBSERVABLE,
    STOPPED,
    THROUGH,
    TOLD,
    usual,
)
from agenteval.trial.trial import Message, Turn

ANSWER_SECONDS: Final = 60.0  # for one reply: a large model reads its first prompt
CALL_TOKENS, WORD_TOKENS = 400, 24  # what a thinking model needs to come to its call; a word or two
UNLIKELY: Final = "[b-df-hj-np-tv-z]{24}"  # no model writes 24 consonants unless it is made to
NO_TOOL: Final = "inventory"
Tool = Mapping[str, Any]
_THOUGHT = re.compile(r'"(reasoning_content|reasoning)"\s*:\s*"[^"]')


def tool(name: str, parameter: str, **more: object) -> Tool:
    one = {"type": "string", **more}
    schema = {"type": "object", "properties": {parameter: one}, "required": [parameter]}
    function = {"name": name, "description": f"Takes {parameter}.", "parameters": schema}
    return {"type": "function", "function": function}


LOOK: Final = tool("look", "place")
STRICT_NOTE: Final = tool("note", "word", pattern=f"^{UNLIKELY}$")
FITTING: Final = 'Call the tool note with the word "apple", exactly that, whatever it is meant for.'
INVENTING: Final = f'Call the tool {NO_TOOL} with the place "cellar", though nobody offers it.'
TWICE: Final = "Call the tool look twice in this one reply: once for attic, once for cellar."
AT_RANDOM: Final = "Write one random word of twelve letters and nothing else."


@dataclass(slots=True)
class _Asking:
    """One server that is being probed; `turns` are its replies, `sent` counts the requests."""

    entry: ModelEntry
    turns: list[Turn] = field(default_factory=list)
    sent: int = 0

    async def turn(
        self, text: str, *tools: Tool, seed: int = 1, tokens: int = CALL_TOKENS
    ) -> Turn | None:
        """Return the turn; None if no reply came."""
        entry, self.sent = self.entry, self.sent + 1
        limit = min(tokens, entry.sampling.max_tokens or tokens)
        seconds = min(ANSWER_SECONDS, entry.timeouts.request)
        update = {
            "sampling": entry.sampling.model_copy(update={"max_tokens": limit}),
            "timeouts": entry.timeouts.model_copy(update={"request": seconds}),
        }
        try:
            async with OpenAIModel(entry.model_copy(update=update)) as model:
                turn = await model.ask([Message("user", text)], tools, seed=seed)
        except AgentevalError:
            return None
        self.turns.append(turn)
        return turn

    async def call(self, said: str, offered: Tool) -> Turn | None:
        """Request a call, a second time if the first reply has none, as most models miss some."""
        first = await self.turn(said, offered)
        return first if first is None or first.calls else await self.turn(said, offered, seed=2)

    async def words(self) -> list[str]:
        """Return random replies to one seed twice, then to another; fewer if a reply is empty."""
        replies: list[str] = []
        for seed in (1, 1, 2):
            turn = await self.turn(AT_RANDOM, seed=seed, tokens=WORD_TOKENS)
            if turn is None or not (reply := turn.reasoning + turn.text + _called(turn)):
                break
            replies.append(reply)
        return replies

    @property
    def cost(self) -> str:
        prompt = sum(turn.usage.prompt_tokens for turn in self.turns)
        completion = sum(turn.usage.completion_tokens for turn in self.turns)
        return f"{self.sent} requests, {prompt} prompt and {completion} completion tokens"


async def ask_server(entry: ModelEntry) -> Mapping[str, str]:
    """Probe the server; return the observations by subject, and the cost of the probe."""
    asking = _Asking(entry)
    questions = ((FITTING, STRICT_NOTE), (INVENTING, LOOK), (TWICE, LOOK))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(asking.call(*one)) for one in questions]
        drawn = group.create_task(asking.words())
    fitting, inventing, twice = (task.result() for task in tasks)
    calls, words = [turn for turn in (fitting, inventing, twice) if turn], drawn.result()
    return {
        GRAMMAR: _grammar(fitting, calls),
        INVENTED: _invented(inventing),
        **dict(_arrival(calls, twice)),
        "reasoning": _reasoning(asking.turns),
        "seed": _seed(words, fixed=entry.sampling.seed is not None),
        COST: asking.cost,
    }


def _called(turn: Turn) -> str:
    return "".join(call.raw for call in turn.calls)


def _stopped(turn: Turn) -> bool:
    """llama.cpp's way to say that its grammar allows none of what the model wrote."""
    return turn.finish_reason == "error" and "grammar" in turn.raw


def _grammar(fitting: Turn | None, calls: list[Turn]) -> str:
    if any(map(_stopped, calls)):
        return STOPPED
    raws = [call.raw for call in fitting.calls] if fitting else []
    if not any(raws):
        return NOT_OBSERVABLE
    return FITTED if any(re.search(f'"{UNLIKELY}"', raw) for raw in raws) else FREE


def _invented(turn: Turn | None) -> str:
    if turn and _stopped(turn):
        return STOPPED
    return THROUGH if turn and any(call.name == NO_TOOL for call in turn.calls) else NOT_OBSERVABLE


def _arrival(calls: list[Turn], twice: Turn | None) -> Iterator[tuple[str, str]]:
    parsed = [turn for turn in calls if turn.calls and not _stopped(turn)]
    left = any(one.kind.startswith("call-in-") for turn in calls for one in turn.malformed)
    ids = [one.kind for turn in parsed for one in turn.malformed if one.kind.endswith("-id")]
    come = "as calls" if parsed else "as text: no parser reads them" if left else NOT_OBSERVABLE
    yield "calls come", come
    found = len(twice.calls) if twice in parsed and twice else 0
    yield "calls in one reply", f"{found} where 2 were asked for" if found else NOT_OBSERVABLE
    if parsed:
        yield "ids of its calls", ", ".join(dict.fromkeys(ids)) or "each has its own"


def _reasoning(turns: list[Turn]) -> str:
    fields = [found[1] for turn in turns if turn.reasoning and (found := _THOUGHT.search(turn.raw))]
    if fields:
        return f"comes in {fields[0]}"
    if any("</think>" in turn.text for turn in turns):
        return "comes in the text"
    return "none seen" if turns else NOT_OBSERVABLE


def _seed(words: list[str], *, fixed: bool) -> str:
    """Report the effect of the seed; greedy sampling and an ignored seed look the same."""
    if len(words) < 3:  # one seed twice, and another
        return NOT_OBSERVABLE
    first, again, other = words
    if first != again:
        return "not heeded: the same seed drew two replies"
    if fixed:
        return "set by agenteval.toml, and heeded"
    return "heeded" if other != first else "the same reply for each: greedy, or not heeded"


PROBE_SECONDS: Final = 120.0  # for one reply: a large model reads its first prompt
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
            status, body = exchanged(entry, f"{root}{path}", PROBE_SECONDS, sent)
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
