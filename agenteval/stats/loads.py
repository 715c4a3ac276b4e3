"""How fast a server was by how many requests it was running, from the windows of its log."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from agenteval.core.windows import Window
from agenteval.stats.quantiles import Samples, samples


@dataclass(frozen=True, slots=True)
class Load:
    """All windows at whose end so many requests were running. Speeds are in tokens a second.

    `active` is the generation in windows that generated anything, `sustained` in those between two
    others with as many running; `each` is `active` by the number of running requests. `prompt` is
    in windows that read any prompt, `prompt_sustained` in all, idle ones too. `per_minute` has the
    completions a minute of each window.
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
class _Seen:
    """Values by how often they were seen: a log prints few different ones, however long it is."""

    windows: int = 0
    completions: int = 0
    failed: int = 0
    active: Counter[float] = field(default_factory=Counter)
    sustained: Counter[float] = field(default_factory=Counter)
    prompt: Counter[float] = field(default_factory=Counter)
    per_minute: Counter[float] = field(default_factory=Counter)

    def add(self, window: Window, *, sustained: bool) -> None:
        self.windows += 1
        self.completions += window.completions
        self.failed += window.failed
        self.active[window.generation] += window.generation > 0
        self.sustained[window.generation] += sustained
        self.prompt[window.prompt] += 1
        self.per_minute[60 * window.completions / window.seconds] += 1


def loads(windows: Iterable[Window]) -> tuple[Load, ...]:
    """One for each number of running requests, from the fewest on."""
    seen: dict[int, _Seen] = defaultdict(_Seen)
    for window, sustained in _sustained(windows):
        seen[window.running].add(window, sustained=sustained)
    return tuple(
        Load(
            running=running,
            windows=one.windows,
            active=samples(+one.active),
            sustained=samples(+one.sustained),
            each=samples(_shared(+one.active, running)),
            prompt=samples(Counter({speed: n for speed, n in one.prompt.items() if speed > 0})),
            prompt_sustained=samples(one.prompt),
            per_minute=samples(one.per_minute),
            completions=one.completions,
            failed=one.failed,
        )
        for running, one in sorted(seen.items())
    )


def _shared(speeds: Counter[float], running: int) -> Counter[float]:
    """What each request has of these speeds; nothing where none was running any more."""
    return Counter({speed / running: n for speed, n in speeds.items()} if running else {})


def _sustained(windows: Iterable[Window]) -> Iterator[tuple[Window, bool]]:
    """Each window, and whether the ones before and after it had as many running."""
    now: Window | None = None
    like_before = False
    for after in windows:
        like_now = now is not None and after.follows and after.running == now.running
        if now is not None:
            yield now, like_before and like_now
        now, like_before = after, like_now
    if now is not None:
        yield now, False


WINDOW = 10.0  # seconds
PAUSE = 600.0  # seconds without a request after which nobody was at work


@dataclass(frozen=True, slots=True)
class Stint:
    """One request: when it began, when its first piece came and when its last, in seconds.

    `useful` are the calls in it that were allowed and ran, `prompt` the tokens that had to be read.
    """

    began: float
    first: float
    ended: float
    tokens: int
    useful: int = 0
    prompt: int = 0


@dataclass(frozen=True, slots=True)
class Timeline:
    """Of the whole windows in which there was any request: None where there is no such window.

    Tokens are generated ones a second; completions and useful calls are a minute's. `prefill` are
    prompt tokens a second, of all windows from the first request to the last, idle ones too; not of
    those of a pause, as before a run is resumed.
    """

    tokens: Samples | None = None
    completions: Samples | None = None
    useful: Samples | None = None
    prefill: Samples | None = None


def timeline(stints: Sequence[Stint]) -> Timeline:
    """The tokens of a request came evenly, from its first piece to its last.

    Its prompt was read evenly before.
    """
    if not stints:
        return Timeline()
    start = min(one.began for one in stints)
    whole = int((max(one.ended for one in stints) - start) // WINDOW)
    completions, useful = Counter[int](), Counter[int]()
    tokens: dict[int, float] = {}
    read: dict[int, float] = defaultdict(float)
    for one in stints:
        last = int((one.ended - start) // WINDOW)
        completions[last] += 1
        useful[last] += one.useful
        for window in range(int((one.began - start) // WINDOW), last + 1):
            tokens.setdefault(window, 0.0)
        for window, share in _shares(one.first - start, one.ended - start):
            tokens[window] += share * one.tokens
        for window, share in _shares(one.began - start, one.first - start):
            read[window] += share * one.prompt
    busy = [window for window in sorted(tokens) if window < whole]
    minute = 60 / WINDOW
    return Timeline(
        tokens=_seen(tokens[window] / WINDOW for window in busy),
        completions=samples(Counter(completions[window] * minute for window in busy)),
        useful=samples(Counter(useful[window] * minute for window in busy)),
        prefill=_seen(read[window] / WINDOW for window in _without_pauses(busy)),
    )


def _without_pauses(busy: Sequence[int]) -> Iterator[int]:
    """These windows, and the idle ones between them."""
    yield from busy[:1]
    for before, after in pairwise(busy):
        yield from range(before + 1, after) if after - before <= PAUSE / WINDOW else ()
        yield after


def _seen(speeds: Iterable[float]) -> Samples | None:
    """None where nobody counted: tokens that were read or written are more than none."""
    found = Counter(speeds)
    return samples(found) if any(found) else None


def _shares(opens: float, ends: float) -> Iterator[tuple[int, float]]:
    """Which share of what came evenly between these seconds fell into which window."""
    length, last = ends - opens, int(ends // WINDOW)
    if length <= 0:
        yield last, 1.0
        return
    for window in range(int(opens // WINDOW), last + 1):
        within = min(ends, (window + 1) * WINDOW) - max(opens, window * WINDOW)
        yield window, within / length
