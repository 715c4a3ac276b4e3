"""A store with something of all that one keeps, and any of its columns made hostile."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from stored import stored

from agenteval.store.sql import SqlStore
from agenteval.testing import card, denied, failing, run, says, sub_agent, tool, trial
from agenteval.trial.call import Outcome
from agenteval.trial.run import ArmCard, Crash, Look
from agenteval.trial.trial import GoalCheck

# Those whose value names no kind and is no number: with others spoilt a store is damaged.
NAMES = (
    ("run", "id"), ("run", "model"), ("run", "sandbox"), ("run", "protocol"), ("run", "taxonomy"),
    ("run", "policies"), ("run", "judged"), ("run", "arm"), ("run", "scenarios"), ("run", "card"),
    ("crash", "said"), ("look", "verdict"), ("look", "baseline"), ("look", "rules"),
    ("tags", "labels"), ("tags", "note"), ("trial", "scenario"), ("trial", "reason"),
    ("call", "name"), ("call", "raw"), ("call", "failure_class"), ("call", "policy"),
    ("call", "reply"), ("call", "limit"), ("call", "call_id"), ("turn", "text"),
    ("turn", "finish_reason"), ("turn", "model"), ("turn", "reasoning"), ("review", "note"),
)  # fmt: skip


def whole_store(folder: Path) -> Path:
    """Runs, looks, labels, reviews, crashes, sub-agents."""
    path = folder / "runs.db"
    arm = ArmCard("taught/tools", 1, "ours", "five", 5, 29, 4100, "bare", "", "a harness")
    trials = [
        trial(
            denied("uv run notes.py list | head -5", "pipe-to-filter", evidence="| head -5"),
            tool("fly", failure_class="hallucinated-tool", path="x"),
            failing("uv run notes.py show 9"),
            says("Done."),
            agents=(sub_agent("checker", denied("cat x"), reason="r"),),
            goal=(GoalCheck("the note is read", held=False, expected="1", found="0"),),
            handshake=(("list", True), ("show", False)),
            outcome=outcome,
            reason="because",
            number=number,
        )
        for number, outcome in enumerate((Outcome.GAVE_UP, Outcome.VOID, Outcome.STALLED), 1)
    ]
    models = {name: card(f"model-{name}", server="s") for name in ("one", "two")}
    runs = [run(*trials, run_id=name, model=model, arm=arm) for name, model in models.items()]
    stored(str(path), *runs)
    with closing(SqlStore(str(path))) as opened:
        opened.tag("one", ["nightly"], "a note", off=False)
        opened.review(1, "allowed", "a note", "2026-01-01")
        opened.crash("one", Crash(1.0, "the server went away"))
        opened.look("one", Look(1, 1, 2, 0.01, "INCONCLUSIVE", "two", "d", "2026-01-01", "d", "d"))
    return path


_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table'"


def columns(store: Path) -> Iterator[tuple[str, str]]:
    """The table and the name of each column that holds a text, or JSON."""
    with closing(sqlite3.connect(store)) as opened:
        for (table,) in opened.execute(_TABLES).fetchall():
            for _, name, kind, *_ in opened.execute(f"PRAGMA table_info({table})"):
                if kind in {"VARCHAR", "TEXT", "JSON"} and name != "run_id":
                    yield table, name


def spoil(store: Path, table: str, column: str, hostile: str) -> None:
    """Put the hostile text before each text of a column; a run's new id goes along everywhere."""
    with closing(sqlite3.connect(store)) as opened, opened:
        kinds = {name: kind for _, name, kind, *_ in opened.execute(f"PRAGMA table_info({table})")}
        rows = opened.execute(f'SELECT rowid, "{column}" FROM {table}').fetchall()
        for rowid, value in rows:
            if value is None:
                continue
            is_json = kinds[column] == "JSON"
            spoilt = json.dumps(_spoilt(json.loads(value), hostile)) if is_json else hostile + value
            update = f'UPDATE OR IGNORE {table} SET "{column}" = ? WHERE rowid = ?'
            opened.execute(update, (spoilt, rowid))
            if (table, column) == ("run", "id"):
                _rename(opened, value, spoilt)


def _rename(opened: sqlite3.Connection, run: str, name: str) -> None:
    for (table,) in opened.execute(_TABLES).fetchall():
        if any(one[1] == "run_id" for one in opened.execute(f"PRAGMA table_info({table})")):
            opened.execute(f"UPDATE {table} SET run_id = ? WHERE run_id = ?", (name, run))


def _spoilt(value: Any, hostile: str) -> Any:
    if isinstance(value, dict):
        return {key: _spoilt(inner, hostile) for key, inner in value.items()}
    if isinstance(value, list):
        return [_spoilt(inner, hostile) for inner in value]
    return f"{hostile}{value}" if isinstance(value, str) else value


def names_in(store: Path) -> dict[str, str]:
    """The runs and a trial, as words of a command: {one}, {two}, {trial}."""
    with closing(sqlite3.connect(store)) as opened:
        one, two = (name for (name,) in opened.execute("SELECT id FROM run ORDER BY rowid"))
        (scenario,) = opened.execute("SELECT scenario FROM trial ORDER BY id").fetchone()
    return {"{one}": one, "{two}": two, "{trial}": f"{scenario}#1"}
