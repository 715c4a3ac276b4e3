"""The speed of a server: by the windows of its log, and by the replies that came from it.

`loads` groups the windows of a log by the number of running requests. `_timeline` makes windows out
of requests, and `run_speed` sums up all requests of a run, played at one level of concurrency.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from agenteval.stats.quantiles import Samples, samples
from agenteval.trial.recovery import Window
from agenteval.trial.run import Run
from agenteval.trial.tally import generated, useful_calls, was_useful
from agenteval.trial.trial import CallRecord, Trial, Turn


@dataclass(frozen=True, slots=True)
class Load:
    """All windows at whose end `running` requests were running. Speeds are in tokens a second.

    `active` is the generation speed in windows that generated anything. `sustained` is that of
    windows between two others with the same number running. `each` is `active` divided by the
    number of running requests. `prompt` is the speed in windows that read any prompt, and
    `prompt_sustained` in all, idle ones too. `per_minute` has the completions a minute of each
    window.
    """

    running: int
    windows: int
    active: Samples | None
    sustained: Samples | None
    each: Samples | None
    prompt: Samples | None
    prompt_sustained: Samples | None
    per_minute: Samples | None
    completions: int
    failed: int


@dataclass(slots=True)
class _WindowCounts:
    """The values of windows, counted: a log prints few distinct values, however long it is."""

    windows: int = 0
    completions: int = 0
    failed: int = 0
    active: Counter[float] = field(default_factory=Counter)
    sustained: Counter[float] = field(default_factory=Counter)
    prompt: Counter[float] = field(default_factory=Counter)
    busy_prompt: Counter[float] = field(default_factory=Counter)
    per_minute: Counter[float] = field(default_factory=Counter)

    def add(self, window: Window, *, sustained: bool) -> None:
        self.windows += 1
        self.completions += window.completions
        self.failed += window.failed
        self.active[window.generation] += window.generation > 0
        self.sustained[window.generation] += sustained
        self.prompt[window.prompt] += 1
        self.busy_prompt[window.prompt] += window.prompt > 0
        self.per_minute[60 * window.completions / window.seconds] += 1


def loads(windows: Iterable[Window]) -> tuple[Load, ...]:
    """Return one load for each number of running requests, from the fewest on."""
    counts_by_running: dict[int, _WindowCounts] = defaultdict(_WindowCounts)
    for window, sustained in _sustained(windows):
        counts_by_running[window.running].add(window, sustained=sustained)
    return tuple(
        Load(
            running=running,
            windows=counts.windows,
            active=samples(+counts.active),
            sustained=samples(+counts.sustained),
            each=samples(_shared(+counts.active, running)),
            prompt=samples(+counts.busy_prompt),
            prompt_sustained=samples(counts.prompt),
            per_minute=samples(counts.per_minute),
            completions=counts.completions,
            failed=counts.failed,
        )
        for running, counts in sorted(counts_by_running.items())
    )


def _shared(speeds: Counter[float], running: int) -> Counter[float]:
    """Return these speeds per request; empty where no request was running any more."""
    return Counter({speed / running: n for speed, n in speeds.items()} if running else {})


def _sustained(windows: Iterable[Window]) -> Iterator[tuple[Window, bool]]:
    """Yield each window, and True if its two neighbours had as many requests running."""
    now: Window | None = None
    like_before = False
    for after in windows:
        like_now = now is not None and after.follows and after.running == now.running
        if now is not None:
            yield now, like_before and like_now
        now, like_before = after, like_now
    if now is not None:
        yield now, False


# Windows of requests.

WINDOW = 10.0  # seconds
PAUSE = 600.0  # seconds without a request, from which on the run counts as paused


@dataclass(frozen=True, slots=True)
class _Stint:
    """One request: the times of its start, its first piece and its last piece, in seconds.

    `useful` counts the calls in it that were allowed and ran, `prompt` the tokens to be read.
    """

    began: float
    first: float
    ended: float
    tokens: int
    useful: int = 0
    prompt: int = 0


@dataclass(frozen=True, slots=True)
class Timeline:
    """Samples of the whole windows in which there was any request; None if there is none.

    `tokens` are generated tokens a second; `completions` and `useful` calls are per minute.
    `prefill` are prompt tokens a second, of all windows from the first request to the last, idle
    ones too. Windows of a pause, as before a run is resumed, are excluded.
    """

    tokens: Samples | None = None
    completions: Samples | None = None
    useful: Samples | None = None
    prefill: Samples | None = None


def _timeline(stints: Sequence[_Stint]) -> Timeline:
    """Return the samples by window, on two assumptions about each request.

    Its tokens were generated evenly from its first piece to its last. Its prompt was read evenly
    before.
    """
    if not stints:
        return Timeline()
    start = min(stint.began for stint in stints)
    whole = int((max(stint.ended for stint in stints) - start) // WINDOW)
    completions, useful = Counter[int](), Counter[int]()
    tokens: dict[int, float] = {}
    read: dict[int, float] = defaultdict(float)
    for stint in stints:
        last = int((stint.ended - start) // WINDOW)
        completions[last] += 1
        useful[last] += stint.useful
        for window in range(int((stint.began - start) // WINDOW), last + 1):
            tokens.setdefault(window, 0.0)
        for window, share in _shares(stint.first - start, stint.ended - start):
            tokens[window] += share * stint.tokens
        for window, share in _shares(stint.began - start, stint.first - start):
            read[window] += share * stint.prompt
    busy = [window for window in sorted(tokens) if window < whole]
    minute = 60 / WINDOW
    return Timeline(
        tokens=_samples_if_counted(tokens[window] / WINDOW for window in busy),
        completions=samples(Counter(completions[window] * minute for window in busy)),
        useful=samples(Counter(useful[window] * minute for window in busy)),
        prefill=_samples_if_counted(read[window] / WINDOW for window in _without_pauses(busy)),
    )


def _without_pauses(busy: Sequence[int]) -> Iterator[int]:
    """Yield these windows and the idle ones between them, except those of a pause."""
    yield from busy[:1]
    for before, after in pairwise(busy):
        yield from range(before + 1, after) if after - before <= PAUSE / WINDOW else ()
        yield after


def _samples_if_counted(speeds: Iterable[float]) -> Samples | None:
    """Return the samples of these speeds; None if all are 0, as the tokens were not counted."""
    counts = Counter(speeds)
    return samples(counts) if any(counts) else None


def _shares(opens: float, ends: float) -> Iterator[tuple[int, float]]:
    """Yield each window with the share of an even flow between these seconds that fell into it."""
    length, last = ends - opens, int(ends // WINDOW)
    if length <= 0:
        yield last, 1.0
        return
    for window in range(int(opens // WINDOW), last + 1):
        overlap = min(ends, (window + 1) * WINDOW) - max(opens, window * WINDOW)
        yield window, overlap / length


# A reply in fewer pieces was held back, by a tool parser for one, and its last gap tells nothing.
MOST_PER_PIECE = 8  # tokens; speculative decoding sends a few at a time


def _generation_speed(turn: Turn) -> float | None:
    """Return tokens a second after the first piece; None where the pieces cannot show it."""
    tokens, timing = generated(turn), turn.timing
    if timing is None or not timing.gap_mean or tokens > MOST_PER_PIECE * timing.pieces:
        return None
    return tokens / (timing.pieces * timing.gap_mean)


def _read(turn: Turn) -> int:
    """Return the prompt tokens, without those that were cached."""
    return turn.usage.prompt_tokens - turn.usage.cached_tokens


def _prefill_speed(turn: Turn) -> float | None:
    """Return prompt tokens a second until the first piece, without those that were cached."""
    tokens = _read(turn)
    if turn.timing is None or not turn.timing.first or tokens <= 0:
        return None
    return tokens / turn.timing.first


def all_turns(trial: Trial) -> Iterator[Turn]:
    """Yield the turns of the first agent, and of all agents that it led to."""
    yield from trial.turns
    for agent in trial.agents:
        yield from agent.turns


# The speed of a run.

JOULES_PER_KWH = 3.6e6
NO_TIME = Timeline()


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of a run's requests.

    `seconds` are by the clock; None where they are not known, as are the values derived from them.
    Samples over requests: `generation` and `prefill` in tokens a second, `first` in seconds to the
    first piece. `useful` counts calls that were allowed and ran, and is None where nothing could
    run. `failed` counts requests without a reply. `windows` are of all requests together.
    `by_pieces` marks tokens that are pieces of streams, in replies whose server did not count them.
    """

    concurrency: int
    requests: int
    completion_tokens: int
    seconds: float | None
    generation: Samples | None
    prefill: Samples | None
    first: Samples | None
    windows: Timeline = NO_TIME
    useful: int | None = None
    failed: int = 0
    joules: float | None = None
    by_pieces: bool = False

    @property
    def tokens_per_second(self) -> float | None:
        """The tokens generated a second by all requests together; None also if not counted."""
        return _over(self.completion_tokens, self.seconds)

    @property
    def completions_per_minute(self) -> float | None:
        return 60 * self.requests / self.seconds if self.seconds else None

    @property
    def useful_per_minute(self) -> float | None:
        if not self.seconds or self.useful is None:
            return None
        return 60 * self.useful / self.seconds

    @property
    def watts(self) -> float | None:
        return _over(self.joules, self.seconds)

    @property
    def tokens_per_kwh(self) -> float | None:
        per_joule = _over(self.completion_tokens, self.joules)
        return per_joule and per_joule * JOULES_PER_KWH


def _over(amount: float | None, by: float | None) -> float | None:
    """Divide; None where either is not known, as counted tokens and joules are above 0."""
    return amount / by if amount and by else None


def _stints(turns: Sequence[Turn], calls: Sequence[CallRecord] = ()) -> Iterator[_Stint]:
    """Yield the requests of one agent whose times are known, with the useful ones of its calls."""
    useful = Counter(call.turn for call in calls if was_useful(call))
    for number, turn in enumerate(turns):
        if turn.ended is not None:
            began = turn.ended - turn.seconds
            first = began + turn.timing.first if turn.timing else began
            read = _read(turn) if turn.timing else 0
            yield _Stint(began, first, turn.ended, generated(turn), useful[number], read)


def speed_of(turns: Sequence[Turn], *, concurrency: int, seconds: float | None, new: bool) -> Speed:
    """Return the speed over these turns.

    `new` states that no prompt began like another one, so that none of it can have been cached.
    Else prefill is reported only if the server reports cached tokens: many never do.
    """
    prefill_is_known = new or any(turn.usage.cached_tokens for turn in turns)
    windows = replace(_timeline([*_stints(turns)]), useful=None)
    return Speed(
        concurrency=concurrency,
        requests=len(turns),
        completion_tokens=sum(map(generated, turns)),
        seconds=seconds,
        generation=_samples(map(_generation_speed, turns)),
        prefill=_samples(map(_prefill_speed, turns)) if prefill_is_known else None,
        first=_samples(turn.timing.first for turn in turns if turn.timing),
        windows=windows if prefill_is_known else replace(windows, prefill=None),
        by_pieces=any(turn.timing and not turn.usage.completion_tokens for turn in turns),
    )


def run_speed(run: Run) -> Speed:
    """Return the speed over all trials: requests of a void trial count as served."""
    turns = [turn for trial in run.trials for turn in all_turns(trial)]
    effort = run.effort
    speed = speed_of(
        turns,
        concurrency=run.concurrency,
        seconds=effort.seconds if effort else None,
        new=False,
    )
    useful = sum(map(useful_calls, run.trials))
    stints: list[_Stint] = []
    for trial in run.trials:
        stints += _stints(trial.turns, trial.calls)
        for part in trial.agents:
            stints += _stints(part.turns, part.calls)
    joules = effort.joules if effort else None
    windows = _timeline(stints)
    if not any(turn.usage.cached_tokens for turn in turns):
        windows = replace(windows, prefill=None)
    return replace(speed, windows=windows, useful=useful, joules=joules)


def _samples(values: Iterable[float | None]) -> Samples | None:
    return samples(Counter(value for value in values if value is not None))
