"""Published tables as CSV: model, calls, class, errors; trial and scenario where they are known."""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from agenteval.core.counts import ErrorCounts
from agenteval.errors import UsageError

# The exact test of two counts visits every count there is.
Count = Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
Trial = tuple[str, str]  # scenario and trial

COLUMNS = "model, calls, class, errors; trial and scenario where they are known"


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    model: Name
    calls: Count
    errors: Count
    failure_class: str = msgspec.field(name="class", default="")
    trial: str = ""
    scenario: str = ""


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
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error}); give a CSV file in UTF-8") from error
    return read_counts(text.splitlines(), where=str(path))


def read_counts(lines: Sequence[str], *, where: str) -> Mapping[str, Table]:
    tables: dict[str, Table] = {}
    for number, line in _lines(lines, where):
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
    """Every line with its number in the file."""
    reader = csv.DictReader(lines, skipinitialspace=True, restkey="too many cells", restval="")
    for row in reader:
        try:
            line = msgspec.convert(row, _Line, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(
                f"{where}:{reader.line_num}: {error}. The columns are {COLUMNS}"
            ) from error
        yield reader.line_num, line
