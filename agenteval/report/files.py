"""A view, a gate's verdict, and the calls and trials of runs, as files for other programs.

JUnit XML lists a gate's criteria as a CI's tests. There an inconclusive criterion is an error and
not a skipped test: nothing may look green that was not proven. Markdown is for a pull request or a
job's summary. Rows are written as CSV, JSON lines or Parquet.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from agenteval.errors import UsageError, unwritten
from agenteval.host import write_whole
from agenteval.report.details import detail_tables
from agenteval.report.gate import GateView
from agenteval.report.json import attributes, encoded, keyed
from agenteval.report.tables import (
    MARK,
    MISSED,
    SAID,
    comparison_table,
    missed_lines,
    void_lines,
)
from agenteval.report.transcripts import denials, execution_document
from agenteval.report.view import View
from agenteval.trial.run import Run
from agenteval.trial.text import as_name, legible, visible
from agenteval.trial.trial import AgentPart, CallRecord, Trial

if TYPE_CHECKING:
    from jinja2 import Environment

# Markdown, and JUnit XML.


def markdown_text(view: View) -> str:
    text = _filled(
        "report.md",
        view=view,
        comparison=comparison_table(view),
        details=detail_tables(view),
        said=SAID,
        missed_title=MISSED,
        missed=missed_lines(view),
        voids=void_lines(view),
    )
    return text.rstrip()


def gate_dumps(view: GateView) -> str:
    return _filled("gate.md", view=view).rstrip() + "\n"


def junit_text(view: GateView) -> str:
    return _filled("gate.xml", view=view)


def _filled(template: str, **values: Any) -> str:
    return visible(_text_templates().get_template(template).render(mark=MARK, **values))


def _text_templates() -> "Environment":
    from agenteval.report.html import templates_of  # noqa: PLC0415 -- start-up: jinja2

    # What is escaped for Markdown or XML must not be escaped for HTML as well.
    templates = templates_of("agenteval.report").overlay(autoescape=False)
    templates.filters |= {"escaped": escaped, "block": block, "xml": _in_xml}
    return templates


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _in_xml(text: str) -> str:
    """Return one line without what XML cannot hold, and what a terminal would obey."""
    # Attributes stand in double quotes, and the end of a line is a sign already.
    return escape(_NOT_IN_XML.sub("\ufffd", as_name(text)), {'"': "&quot;"})


def escaped(text: str) -> str:
    """Return one line of literal text, for use within a line or a cell of a table.

    A server's words draw no tables, links, images, tags or emphasis, and notify no user by an `@`.
    """
    text = _ACTIVE.sub(r"\\\g<0>", " ".join(as_name(text).split()))
    return _MENTION.sub(r"\g<0><!-- -->", text)


def block(text: str) -> str:
    """Return the text as `escaped`, where a block begins: no heading, list, quote or definition."""
    return _BLOCK.sub(r"\1\\", escaped(text))


_ACTIVE = re.compile(
    r"[\\`*<|~$]"
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis; within a word it is a part of a name
    r"|(?<=\])[(\[:]"  # a link, an image, a reference, a definition
    r"|!(?=\[)|\[(?=[\^ xX]|$)"  # an image, a footnote, a box to tick
    r"|&(?=#?\w+;)"  # what would be read as another character
    r"|(?<=\w):(?=//)|(?i:(?<=\bwww))\."  # an address that becomes a link by itself
)
# What GitHub makes of a text after Markdown: no escape keeps it, a comment within it does.
_MENTION = re.compile(r"(?<!\w)@(?=\w)|@(?=[\w-]+\.)", re.ASCII)
_BLOCK = re.compile(r"^(?:(?=[-+=>\[]|#{1,6}(?: |$))|(\d{1,9})(?=[.)](?: |$)))")

# Rows.

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
    return _csv_text(rows)


def call_rows(runs: Sequence[Run]) -> Iterator[Row]:
    """Yield every call of these runs, those of sub-agents too, in the order of trials."""
    for run, trial in _trials(runs):
        parts: tuple[Trial | AgentPart, ...] = (trial, *trial.agents)
        for part in parts:
            agent = part.label if isinstance(part, AgentPart) else ""
            for record in part.calls:
                yield _place(run, trial) | {"agent": agent} | _call(record)


def trial_rows(runs: Sequence[Run]) -> Iterator[Row]:
    for run, trial in _trials(runs):
        usages = [turn.usage for turn in trial.turns]
        yield _place(run, trial) | keyed(
            trial,
            "trial-row",
            cause=trial.cause or "",
            turns=len(trial.turns),
            calls=len(trial.calls),
            denied=denials(trial),
            prompt_tokens=sum(usage.prompt_tokens for usage in usages),
            completion_tokens=sum(usage.completion_tokens for usage in usages),
            goal=json.dumps(encoded(trial.goal)),
            handshake=json.dumps(encoded(trial.handshake)),
        )


def _trials(runs: Sequence[Run]) -> Iterator[tuple[Run, Trial]]:
    for run in runs:
        for trial in run.trials:
            yield run, trial


def _place(run: Run, trial: Trial) -> Row:
    return {
        "run": run.id,
        "model": run.model.name,
        "simulated": run.model.simulated,
        "arm": run.arm.name if run.arm else "",
        **attributes(trial, "scenario", "number", "seed", "outcome"),
    }


def _call(record: CallRecord) -> Row:
    primary = record.verdict.primary
    others = [finding.failure_class for finding in record.verdict.findings[1:]]
    reasons = {"class": "", "also": json.dumps(others), "evidence": "", "hint": ""}
    if primary:
        reasons["class"] = primary.failure_class
        reasons["evidence"] = primary.evidence.text
        reasons["hint"] = primary.hint
    return {**keyed(record, "call-row", **reasons), **execution_document(record)}


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
            text = _csv_text(rows) if path.suffix == ".csv" else _json_lines(rows)
            write_whole(path, text)
    except OSError as error:
        raise unwritten(f"--file {path}", error, "name a file in a folder of yours") from error


def write_dataset(
    rows: Mapping[str, Sequence[Row]],
    runs: Sequence[Run],
    folder: Path,
) -> None:
    """Write a folder in Hugging Face's layout: a card, and a file for each configuration."""
    for kind, of in rows.items():
        write(of, folder / "data" / f"{kind}.jsonl")
    simulated = any(run.model.simulated for run in runs)
    card = _filled("dataset.md", kinds=list(rows), runs=runs, simulated=simulated)
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


def _csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
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


def _json_lines(rows: Sequence[Row]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def _legible(value: Any) -> Any:
    """Replace lone surrogates, which no text file can hold, by U+FFFD."""
    return legible(value) if isinstance(value, str) else value
