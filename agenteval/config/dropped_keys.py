"""Keys of project files that an earlier agenteval knew, and what stands for each of them today.

A key that is dropped or renamed goes into this table: a file of a year ago is then read, or refused
with its cure. `tests/config/history` has such files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agenteval.errors import UsageError

Tables = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _DroppedKey:
    """A key, dots between its tables, and the `successor` at the top of the file.

    `values` gives each value that keeps its meaning, and how it is written today; of any other the
    `reason` says why it has none.
    """

    file: str  # by its usual name
    key: str
    dropped: str  # the day
    successor: str
    values: Mapping[str, str]
    reason: str


DROPPED_KEYS = (
    _DroppedKey(
        *("gate.toml", "plan.over", "2026-11-22", "about"),
        values={"trials": "these", "scenarios": "like-these"},
        reason="nothing chooses any more by itself what figures are about",
    ),
)


def renew(file: str, path: Path, tables: Tables) -> tuple[Tables, list[str]]:
    """The tables of a file of this kind by the keys of today, and a warning for each older one.

    Raises UsageError for a key that has no meaning any more.
    """
    warnings = []
    for dropped in DROPPED_KEYS:
        above, _, name = dropped.key.rpartition(".")
        table = tables.get(above)
        if dropped.file != file or not isinstance(table, dict) or name not in table:
            continue
        value = dropped.values.get(str(table[name]))
        if value is None and dropped.successor not in tables:
            raise UsageError(_refusal(dropped, path, table[name]))
        rest = {key: kept for key, kept in table.items() if key != name}
        tables = {dropped.successor: value, **tables, above: rest}
        warnings.append(_warning(dropped, path, tables[dropped.successor]))
    return tables, warnings


def _warning(dropped: _DroppedKey, path: Path, value: object) -> str:
    return (
        f"{path}: {dropped.key} was dropped on {dropped.dropped}, and is read as "
        f'{dropped.successor} = "{value}"; write that at the top of the file instead'
    )


def _refusal(dropped: _DroppedKey, path: Path, value: object) -> str:
    ways = " or ".join(f'{dropped.successor} = "{one}"' for one in dropped.values.values())
    return (
        f"{path}: {dropped.key} = {value!r:.60} was dropped on {dropped.dropped}: "
        f"{dropped.reason}; write {ways} at the top of the file instead"
    )
