"""The speed at which models were served, by level of concurrency: tables and JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import Any

from agenteval.report.json import attributes
from agenteval.report.tables import Cell, Head, Table, head, row, table_texts
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


@dataclass(frozen=True, slots=True)
class Served:
    """The speed of one model at one level of concurrency; `run` is empty if there is no run."""

    model: str
    simulated: bool
    speed: Speed
    run: str = ""

    def document(self) -> dict[str, Any]:
        speed = self.speed
        of_whole = attributes(speed, "tokens_per_second", "completions_per_minute")
        return {
            **attributes(self, "model", "simulated", "run"),
            **asdict(speed),
            **of_whole,
            **attributes(speed, "useful_per_minute", "watts", "tokens_per_kwh"),
        }

    def drawing(self, watts: float | None) -> "Served":
        """Return the same with this stated power of the machines, if none was measured."""
        if watts is None or self.speed.joules or not self.speed.seconds:
            return self
        return replace(self, speed=replace(self.speed, joules=watts * self.speed.seconds))


def speed_tables(served: Sequence[Served]) -> tuple[Table, ...]:
    tables = [_together(served)]
    for text in table_texts()["speed-samples"]:
        samples_of = attrgetter(text["samples"])
        samples = {label: samples_of(speed) for label, speed in _labelled(served)}
        if text.get("always") or any(samples.values()):
            note = text["note"].format(window=f"{WINDOW:g}")
            rows = [row(label, cells(of_level)) for label, of_level in samples.items()]
            columns = _marked(SAMPLED, served)
            tables.append(Table(text["title"], note, columns, tuple(rows), LEVEL))
    return tuple(tables)


def _together(served: Sequence[Served]) -> Table:
    power = any(level.speed.joules for level in served)
    titles = ["requests", "failed", "seconds", "tokens/s", "completions/min", "useful calls/min"]
    if power:
        titles += ["watts", "tokens/kWh"]
    note = (
        "All requests of a level together, a void trial's too; with the count behind each speed. "
        "A useful call was allowed and ran."
    )
    if not power:
        note += " Power: not observable."
    if any(level.speed.by_pieces for level in served):
        note += " Where a server did not count its tokens, they are the pieces of its streams."
    rows = [row(label, _totals(speed)[: len(titles)]) for label, speed in _labelled(served)]
    columns = _marked([*map(head, titles)], served)
    return Table("Speed by concurrency", note, columns, tuple(rows), LEVEL)


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


def _labelled(served: Sequence[Served]) -> Iterator[tuple[str, Speed]]:
    """Yield each speed with its label: the level, and the model if there are several."""
    several = len({level.model for level in served}) > 1
    for level in served:
        concurrency = str(level.speed.concurrency)
        yield f"{level.model}, {concurrency}" if several else concurrency, level.speed


def _marked(heads: Sequence[Head], served: Sequence[Served]) -> tuple[Head, ...]:
    simulated = any(one.simulated for one in served)
    return (replace(heads[0], simulated=simulated), *heads[1:])


def _counted(count: int, value: float | None) -> Cell:
    return replace(_measured_if_known(value), count=f"{count:,}")


def _measured_if_known(value: float | None) -> Cell:
    return Cell(UNKNOWN) if value is None else measured(value)


# The log of an engine.

RUNNING = "running"


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


def log_tables(view: LogView) -> tuple[Table, ...]:
    """Return the tables for which the log has data."""
    tables = []
    for text in table_texts()["load-samples"]:
        samples_of = attrgetter(text["samples"])
        rows, peaks = [], []
        for load in view.loads:
            samples = samples_of(load)
            if samples:
                rows.append(row(str(load.running), cells(samples)))
                peaks.append(samples.peak)
        if any(peaks):
            tables.append(Table(text["title"], text["note"], SAMPLED, tuple(rows), RUNNING))
    return (*tables, *_energy(view))


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


def _energy(view: LogView) -> Iterator[Table]:
    rows = []
    for load in view.loads:
        tokens = view.tokens_per_kwh(load)
        if tokens:
            rows.append(row(str(load.running), (measured(tokens),)))
    if rows:
        note = f"Active windows, at {view.watts or 0:g} W as was said."
        heads = (head("tokens/kWh"),)
        yield Table("Generation tokens per kWh", note, heads, tuple(rows), RUNNING)
