"""The work of a server by its log, window by window, all its engines together."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

NEXT = (0.5, 1.5)  # windows until the line that follows at once; stamps have whole seconds


@dataclass(frozen=True, slots=True)
class EngineLine:
    """One engine's line at the end of a window. `at` is in seconds, None without a stamp."""

    at: float | None
    engine: str
    prompt: float  # tokens a second, as generation
    generation: float
    running: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Access:
    """One request for a completion in the access log, which keeps no time."""

    status: int

    @property
    def completed(self) -> bool:
        return 200 <= self.status < 300


Entry = EngineLine | Access


@dataclass(frozen=True, slots=True)
class Window:
    """The sums of all engines; an engine that logs nothing is idle.

    `follows` says that this window begins where the one before ended. `seconds` is its length.
    """

    running: int
    waiting: int
    prompt: float
    generation: float
    seconds: float
    follows: bool
    completions: int = 0
    failed: int = 0


@dataclass(slots=True)
class _Lines:
    """The lines of one window, and the answers of the server between the last window and this."""

    first: EngineLine
    answers: list[Access]
    by_engine: dict[str, EngineLine] = field(default_factory=dict)

    def takes(self, line: EngineLine, seconds: float) -> bool:
        if line.engine in self.by_engine:
            return False
        gap = _gap(self.first, line)
        return gap is None or 0 <= gap < NEXT[0] * seconds


def windows(entries: Iterable[Entry], seconds: float) -> Iterator[Window]:
    """The windows of a log that has a line every so many seconds while there is work.

    An answer belongs to the window whose lines come next; those after the last line to none.
    """
    answers: list[Access] = []
    before: EngineLine | None = None
    now: _Lines | None = None
    for entry in entries:
        if isinstance(entry, Access):
            answers.append(entry)
            continue
        if now is None or not now.takes(entry, seconds):
            if now is not None:
                yield _window(now, before, seconds)
                before = now.first
            now, answers = _Lines(entry, answers), []
        now.by_engine[entry.engine] = entry
    if now is not None:
        yield _window(now, before, seconds)


def _window(lines: _Lines, before: EngineLine | None, seconds: float) -> Window:
    gap = _gap(before, lines.first) if before else None
    next_to = gap is None or NEXT[0] * seconds <= gap <= NEXT[1] * seconds
    all_engines = lines.by_engine.values()
    completions = sum(answer.completed for answer in lines.answers)
    return Window(
        running=sum(line.running for line in all_engines),
        waiting=sum(line.waiting for line in all_engines),
        prompt=sum(line.prompt for line in all_engines),
        generation=sum(line.generation for line in all_engines),
        # After a pause, in which servers log nothing, a line is about the last window alone.
        seconds=gap if gap is not None and next_to else seconds,
        follows=before is not None and next_to,
        completions=completions,
        failed=len(lines.answers) - completions,
    )


def _gap(first: EngineLine, second: EngineLine) -> float | None:
    """The seconds between two lines; None where one has no stamp."""
    return None if first.at is None or second.at is None else second.at - first.at
