"""The retrying model: queries within its trial's time, with adaptive timeouts on slow servers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from agenteval.core.malformed import CUT
from agenteval.core.outcome import Ending
from agenteval.core.served import (
    Counted,
    Sent,
    counted,
    cut,
    cut_reply,
    generated,
    stretch,
)
from agenteval.core.trial import Message, Turn
from agenteval.errors import Cause, InfrastructureError, UnservedError
from agenteval.patience import until
from agenteval.protocols import Health, Model, Pace, ToolSchema

PAUSES = (1.0, 2.0, 4.0, 8.0)  # seconds before the next try; after the last one the trial is void
LONGEST_PAUSE = 60.0  # that a server may ask for


class Unwatched:
    """Implements `protocols.Health` where there is no server to look at."""

    async def after(self, error: InfrastructureError) -> InfrastructureError:
        return error

    async def context(self) -> int | None:
        return None


@dataclass(slots=True)
class Replies:
    """Implements `protocols.Pace` by the replies that have come."""

    tokens: int = 0
    seconds: float = 0.0

    def add(self, turn: Turn) -> None:
        self.tokens += generated(turn)
        self.seconds += turn.seconds

    def stretch(self) -> float:
        return stretch(self.tokens, self.seconds)


@dataclass(slots=True)
class RetryingModel:
    """Implements `protocols.Model` for one trial, whose time begins with the first request.

    `seconds` is the time on a fast server: it grows as `core.served` says, by the trial's own
    replies or by `pace`, and by every pause. Only a request that was not accepted at all is sent
    again, so that no reply, even a bad one, is requested twice and no tool runs twice.
    """

    model: Model
    seconds: float
    health: Health = field(default_factory=Unwatched)
    pauses: Sequence[float] = PAUSES
    pace: Pace = field(default_factory=Replies)
    retries: int = 0
    stretched: float = 1.0  # how many times its seconds the trial was given
    _began: float | None = None
    _paused: float = 0.0
    _replies: Replies = field(default_factory=Replies)

    async def ask(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], *, seed: int
    ) -> Turn:
        return await self.insist(lambda: self.model.ask(messages, tools, seed=seed))

    async def insist(self, ask: Callable[[], Awaitable[Turn]]) -> Turn:
        """Raises TimeoutError when the time of the trial is up, and what `ask` raises."""
        for pause in (*self.pauses, None):
            try:
                async with until(self._deadline):
                    turn = await ask()
            except InfrastructureError as error:
                failure = await self.health.after(error)
                if pause is None or not isinstance(error, UnservedError):
                    raise self._with_retries(failure) from error
                await self._pause(pause if error.after is None else error.after)
            else:
                self._replies.add(turn)
                return turn
        raise AssertionError("the last try returns or raises")

    async def cut(self, turn: Turn, prompt: float) -> tuple[Ending | None, str]:
        """Return how a reply that a length limit cut ends, as `protocols.TrialContext.cut`."""
        if turn.finish_reason not in CUT:
            return None, ""
        return cut_reply(turn, prompt, await self.health.context())

    def check_time(self) -> None:
        """Raises TimeoutError when the time of the trial is up."""
        if asyncio.get_running_loop().time() >= self._deadline():
            raise TimeoutError

    def _deadline(self) -> float:
        if self._began is None:
            self._began = asyncio.get_running_loop().time()
        slow = max(self._replies.stretch(), self.pace.stretch())
        self.stretched = max(self.stretched, slow)
        return self._began + self.seconds * self.stretched + self._paused

    async def _pause(self, seconds: float) -> None:
        wait = min(seconds, LONGEST_PAUSE)
        self.retries += 1
        self._paused += wait
        await asyncio.sleep(wait)

    def _with_retries(self, error: InfrastructureError) -> InfrastructureError:
        tries = f" (asked again {self.retries} times in this trial)" if self.retries else ""
        return InfrastructureError(f"{error}{tries}", error.cause)


PROOF = 20  # requests that were counted as whole; caches that forget can look so for a few


@dataclass(slots=True)
class Reading:
    """A server's way to count prompts: `whole` requests in full; `partly` if one only in part."""

    whole: int = 0
    partly: bool = False

    async def check(self, requests: Sequence[Sent], health: Health) -> None:
        """Raises InfrastructureError when the last request of a conversation was cut."""
        meaning = counted(requests)
        self.whole += meaning is Counted.WHOLE
        if meaning not in {Counted.SHORT, Counted.NEW}:
            return
        context = await health.context()
        proved = self.whole >= PROOF and not self.partly and meaning is Counted.SHORT
        if why := cut(requests, context=context, whole=proved):
            raise InfrastructureError(why, Cause.CONTEXT_CUT)
        self.partly = True
