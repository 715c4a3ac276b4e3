"""Simulated models behind a real server: OpenAI's chat completions on a port of this machine.

A request is read (`Memory` recognises its scenario, `_past_calls` the calls so far), a `Player`
replies, and the reply is written as a chat completion, whole or as server-sent events.
"""

import asyncio
import hashlib
import json
import re
import socket
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import Annotated, Any, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agenteval.config.models import ModelEntry, Sampling
from agenteval.config.prompts import spoken
from agenteval.models.persona import NAMES, Written, load_persona
from agenteval.models.player import PastCall, Player, Reply
from agenteval.models.request import count_replies
from agenteval.models.servers import SIMULATOR
from agenteval.prompt.arm import PARAMETERS
from agenteval.prompt.prompt import Prompt
from agenteval.sandbox.maker import recognised, render_all
from agenteval.serving import http
from agenteval.serving.bounds import Bounds, bounds
from agenteval.trial.call import ToolCall
from agenteval.trial.text import seed_of_trial
from agenteval.trial.trial import Scenario

Json = Mapping[str, Any]
Fields = dict[str, Any]  # of a reply
CHARACTERS_PER_TOKEN = 4


# A reply as a chat completion.


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply with what the wire adds. `ident` makes its ids, so equal requests get equal bytes."""

    ident: str
    model: str
    reply: Reply
    prompt_tokens: int

    @property
    def usage(self) -> Json:
        thought = len(self.reply.thought)
        length = thought + len(self.reply.text)
        length += sum(len(call.arguments) for call in self.reply.calls)
        completion = 1 + length // CHARACTERS_PER_TOKEN
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.prompt_tokens + completion,
            "completion_tokens_details": {"reasoning_tokens": thought // CHARACTERS_PER_TOKEN},
        }

    @property
    def _finish_reason(self) -> str:
        return "tool_calls" if self.reply.calls else "stop"

    def _calls(self) -> list[Fields]:
        return [
            {
                "id": f"call_{self.ident}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for index, call in enumerate(self.reply.calls)
        ]

    def _envelope(self, kind: str, *choices: Fields) -> Fields:
        return {
            "id": f"chatcmpl-{self.ident}",
            "object": kind,
            "created": 0,
            "model": self.model,
            "choices": [*choices],
        }

    def whole(self) -> Fields:
        message: Fields = {"role": "assistant", "content": self.reply.text or None}
        if self.reply.thought:
            message["reasoning_content"] = self.reply.thought
        if self.reply.calls:
            message["tool_calls"] = self._calls()
        choice = _choice(message=message, finish_reason=self._finish_reason)
        return {**self._envelope("chat.completion", choice), "usage": self.usage}

    def events(self, *, with_usage: bool) -> Iterator[str]:
        """The stream: role, thought, words, each call's head and arguments in pieces."""
        for delta in self._deltas():
            yield self._event(_choice(delta=delta, finish_reason=None))
        yield self._event(_choice(delta={}, finish_reason=self._finish_reason))
        if with_usage:
            yield self._event(usage=self.usage)
        yield "data: [DONE]\n\n"

    def _deltas(self) -> Iterator[Fields]:
        yield {"role": "assistant", "content": ""}
        if self.reply.thought:
            yield {"reasoning_content": self.reply.thought}
        if self.reply.text:
            yield {"content": self.reply.text}
        for index, call in enumerate(self._calls()):
            arguments = call["function"]["arguments"]
            # In pieces, as servers that generate them send them.
            half = len(arguments) // 2
            call["function"]["arguments"] = ""
            yield {"tool_calls": [{"index": index, **call}]}
            for piece in (arguments[:half], arguments[half:]):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def _event(self, *choices: Fields, **more: Any) -> str:
        chunk = {**self._envelope("chat.completion.chunk", *choices), **more}
        return f"data: {json.dumps(chunk)}\n\n"


def _choice(**fields: Any) -> Fields:
    return {"index": 0, **fields}


# A request.


class _StreamOptions(BaseModel):
    include_usage: bool = False


class _Function(BaseModel):
    """A function of a call, or one that is offered: its `parameters` and the like are kept."""

    model_config = ConfigDict(extra="allow")

    name: str
    arguments: str | Fields | None = None


class _Tool(BaseModel):
    id: str | None = None
    function: _Function


class _Message(BaseModel):
    role: str
    content: str | list[Fields] | None = None
    tool_calls: list[_Tool] | None = None
    tool_call_id: str | None = None


class _ChatRequest(BaseModel):
    """The fields of a request that matter here; others are accepted and ignored, as servers do."""

    model: str
    messages: Annotated[list[_Message], Field(min_length=1)]
    tools: list[_Tool] = []
    stream: bool = False
    stream_options: _StreamOptions | None = None
    seed: int | None = None


class _Speech:
    """Between our own tools, which players know, and those that a request offers."""

    def __init__(self, schemas: Sequence[Json]) -> None:
        self._profile = spoken(schemas)
        self._wanted: dict[str, Fields] = {}  # by the name of a tool that is offered
        for schema in schemas:
            function = schema["function"]
            self._wanted[function["name"]] = _required(function.get("parameters") or {})
        forms = self._profile.forms
        self.tools = tuple(tool for tool in forms if forms[tool].name in self._wanted)

    def translate_past(self, past: PastCall) -> PastCall:
        """An earlier call of the conversation, in our own words."""
        call = ToolCall("", past.name, "", past.arguments)
        own_call = self._profile.as_own_call(call, self.tools)
        if own_call is None:
            return past
        arguments = own_call.arguments
        if arguments is not None:
            wanted = self._wanted.get(past.name, {})
            filled = wanted.keys() - PARAMETERS[own_call.name]
            arguments = {name: arguments[name] for name in arguments if name not in filled}
        return replace(past, name=own_call.name, arguments=arguments)

    def translate_reply(self, reply: Reply) -> Reply:
        return replace(reply, calls=tuple(self._translate_call(call) for call in reply.calls))

    def _translate_call(self, call: Written) -> Written:
        if call.name not in self.tools:
            return call
        try:
            arguments = json.loads(call.arguments)
        except json.JSONDecodeError:  # meant to be broken
            return Written(self._profile.forms[call.name].name, call.arguments)
        name, written = self._profile.written(call.name, arguments)
        filled = self._wanted.get(name, {})
        return Written(name, json.dumps(filled | json.loads(written)))


# What is written for a parameter that a harness requires and our own tools lack.
_FILLED = {
    "string": "as the task says",
    "boolean": False,
    "integer": 1,
    "number": 1,
}


def _required(parameters: Json) -> Fields:
    values = {}
    properties = parameters.get("properties", {})
    for name in parameters.get("required", ()):
        kind = properties.get(name, {}).get("type")
        if kind in _FILLED:
            values[name] = _FILLED[kind]
    return values


# How the harnesses begin a denial. Anchored: what a script prints later is no denial.
_DENIAL = re.compile(
    r"\s*(?:<tool_use_error>)?(?:Error: )?(?:"
    r"Permission denied:|Permission to use |Unknown tool|Invalid tool call|No such tool available"
    r"|Permission(?:Denied|Rejected)Error|The user has (?:specifically restricted|specified a rule)"
    r"|Model tried to call unavailable tool|The arguments provided to the tool are invalid"
    r"|The user has declined|Claude requested permissions|InputValidationError"
    r"|The user doesn't want to proceed"
    r"|(?:\w+ failed: )?Rejected\(|approval policy is Never|unsupported call:"
    r"|failed to parse function arguments)"
)


def _user_words(messages: Sequence[Json]) -> str:
    """Return all the text of the user's messages."""
    return "\n".join(text(message) for message in messages if message.get("role") == "user")


def since(messages: Sequence[Json], task: str) -> Sequence[Json]:
    """Return the messages after the last one that gives the task; earlier tasks may precede it."""
    for at in reversed(range(len(messages))):
        if messages[at].get("role") == "user" and task in text(messages[at]):
            return messages[at + 1 :]
    return messages


def _past_calls(messages: Sequence[Json]) -> list[PastCall]:
    """Return every answered call, in order, with the verdict that its reply states."""
    calls: list[PastCall] = []
    waiting: list[Json] = []
    for message in messages:
        if message.get("role") == "assistant":
            waiting = list(message.get("tool_calls") or [])
        elif message.get("role") == "tool" and waiting:
            call = waiting.pop(_index(waiting, message.get("tool_call_id")))
            function = call.get("function") or {}
            name = str(function.get("name"))
            arguments = _parsed(function.get("arguments"))
            reply = text(message)
            is_denied = _DENIAL.match(reply) is not None
            calls.append(PastCall(name, arguments, is_denied, reply))
    return calls


def _index(waiting: Sequence[Json], ident: object) -> int:
    """Return the index of the call with this id, else 0, as some servers repeat their ids."""
    ids = [call.get("id") for call in waiting]
    return ids.index(ident) if ident in ids else 0


def _parsed(arguments: object) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return None


def text(message: Json) -> str:
    """The message's content, whether it comes as text or as a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, Mapping)]
        return "".join(str(part.get("text", "")) for part in parts)
    return content if isinstance(content, str) else ""


@dataclass(frozen=True, slots=True)
class Known:
    """The work of an agent that was recognised, and a name that no other agent has."""

    name: str
    prompt: Prompt


class Memory:
    """The recognition of scenarios, by the user's words and the request's seed.

    Each task is rendered once for a trial and not once for a turn, so thirty scenarios stay cheap.
    """

    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        self._scenarios = tuple(scenarios)
        self._rendered = lru_cache(maxsize=128)(self._render)
        self.recall = lru_cache(maxsize=4096)(self._search)

    def _render(self, seed: int) -> tuple[Prompt, ...]:
        return render_all(self._scenarios, seed)

    def _search(self, words: str, seed: int) -> Known | None:
        """Return the first agent whose task came last, or a sub-agent whose task came later."""
        first = None
        after = 0
        prompts = [
            *zip(
                self._scenarios,
                self._rendered(seed),
                strict=True,
            )
        ]
        for scenario, prompt in prompts:
            at = words.rfind(prompt.task)
            if at >= 0 and at + len(prompt.task) > after:
                first = Known(scenario.name, prompt)
                after = at + len(prompt.task)
        later = words[after:]
        if not later.strip():
            return first
        for scenario, prompt in prompts:
            for agent in scenario.agents:
                if agent.program:
                    continue
                work = recognised(scenario, agent, seed, prompt.variables, later)
                if work:
                    return Known(f"{scenario.name}/{work.task}", work)
        return first


# The server.

_STRANGER = Reply("", "I am a simulated model, and this is none of the scenarios I was given.")


class SimulatedServer:
    """Serves every simulated model, on 127.0.0.1 and a free port, in a thread of its own.

    It keeps nothing between requests: the conversation itself says where a trial stands, and
    chance is drawn from the model's name, the scenario, the request's seed and the turn. With an
    `api_key`, requests without it are answered with 401.
    """

    def __init__(self, scenarios: Sequence[Scenario], *, api_key: str = "") -> None:
        self.base_url = ""
        self._memory = Memory(scenarios)
        self._api_key = api_key
        app = Starlette(
            routes=[
                Route("/health", _health),
                Route("/v1/models", self._models),
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
            ],
            exception_handlers={HTTPException: _as_openai},
        )
        self._limits = _limits()
        self._server = http.server(app, self._limits)

    async def __aenter__(self) -> Self:
        # It listens from here on: a request that comes before the thread is ready waits its turn.
        listener = socket.create_server(("127.0.0.1", 0))
        # asyncio sets this only on sockets made with the protocol's number; without it every reply
        # waits 40 ms for the client's acknowledgement of its headers.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.base_url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        serves = http.serve(self._server, listener, self._limits)
        self._thread = threading.Thread(
            target=asyncio.run,
            args=(serves,),
            daemon=True,
        )
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = True
        await asyncio.to_thread(self._thread.join)

    def entry(self, name: str) -> ModelEntry:
        """Return the entry of the model `sim/...` here, with the article's sampling settings.

        Raises UsageError for a name that no persona has.
        """
        persona = load_persona(name)
        return ModelEntry(
            base_url=self.base_url,
            model=name,
            api_key_env="",  # ours, and no key of the user's goes there
            architecture=persona.architecture,
            total_parameters=persona.total_parameters,
            active_parameters=persona.active_parameters,
            server=SIMULATOR,
            sampling=Sampling(
                temperature=1.0,
                top_p=0.95,
                top_k=20,
                presence_penalty=1.5,
            ),
        )

    async def _models(self, request: Request) -> Response:
        self._admit(request)
        common = {
            "object": "model",
            "created": 0,
            "owned_by": SIMULATOR,
        }
        models = [{"id": name, **common} for name in NAMES]
        return JSONResponse({"object": "list", "data": models})

    async def _complete(self, request: Request) -> Response:
        self._admit(request)
        try:
            chat = _ChatRequest.model_validate_json(await request.body())
        except ValidationError as error:
            raise HTTPException(400, _first(error)) from error
        if chat.model not in NAMES:
            raise HTTPException(404, f"The model `{chat.model}` does not exist.")
        completion = self._completion(chat)
        if not chat.stream:
            return JSONResponse(completion.whole())
        with_usage = chat.stream_options is not None and chat.stream_options.include_usage
        events = completion.events(with_usage=with_usage)
        return StreamingResponse(_sent(events), media_type="text/event-stream")

    def _admit(self, request: Request) -> None:
        key = request.headers.get("authorization")
        if self._api_key and key != f"Bearer {self._api_key}":
            raise HTTPException(401, "Incorrect API key provided.")

    def _completion(self, chat: _ChatRequest) -> Completion:
        messages = [message.model_dump() for message in chat.messages]
        seed = seed_of_trial(chat.seed or 0, count_replies(messages))
        work = self._memory.recall(_user_words(messages), seed)
        done = since(messages, work.prompt.task) if work else messages
        draw = f"{chat.model}/{work.name if work else ''}/{seed}/{count_replies(done)}"
        reply = _STRANGER
        if work:
            speech = _Speech([tool.model_dump() for tool in chat.tools])
            player = Player(
                persona=load_persona(chat.model),
                prompt=work.prompt,
                tools=frozenset(speech.tools),
                chance=Random(draw),  # noqa: S311 -- a simulation, and it must repeat
            )
            past = [speech.translate_past(call) for call in _past_calls(done)]
            reply = speech.translate_reply(player.reply(past))
        return Completion(
            ident=hashlib.sha256(draw.encode()).hexdigest()[:24],
            model=chat.model,
            reply=reply,
            prompt_tokens=sum(len(text(message)) for message in messages) // CHARACTERS_PER_TOKEN,
        )


def _limits() -> Bounds:
    """The bounds of a server whose only peer is a run, with a connection for each of its trials."""
    most = 4 * bounds().connections
    return replace(
        bounds(),
        connections=most,
        per_peer=most,
        answer=600.0,
    )


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok", "simulated": True})


async def _sent(events: Iterable[str]) -> AsyncIterator[str]:
    for event in events:
        yield event


def _first(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, fault['loc'])) or 'body'}: {fault['msg']}"


_CODES = {401: "invalid_api_key", 404: "not_found"}


async def _as_openai(_: Request, error: Exception) -> Response:
    """The body in which OpenAI-compatible servers say what is wrong."""
    refusal = cast("HTTPException", error)  # registered for nothing else
    body = {
        "message": refusal.detail,
        "type": "invalid_request_error",
        "param": None,
        "code": _CODES.get(refusal.status_code),
    }
    return JSONResponse({"error": body}, status_code=refusal.status_code)
