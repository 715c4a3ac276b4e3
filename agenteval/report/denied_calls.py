"""Denied calls by class: the first of each in the report, the others on separate pages."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from agenteval.core.plain import as_file_part, as_word, shortened
from agenteval.core.summary import TrialSummary
from agenteval.core.trial import CallRecord, Trial
from agenteval.report.transcripts import marked_text
from agenteval.report.view import RunView

CALLS = 40  # of one class and model in the page itself
CALLS_BESIDE = 400  # of them on a page beside it
CALL_SHOWN = 160  # characters before, in and after the evidence


@dataclass(frozen=True, slots=True)
class TrialLine:
    """One trial in the list of all, with the place of its transcript, if that is written."""

    trial: TrialSummary
    denials: int
    place: str
    file: str = ""  # that it stands in; empty for the page itself
    written: bool = True

    @property
    def href(self) -> str:
        return f"{self.file}#{self.place}"


@dataclass(frozen=True, slots=True)
class _CallLine:
    """One denied call: its place, and its text split at the evidence."""

    line: TrialLine
    turn: int
    before: str
    marked: str
    after: str

    @property
    def href(self) -> str:
        return f"{self.line.href}-{self.turn}"

    @property
    def where(self) -> str:
        return f"{self.line.trial.scenario} #{self.line.trial.number}, turn {self.turn}"


@dataclass(frozen=True, slots=True)
class CallList:
    """The calls behind one figure: the first of them, and the pages with the others.

    `left` is the number of calls that are on no page, as the run is too large.
    """

    place: str
    failure_class: str
    run: RunView
    calls: tuple[_CallLine, ...]
    files: tuple[str, ...]
    left: int
    count: int

    @property
    def command(self) -> str:
        return f"agenteval calls {as_word(self.run.run.id)} --class {as_word(self.failure_class)}"


Calls = dict[str, list[_CallLine]]  # by the place of the list that they belong to


@dataclass(frozen=True, slots=True)
class _CallsPage:
    """A separate page with more calls behind one figure, whose list is in the report itself."""

    file: str
    of: CallList
    calls: Sequence[_CallLine]
    first: int  # the number of the first one, from 1

    def href(self, call: _CallLine, main: str) -> str:
        """Return the link from this page to a call; `main` is the file of the report."""
        beside = call.line.file.rpartition("/")[2]
        return f"{beside or f'../{main}'}#{call.line.place}-{call.turn}"


def gather(calls: Calls, run: int, line: TrialLine, trial: Trial) -> None:
    """Add the denied calls of a trial that the rates count.

    These are the first agent's, if the trial is not void.
    """
    for record in trial.calls if not line.trial.void else ():
        if (primary := record.verdict.primary) is not None:
            place = _calls_place(run, primary.failure_class)
            calls.setdefault(place, []).append(_call_line(line, record))


def _calls_place(run: int, failure_class: str) -> str:
    return f"c{run}-{failure_class}"


def _call_line(line: TrialLine, record: CallRecord) -> _CallLine:
    before, marked, after = marked_text(record.call, record.verdict)
    if marked and len(before) > CALL_SHOWN:
        before = f"(...) {before[-CALL_SHOWN:].lstrip()}"
    shown = (shortened(part, CALL_SHOWN + 6) for part in (before, marked, after))
    return _CallLine(line, record.turn + 1, *shown)


def call_lists(run: RunView, at: int, calls: Calls, folder: str) -> Iterator[CallList]:
    """Yield the list of each class; `calls` has the first calls by place.

    `folder` is empty if not all calls are to be written.
    """
    counts: Counter[str] = Counter()
    for trial in run.score.counted:
        counts.update(trial.errors)
    for number, (name, count) in enumerate(counts.items(), 1):
        place = _calls_place(at, name)
        file = name if as_file_part(name) == name else f"class-{number}"
        first_calls = tuple(calls.get(place, ())[:CALLS])
        remaining = count - len(first_calls)
        pages = range(1, 1 + ceil(remaining / CALLS_BESIDE) if folder else 1)
        files = tuple(f"{folder}/calls-{at + 1}-{file}-{part}.html" for part in pages)
        yield CallList(place, name, run, first_calls, files, 0 if folder else remaining, count)


def calls_beside(lists: Sequence[CallList], calls: Calls) -> Iterator[_CallsPage]:
    """Yield the pages of the calls that are not in the report itself."""
    for of in lists:
        for at, file in enumerate(of.files):
            first = CALLS + at * CALLS_BESIDE
            some = calls.get(of.place, [])[first : first + CALLS_BESIDE]
            yield _CallsPage(file, of, some, first + 1)
