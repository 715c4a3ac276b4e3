"""No healthy server is blamed for how it counts prompts, and one that cuts them is found out.

What each server counts was read in its sources and in the reports on it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from agenteval.errors import Cause, InfrastructureError
from agenteval.play.trial import PROOF, Reading, Unwatched
from agenteval.testing import trial
from agenteval.trial.call import Outcome
from agenteval.trial.tally import Sent
from agenteval.trial.trial import Turn, Usage

PER_TOKEN = 4
TURN = 1200  # characters that a turn adds
PROMPT = 8000  # characters of the first request: system prompt and task


@dataclass
class Tells(Unwatched):
    """A server that tells how long its context is."""

    length: int | None = None

    async def context(self) -> int | None:
        return self.length


def conversation(turns: int = 12) -> list[int]:
    """The characters of each request."""
    return [PROMPT + TURN * turn for turn in range(turns)]


def whole(lengths: Sequence[int]) -> list[int]:
    """vLLM, SGLang, llama.cpp, Ollama since 0.2, mlx-lm since it caches many prompts."""
    return [length // PER_TOKEN for length in lengths]


def new_only(lengths: Sequence[int]) -> list[int]:
    """Ollama before 0.2 and 0.30.0, mlx-lm while it had one cache: only what was not cached."""
    return [
        (length - before) // PER_TOKEN
        for before, length in zip([0, *lengths], lengths, strict=False)
    ]


def none_when_cached(lengths: Sequence[int]) -> list[int]:
    """Ollama before 0.2, asked again for the same; and proxies that do not count."""
    return [lengths[0] // PER_TOKEN, *(0 for _ in lengths[1:])]


def interleaved(lengths: Sequence[int]) -> list[int]:
    """mlx-lm's one cache, used by several trials: now a part of the start is left out, now not."""
    return [(length - 4000 * (turn % 3 > 0)) // PER_TOKEN for turn, length in enumerate(lengths)]


def forgetful(lengths: Sequence[int]) -> list[int]:
    """A cache too small for the load: it is hit every sixth time."""
    return [(TURN if turn % 6 == 5 else length) // PER_TOKEN for turn, length in enumerate(lengths)]


def cut_to(limit: int):
    """Ollama: the oldest messages are dropped, until what is left fits."""

    def count(lengths: Sequence[int]) -> list[int]:
        return [
            tokens if (tokens := length // PER_TOKEN) <= limit else limit - (tokens - limit) % 700
            for length in lengths
        ]

    return count


def stuck_at(limit: int):
    def count(lengths: Sequence[int]) -> list[int]:
        return [min(limit, length // PER_TOKEN) for length in lengths]

    return count


async def blamed(server, context: int | None, before: int = 0) -> str:
    """What a trial is void for, after so many other trials whose context was long enough."""
    reading, health = Reading(), Tells(context)
    for _ in range(before):
        await read(reading, whole, health)
    try:
        for _ in range(3):
            await read(reading, server, health)
    except InfrastructureError as error:
        return f"{error.cause}: {error}"
    return ""


async def read(reading: Reading, server, health: Tells) -> None:
    lengths = conversation()
    requests = [Sent(*one) for one in zip(lengths, server(lengths), strict=True)]
    for upto in range(1, len(requests) + 1):
        await reading.check(requests[:upto], health)


HEALTHY = (whole, new_only, none_when_cached, interleaved, forgetful, stuck_at(0), stuck_at(1))


@pytest.mark.parametrize("context", [None, 32_768], ids=["context-unknown", "context-known"])
@pytest.mark.parametrize("server", HEALTHY)
async def test_a_healthy_server_is_never_blamed(server, context) -> None:
    assert await blamed(server, context) == ""


@pytest.mark.parametrize("server", [cut_to(3000), stuck_at(3000)])
async def test_a_context_whose_length_is_known_is_seen_to_be_cut(server) -> None:
    said = await blamed(server, 3000)
    assert (said.partition(": ")[0], said.rpartition(", ")[2]) == (
        "context-cut",
        "and its context holds 3000",
    )


@pytest.mark.parametrize("server", [cut_to(4500), stuck_at(3000)])
async def test_a_server_that_has_counted_whole_prompts_is_believed(server) -> None:
    assert "which have at least" in await blamed(server, None, before=PROOF // 10)


@dataclass
class Forgetful:
    """Counts fewer prompt tokens each time."""

    counts: list[int]

    async def ask(self, messages, tools, *, seed) -> Turn:
        await asyncio.sleep(0)
        turn = trial("pwd").turns[0]
        return replace(turn, usage=Usage(self.counts.pop(0), 20))


@pytest.mark.parametrize(("context", "cause"), [(900, Cause.CONTEXT_CUT), (8192, None)])
async def test_only_a_context_that_was_cut_makes_the_trial_void(play, context, cause) -> None:
    (done,) = await play(Forgetful([900, 950, 500, *range(500, 700, 10)]), health=Tells(context))
    assert (done.cause, done.outcome is Outcome.VOID) == (cause, cause is not None)


async def test_a_proxy_that_tells_nothing_and_cuts_at_once_cannot_be_told_from_a_cache() -> None:
    assert await blamed(cut_to(3000), None) == ""
