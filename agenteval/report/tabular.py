"""Rows for other programs: the figures of a view, and the calls or trials of runs, as a file."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from agenteval.bounded import write_whole
from agenteval.core.plain import legible
from agenteval.core.run import Run
from agenteval.core.trial import AgentPart, CallRecord, Trial
from agenteval.errors import UsageError, unwritten
from agenteval.report.details import detail_tables
from agenteval.report.markdown import block, escaped
from agenteval.report.tables import comparison_table
from agenteval.report.view import View

Row = dict[str, Any]
SUFFIXES = (".csv", ".jsonl", ".parquet")


def view_csv(view: View) -> str:
    """Return CSV with one line per table cell: its table, row, column, and numbers."""
    rows: list[Row] = []
    for table in (comparison_table(view), *detail_tables(view)):
        for row in table.rows:
            for head, cell in zip(table.heads, row.cells, strict=True):
                low, _, high = cell.interval.strip("[]").partition(", ")
                rows.append(
                    {
                        "table": table.title,
                        "row": row.label,
                        "column": head.label,
                        "simulated": head.simulated,
                        "count": cell.count,
                        "value": cell.value,
                        "low": low,
                        "high": high,
                        "n": cell.n.removeprefix("n="),
                    }
                )
    return csv_text(rows)


def call_rows(runs: Sequence[Run]) -> Iterator[Row]:
    """Yield every call of these runs, those of sub-agents too, in the order of trials."""
    for run in runs:
        for trial in run.trials:
            parts: tuple[Trial | AgentPart, ...] = (trial, *trial.agents)
            for part in parts:
                agent = part.label if isinstance(part, AgentPart) else ""
                for record in part.calls:
                    yield _place(run, trial) | {"agent": agent} | _call(record)


def trial_rows(runs: Sequence[Run]) -> Iterator[Row]:
    for run in runs:
        for trial in run.trials:
            yield _place(run, trial) | _trial(trial)


def _place(run: Run, trial: Trial) -> Row:
    return {
        "run": run.id,
        "model": run.model.name,
        "simulated": run.model.simulated,
        "arm": run.arm.name if run.arm else "",
        "scenario": trial.scenario,
        "number": trial.number,
        "seed": trial.seed,
        "outcome": str(trial.outcome),
    }


def _call(record: CallRecord) -> Row:
    primary, ran = record.verdict.primary, record.execution
    return {
        "turn": record.turn,
        "position": record.position,
        "tool": record.call.name,
        "arguments": record.call.raw,
        "command": record.call.command,
        "allowed": record.verdict.allowed,
        "class": primary.failure_class if primary else "",
        "also": json.dumps([one.failure_class for one in record.verdict.findings[1:]]),
        "evidence": primary.evidence.text if primary else "",
        "hint": primary.hint if primary else "",
        "reply": record.reply,
        "exit_code": ran.exit_code if ran else None,
        "limit": ran.limit if ran else "",
        "seconds": ran.seconds if ran else None,
    }


def _trial(trial: Trial) -> Row:
    return {
        "ending": str(trial.ending),
        "reason": trial.reason,
        "cause": str(trial.cause or ""),
        "turns": len(trial.turns),
        "calls": len(trial.calls),
        "denied": sum(not record.verdict.allowed for record in trial.calls),
        "prompt_tokens": sum(turn.usage.prompt_tokens for turn in trial.turns),
        "completion_tokens": sum(turn.usage.completion_tokens for turn in trial.turns),
        "seconds": trial.seconds,
        "goal_turn": trial.goal_turn,
        "goal": json.dumps([asdict(check) for check in trial.goal]),
        "handshake": json.dumps([asdict(step) for step in trial.handshake]),
    }


def write(rows: Sequence[Row], path: Path) -> None:
    """Write the rows in the format of the file's suffix.

    Raises UsageError for an unknown suffix, and as `unwritten` does.
    """
    check(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            _parquet(rows, path)
        else:
            text = csv_text(rows) if path.suffix == ".csv" else _lines(rows)
            write_whole(path, text)
    except OSError as error:
        raise unwritten(f"--file {path}", error, "name a file in a folder of yours") from error


def write_dataset(rows: Mapping[str, Sequence[Row]], runs: Sequence[Run], folder: Path) -> None:
    """Write a folder in Hugging Face's layout: a card, and a file for each configuration."""
    for kind, of in rows.items():
        write(of, folder / "data" / f"{kind}.jsonl")
    simulated = any(run.model.simulated for run in runs)
    configs = "".join(f"- config_name: {kind}\n  data_files: data/{kind}.jsonl\n" for kind in rows)
    runs_listed = "".join(
        f"- {block(run.model.name)}, arm {escaped(run.arm.name if run.arm else 'unknown')}, "
        f"taxonomy {escaped(run.taxonomy)}: {len(run.trials)} trials\n"
        for run in runs
    )
    mark = "\n**SIMULATED**: no real model stands behind these rows.\n" if simulated else ""
    card = (
        f"---\nconfigs:\n{configs}tags:\n- tool-calling\n---\n\n# Tool calls, judged\n{mark}\n"
        f"Written by agenteval; a row of `calls` is one tool call with its verdict, a row of "
        f"`trials` one attempt at one scenario with its outcome.\n\n{runs_listed}"
    )
    (folder / "README.md").write_text(card, encoding="utf-8")


def check(path: Path) -> None:
    """Raise UsageError for a file of an unknown format, or of one whose library is missing."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"--file {path}: a file of {', '.join(SUFFIXES)} is written")
    if path.suffix == ".parquet":
        _arrow("pyarrow", path)


def _arrow(module: str, path: Path) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise UsageError(
            f"--file {path}: Parquet is written by pyarrow; install agenteval-gate[parquet], or "
            "name a .csv or .jsonl"
        ) from error


def _parquet(rows: Sequence[Row], path: Path) -> None:
    legibly = [{name: _legible(value) for name, value in row.items()} for row in rows]
    table = _arrow("pyarrow", path).Table.from_pylist(legibly)
    _arrow("pyarrow.parquet", path).write_table(table, path)


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [_csv_line(rows[0])] if rows else []
    lines += [_csv_line(_no_formula(_legible(value)) for value in row.values()) for row in rows]
    return "".join(lines)


def _csv_line(values: Iterable[Any]) -> str:
    """Return a row that ends in a line feed; what has either end of a line is quoted.

    Before Python 3.13 a writer quotes only those of its own terminator: a reader would end the row
    at the other one.
    """
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n").writerow(values)
    return out.getvalue().removesuffix("\r\n") + "\n"


# What a spreadsheet computes, in each width; it may pass over blanks and what is not seen.
_FORMULA = re.compile(
    r"[\t\r\n]"
    r"|[\s\x00-\x1f\x7f-\xa0\u200b-\u200f\u2060\ufeff]*"
    r"[=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212]"
)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?%?", re.ASCII | re.IGNORECASE)


def _no_formula(value: Any) -> Any:
    """Prefix a formula with an apostrophe, so that a spreadsheet reads it as text.

    A number stays unchanged.
    """
    if not isinstance(value, str) or not _FORMULA.match(value):
        return value
    return value if _NUMBER.fullmatch(value) else f"'{value}"


def _lines(rows: Sequence[Row]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def _legible(value: Any) -> Any:
    """Replace lone surrogates, which no text file can hold, by U+FFFD."""
    return legible(value) if isinstance(value, str) else value
