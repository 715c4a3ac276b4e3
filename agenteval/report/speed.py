"""The speed at which models were served, by level of concurrency: tables and JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from agenteval.report.tables import Cell, Head, Table, head, row
from agenteval.stats.loads import JOULES_PER_KWH, WINDOW, Load, Speed
from agenteval.stats.quantiles import Samples

SAMPLED = (head("n"), head("mean"), head("median"), head("p95"), head("peak"))


def cells(samples: Samples | None) -> tuple[Cell, ...]:
    if samples is None:
        return (Cell("0"), *(Cell("-"),) * 4)
    figures = samples.mean, samples.median, samples.p95, samples.peak
    return (Cell(f"{samples.n:,}"), *map(measured, figures))


def measured(value: float) -> Cell:
    """Return a value of at least 0, with three digits, and all of those before the point."""
    digits = next((digits for digits, least in enumerate((100, 10, 1)) if value >= least), 3)
    return Cell(f"{value:,.{digits}f}")


UNKNOWN = "not observable"
LEVEL = "concurrency"
BY_WINDOW = f"In windows of {WINDOW:g} seconds with a request under way."
ALL_WINDOWS = (
    f"In windows of {WINDOW:g} seconds, idle ones too: the mean is what was sustained. "
    "Prompt tokens that were not cached."
)
WINDOWS: Mapping[str, tuple[str, Callable[[Speed], Samples | None]]] = {
    "Generation tokens/s": (BY_WINDOW, lambda speed: speed.windows.tokens),
    "Prefill tokens/s": (ALL_WINDOWS, lambda speed: speed.windows.prefill),
    "Completions per minute": (BY_WINDOW, lambda speed: speed.windows.completions),
    "Useful calls per minute": (BY_WINDOW, lambda speed: speed.windows.useful),
}


@dataclass(frozen=True, slots=True)
class Served:
    """The speed of one model at one level of concurrency; `run` is empty if there is no run."""

    model: str
    simulated: bool
    speed: Speed
    run: str = ""

    def document(self) -> dict[str, Any]:
        speed = self.speed
        return {
            "model": self.model,
            "simulated": self.simulated,
            "run": self.run,
            **asdict(speed),
            "tokens_per_second": speed.tokens_per_second,
            "completions_per_minute": speed.completions_per_minute,
            "useful_per_minute": speed.useful_per_minute,
            "watts": speed.watts,
            "tokens_per_kwh": speed.tokens_per_kwh,
        }

    def drawing(self, watts: float | None) -> "Served":
        """Return the same with this stated power of the machines, if none was measured."""
        if watts is None or self.speed.joules or not self.speed.seconds:
            return self
        return replace(self, speed=replace(self.speed, joules=watts * self.speed.seconds))


def speed_tables(served: Sequence[Served]) -> tuple[Table, ...]:
    return (
        _together(served),
        *(
            _samples_table(f"{title}, all requests together", note, served, of)
            for title, (note, of) in WINDOWS.items()
            if any(of(one.speed) for one in served)
        ),
        _samples_table(
            "Generation tokens/s of each request",
            "After the first piece; replies that a server held back tell nothing of it.",
            served,
            lambda speed: speed.generation,
        ),
        _samples_table(
            "Prefill tokens/s of each request",
            "Prompt tokens that were not cached, until the first piece. Of runs only where the "
            "server says what was cached.",
            served,
            lambda speed: speed.prefill,
        ),
        _samples_table(
            "Seconds to the first token",
            "From the request to the first piece of its reply, waiting in line included.",
            served,
            lambda speed: speed.first,
        ),
    )


def _together(served: Sequence[Served]) -> Table:
    power = any(one.speed.joules for one in served)
    titles = "requests", "failed", "seconds", "tokens/s", "completions/min", "useful calls/min"
    heads = [head(title) for title in (*titles, *(["watts", "tokens/kWh"] if power else []))]
    rows = [row(label, _totals(speed)[: len(heads)]) for label, speed in _labelled(served)]
    note = (
        "All requests of a level together, a void trial's too; with the count behind each speed. "
        "A useful call was allowed and ran."
    )
    note += "" if power else " Power: not observable."
    if any(one.speed.by_pieces for one in served):
        note += " Where a server did not count its tokens, they are the pieces of its streams."
    return Table("Speed by concurrency", note, _marked(heads, served), tuple(rows), LEVEL)


def _totals(speed: Speed) -> tuple[Cell, ...]:
    return (
        Cell(f"{speed.requests:,}"),
        Cell(f"{speed.failed:,}"),
        _measured_if_known(speed.seconds),
        _counted(speed.completion_tokens, speed.tokens_per_second),
        _counted(speed.requests, speed.completions_per_minute),
        Cell("-") if speed.useful is None else _counted(speed.useful, speed.useful_per_minute),
        _measured_if_known(speed.watts),
        _measured_if_known(speed.tokens_per_kwh),
    )


def _samples_table(
    title: str, note: str, served: Sequence[Served], of: Callable[[Speed], Samples | None]
) -> Table:
    rows = tuple(row(label, cells(of(speed))) for label, speed in _labelled(served))
    return Table(title, note, _marked(SAMPLED, served), rows, LEVEL)


def _labelled(served: Sequence[Served]) -> list[tuple[str, Speed]]:
    """Return each speed with its label: the level, and the model if there are several."""
    several = len({one.model for one in served}) > 1
    return [
        (
            f"{one.model}, {one.speed.concurrency}" if several else f"{one.speed.concurrency}",
            one.speed,
        )
        for one in served
    ]


def _marked(heads: Sequence[Head], served: Sequence[Served]) -> tuple[Head, ...]:
    simulated = any(one.simulated for one in served)
    return (replace(heads[0], simulated=simulated), *heads[1:])


def _counted(count: int, value: float | None) -> Cell:
    return replace(_measured_if_known(value), count=f"{count:,}")


def _measured_if_known(value: float | None) -> Cell:
    return Cell(UNKNOWN) if value is None else measured(value)


RUNNING = "running"
BY_RUNNING = "By the requests that were running when the line was logged."


@dataclass(frozen=True, slots=True)
class LogView:
    """The contents of a log; `unplaced` are completions after its last engine line.

    No window has these. `watts` is the power of the machines as the user states it: no log has it.
    """

    loads: tuple[Load, ...]
    window: float
    lines: int
    engine_lines: int
    completions: int
    failed: int
    unread: int
    watts: float | None = None

    @property
    def windows(self) -> int:
        return sum(load.windows for load in self.loads)

    @property
    def unplaced(self) -> int:
        return self.completions - sum(load.completions for load in self.loads)

    def document(self) -> dict[str, Any]:
        fields = {name: value for name, value in asdict(self).items() if name != "loads"}
        return fields | {
            "windows": self.windows,
            "unplaced": self.unplaced,
            "by_running": [
                asdict(load) | {"tokens_per_kwh": self.tokens_per_kwh(load)} for load in self.loads
            ],
        }

    def tokens_per_kwh(self, load: Load) -> float | None:
        """Return the tokens per kWh in the windows that generated anything."""
        if not self.watts or load.active is None:
            return None
        return load.active.mean * JOULES_PER_KWH / self.watts


_OF_LOAD: Sequence[tuple[str, str, Callable[[Load], Samples | None]]] = (
    (
        "Generation tokens/s, active windows",
        f"Windows that generated anything, all engines together. {BY_RUNNING}",
        lambda load: load.active,
    ),
    (
        "Generation tokens/s, sustained",
        "Windows between two others with as many running, idle or not.",
        lambda load: load.sustained,
    ),
    (
        "Generation tokens/s of each request",
        "Those of the active windows, by the requests that were running.",
        lambda load: load.each,
    ),
    (
        "Prefill tokens/s, active windows",
        "Windows that read any prompt; whether cached tokens count is the server's choice.",
        lambda load: load.prompt,
    ),
    ("Prefill tokens/s, sustained", "All windows, idle too.", lambda load: load.prompt_sustained),
    (
        "Completions per minute",
        "Answers of the access log, by the next line's window; a stream is logged when it begins.",
        lambda load: load.per_minute,
    ),
)


def log_tables(view: LogView) -> tuple[Table, ...]:
    """Return the tables for which the log has data."""
    tables = (*(_table(view.loads, *each) for each in _OF_LOAD), _energy(view))
    return tuple(table for table in tables if table.rows)


def log_lines(view: LogView) -> tuple[str, ...]:
    """Return the lines on how much of the log was read, and on what could not be."""
    read = (
        f"{view.engine_lines:,} engine lines make {view.windows:,} windows; "
        f"{view.completions:,} completions, {view.failed:,} requests refused or failed."
    )
    unplaced = f"{view.unplaced:,} completions after the last engine line are in no table."
    power = "Power: not in such a log; --watts says what the machines draw."
    unread = f"{view.unread:,} lines about throughput have a form that is not known here."
    conditional_lines = (
        (unplaced, view.unplaced),
        (unread, view.unread),
        (power, view.watts is None),
    )
    return (read, *(line for line, said in conditional_lines if said))


def _energy(view: LogView) -> Table:
    found = {load.running: view.tokens_per_kwh(load) for load in view.loads}
    rows = [row(str(running), (measured(one),)) for running, one in found.items() if one]
    note = f"Active windows, at {view.watts or 0:g} W as was said."
    return Table("Generation tokens per kWh", note, (head("tokens/kWh"),), tuple(rows), RUNNING)


def _table(
    loads: Sequence[Load], title: str, note: str, of: Callable[[Load], Samples | None]
) -> Table:
    """Return the table by running requests; without rows if all values are zero."""
    rows = [row(str(load.running), cells(found)) for load in loads if (found := of(load))]
    seen = any(found.peak for load in loads if (found := of(load)))
    return Table(title, note, SAMPLED, tuple(rows) if seen else (), RUNNING)
