"""What a refusal of the server means: the user's to mend, the model's own mistake, or a fault.

Some servers answer 500 to what their model wrote, when their parser cannot read it. Tried again it
would be hidden, and the model flattered; so each is told apart before anything else is done.
"""

import re

from agenteval.config.models import ModelEntry
from agenteval.core.garble import Received
from agenteval.errors import InfrastructureError, UsageError
from agenteval.models.failures import status_failure
from agenteval.models.wire import excerpt

STREAMED = 200  # the status of an error that came as an event

# llama.cpp, Ollama and its parsers, LM Studio: how they say that a call does not parse.
_UNREADABLE = re.compile(
    r"does not match the expected|failed to parse (?:input at pos|json|tool call)"
    r"|error parsing tool call|tool call parsing failed|invalid character .{1,8} after"
    r"|unexpected end of json input|failed to parse tool call",
    re.IGNORECASE,
)


class RefusedError(Exception):
    """An error of the server's: a status of 400 and above, or as much as an event of a stream.

    `after` is how many seconds it wants to be left alone for; None when it did not say.
    """

    def __init__(self, code: int, said: str, after: float | None = None) -> None:
        super().__init__(said)
        self.code, self.said, self.after = code, said, after


def refused_call(said: str) -> Received | None:
    """The reply that an error of the server stands for: a call that it could not read itself."""
    return Received(finish_reason="error", refusal=said) if _UNREADABLE.search(said) else None


def refusal(
    entry: ModelEntry, error: RefusedError, *, first: bool, known: bool
) -> UsageError | InfrastructureError:
    """What a status of 400 and above means. A first request refused with 4xx is the user's.

    `known` says that the server has served this model before: then it is no typing error.
    """
    url, code, shown = entry.base_url.rstrip("/"), error.code, excerpt(error.said)
    if code in {401, 403}:
        return UsageError(
            f"{url}: {code}, the key is not accepted; "
            f"set {entry.api_key_env} to a valid one: {shown}"
        )
    if code == 404 and not known:
        return UsageError(
            f"{url}: 404 for model {entry.model!r}; `agenteval models` lists what "
            f"is served, and a base URL usually ends in /v1: {shown}"
        )
    if first and code in {400, 405, 422}:
        return UsageError(f"{url}: {code}, the server refuses the request: {shown}")
    where = "an error in the stream" if code == STREAMED else str(code)
    return status_failure(code, f"{url}: {where}: {shown}", error.said, error.after)
