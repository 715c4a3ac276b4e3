"""Published tables as CSV: model, calls, class, errors; trial and scenario where they are known.

Spreadsheets write them in many ways: any of four delimiters, headers in any case, a line that names
the delimiter, empty lines. What could be read in two ways is refused: rates, separators, totals.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from agenteval.bounded import read_bytes
from agenteval.core.counts import ErrorCounts
from agenteval.errors import UsageError
from agenteval.taxonomy.catalogue import failure_classes
from agenteval.taxonomy.failure_class import ArticleRow

Trial = tuple[str, str]  # scenario and trial

COLUMNS = "model, calls, class, errors; trial and scenario where they are known"
_LARGEST = 16 << 20  # bytes: some 400,000 lines
_NEEDED = ("model", "calls", "errors")
_KNOWN = (*_NEEDED, "class", "trial", "scenario")
_DELIMITERS = ",;\t|"
_MOST = 10_000_000  # the exact test of two counts visits every count there is
_SLIP = 0.85  # how alike: `pip` and `pipe` are 0.86
_LONGEST = 80  # characters of a class that may be a slip for one of ours
_TOTALS = frozenset(("total", "totals", "all", "sum", "overall", "subtotal", "grand total"))


@dataclass(frozen=True, slots=True)
class _Line:
    model: str
    calls: int
    errors: int
    failure_class: str
    trial: str
    scenario: str


@dataclass(frozen=True, slots=True)
class Table:
    """One model's lines. `calls` and `errors` (by class) are by trial."""

    calls: dict[Trial, int] = field(default_factory=dict)
    errors: dict[Trial, Counter[str]] = field(default_factory=dict)

    @property
    def trials(self) -> tuple[Trial, ...]:
        return tuple(self.calls)

    @property
    def counts(self) -> ErrorCounts:
        """By trial only when every line named one."""
        added = ErrorCounts.added([(self.calls[one], self.errors[one]) for one in self.calls])
        by_trial = all(trial for _, trial in self.calls)
        return ErrorCounts(added.calls, added.by_class, by_trial=by_trial)


def load_counts(path: Path) -> Mapping[str, Table]:
    """Every model's counts, in the order of the file. Raises UsageError."""
    try:
        raw = read_bytes(path, largest=_LARGEST)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}; give a CSV file") from error
    if raw.startswith(b"PK"):
        raise UsageError(f"{path}: a spreadsheet or an archive, no CSV: save it as CSV in UTF-8")
    is_wide = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = raw.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: cannot be read: not UTF-8 text (byte {error.start}): save it as CSV in UTF-8"
        ) from error
    return read_counts(text.splitlines(), where=str(path))


def read_counts(lines: Sequence[str], *, where: str) -> Mapping[str, Table]:
    tables: dict[str, Table] = {}
    found = list(_lines(lines, where))
    if any(line.failure_class in _class_names() for _, line in found):
        _refuse_slips(found, where)
    for number, line in found:
        table, trial = tables.setdefault(line.model, Table()), (line.scenario, line.trial)
        if table.calls.setdefault(trial, line.calls) != line.calls:
            raise UsageError(
                f"{where}:{number}: calls: {line.calls}, but {table.calls[trial]} in a line above; "
                "every line of a trial repeats its calls"
            )
        errors = table.errors.setdefault(trial, Counter())
        if line.errors:
            errors[line.failure_class or "not named"] += line.errors
        if errors.total() > line.calls:
            raise UsageError(
                f"{where}:{number}: errors: {errors.total()} by now, of {line.calls} calls; a call "
                "has one class at most"
            )
    if not tables:
        raise UsageError(f"{where}: no counts. The columns are {COLUMNS}")
    return tables


def _lines(lines: Sequence[str], where: str) -> Iterator[tuple[int, _Line]]:
    """Every line that is not empty, with its number in the file."""
    before = next((n for n, line in enumerate(lines) if _names_columns(line)), len(lines))
    delimiter = max(_DELIMITERS, key=lambda each: "".join(lines[before : before + 1]).count(each))
    reader = csv.reader(lines[before:], delimiter=delimiter, skipinitialspace=True)
    try:
        columns = _columns(next(reader, []), where)
        for cells in reader:
            if any(map(str.strip, cells)):
                at = f"{where}:{before + reader.line_num}"
                yield before + reader.line_num, _line(columns, cells, at)
    except csv.Error as error:
        raise UsageError(f"{where}:{before + reader.line_num}: no CSV: {error}") from error


def _names_columns(line: str) -> bool:
    return bool(line.strip()) and not re.fullmatch(r'"?sep=.?"?', line.strip())


def _columns(cells: Sequence[str], where: str) -> list[str]:
    columns = [cell.lower() for cell in _trimmed(cells)]
    unknown = next((name for name in columns if name not in _KNOWN), None)
    missing = next((name for name in _NEEDED if name not in columns), None)
    if not columns:
        raise UsageError(f"{where}: no counts. The columns are {COLUMNS}")
    if missing is not None:
        there = ", ".join(repr(name) for name in columns)
        raise UsageError(f"{where}: no column {missing}, but {there}. The columns are {COLUMNS}")
    if unknown is not None:
        raise UsageError(f"{where}: unknown column {unknown!r}. The columns are {COLUMNS}")
    return columns


def _trimmed(cells: Sequence[str]) -> list[str]:
    """Without the empty cells at the end that spreadsheets add."""
    trimmed = [cell.strip() for cell in cells]
    while trimmed and not trimmed[-1]:
        trimmed.pop()
    return trimmed


def _line(columns: Sequence[str], cells: Sequence[str], at: str) -> _Line:
    texts = _trimmed(cells)
    if len(texts) > len(columns):
        raise UsageError(
            f"{at}: {len(texts)} cells, but {len(columns)} columns: quote what holds the delimiter"
        )
    values = dict.fromkeys(columns, "") | dict(zip(columns, texts, strict=False))
    for column in ("model", "class"):
        if values.get(column, "").lower() in _TOTALS:
            raise UsageError(
                f"{at}: {column}: {values[column]!r} seems to be a sum of other lines, which would "
                "count twice: take it out, or where there are no others, leave its class empty"
            )
    if not values["model"]:
        raise UsageError(f"{at}: model: expected a name, got nothing")
    return _Line(
        model=values["model"],
        calls=_count(values["calls"], f"{at}: calls"),
        errors=_count(values["errors"], f"{at}: errors"),
        failure_class=values.get("class", ""),
        trial=values.get("trial", ""),
        scenario=values.get("scenario", ""),
    )


def _refuse_slips(lines: Sequence[tuple[int, _Line]], where: str) -> None:
    """In a table of our classes; a table of other people's may name them as they like."""
    for number, line in lines:
        if near := _nearest_class(line.failure_class[:_LONGEST]):
            raise UsageError(
                f"{where}:{number}: class: {line.failure_class!r} is none of ours; "
                f"did you mean {near}?"
            )


@lru_cache(maxsize=1)
def _class_names() -> frozenset[str]:
    return frozenset((*(one.id for one in failure_classes()), *map(str, ArticleRow)))


@lru_cache(maxsize=1024)
def _nearest_class(name: str) -> str:
    """The class of ours that `name` is a slip for."""
    known = sorted(_class_names())
    near = get_close_matches(name, known, n=1, cutoff=_SLIP) if name not in _class_names() else ()
    return near[0] if near else ""


def _count(text: str, at: str) -> int:
    """Whole, though libraries that know empty cells write 12.0."""
    match = re.fullmatch(r"(\d{1,12})(?:\.0+)?", text, re.ASCII)
    if match and int(match[1]) <= _MOST:
        return int(match[1])
    got = repr(text[:40]) if text else "nothing"
    if match or text.startswith("-"):
        cure = f"from 0 to {_MOST:,}"
    elif re.search(r"[.%]", text):
        cure = "no rate: of a rate without its calls nothing follows"
    else:
        cure = "only digits, no separators"
    raise UsageError(f"{at}: expected a count, {cure}, got {got}")
