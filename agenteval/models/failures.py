"""What a status of 400 and above means, by the server's own words."""

import re

from agenteval.config.models import ModelEntry
from agenteval.core.malformed import Received, ReceivedCall
from agenteval.core.plain import excerpt
from agenteval.errors import (
    Cause,
    InfrastructureError,
    OutgrownError,
    UnservedError,
    UsageError,
)

# Of these the server says itself that it did nothing: no slot is free, the model is being loaded.
NOT_TAKEN = frozenset({429, 503, 529})
# A model that is being loaded, a dead engine of vLLM's; of some, a queue that is full.
NOT_READY = 503
# A proxy's words: what stood behind it may have generated, unless it says when to come again.
BY_PROXY = frozenset({502, 504})
_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|failed to allocate|insufficient memory", re.IGNORECASE
)
_DEAD = re.compile(
    r"EngineDeadError|EngineCore (?:encountered|died)|engine (?:process )?(?:is dead|died|crashed)"
    r"|(?:runner|server) process (?:has )?(?:terminated|no longer running|died|crashed)",
    re.IGNORECASE,
)
# vLLM, SGLang, llama.cpp (while it generates, too), Ollama, LM Studio, TabbyAPI, OpenAI, LiteLLM.
_TOO_LONG = re.compile(
    r"maximum context length|maximum model length|exceed_context_size|context_length_exceeded"
    r"|exceeds? (?:the |its )?(?:model's |available |maximum )*(?:context|max(?:imum)? seq)"
    r"|longer than the (?:model's )?(?:maximum )?(?:context|model)|ContextWindowExceeded"
    r"|context (?:size|length|window) (?:has been|is|was) exceeded|greater than (?:the )?max_seq"
    r"|when context the overflows|than the context length|model's context length is only",
    re.IGNORECASE,
)
# A chat template that raises, which llama.cpp answers with 500.
_TEMPLATE = re.compile(
    r"jinja|chat.?template|template ?error|roles must alternate|minja|at row \d+, column \d+",
    re.IGNORECASE,
)
_REFUSED = frozenset({400, 401, 403, 405, 409, 413, 415, 422})


def status_failure(code: int, words: str, said: str, after: float | None) -> InfrastructureError:
    """Of a status of 400 and above, or an error in a stream, with the words of the server."""
    if _MEMORY.search(said):
        return InfrastructureError(words, Cause.OUT_OF_MEMORY)
    if _DEAD.search(said):
        return InfrastructureError(words, Cause.CRASHED)
    if code == 404:
        return InfrastructureError(words, Cause.MODEL_CHANGED)
    if code in _REFUSED or (code in {STREAMED, 500} and _TEMPLATE.search(said)):
        return InfrastructureError(words, Cause.REFUSED)
    if code in NOT_TAKEN or (code in BY_PROXY and after is not None):
        works = code != NOT_READY or after is not None
        return UnservedError(words, Cause.BUSY, after=after, works=works)
    return InfrastructureError(words, Cause.BUSY if code in BY_PROXY else Cause.SERVER_ERROR)


def retry_after(header: str) -> float | None:
    """The seconds of the header; None for none, and for a date: its clock is not ours."""
    given = header.strip()
    return float(given) if re.fullmatch(r"\d{1,6}(\.\d{1,6})?", given) else None


STREAMED = 200  # the status of an error that came as an event, or in a reply

# How llama.cpp, Ollama, LM Studio, transformers and Gemini say that a call does not parse.
_UNREADABLE = re.compile(
    r"does not match the expected|failed to parse (?:input at pos|json|tool call)"
    r"|error parsing tool call|tool call parsing failed|invalid character .{1,8} after"
    r"|unexpected end of json input|failed to parse tool call|could not parse region as json"
    r"|finish_reason .{0,40}(?:malformed_function_call|unexpected_tool_call)",
    re.IGNORECASE,
)


class RefusedError(Exception):
    """An error of the server's: a status of 400 and above, or as much as an event of a stream.

    `after` is how many seconds it wants to be left alone for; None when it did not say.
    """

    def __init__(self, code: int, said: str, after: float | None = None) -> None:
        super().__init__(said)
        self.code, self.said, self.after = code, said, after


# llama.cpp begins its grammar of calls where a call begins: what the model wrote there is no tool
# that was offered. The piece is the last token, with or without its number.
_NO_SUCH_TOOL = re.compile(
    r"unexpected empty grammar stack(?: after accepting piece: ([^\"]*))?", re.IGNORECASE
)
_PIECE = re.compile(r"^=?([a-zA-Z_][\w.-]*)(?: \(\d+\))?$")
NAMELESS_TOOL = "unknown_tool"


def refused_call(said: str) -> Received | None:
    """The reply that an error of the server stands for: a call that it could not read itself.

    One to a tool that does not exist is a call, whose name is known as far as the error tells.
    """
    if found := _NO_SUCH_TOOL.search(said):
        piece = _PIECE.match((found[1] or "").strip())
        call = ReceivedCall(piece[1] if piece else NAMELESS_TOOL, "{}", "call-0")
        return Received(calls=(call,), finish_reason="error", refusal=said)
    return Received(finish_reason="error", refusal=said) if _UNREADABLE.search(said) else None


def refusal(
    entry: ModelEntry, error: RefusedError, *, first: bool, known: bool
) -> UsageError | InfrastructureError | OutgrownError:
    """What a status of 400 and above means. A first request refused with 4xx is the user's.

    `known` says that this model has been served before: then it is no typing error, and other
    trials need not be refused.
    """
    url, code, shown = entry.base_url.rstrip("/"), error.code, excerpt(error.said)
    if code in {401, 403} and not known:
        return UsageError(
            f"{url}: {code}, the key is not accepted; "
            f"set {entry.api_key_env} to a valid one: {shown}"
        )
    if code == 404 and not known:
        return UsageError(
            f"{url}: 404 for model {entry.model!r}; `agenteval models` lists what "
            f"is served, and a base URL usually ends in /v1: {shown}"
        )
    where = "an error in the reply" if code == STREAMED else str(code)
    if known and _TOO_LONG.search(error.said):
        return OutgrownError(f"{where}: {shown}")
    if first and not known and code in {400, 405, 422}:
        return UsageError(f"{url}: {code}, the server refuses the request: {shown}")
    return status_failure(code, f"{url}: {where}: {shown}", error.said, error.after)


def not_taken(error: Exception) -> bool:
    """Whether a server refused the request by its status, before it generated anything."""
    came = error.__cause__
    return isinstance(came, RefusedError) and came.code in {*_REFUSED, 404}
