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

    def add(self, window: Window, *, is_sustained: bool) -> None:
        self.windows += 1
        self.completions += window.completions
        self.failed += window.failed
        self.active[window.generation] += window.generation > 0
        self.sustained[window.generation] += is_sustained
        self.prompt[window.prompt] += 1
        self.busy_prompt[window.prompt] += window.prompt > 0
        self.per_minute[60 * window.completions / window.seconds] += 1


def loads(windows: Iterable[Window]) -> tuple[Load, ...]:
    """Return one load for each number of running requests, from the fewest on."""
    counts_by_running: dict[int, _WindowCounts] = defaultdict(_WindowCounts)
    for window, is_sustained in _sustained(windows):
        counts_by_running[window.running].add(window, is_sustained=is_sustained)
    loads = []
    for running, counts in sorted(counts_by_running.items()):
        active = +counts.active  # without the speeds that no window had
        per_request = Counter[float]()
        if running:
            per_request = Counter({speed / running: times for speed, times in active.items()})
        load = Load(
            running=running,
            windows=counts.windows,
            active=samples(active),
            sustained=samples(+counts.sustained),
            each=samples(per_request),
            prompt=samples(+counts.busy_prompt),
            prompt_sustained=samples(counts.prompt),
            per_minute=samples(counts.per_minute),
            completions=counts.completions,
            failed=counts.failed,
        )
        loads.append(load)
    return tuple(loads)


def _sustained(windows: Iterable[Window]) -> Iterator[tuple[Window, bool]]:
    """Yield each window, and True if its two neighbours had as many requests running."""
    now: Window | None = None
    is_like_before = False
    for after in windows:
        is_like_now = now is not None and after.follows and after.running == now.running
        if now is not None:
            yield now, is_like_before and is_like_now
        now = after
        is_like_before = is_like_now
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
    end = max(stint.ended for stint in stints)
    whole_windows = int((end - start) // WINDOW)
    completions = Counter[int]()
    useful = Counter[int]()
    tokens: dict[int, float] = {}
    read: dict[int, float] = defaultdict(float)
    for stint in stints:
        began = int((stint.began - start) // WINDOW)
        ended = int((stint.ended - start) // WINDOW)
        completions[ended] += 1
        useful[ended] += stint.useful
        for window in range(began, ended + 1):
            tokens.setdefault(window, 0.0)
        for window, share in _shares(stint.first - start, stint.ended - start):
            tokens[window] += share * stint.tokens
        for window, share in _shares(stint.began - start, stint.first - start):
            read[window] += share * stint.prompt
    busy = [window for window in sorted(tokens) if window < whole_windows]
    minute = 60 / WINDOW
    return Timeline(
        tokens=_samples_if_counted(tokens[window] / WINDOW for window in busy),
        completions=_samples(completions[window] * minute for window in busy),
        useful=_samples(useful[window] * minute for window in busy),
        prefill=_samples_if_counted(read[window] / WINDOW for window in _without_pauses(busy)),
    )


def _without_pauses(busy: Sequence[int]) -> Iterator[int]:
    """Yield these windows and the idle ones between them, except those of a pause."""
    yield from busy[:1]
    for before, after in pairwise(busy):
        is_pause = after - before > PAUSE / WINDOW
        if not is_pause:
            yield from range(before + 1, after)
        yield after


def _samples_if_counted(speeds: Iterable[float]) -> Samples | None:
    """Return the samples of these speeds; None if all are 0, as the tokens were not counted."""
    counts = Counter(speeds)
    return samples(counts) if any(counts) else None


def _samples(values: Iterable[float | None]) -> Samples | None:
    """Return the samples of the known values."""
    return samples(Counter(value for value in values if value is not None))


def _shares(start: float, end: float) -> Iterator[tuple[int, float]]:
    """Yield each window with the share of an even flow between these seconds that fell into it."""
    length = end - start
    last = int(end // WINDOW)
    if length <= 0:
        yield last, 1.0
        return
    for window in range(int(start // WINDOW), last + 1):
        opens = max(start, window * WINDOW)
        closes = min(end, (window + 1) * WINDOW)
        yield window, (closes - opens) / length


# A reply in fewer pieces was held back, by a tool parser for one, and its last gap tells nothing.
MOST_PER_PIECE = 8  # tokens; speculative decoding sends a few at a time


def _generation_speed(turn: Turn) -> float | None:
    """Return tokens a second after the first piece; None where the pieces cannot show it."""
    timing = turn.timing
    if timing is None or not timing.gap_mean:
        return None
    tokens = generated(turn)
    if tokens > MOST_PER_PIECE * timing.pieces:
        return None
    return tokens / (timing.pieces * timing.gap_mean)


def _uncached_prompt(turn: Turn) -> int:
    """Return the prompt tokens, without those that were cached."""
    return turn.usage.prompt_tokens - turn.usage.cached_tokens


def _prefill_speed(turn: Turn) -> float | None:
    """Return prompt tokens a second until the first piece, without those that were cached."""
    tokens = _uncached_prompt(turn)
    if turn.timing is None or tokens <= 0:
        return None
    return _divide(tokens, turn.timing.first)


def all_turns(trial: Trial) -> Iterator[Turn]:
    """Yield the turns of the first agent, and of all agents that it led to."""
    for part in trial.parts:
        yield from part.turns


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
        return _divide(self.completion_tokens, self.seconds)

    @property
    def completions_per_minute(self) -> float | None:
        return self._per_minute(self.requests)

    @property
    def useful_per_minute(self) -> float | None:
        return self._per_minute(self.useful)

    def _per_minute(self, number: int | None) -> float | None:
        if not self.seconds or number is None:
            return None
        return 60 * number / self.seconds

    @property
    def watts(self) -> float | None:
        return _divide(self.joules, self.seconds)

    @property
    def tokens_per_kwh(self) -> float | None:
        per_joule = _divide(self.completion_tokens, self.joules)
        return per_joule * JOULES_PER_KWH if per_joule else None


def _divide(amount: float | None, by: float | None) -> float | None:
    """Divide; None where either is not known, as counted tokens, joules and seconds are above 0."""
    return amount / by if amount and by else None


def _stints(turns: Sequence[Turn], calls: Sequence[CallRecord] = ()) -> Iterator[_Stint]:
    """Yield the requests of one agent whose times are known, with the useful ones of its calls."""
    useful = Counter(call.turn for call in calls if was_useful(call))
    for number, turn in enumerate(turns):
        if turn.ended is None:
            continue
        began = first = turn.ended - turn.seconds
        prompt = 0
        if turn.timing:
            first += turn.timing.first
            prompt = _uncached_prompt(turn)
        yield _Stint(began, first, turn.ended, generated(turn), useful[number], prompt)


def speed_of(
    turns: Sequence[Turn],
    *,
    concurrency: int,
    seconds: float | None,
    new: bool,
) -> Speed:
    """Return the speed over these turns.

    `new` states that no prompt began like another one, so that none of it can have been cached.
    Else prefill is reported only if the server reports cached tokens: many never do.
    """
    is_prefill_known = new or _is_cache_reported(turns)
    windows = replace(_timeline([*_stints(turns)]), useful=None)
    if not is_prefill_known:
        windows = replace(windows, prefill=None)
    return Speed(
        concurrency=concurrency,
        requests=len(turns),
        completion_tokens=sum(map(generated, turns)),
        seconds=seconds,
        generation=_samples(map(_generation_speed, turns)),
        prefill=_samples(map(_prefill_speed, turns)) if is_prefill_known else None,
        first=_samples(turn.timing.first for turn in turns if turn.timing),
        windows=windows,
        by_pieces=any(turn.timing and not turn.usage.completion_tokens for turn in turns),
    )


def _is_cache_reported(turns: Sequence[Turn]) -> bool:
    return any(turn.usage.cached_tokens for turn in turns)


def run_speed(run: Run) -> Speed:
    """Return the speed over all trials: requests of a void trial count as served."""
    turns = [turn for trial in run.trials for turn in all_turns(trial)]
    effort = run.effort
    seconds = effort.seconds if effort else None
    speed = speed_of(turns, concurrency=run.concurrency, seconds=seconds, new=False)
    stints: list[_Stint] = []
    for trial in run.trials:
        for part in trial.parts:
            stints += _stints(part.turns, part.calls)
    windows = _timeline(stints)
    if not _is_cache_reported(turns):
        windows = replace(windows, prefill=None)
    return replace(
        speed,
        windows=windows,
        useful=sum(map(useful_calls, run.trials)),
        joules=effort.joules if effort else None,
    )
