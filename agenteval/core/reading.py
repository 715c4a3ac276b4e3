"""Did the server read all that was sent: its own count of the prompt must grow with it."""

from collections.abc import Sequence
from dataclasses import dataclass

from agenteval.core.trial import Message

SLACK = 64  # tokens: a template may write an earlier turn in fewer words
DENSE = 4.0  # times the characters a token of the first request: rows of blanks or dashes
DENSEST = 16.0  # characters a token: what no text has over a whole prompt


@dataclass(frozen=True, slots=True)
class Sent:
    """One request of a conversation: the characters sent, the tokens that the server counted."""

    characters: int
    tokens: int


def sent(messages: Sequence[Message], tokens: int) -> Sent:
    said = (len(one.content) + sum(len(call.raw) for call in one.calls) for one in messages)
    return Sent(sum(said), tokens)


def cut(requests: Sequence[Sent]) -> str:
    """Why the last of these requests cannot have been read as a whole; empty when it can.

    Messages are only ever added, so a count that falls is a context that was cut, and so is one
    that stays behind by far. A server that does not count (0) says nothing.
    """
    counted = [one for one in requests if one.tokens]
    if not counted or requests[-1].tokens == 0:
        return ""
    first, last = counted[0], counted[-1]
    before = max(one.tokens for one in counted)
    if last.tokens < before - SLACK:
        return _said(last, f"after {before} for the shorter request before")
    if last.characters > DENSEST * (last.tokens + SLACK):
        return _said(last, f"more than {DENSEST:g} characters a token")
    dense = DENSE * max(1.0, first.characters / first.tokens)
    least = first.tokens + (last.characters - first.characters) / dense - 4 * SLACK
    if last.tokens < least:
        return _said(last, f"at least {least:.0f} by the first request's count")
    return ""


def _said(last: Sent, why: str) -> str:
    return f"the server read {last.tokens} prompt tokens of {last.characters} characters, {why}"
