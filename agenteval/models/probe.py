"""The probe of a server: `agenteval models --probe`, and a few requests before a run.

Its requests go the way of a run's, streamed or whole as these are, so that what is observed of the
parser is what the run will meet. Nothing that a server answers, or does not, is an error.

A run itself probes only the treatment of calls (`ask_server`). `probe` also finds out what a model
reads of a conversation: words that occur nowhere else stand in each place of one. A server that
renders a prompt shows them; of any other, the tokens that it counts say so.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from agenteval.config.models import ModelEntry
from agenteval.errors import AgentevalError
from agenteval.models.openai_client import OpenAIModel
from agenteval.models.request import request_body
from agenteval.models.servers import fetch_page
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

REPLY_SECONDS: Final = 60.0  # for one reply: a large model reads its first prompt
CALL_TOKENS, WORD_TOKENS = 400, 24  # what a thinking model needs to come to its call; a word or two
UNLIKELY: Final = "[b-df-hj-np-tv-z]{24}"  # no model writes 24 consonants unless it is made to
NO_TOOL: Final = "inventory"
Json = Mapping[str, Any]
Finding = tuple[str, str]  # its subject, and what was found
_THOUGHT = re.compile(r'"(reasoning_content|reasoning)"\s*:\s*"[^"]')


def _tool(name: str, parameter: str, **keywords: object) -> Json:
    properties = {parameter: {"type": "string", **keywords}}
    schema = {
        "type": "object",
        "properties": properties,
        "required": [parameter],
    }
    function = {
        "name": name,
        "description": f"Takes {parameter}.",
        "parameters": schema,
    }
    return {"type": "function", "function": function}


LOOK: Final = _tool("look", "place")
STRICT_NOTE: Final = _tool("note", "word", pattern=f"^{UNLIKELY}$")
FITTING: Final = 'Call the tool note with the word "apple", exactly that, whatever it is meant for.'
INVENTING: Final = f'Call the tool {NO_TOOL} with the place "cellar", though nobody offers it.'
TWICE: Final = "Call the tool look twice in this one reply: once for attic, once for cellar."
AT_RANDOM: Final = "Write one random word of twelve letters and nothing else."


# The treatment of calls.


@dataclass(slots=True)
class _Questions:
    """One server that is being probed; `turns` are its replies, `sent` counts the requests."""

    entry: ModelEntry
    turns: list[Turn] = field(default_factory=list)
    sent: int = 0

    async def turn(
        self,
        text: str,
        *tools: Json,
        seed: int = 1,
        tokens: int = CALL_TOKENS,
    ) -> Turn | None:
        """Return the turn; None if no reply came."""
        self.sent += 1
        sampling, timeouts = self.entry.sampling, self.entry.timeouts
        # A probe is to end soon, whatever a run allows a reply.
        limit = min(tokens, sampling.max_tokens or tokens)
        seconds = min(REPLY_SECONDS, timeouts.request)
        update = {
            "sampling": sampling.model_copy(update={"max_tokens": limit}),
            "timeouts": timeouts.model_copy(update={"request": seconds}),
        }
        try:
            async with OpenAIModel(self.entry.model_copy(update=update)) as model:
                turn = await model.ask(
                    [Message("user", text)],
                    tools,
                    seed=seed,
                )
        except AgentevalError:
            return None
        self.turns.append(turn)
        return turn

    async def call(self, text: str, offered: Json) -> Turn | None:
        """Request a call, a second time if the first reply has none, as most models miss some."""
        first = await self.turn(text, offered)
        if first is None or first.calls:
            return first
        return await self.turn(text, offered, seed=2)

    async def words(self) -> list[str]:
        """Return random replies to one seed twice, then to another; fewer if a reply is empty."""
        replies: list[str] = []
        for seed in (1, 1, 2):
            turn = await self.turn(
                AT_RANDOM,
                seed=seed,
                tokens=WORD_TOKENS,
            )
            reply = _whole_text(turn) if turn else ""
            if not reply:
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
    questions = _Questions(entry)
    # All at once: each may take a large model a minute.
    async with asyncio.TaskGroup() as group:
        fits = group.create_task(questions.call(FITTING, STRICT_NOTE))
        invents = group.create_task(questions.call(INVENTING, LOOK))
        repeats = group.create_task(questions.call(TWICE, LOOK))
        draws = group.create_task(questions.words())
    fitting = fits.result()
    inventing = invents.result()
    twice = repeats.result()
    calls = [turn for turn in (fitting, inventing, twice) if turn]
    return {
        GRAMMAR: _grammar(fitting, calls),
        INVENTED: _invented(inventing),
        **dict(_arrival(calls, twice)),
        "reasoning": _reasoning(questions.turns),
        "seed": _seed(draws.result(), fixed=entry.sampling.seed is not None),
        COST: questions.cost,
    }


def _whole_text(turn: Turn) -> str:
    raws = [call.raw for call in turn.calls]
    return "".join((turn.reasoning, turn.text, *raws))


def _is_stopped(turn: Turn) -> bool:
    """llama.cpp's way to say that its grammar allows none of what the model wrote."""
    return turn.finish_reason == "error" and "grammar" in turn.raw


def _grammar(fitting: Turn | None, calls: list[Turn]) -> str:
    if any(map(_is_stopped, calls)):
        return STOPPED
    raws = ""
    if fitting:
        raws = "\n".join(call.raw for call in fitting.calls)
    if not raws.strip():
        return NOT_OBSERVABLE
    return FITTED if re.search(f'"{UNLIKELY}"', raws) else FREE


def _invented(turn: Turn | None) -> str:
    if turn and _is_stopped(turn):
        return STOPPED
    names = [call.name for call in turn.calls] if turn else []
    return THROUGH if NO_TOOL in names else NOT_OBSERVABLE


def _arrival(calls: list[Turn], twice: Turn | None) -> Iterator[Finding]:
    parsed = [turn for turn in calls if turn.calls and not _is_stopped(turn)]
    if parsed:
        yield "calls come", "as calls"
    elif any(kind.startswith("call-in-") for kind in _malformed_kinds(calls)):
        yield "calls come", "as text: no parser reads them"
    else:
        yield "calls come", NOT_OBSERVABLE
    number = len(twice.calls) if twice in parsed and twice else 0
    yield "calls in one reply", f"{number} where 2 were asked for" if number else NOT_OBSERVABLE
    if parsed:
        ids = [kind for kind in _malformed_kinds(parsed) if kind.endswith("-id")]
        yield "ids of its calls", ", ".join(dict.fromkeys(ids)) or "each has its own"


def _malformed_kinds(turns: Sequence[Turn]) -> list[str]:
    return [malformed.kind for turn in turns for malformed in turn.malformed]


def _reasoning(turns: list[Turn]) -> str:
    for turn in turns:
        thought = _THOUGHT.search(turn.raw)
        if turn.reasoning and thought:
            return f"comes in {thought[1]}"
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


# The reading of a conversation.

PROBE_SECONDS: Final = 120.0  # for one reply: a large model reads its first prompt
THOUGHT, ANSWERED = "zirconquill", "umbravex"  # reasoning in the tool loop, and before an answer
FIRST, SECOND, SAID = "marlowhisk", "pellucidor", "quandrift"  # two results, and the answer
IDS: Final = ("call-kestrel", "call-osprey")
Ask = Callable[[str, Json], Awaitable[Json]]  # posts to a path; empty where no object comes back


@dataclass(frozen=True, slots=True)
class Probed:
    """Lines of subject and finding, and the prompt that the model reads; "" if it is not shown."""

    findings: tuple[Finding, ...]
    prompt: str = ""


def _conversation(*, goes_on: bool) -> tuple[Message, ...]:
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
    findings, prompt = await _probe_conversation(entry)
    treatment = await ask_server(entry)
    return Probed((*findings, *treatment.items()), prompt)


async def _probe_conversation(entry: ModelEntry) -> tuple[list[Finding], str]:
    async def ask(path: str, content: Json) -> Json:
        page = await fetch_page(
            entry,
            path,
            PROBE_SECONDS,
            msgspec.json.encode(content),
        )
        return page.json if page else {}

    loop = _body(entry, _conversation(goes_on=False))
    later = _body(entry, _conversation(goes_on=True))
    prompt, by = await _render(ask, loop)
    if prompt:
        prompt_later, _ = await _render(ask, later)
        findings = [("prompt rendered", f"by {by}"), *_read_prompts(prompt, prompt_later)]
    else:
        reason = "no: the server has no page that renders one; by its counts"
        findings = [("prompt rendered", reason)]
        findings += [
            finding
            async for finding in _count_parts(
                ask,
                loop,
                later,
            )
        ]
    rule = entry.reasoning or usual(entry.model, entry.base_url)
    findings.append(("reasoning, by our rule", TOLD[rule]))
    return findings, prompt


def _body(entry: ModelEntry, messages: Sequence[Message]) -> dict[str, Any]:
    """Return the body that a run sends, but not streamed, and with reasoning in each place."""
    sent = entry.model_copy(
        update={
            "reasoning": "always",
            "stream": False,
            "tools": "native",
        }
    )
    content = request_body(sent, messages, [LOOK], seed=1)
    body: dict[str, Any] = msgspec.json.decode(content)
    return body


async def _render(ask: Ask, body: Json) -> tuple[str, str]:
    """The prompt that the model would read, and the page that shows it; empty where none does."""
    of_conversation = ("model", "messages", "tools")
    conversation = {key: body[key] for key in of_conversation if key in body}
    page = await ask("/apply-template", conversation)
    if isinstance(page.get("prompt"), str):
        return page["prompt"], "/apply-template"  # llama.cpp
    page = await ask("/tokenize", conversation)
    if isinstance(page.get("tokens"), list):  # vLLM
        tokens = {"model": body["model"], "tokens": page["tokens"]}
        back = await ask("/detokenize", tokens)
        if isinstance(back.get("prompt"), str):
            return back["prompt"], "/tokenize and /detokenize"
    return "", ""


def _read_prompts(loop: str, later: str) -> Iterator[Finding]:
    """Yield the parts of the conversations that two rendered prompts keep."""
    yield "reasoning in the tool loop", "read" if THOUGHT in loop else "dropped"
    if later:
        is_read = THOUGHT in later or ANSWERED in later
        yield "reasoning behind an answer", "read" if is_read else "dropped"
    places = [loop.find(FIRST), loop.find(SECOND)]
    if min(places) < 0:
        yield "results of two calls", f"{places.count(-1)} of 2 is not read"
    else:
        order = "" if places[0] < places[1] else ", swapped"
        yield "results of two calls", f"both read{order}"
    both = "attic" in loop and "cellar" in loop
    yield "two calls in one turn", "both read" if both else "not both read"
    yield "ids of calls", "read" if all(ident in loop for ident in IDS) else "not read"


async def _count_parts(ask: Ask, loop: Json, later: Json) -> AsyncIterator[Finding]:
    """The same by the prompt tokens of replies of one token: less sent, less counted."""
    whole = await _tokens(ask, loop)
    after = await _tokens(ask, later)
    if not whole:
        yield "conversation", "unknown: the server does not take it, or counts no tokens"
        return
    bare = await _tokens(ask, _without_thought(loop))
    yield "reasoning in the tool loop", _differs(whole, bare)
    if after:
        bare_after = await _tokens(ask, _without_thought(later))
        yield "reasoning behind an answer", _differs(after, bare_after)
    for at, name in ((-2, "first"), (-1, "second")):
        cut = [dict(message) for message in loop["messages"]]
        cut[at]["content"] = ""
        without = await _tokens(ask, {**loop, "messages": cut})
        yield f"result of the {name} call", _differs(whole, without)


async def _tokens(ask: Ask, body: Json) -> int:
    """0 where the server does not say."""
    reply = await ask("/v1/chat/completions", {**body, "max_tokens": 1})
    return usage(reply.get("usage")).prompt_tokens


def _without_thought(body: Json) -> Json:
    messages = [dict(message) for message in body["messages"]]
    for message in messages:
        message.pop("reasoning_content", None)
        message.pop("reasoning", None)
    return {**body, "messages": messages}


def _differs(whole: int, without: int) -> str:
    if not without:
        return "unknown: without it the server takes no request"
    return f"read ({whole - without} tokens)" if whole > without else "dropped"
