"""How fast a served model was, from its server's log: tables and JSON by requests running."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agenteval.report.samples import SAMPLED, cells
from agenteval.report.tables import Row, Table
from agenteval.stats.loads import Load
from agenteval.stats.samples import Samples

RUNNING = "running"
BY_RUNNING = "By the requests that were running when the line was logged."


@dataclass(frozen=True, slots=True)
class LogView:
    """A log, read: `unplaced` are completions after its last engine line, which no window has."""

    loads: tuple[Load, ...]
    window: float
    lines: int
    engine_lines: int
    completions: int
    failed: int
    unread: int

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
            "by_running": [asdict(load) for load in self.loads],
        }


def log_tables(view: LogView) -> tuple[Table, ...]:
    """Those for which the log has anything."""
    tables = (
        _table(
            "Generation tokens/s, active windows",
            f"Windows of {view.window:g} s that generated anything, all engines together. "
            + BY_RUNNING,
            view.loads,
            lambda load: load.active,
        ),
        _table(
            "Generation tokens/s, sustained",
            "Windows between two others with as many running, idle or not.",
            view.loads,
            lambda load: load.sustained,
        ),
        _table(
            "Prompt tokens/s",
            "Windows that read any prompt; whether cached tokens count is the server's choice.",
            view.loads,
            lambda load: load.prompt,
        ),
        _table(
            "Completions per minute",
            "Answers of the access log, by the window whose line comes next; a streamed one is "
            "logged when it begins.",
            view.loads,
            lambda load: load.per_minute if view.completions else None,
        ),
    )
    return tuple(table for table in tables if table.rows)


def log_lines(view: LogView) -> tuple[str, ...]:
    """What the tables do not say: how much was read, and what could not be."""
    read = (
        f"{view.engine_lines:,} engine lines make {view.windows:,} windows; "
        f"{view.completions:,} completions, {view.failed:,} requests refused or failed."
    )
    unplaced = f"{view.unplaced:,} completions after the last engine line are in no table."
    unread = f"{view.unread:,} lines about throughput have a form that is not known here."
    return (read, *([unplaced] if view.unplaced else []), *([unread] if view.unread else []))


def _table(
    title: str, note: str, loads: Sequence[Load], of: Callable[[Load], Samples | None]
) -> Table:
    rows = [Row(str(load.running), cells(found)) for load in loads if (found := of(load))]
    return Table(title, note, SAMPLED, tuple(rows), RUNNING)
