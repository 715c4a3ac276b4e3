"""How fast a server was by how many requests it was running, from the windows of its log."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from agenteval.core.windows import Window
from agenteval.stats.samples import Samples, samples


@dataclass(frozen=True, slots=True)
class Load:
    """All windows at whose end so many requests were running. Speeds are in tokens a second.

    `active` is the generation in windows that generated anything, `sustained` in those between two
    others with as many running; `prompt` is in windows that read any prompt. `per_minute` has the
    completions a minute of each window.
    """

    running: int
    windows: int
    active: Samples | None
    sustained: Samples | None
    prompt: Samples | None
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
        self.prompt[window.prompt] += window.prompt > 0
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
            prompt=samples(+one.prompt),
            per_minute=samples(one.per_minute),
            completions=one.completions,
            failed=one.failed,
        )
        for running, one in sorted(seen.items())
    )


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
