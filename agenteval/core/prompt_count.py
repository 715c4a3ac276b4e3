"""Did the server read all that was sent? Its own count of the prompt, and what that can prove.

Most servers count the whole prompt. Some leave out what they had cached, some count nothing or
always the same, and no healthy one must be blamed for that: a count is no evidence alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from agenteval.core.trial import Message

SLACK = 64  # tokens: a template may write an earlier turn in fewer words
MARGIN = 4 * SLACK  # tokens: what templates add to some messages, or rows of dashes save
DENSEST = 16.0  # characters a token: what no text has for long
_THOUGHT = "</think>"  # templates leave out what was thought in an earlier turn


@dataclass(frozen=True, slots=True)
class Sent:
    """One request of a conversation: the characters sent, the tokens that the server counted."""

    characters: int
    tokens: int


class Counted(Enum):
    """What the last count of a conversation can be, after those before it."""

    WHOLE = "whole"  # of the whole prompt: it grew, and what is new is not as long
    SHORT = "short"  # of a part: the rest was cut, or cached and left out
    NEW = "new"  # of a part, which may be what is new
    UNCLEAR = "unclear"


def sent(messages: Sequence[Message], tokens: int) -> Sent:
    said = (
        len(one.content.rpartition(_THOUGHT)[2] if one.role == "assistant" else one.content)
        + sum(len(call.raw) for call in one.calls)
        for one in messages
    )
    return Sent(sum(said), tokens)


def counted(requests: Sequence[Sent]) -> Counted:
    """A server that does not count (0) says nothing. Messages are only ever added."""
    last, earlier = requests[-1], [one for one in requests[:-1] if one.tokens]
    if not last.tokens:
        return Counted.UNCLEAR
    behind = last.tokens + MARGIN < least(requests)
    if not earlier:
        return Counted.SHORT if behind else Counted.UNCLEAR
    before = earlier[-1]
    added = last.characters - before.characters
    only_new = last.tokens <= added + MARGIN
    if behind or last.tokens < before.tokens - SLACK:
        return Counted.NEW if only_new else Counted.SHORT
    grew = last.tokens >= before.tokens + added / DENSEST
    return Counted.WHOLE if grew and not only_new else Counted.UNCLEAR


def least(requests: Sequence[Sent]) -> float:
    """How many tokens the last request had at least, whatever the server counts of a prompt."""
    last = requests[-1]
    return max(
        last.characters / DENSEST,
        *(one.tokens + (last.characters - one.characters) / DENSEST for one in requests),
    )


def cut(requests: Sequence[Sent], *, context: int | None, whole: bool) -> str:
    """Why the last of these requests, counted as a part, was cut; empty when it may not have been.

    Where the length of the context is known, that decides. Else only a server is believed that
    counts whole prompts.
    """
    last, had = requests[-1], least(requests)
    said = (
        f"the server counted {last.tokens} prompt tokens for {last.characters} characters, which "
        f"have at least {had:.0f}"
    )
    if context is not None:
        return f"{said}, and its context holds {context}" if had > context else ""
    return said if whole else ""
