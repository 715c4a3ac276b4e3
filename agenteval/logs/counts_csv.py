"""Figures measured elsewhere: published tables of counts as CSV, and the log of a vLLM server.

A table has the columns model, calls, class and errors; trial and scenario where they are known.
Spreadsheets write CSV in many ways: any of four delimiters, headers in any case, a line that names
the delimiter, empty lines. What could be read in two ways is refused: rates, separators, totals.

Of vLLM's log two kinds of lines count: the one that each engine writes every ten seconds, in the
form of V0 or of V1, and those of uvicorn's access log.

    INFO 11-21 10:13:11 [loggers.py:271] Engine 000: Avg prompt throughput: 5.1 tokens/s, Avg ...
    INFO:     10.0.0.5:53422 - "POST /v1/chat/completions HTTP/1.1" 200 OK

They are found whatever a container or a journal puts before them, and also where another format of
logging stands around them.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import BinaryIO

from agenteval.classes.catalogue import failure_classes
from agenteval.classes.failure_class import ArticleRow
from agenteval.errors import UsageError
from agenteval.host import read_bytes
from agenteval.logs.packed import UNREADABLE, opened
from agenteval.trial.recovery import Access, EngineLine, Entry
from agenteval.trial.trial import ErrorCounts

# Scenario and trial
Trial = tuple[str, str]
COLUMNS = "model, calls, class, errors; trial and scenario where they are known"
# Bytes: some 400,000 lines
_LARGEST = 16 << 20
_NEEDED = ("model", "calls", "errors")
_KNOWN = (*_NEEDED, "class", "trial", "scenario")
_DELIMITERS = ",;\t|"
# The exact test of two counts visits every count there is
_MOST = 10_000_000
# How alike: `pip` and `pipe` are 0.86
_SLIP = 0.85
# Characters of a class that may be a slip for one of ours
_LONGEST = 80
_TOTALS = {
    "total",
    "totals",
    "all",
    "sum",
    "overall",
    "subtotal",
    "grand total",
}


@dataclass(frozen=True, slots=True)
class _CsvLine:
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
        """Return the counts of all trials; by trial only if every line named one."""
        added = ErrorCounts.added([(self.calls[trial], self.errors[trial]) for trial in self.calls])
        by_trial = all(trial for _, trial in self.calls)
        return replace(added, by_trial=by_trial)


def load_counts(path: Path) -> Mapping[str, Table]:
    """Return every model's counts, in the order of the file. Raises UsageError."""
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
    return _read_counts(text.splitlines(), where=str(path))


def _read_counts(lines: Sequence[str], *, where: str) -> Mapping[str, Table]:
    tables: dict[str, Table] = {}
    numbered = list(_lines(lines, where))
    # Another table may name its classes as it likes
    if any(line.failure_class in _class_names() for _, line in numbered):
        _refuse_slips(numbered, where)
    for number, line in numbered:
        table = tables.setdefault(line.model, Table())
        trial = (line.scenario, line.trial)
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


def _lines(lines: Sequence[str], where: str) -> Iterator[tuple[int, _CsvLine]]:
    """Yield every line that is not empty, with its number in the file."""
    headers = (number for number, line in enumerate(lines) if _names_columns(line))
    before = next(headers, len(lines))
    header = "".join(lines[before : before + 1])
    delimiter = max(_DELIMITERS, key=header.count)
    reader = csv.reader(
        lines[before:],
        delimiter=delimiter,
        skipinitialspace=True,
    )
    try:
        columns = _columns(next(reader, []), where)
        for cells in reader:
            if any(map(str.strip, cells)):
                number = before + reader.line_num
                yield number, _line(columns, cells, f"{where}:{number}")
    except csv.Error as error:
        raise UsageError(f"{where}:{before + reader.line_num}: no CSV: {error}") from error


def _names_columns(line: str) -> bool:
    return bool(line.strip()) and not re.fullmatch(r'"?sep=.?"?', line.strip())


def _columns(cells: Sequence[str], where: str) -> list[str]:
    columns = [cell.lower() for cell in _trimmed(cells)]
    if not columns:
        raise UsageError(f"{where}: no counts. The columns are {COLUMNS}")
    for name in _NEEDED:
        if name not in columns:
            there = ", ".join(map(repr, columns))
            raise UsageError(f"{where}: no column {name}, but {there}. The columns are {COLUMNS}")
    for name in columns:
        if name not in _KNOWN:
            raise UsageError(f"{where}: unknown column {name!r}. The columns are {COLUMNS}")
    return columns


def _trimmed(cells: Sequence[str]) -> list[str]:
    """Return the cells without the empty ones at the end that spreadsheets add."""
    trimmed = [cell.strip() for cell in cells]
    while trimmed and not trimmed[-1]:
        trimmed.pop()
    return trimmed


def _line(
    columns: Sequence[str],
    cells: Sequence[str],
    at: str,
) -> _CsvLine:
    texts = _trimmed(cells)
    if len(texts) > len(columns):
        raise UsageError(
            f"{at}: {len(texts)} cells, but {len(columns)} columns: quote what holds the delimiter"
        )
    values = dict.fromkeys(columns, "") | dict(
        zip(
            columns,
            texts,
            strict=False,
        )
    )
    for column in ("model", "class"):
        if values.get(column, "").lower() in _TOTALS:
            raise UsageError(
                f"{at}: {column}: {values[column]!r} seems to be a sum of other lines, which would "
                "count twice: take it out, or where there are no others, leave its class empty"
            )
    if not values["model"]:
        raise UsageError(f"{at}: model: expected a name, got nothing")
    return _CsvLine(
        model=values["model"],
        calls=_count(values["calls"], f"{at}: calls"),
        errors=_count(values["errors"], f"{at}: errors"),
        failure_class=values.get("class", ""),
        trial=values.get("trial", ""),
        scenario=values.get("scenario", ""),
    )


def _refuse_slips(lines: Sequence[tuple[int, _CsvLine]], where: str) -> None:
    """Raise UsageError for a class that is a slip for one of ours."""
    for number, line in lines:
        near = _nearest_class(line.failure_class[:_LONGEST])
        if near:
            raise UsageError(
                f"{where}:{number}: class: {line.failure_class!r} is none of ours; "
                f"did you mean {near}?"
            )


@cache
def _class_names() -> frozenset[str]:
    names = {failure_class.id for failure_class in failure_classes()}
    return frozenset(names | set(map(str, ArticleRow)))


# A table repeats a few classes in many lines
@lru_cache(maxsize=1024)
def _nearest_class(name: str) -> str:
    """Return the class of ours that a name is a slip for; "" for one that is ours, or none."""
    names = sorted(_class_names())
    if name in names:
        return ""
    return "".join(get_close_matches(name, names, n=1, cutoff=_SLIP))


def _count(text: str, at: str) -> int:
    """Return the count that a cell holds. Raises UsageError for what is no whole number."""
    # Libraries that know empty cells write 12.0
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


# The log of a vLLM server.

# Bytes of a line that are looked at: logged prompts can have megabytes
LONGEST = 1 << 16
# And the zeros of UTF-16
_COLOUR = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]|\0")
# The first head of a line is vLLM's own: what a logged prompt holds comes after one.
_HEAD = re.compile(
    r"(?:INFO|DEBUG) +(?:\d{4}-)?(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,]\d+)? "
    r"+\[?[\w./-]+:\d+\] *"
)
_ENGINE = re.compile(
    r"(?:(Engine \d+|\d+ Engines Aggregated): )?"
    r"Avg prompt throughput: (\d{1,8}\.\d) tokens/s, "
    r"Avg generation throughput: (\d{1,8}\.\d) tokens/s, "
    r"(?:# ?)?Running: (\d{1,5}) reqs, (?:Swapped: \d+ reqs, )?(?:Waiting|Pending): (\d{1,9}) reqs"
)
_ACCESS = re.compile(
    r'INFO: +\S* ?- \\?"POST (?:/\S*)?/v1/(?:chat/completions|completions|responses|messages)'
    r'(?:\?\S*)? HTTP/[\d.]+\\?" (\d{3})\b'
)
_SPEAKS = re.compile(r"(?:(?:Engine \d+|\d+ Engines Aggregated): )?Avg prompt throughput")
# In a line that another format of logging made, such as JSON.
_STAMP = re.compile(r"\d{4}[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)")
# What other servers write about their speed.
_OTHERS = {
    "SGLang": re.compile(r"(?:Decode|Prefill) batch.*#running-req: "),
    "llama.cpp": re.compile(r"slot +(?:print_timing|release|launch_slot)|eval time *= .* ms /"),
    "Ollama": re.compile(r"\[GIN\] \d{4}"),
    "LMDeploy": re.compile(r"Avg thr \(in/out\): "),
}
# Before a month of a leap year
_DAYS = (
    0,
    31,
    60,
    91,
    121,
    152,
    182,
    213,
    244,
    274,
    305,
    335,
)


@dataclass(slots=True)
class VllmLog:
    """Gives the entries of a log one by one; how many there were is known when it has ended.

    `unread` counts lines that speak of throughput in no form known here; `other` is the server
    that wrote the log, where that shows and it is not vLLM.
    """

    lines: int = 0
    engine_lines: int = 0
    completions: int = 0
    failed: int = 0
    unread: int = 0
    other: str = ""

    def entries(self, lines: Iterable[bytes]) -> Iterator[Entry]:
        for raw in lines:
            # Progress bars have no line ends of their own
            for part in raw.split(b"\r"):
                self.lines += bool(part.strip())
                plain = _COLOUR.sub(b"", part)
                entry = self._entry(plain.decode("ascii", "replace"))
                if entry is not None:
                    yield entry

    def _entry(self, line: str) -> Entry | None:
        head = _HEAD.search(line)
        if head is None and (found := _ACCESS.search(line)):
            access = Access(int(found[1]))
            self.completions += access.completed
            self.failed += not access.completed
            return access
        speaks = _SPEAKS.match(line, head.end()) if head else _SPEAKS.search(line)
        if speaks is None:
            self.other = self.other or (_other_server(line) if not self.engine_lines else "")
            return None
        engine = _ENGINE.match(line, speaks.start())
        if engine is None:
            self.unread += 1
            return None
        self.engine_lines += 1
        stamp = head or _STAMP.search(line)
        return _engine_line(engine, _seconds(stamp) if stamp else None)


def _other_server(line: str) -> str:
    names = (name for name, mark in _OTHERS.items() if mark.search(line))
    return next(names, "")


def _engine_line(match: re.Match[str], at: float | None) -> EngineLine:
    engine, prompt, generation, running, waiting = match.groups()
    return EngineLine(
        at=at,
        engine=engine or "",
        prompt=float(prompt),
        generation=float(generation),
        running=int(running),
        waiting=int(waiting),
    )


def _seconds(head: re.Match[str]) -> float | None:
    """Return seconds since the year began, in a year of 366 days: stamps have no year.

    None for no real month.
    """
    month, day, hour, minute, second = map(int, head.groups())
    if not 1 <= month <= len(_DAYS):
        return None
    hours = (_DAYS[month - 1] + day) * 24 + hour
    return float((hours * 60 + minute) * 60 + second)


def log_lines(paths: Sequence[str]) -> Iterator[bytes]:
    """Yield the lines of all files, one file after the other; `-` is the standard input.

    Packed files are unpacked as they are read. Raises UsageError.
    """
    for path in paths:
        try:
            with ExitStack() as stack:
                yield from bounded_lines(opened(path, stack))
        except UNREADABLE as error:
            raise UsageError(
                f"{path}: cannot be read ({error}); give log files of vLLM, the oldest first"
            ) from error


def bounded_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines without what is beyond the longest: memory stays small, whatever is in them."""
    is_begin = True
    while part := stream.readline(LONGEST):
        if is_begin:
            yield part
        is_begin = part.endswith(b"\n")
