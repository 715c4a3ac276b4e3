"""Simulated models behind a real server: OpenAI's chat completions on a port of this machine."""

import asyncio
import hashlib
import socket
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Self, cast

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agenteval.config.models import ModelEntry, Sampling
from agenteval.core.chance import seed_of_trial
from agenteval.core.scenario import Scenario
from agenteval.models.completions import CHARACTERS_PER_TOKEN, ChatRequest, Completion, Speech
from agenteval.models.conversation import Memory, past_calls, since, text, turns, user_words
from agenteval.models.identity import SIMULATOR
from agenteval.models.persona import NAMES, load_persona
from agenteval.models.player import Player, Reply
from agenteval.serving import http
from agenteval.serving.bounds import Bounds, bounds

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
        self._thread = threading.Thread(target=asyncio.run, args=(serves,), daemon=True)
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
            sampling=Sampling(temperature=1.0, top_p=0.95, top_k=20, presence_penalty=1.5),
        )

    async def _models(self, request: Request) -> Response:
        self._admit(request)
        listed = [
            {"id": name, "object": "model", "created": 0, "owned_by": SIMULATOR} for name in NAMES
        ]
        return JSONResponse({"object": "list", "data": listed})

    async def _complete(self, request: Request) -> Response:
        self._admit(request)
        try:
            chat = ChatRequest.model_validate_json(await request.body())
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
        given = request.headers.get("authorization")
        if self._api_key and given != f"Bearer {self._api_key}":
            raise HTTPException(401, "Incorrect API key provided.")

    def _completion(self, chat: ChatRequest) -> Completion:
        messages = [message.model_dump() for message in chat.messages]
        seed = seed_of_trial(chat.seed or 0, turns(messages))
        speech = Speech([tool.model_dump() for tool in chat.tools])
        recognised = self._memory.recall(user_words(messages), seed)
        done = since(messages, recognised.prompt.task) if recognised else messages
        number = turns(done)
        draw = f"{chat.model}/{recognised.name if recognised else ''}/{seed}/{number}"
        reply = _STRANGER
        if recognised:
            player = Player(
                persona=load_persona(chat.model),
                prompt=recognised.prompt,
                tools=frozenset(speech.tools),
                chance=Random(draw),  # noqa: S311 -- a simulation, and it must repeat
            )
            reply = speech.translate_reply(
                player.reply([speech.translate_past(call) for call in past_calls(done)])
            )
        return Completion(
            ident=hashlib.sha256(draw.encode()).hexdigest()[:24],
            model=chat.model,
            reply=reply,
            prompt_tokens=sum(len(text(message)) for message in messages) // CHARACTERS_PER_TOKEN,
        )


def _limits() -> Bounds:
    """The bounds of a server whose only peer is a run, with a connection for each of its trials."""
    most = 4 * bounds().connections
    return replace(bounds(), connections=most, per_peer=most, answer=600.0)


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
