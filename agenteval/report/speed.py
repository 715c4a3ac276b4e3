"""The speed at which models were served, by level of concurrency: tables and JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter

from agenteval.report.json import Document, encoded
from agenteval.report.tables import Cell, Table, marked_heads, report_texts, row
from agenteval.stats.loads import JOULES_PER_KWH, WINDOW, Load, Speed
from agenteval.stats.quantiles import Samples

_SAMPLED = ("n", "mean", "median", "p95", "peak")


def cells(samples: Samples | None) -> tuple[Cell, ...]:
    if samples is None:
        unknown = Cell("-")
        return (Cell("0"), unknown, unknown, unknown, unknown)
    return (
        Cell(f"{samples.n:,}"),
        measured(samples.mean),
        measured(samples.median),
        measured(samples.p95),
        measured(samples.peak),
    )


def measured(value: float) -> Cell:
    """Return a value of at least 0, with three digits, and all of those before the point."""
    digits = next((digits for digits, least in enumerate((100, 10, 1)) if value >= least), 3)
    return Cell(f"{value:,.{digits}f}")


UNKNOWN = "not observable"
_LEVEL = "concurrency"


@dataclass(frozen=True, slots=True)
class Served:
    """The speed of one model at one level of concurrency; `run` is empty if there is no run."""

    model: str
    simulated: bool
    speed: Speed
    run: str = ""

    def document(self) -> Document:
        served: Document = encoded(self)
        return served

    def drawing(self, watts: float | None) -> "Served":
        """Return the same with this stated power of the machines, if none was measured."""
        if watts is None or self.speed.joules or not self.speed.seconds:
            return self
        return replace(self, speed=replace(self.speed, joules=watts * self.speed.seconds))


def speed_tables(served: Sequence[Served]) -> tuple[Table, ...]:
    tables = [_together(served)]
    for text in report_texts()["speed-samples"]:
        samples_of = attrgetter(text["samples"])
        samples = {label: samples_of(speed) for label, speed in _labelled(served)}
        if text.get("always") or any(samples.values()):
            note = text["note"].format(window=f"{WINDOW:g}")
            rows = [row(label, cells(of_level)) for label, of_level in samples.items()]
            columns = marked_heads(_SAMPLED, simulated=_is_simulated(served))
            tables.append(Table(text["title"], note, columns, tuple(rows), _LEVEL))
    return tuple(tables)


def _together(served: Sequence[Served]) -> Table:
    power = any(level.speed.joules for level in served)
    titles = ["requests", "failed", "seconds", "tokens/s", "completions/min", "useful calls/min"]
    note = (
        "All requests of a level together, a void trial's too; with the count behind each speed. "
        "A useful call was allowed and ran."
    )
    if power:
        titles += ["watts", "tokens/kWh"]
    else:
        note += " Power: not observable."
    if any(level.speed.by_pieces for level in served):
        note += " Where a server did not count its tokens, they are the pieces of its streams."
    rows = [row(label, _totals(speed)[: len(titles)]) for label, speed in _labelled(served)]
    columns = marked_heads(titles, simulated=_is_simulated(served))
    return Table("Speed by concurrency", note, columns, tuple(rows), _LEVEL)


def _totals(speed: Speed) -> tuple[Cell, ...]:
    return (
        Cell(f"{speed.requests:,}"),
        Cell(f"{speed.failed:,}"),
        _pace(speed.seconds),
        _pace(speed.tokens_per_second, speed.completion_tokens),
        _pace(speed.completions_per_minute, speed.requests),
        Cell("-") if speed.useful is None else _pace(speed.useful_per_minute, speed.useful),
        _pace(speed.watts),
        _pace(speed.tokens_per_kwh),
    )


def _labelled(served: Sequence[Served]) -> Iterator[tuple[str, Speed]]:
    """Yield each speed with its label: the level, and the model if there are several."""
    several = len({level.model for level in served}) > 1
    for level in served:
        concurrency = str(level.speed.concurrency)
        yield f"{level.model}, {concurrency}" if several else concurrency, level.speed


def _is_simulated(served: Sequence[Served]) -> bool:
    return any(level.simulated for level in served)


def _pace(value: float | None, count: int | None = None) -> Cell:
    """Return a value with the count that it is of, or that it is not known."""
    cell = Cell(UNKNOWN) if value is None else measured(value)
    return cell if count is None else replace(cell, count=f"{count:,}")


# The log of an engine.

_RUNNING = "running"


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

    def document(self) -> Document:
        loads = [
            asdict(load) | {"tokens_per_kwh": self.tokens_per_kwh(load)} for load in self.loads
        ]
        document = asdict(self) | {"windows": self.windows, "unplaced": self.unplaced}
        del document["loads"]
        return document | {"by_running": loads}

    def tokens_per_kwh(self, load: Load) -> float | None:
        """Return the tokens per kWh in the windows that generated anything."""
        if not self.watts or load.active is None:
            return None
        return load.active.mean * JOULES_PER_KWH / self.watts


def log_tables(view: LogView) -> tuple[Table, ...]:
    """Return the tables for which the log has data."""
    tables = []
    columns = marked_heads(_SAMPLED, simulated=False)
    for text in report_texts()["load-samples"]:
        samples_of = attrgetter(text["samples"])
        rows = []
        peaks = []
        for load in view.loads:
            samples = samples_of(load)
            if samples:
                rows.append(row(str(load.running), cells(samples)))
                peaks.append(samples.peak)
        if any(peaks):
            tables.append(Table(text["title"], text["note"], columns, tuple(rows), _RUNNING))
    return (*tables, *_energy(view))


def log_lines(view: LogView) -> tuple[str, ...]:
    """Return the lines on how much of the log was read, and on what could not be."""
    read = (
        f"{view.engine_lines:,} engine lines make {view.windows:,} windows; "
        f"{view.completions:,} completions, {view.failed:,} requests refused or failed."
    )
    lines = [read]
    if view.unplaced:
        lines.append(f"{view.unplaced:,} completions after the last engine line are in no table.")
    if view.unread:
        lines.append(f"{view.unread:,} lines about throughput have a form that is not known here.")
    if view.watts is None:
        lines.append("Power: not in such a log; --watts says what the machines draw.")
    return tuple(lines)


def _energy(view: LogView) -> Iterator[Table]:
    rows = []
    for load in view.loads:
        tokens = view.tokens_per_kwh(load)
        if tokens:
            rows.append(row(str(load.running), (measured(tokens),)))
    if rows:
        note = f"Active windows, at {view.watts or 0:g} W as was said."
        heads = marked_heads(("tokens/kWh",), simulated=False)
        yield Table(
            "Generation tokens per kWh",
            note,
            heads,
            tuple(rows),
            _RUNNING,
        )
