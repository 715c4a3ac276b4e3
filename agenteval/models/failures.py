"""The meaning of a status of 400 and above, by the server's own words."""

import re

import msgspec

from agenteval.config.models import ModelEntry
from agenteval.errors import Cause, InfrastructureError, OutgrownError, UnservedError, UsageError
from agenteval.replies.arrival import BROKEN_OFF, Choice, Chunk
from agenteval.trial import text
from agenteval.trial.call import Received, ReceivedCall
from agenteval.trial.text import excerpt

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
    r"|exceed(?:s|ed)? (?:the |its )?(?:model's |available |max(?:imum)? )*"
    r"(?:context|max(?:imum)? seq)"
    r"|longer than the (?:model's )?(?:maximum )?(?:context|model)|ContextWindowExceeded"
    r"|context (?:size|length|window) (?:has been|is|was) exceeded|greater than (?:the )?max_seq"
    r"|when context the overflows|than the context length|model's context length is only"
    # TGI, TensorRT-LLM, kronk; through a proxy Anthropic, Bedrock, Gemini, xAI, Kimi, MiniMax,
    # Z.ai, Qwen and Copilot.
    r"|`inputs` (?:must have less than|tokens \+ `max_new_tokens` must)"
    r"|should not exceed max_num_tokens|context window (?:is full|exceeds limit)"
    r"|(?:prompt|input) is too long|input token count.{0,20}exceeds the maximum"
    r"|maximum prompt length is \d|exceeded model token limit|prompt exceeds max length"
    r"|range of input length should be|prompt token count of \d+ exceeds",
    re.IGNORECASE,
)
# A chat template that raises, which llama.cpp answers with 500.
_TEMPLATE = re.compile(
    r"jinja|chat.?template|template ?error|roles must alternate|minja|at row \d+, column \d+",
    re.IGNORECASE,
)
_REFUSED = frozenset({400, 401, 402, 403, 405, 409, 413, 415, 422})


def _status_failure(
    code: int,
    words: str,
    reply: str,
    after: float | None,
) -> InfrastructureError:
    """Classify a status of 400 and above, or an error in a stream, by the server's own words."""
    cause = _cause(code, reply)
    is_untaken = code in NOT_TAKEN or (code in BY_PROXY and after is not None)
    if is_untaken and cause not in {Cause.OUT_OF_MEMORY, Cause.CRASHED}:
        works = code != NOT_READY or after is not None
        return UnservedError(words, Cause.BUSY, after=after, works=works)
    return InfrastructureError(words, cause)


def _cause(code: int, reply: str) -> Cause:
    if _MEMORY.search(reply):
        return Cause.OUT_OF_MEMORY
    if _DEAD.search(reply):
        return Cause.CRASHED
    if code == 404:
        return Cause.MODEL_CHANGED
    if code in _REFUSED or (code in {STREAMED, 500} and _TEMPLATE.search(reply)):
        return Cause.REFUSED
    return Cause.BUSY if code in BY_PROXY else Cause.SERVER_ERROR


def retry_after(header: str, milliseconds: str = "") -> float | None:
    """The seconds of the headers; None for none, and for a date: its clock is not ours.

    OpenAI and Azure have one for milliseconds, which their SDK takes before the other.
    """
    number = re.compile(r"\s*\d{1,8}(\.\d{1,6})?\s*")
    if number.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    return float(header) if number.fullmatch(header) else None


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
    """An error of the server's: a status of 400 and above, or its equal in an event of a stream.

    `after` is the number of seconds that the server asks to be left alone; None if it does not say.
    `in_reply` means that the error came in a reply, `begun` that some of the model's words came
    before it.
    """

    in_reply = begun = False

    def __init__(
        self,
        code: int,
        words: str,
        after: float | None = None,
    ) -> None:
        super().__init__(words)
        self.code, self.said, self.after = code, words, after

    @property
    def where(self) -> str:
        if self.code == STREAMED:
            return "an error in the reply"
        return f"{self.code} in the reply" if self.in_reply else str(self.code)


def decode_body(body: bytes) -> str:
    r"""The body as text that can be stored and shown: a byte that is no UTF-8 as `\xff`."""
    return body.decode("utf-8", "backslashreplace")


_NO_ERROR = frozenset((b"null", b'""', b"{}", b"false"))
# vLLM's older, FastAPI's, what stands behind `event: error`, and a gateway's beside no choices.
_BARE_ERROR = re.compile(rb'"object"\s*:\s*"error"|"detail"\s*:|"(?:error_)?message"\s*:\s*"')


def _said_error(error: msgspec.Raw) -> str:
    """Return the error that the server states in this field; "" for none."""
    raw = bytes(error)
    return "" if raw in _NO_ERROR else raw.decode("utf-8", "replace")


def error_in(chunk: Chunk, payload: bytes) -> str:
    """The error that an event or a whole reply is, with or without a field of that name."""
    bare = chunk.choices is None and _BARE_ERROR.search(payload)
    return _said_error(chunk.error) or (decode_body(payload) if bare else "")


def refused_within(words: str, *, begun: bool = False) -> RefusedError:
    """Return the error of a reply with status 200. It counts as the status that it names.

    If something came before the error (`begun`), the request was accepted, whatever the error says.
    """
    error = RefusedError(STREAMED if begun else _status_in(words), words)
    error.in_reply, error.begun = True, begun
    return error


def _status_in(said: str) -> int:
    """The status that an error names, as OpenRouter's, vLLM's and llama.cpp's do."""
    try:
        error = text.read(said)
    except ValueError:
        return STREAMED
    if isinstance(error, dict):
        for key in _STATUS:
            code = str(error.get(key))
            if _FAILED.fullmatch(code):
                return int(code)
    return STREAMED


_STATUS = ("code", "status_code", "http_status_code")
_FAILED = re.compile(r"[45][0-9][0-9]")
# Gemini's, for what its model wrote that is no call, or a call where none was offered.
_NO_CALL = ("malformed_function_call", "unexpected_tool_call")


def broken_off(choice: Choice) -> str:
    """Return the server's reason for a reply that it did not finish; "" for a finished one.

    The content of such a reply is not the model's own end, and would be taken for its silence.
    OpenRouter reports `stop` for some replies that its own upstream server broke off.
    """
    for given in (choice.native_finish_reason, choice.finish_reason):
        reason = (given or "").lower()
        if reason in BROKEN_OFF or reason.endswith(_NO_CALL):
            return f"finish_reason {reason} {_said_error(choice.error)}".rstrip()
    return ""


# llama.cpp begins its grammar of calls where a call begins: what the model wrote there is no tool
# that was offered. The piece is the last token, with or without its number.
_NO_SUCH_TOOL = re.compile(
    r"unexpected empty grammar stack(?: after accepting piece: ([^\"]*))?", re.IGNORECASE
)
_PIECE = re.compile(r"^=?([a-zA-Z_][\w.-]*)(?: \(\d+\))?$")
NAMELESS_TOOL = "unknown_tool"


def refused_call(words: str) -> Received | None:
    """Return the reply that an error of the server stands for: a call that it could not read.

    A call to a tool that does not exist is a call, whose name is known as far as the error states
    it.
    """
    if found := _NO_SUCH_TOOL.search(words):
        piece = _PIECE.match((found[1] or "").strip())
        call = ReceivedCall(
            piece[1] if piece else NAMELESS_TOOL,
            "{}",
            "call-0",
        )
        return Received(
            calls=(call,),
            finish_reason="error",
            refusal=words,
        )
    return Received(finish_reason="error", refusal=words) if _UNREADABLE.search(words) else None


def refusal(
    entry: ModelEntry,
    error: RefusedError,
    *,
    first: bool,
    was_served: bool,
) -> UsageError | InfrastructureError | OutgrownError:
    """Return the error for a status of 400 and above.

    A first request that is refused with 4xx is the user's error. `was_served` means that this model
    has been served before: then it is no typing error, and other trials need not be refused.
    """
    url, reply = entry.base_url.rstrip("/"), excerpt(error.said)
    served = was_served or error.begun
    if not served and (cure := _cure(entry, error, first=first)):
        return UsageError(f"{url}: {error.where}{cure}: {reply}")
    if served and _TOO_LONG.search(error.said):
        return OutgrownError(f"{error.where}: {reply}")
    words = f"{url}: {error.where}: {reply}"
    return _status_failure(error.code, words, error.said, error.after)


def _cure(entry: ModelEntry, error: RefusedError, *, first: bool) -> str:
    """Return the user's remedy while nothing was served yet; "" if the user cannot fix it."""
    code, of_a_server = error.code, not error.said.lstrip().startswith("<")
    if code in {401, 403} and of_a_server:
        return f", the key is not accepted; set {entry.api_key_env} to a valid one"
    if code in {401, 403}:
        return (
            ", with a page where a server has a word: a proxy or a firewall before it lets no "
            "request through; see to it, or give the server's own URL"
        )
    if code == 404:
        return (
            f" for model {entry.model!r}; `agenteval models` lists what is served, and a base URL "
            "usually ends in /v1"
        )
    if first and (code < 500 or error.in_reply) and _TOO_LONG.search(error.said):
        return ", the model's context is too short for a first request; serve it with a longer one"
    refused = first and code in {400, 402, 405, 413, 422}
    return ", the server refuses the request" if refused else ""


def not_taken(error: Exception) -> bool:
    """Return True if a server refused the request by its status, before it generated anything."""
    came = error.__cause__
    return isinstance(came, RefusedError) and came.code in {*_REFUSED, 404}
