"""A served model, asked through the openai SDK: its settings, its transport, its errors.

The SDK's retries are off: a retried 500 can be a model's own mistake, and would flatter it.
"""

import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx2
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient

from agenteval.config.models import ModelEntry
from agenteval.core.trial import Message, Turn
from agenteval.errors import InfrastructureError, UsageError
from agenteval.models.stream import parse_stream
from agenteval.models.wire import ReplyError, excerpt, parse_reply, to_wire
from agenteval.protocols import ToolSchema

LARGEST_REPLY = 32 << 20  # bytes; a server that sends more is broken, and our memory is bounded
SIMULATOR = "agenteval-simulated"  # `owned_by` of the simulated models


class OpenAIModel:
    """One model behind an OpenAI-compatible server. Implements `protocols.Model`."""

    def __init__(self, entry: ModelEntry) -> None:
        """Nothing is sent yet. Raises UsageError for a key that cannot be sent."""
        self._entry = entry
        self._url = entry.base_url.rstrip("/")
        self._client = AsyncOpenAI(
            base_url=self._url,
            api_key=_key(entry.api_key_env),
            max_retries=0,
            timeout=httpx2.Timeout(entry.timeouts.request, connect=entry.timeouts.connect),
            # Proxies of the environment are for the internet; a served model is on the user's net.
            http_client=DefaultAsyncHttpxClient(trust_env=False),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.close()

    async def ask(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], *, seed: int
    ) -> Turn:
        started = time.perf_counter()
        request = self._request(messages, tools, seed)
        try:
            async with asyncio.timeout(self._entry.timeouts.request):
                body, streamed = await self._post(request)
        except TimeoutError as error:
            limit = self._entry.timeouts.request
            raise InfrastructureError(f"{self._url}: no reply within {limit:g} s") from error
        except APIStatusError as error:
            raise self._refused(error, first=messages[-1].role == "user") from error
        except (APIConnectionError, httpx2.HTTPError) as error:
            # The SDK wraps what fails before the body; what fails inside it comes bare.
            raise InfrastructureError(f"{self._url}: {_cause(error)}") from error
        seconds = time.perf_counter() - started
        try:
            return parse_stream(body, seconds) if streamed else parse_reply(body, seconds)
        except ReplyError as error:
            raise InfrastructureError(f"{self._url}: {error}") from error

    def _request(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], seed: int
    ) -> dict[str, Any]:
        sampling = self._entry.sampling.model_dump(exclude_none=True)
        request: dict[str, Any] = {
            "messages": [to_wire(message) for message in messages],
            "tools": list(tools),
            "stream": self._entry.stream,
            "seed": seed,
            **sampling,
        }
        if self._entry.stream:
            request["stream_options"] = {"include_usage": True}
        return request

    async def _post(self, request: Mapping[str, Any]) -> tuple[str, bool]:
        """The raw body, and whether it is an event stream."""
        # The SDK walks every message of `messages` on each request, linear in the history; what
        # goes through extra_body is sent as it is.
        async with self._client.chat.completions.with_streaming_response.create(
            model=self._entry.model, messages=[], extra_body=dict(request)
        ) as response:
            streamed = "text/event-stream" in response.headers.get("content-type", "")
            parts: list[bytes] = []
            size = 0
            async for part in response.iter_bytes():
                parts.append(part)
                size += len(part)
                if size > LARGEST_REPLY:
                    raise InfrastructureError(f"{self._url}: a reply of over {LARGEST_REPLY} bytes")
            return b"".join(parts).decode("utf-8", "replace"), streamed

    def _refused(self, error: APIStatusError, *, first: bool) -> UsageError | InfrastructureError:
        """What a status of 400 and above means. A first request refused with 4xx is the user's."""
        code, said = error.status_code, excerpt(error.response.text)
        if code in {401, 403}:
            return UsageError(
                f"{self._url}: {code}, the key is not accepted; "
                f"set {self._entry.api_key_env} to a valid one: {said}"
            )
        if code == 404:
            return UsageError(
                f"{self._url}: 404 for model {self._entry.model!r}; `agenteval models` lists what "
                f"is served, and a base URL usually ends in /v1: {said}"
            )
        if first and code in {400, 405, 422}:
            return UsageError(f"{self._url}: {code}, the server refuses the request: {said}")
        return InfrastructureError(f"{self._url}: {code}: {said}")

    async def served(self) -> Mapping[str, str]:
        """Id and owner of every model that `/models` lists; empty where a server has no such page.

        Raises UsageError, in words that name the URL and the cure, when no server answers.
        """
        try:
            async with asyncio.timeout(self._entry.timeouts.connect):
                reply = await self._client.with_options(
                    timeout=self._entry.timeouts.connect
                ).models.with_raw_response.list()
            body = reply.text
        except APIStatusError as error:
            if error.status_code in {404, 405, 501}:
                return {}
            raise UsageError(str(self._refused(error, first=True))) from error
        except TimeoutError as error:
            raise self._absent(f"no reply within {self._entry.timeouts.connect:g} s") from error
        except APIConnectionError as error:
            raise self._absent(_cause(error)) from error
        try:
            listed = json.loads(body)["data"]
            return {str(entry["id"]): str(entry.get("owned_by", "")) for entry in listed}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{self._url}/models answers something that is no model list; is it the right port,"
                f" and does the URL end in /v1? It says {excerpt(body)}"
            ) from error

    def _absent(self, cause: str) -> UsageError:
        return UsageError(
            f"no OpenAI-compatible server answers at {self._url} ({cause}). Start one, for example "
            f"`vllm serve MODEL --enable-auto-tool-choice --tool-call-parser "
            "qwen3_coder` or `llama-server -m FILE.gguf --jinja --port 8000`; or name another "
            "with --base-url; or try a simulated model: --model sim/qwen3.6-35b"
        )


def _key(variable: str) -> str:
    """The key in this variable; servers that want none get a placeholder, as the SDK insists."""
    key = os.environ.get(variable, "").strip()
    if not key.isascii() or not key.isprintable():
        raise UsageError(f"{variable}: the key holds characters that no HTTP header may carry")
    return key or "none"


def _cause(error: BaseException) -> str:
    """The innermost reason: the SDK's own text is only 'Connection error.'."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or type(error).__name__
