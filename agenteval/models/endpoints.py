"""Several servers of one model as one, and the cost of playing.

Each trial stays with one server, which has the beginning of its conversation in a cache. A server
that dies is left out. A trial is known by its seed, which no two of a run share but by a rare
chance that costs nothing. Trials are counted and not requests: one that runs a command asks
nothing, and will ask again.

The cost is the time, and the power of this machine's GPUs meanwhile, through NVML.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import ip_address
from operator import attrgetter
from socket import gethostname
from typing import Any, Self
from urllib.parse import urlsplit

from agenteval.config.models import ModelEntry
from agenteval.errors import Cause, InfrastructureError, UnservedError, UsageError
from agenteval.models.failures import not_taken
from agenteval.models.openai_client import OpenAIModel, Write
from agenteval.models.servers import ServerHealth
from agenteval.protocols import ToolSchema
from agenteval.trial.run import Crash, Effort, Run
from agenteval.trial.trial import Message, Turn

AGAIN = 30.0  # seconds until one that was left out is tried again
_GONE = frozenset({Cause.UNREACHABLE, Cause.LOST})  # of a request that was not taken
# A dead engine fails at once, so it always has the fewest trials. One failure may be the request's
# own fault; failures of two trials are not.
_FAILING = frozenset(
    {
        *(Cause.BUSY, Cause.SERVER_ERROR, Cause.CRASHED, Cause.TIMEOUT, Cause.LOST),
        *(Cause.REFUSED, Cause.MODEL_CHANGED),  # a key that is no longer taken, another model
    }
)
FAILURES = 2  # trials that fail one after another, with no reply between


@dataclass(slots=True)
class _Endpoint:
    url: str
    model: OpenAIModel
    trials: int = 0  # that are here and have not ended
    has_replied: bool = False
    left_out: float | None = None  # when, by the loop's clock
    failed: set[int] = field(default_factory=set)  # seeds of trials since its last reply

    @property
    def is_usable(self) -> bool:
        now = asyncio.get_running_loop().time()
        return self.left_out is None or now - self.left_out >= AGAIN


@dataclass(slots=True)
class Endpoints:
    """All of them as one. Implements `protocols.Model`, `Relay` and `Pace`.

    Of several processes that ask them, each begins with another one: by how many trials, `before`
    its own, the others play. Of those with as few trials the first takes the next, so that none has
    ever more than its share of all that are played at a time, whichever trials end first.
    """

    entry: ModelEntry
    note: Callable[[str], None]
    before: int = 0
    _all: list[_Endpoint] = field(init=False)
    _seats: dict[int, _Endpoint] = field(default_factory=dict)

    def __post_init__(self) -> None:
        entries = self.entry.per_server
        first = self.before % len(entries)
        # Of several processes each begins with another server.
        turned = [*entries[first:], *entries[:first]]
        self._all = [_Endpoint(entry.base_url, OpenAIModel(entry)) for entry in turned]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        for endpoint in self._all:
            await endpoint.model.__aexit__(*error)

    async def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema],
        *,
        seed: int,
    ) -> Turn:
        return await self._turn(
            seed,
            lambda model: model.ask(
                messages,
                tools,
                seed=seed,
            ),
        )

    async def relay(
        self,
        request: Mapping[str, Any],
        *,
        seed: int,
        write: Write,
    ) -> Turn:
        return await self._turn(
            seed,
            lambda model: model.relay(
                request,
                seed=seed,
                write=write,
            ),
        )

    def ended(self, seed: int) -> None:
        """Note that the trial sends no more requests."""
        if seat := self._seats.pop(seed, None):
            seat.trials -= 1

    def stretch(self) -> float:
        return max(endpoint.model.stretch() for endpoint in self._all)

    async def _turn(self, seed: int, ask: Callable[[OpenAIModel], Awaitable[Turn]]) -> Turn:
        """Return the turn from the trial's own server, or from another if that does not accept it.

        Raises UsageError if a server refuses the request, none accepts it, and none has accepted
        any before.
        """
        tried: list[_Endpoint] = []
        refused: list[tuple[_Endpoint, Exception]] = []
        while True:
            endpoint = self._seat(seed, tried)
            began = asyncio.get_running_loop().time()
            try:
                turn = await ask(endpoint.model)
            except (InfrastructureError, UsageError) as error:
                tried.append(endpoint)
                if isinstance(error, InfrastructureError):
                    # The health of just this server is looked at then.
                    error.endpoint = endpoint.url
                if not endpoint.has_replied and not_taken(error):
                    refused.append((endpoint, error))
                elif not self._is_gone(endpoint, seed, error):
                    raise
                if len(tried) == len(self._all):
                    refusals = [refusal for _, refusal in refused]
                    raise self._last(error, refusals) from error.__cause__
            else:
                self._take_in(endpoint, began)
                for other, refusal in refused:
                    self._leave_out(other, f"refuses what another takes ({refusal})")
                return turn

    def _seat(self, seed: int, tried: Sequence[_Endpoint]) -> _Endpoint:
        """The one with the fewest trials, for a trial that has none yet."""
        seat = self._seats.get(seed)
        if seat is None or seat in tried or not seat.is_usable:
            self.ended(seed)
            untried = [endpoint for endpoint in self._all if endpoint not in tried]
            usable = [endpoint for endpoint in untried if endpoint.is_usable]
            seat = min(usable or untried, key=attrgetter("trials"))
            seat.trials += 1
            self._seats[seed] = seat
        return seat

    def _is_gone(
        self,
        endpoint: _Endpoint,
        seed: int,
        error: Exception,
    ) -> bool:
        """Return True if another server may be queried instead.

        A server that fails is excluded in either case.
        """
        if not isinstance(error, InfrastructureError):
            return False
        gone = isinstance(error, UnservedError) and error.cause in _GONE
        if gone or self._is_failing(endpoint, seed, error):
            self._leave_out(endpoint, f"{'does not answer' if gone else 'fails'} ({error})")
        return gone

    def _last(self, error: Exception, refused: Sequence[Exception]) -> Exception:
        was_served = any(endpoint.model.known for endpoint in self._all)
        mistakes = [refusal for refusal in refused if isinstance(refusal, UsageError)]
        return mistakes[0] if mistakes and not was_served else error

    def _is_failing(
        self,
        endpoint: _Endpoint,
        seed: int,
        error: InfrastructureError,
    ) -> bool:
        is_busy = isinstance(error, UnservedError) and error.works  # and is asked again
        if error.cause in _FAILING and not is_busy:
            endpoint.failed.add(seed)
        others = [other for other in self._all if other is not endpoint]
        # The last server that is left is asked again and again: it may come back.
        is_replaceable = any(other.is_usable for other in others)
        return is_replaceable and len(endpoint.failed) >= FAILURES

    def _leave_out(self, endpoint: _Endpoint, why: str) -> None:
        if endpoint.left_out is None:
            self.note(f"{endpoint.url} is left out, as it {why}")
        endpoint.left_out = asyncio.get_running_loop().time()

    def _take_in(self, endpoint: _Endpoint, began: float) -> None:
        """Note a reply of an endpoint.

        A reply that was requested before the endpoint was left out does not bring it back.
        """
        endpoint.has_replied = True
        for other in self._all:
            other.model.known = True
        if endpoint.left_out is not None:
            if began <= endpoint.left_out:
                return
            self.note(f"{endpoint.url} answers again")
        endpoint.left_out = None
        endpoint.failed.clear()


@dataclass(slots=True)
class _EndpointsHealth:
    """Implements `protocols.Health`: that of each of them."""

    entry: ModelEntry
    keep: Callable[[Crash], None]
    _by_url: dict[str, ServerHealth] = field(default_factory=dict)
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        for entry in self.entry.per_server:
            health = ServerHealth(entry, partial(self._keep, entry.base_url))
            self._by_url[entry.base_url] = await self._open.enter_async_context(health)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._open.__aexit__(*error)  # type: ignore[arg-type] # they are passed through

    def _keep(self, url: str, crash: Crash) -> None:
        self.keep(replace(crash, said=f"{url}: {crash.said}"))

    async def after(self, error: InfrastructureError) -> InfrastructureError:
        health = self._by_url.get(error.endpoint)
        return await health.after(error) if health else error

    async def context(self) -> int | None:
        """The shortest, as a trial may have to move."""
        lengths = [await health.context() for health in self._by_url.values()]
        return min(filter(None, lengths), default=None)


def model_of(
    entry: ModelEntry, note: Callable[[str], None], before: int = 0
) -> OpenAIModel | Endpoints:
    if len(entry.per_server) > 1:
        return Endpoints(entry, note, before)
    return OpenAIModel(entry)


def health_of(entry: ModelEntry, keep: Callable[[Crash], None]) -> ServerHealth | _EndpointsHealth:
    if len(entry.per_server) > 1:
        return _EndpointsHealth(entry, keep)
    return ServerHealth(entry, keep)


# The cost of playing.

EVERY = 0.5  # seconds; NVML itself averages over less


class _UnobservableError(Exception):
    """The power cannot be read, for the reason in the message."""


class _PowerMeter:
    """Reads `watts` in a thread of its own. `joules` is None when a reading was missed."""

    def __init__(self, watts: Callable[[], float], *, every: float = EVERY) -> None:
        """Reads once. Raises _UnobservableError."""
        self._watts, self._every = watts, every
        self._last = time.perf_counter(), watts()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._sum: float | None = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def joules(self) -> float | None:
        """Until now while it runs, and of all the time after that."""
        return self._sum

    def _sample(self) -> None:
        while self._sum is not None:
            over = self._over.wait(self._every)
            self._sum = self._added(self._sum)
            if over:
                return

    def _added(self, joules: float) -> float | None:
        began, before = self._last
        try:
            after = self._watts()
        except _UnobservableError:
            return None
        now = time.perf_counter()
        self._last = now, after
        # The mean of both readings stands for the time between them.
        return joules + (now - began) * (before + after) / 2


@dataclass(slots=True)
class Spent:
    """The effort is known when the measuring has ended, however it ended."""

    effort: Effort | None = None

    @contextmanager
    def measured(self, meter: _PowerMeter | None) -> Iterator[None]:
        began = time.perf_counter()
        try:
            with meter or nullcontext():
                yield
        finally:
            joules = meter.joules() if meter else None
            self.effort = Effort(time.perf_counter() - began, joules)


def _gpu_watts(base_url: str) -> Callable[[], float]:
    """Reads the watts of all GPUs of this machine together, where that machine serves the URL.

    Raises _UnobservableError.
    """
    if not all(map(_is_here, base_url.split())):
        raise _UnobservableError(f"{base_url} is not on this machine")
    try:
        import pynvml  # noqa: PLC0415 -- an extra
    except ModuleNotFoundError as error:
        raise _UnobservableError(
            "install agenteval-gate[power], which brings nvidia-ml-py"
        ) from error

    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        gpus = [pynvml.nvmlDeviceGetHandleByIndex(at) for at in range(count)]
    except pynvml.NVMLError as error:
        raise _UnobservableError(f"NVML: {error}") from error
    if not gpus:
        raise _UnobservableError("this machine has no GPU that NVML knows")

    def read() -> float:
        try:
            milliwatts = sum(map(pynvml.nvmlDeviceGetPowerUsage, gpus))
            return float(milliwatts) / 1000
        except pynvml.NVMLError as error:
            raise _UnobservableError(f"NVML: {error}") from error

    return read


def _is_here(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host in {"localhost", gethostname()}


def power_meter(run: Run, note: Callable[[str], None]) -> _PowerMeter | None:
    """Return a meter, or None if the power cannot be observed; one line then says why."""
    reason = "a simulated model needs no GPU"
    if not run.model.simulated:
        try:
            return _PowerMeter(_gpu_watts(run.model.base_url))
        except _UnobservableError as error:
            reason = str(error)
    note(f"{run.model.name}: power is not observable: {reason}")
    return None
