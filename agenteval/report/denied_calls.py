"""Denied calls by their class: the first of each in the report, the others on pages beside it."""

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
    """One trial of the list of all: where its transcript stands, if it is written."""

    trial: TrialSummary
    denials: int
    place: str
    file: str = ""  # that it stands in; empty for the page itself
    written: bool = True

    @property
    def href(self) -> str:
        return f"{self.file}#{self.place}"


@dataclass(frozen=True, slots=True)
class CallLine:
    """One denied call: where it stands, and its text with the evidence apart."""

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
    """The calls behind one figure: the first of them, the pages with the others, and `left`.

    `left` are those that are on no page, as the run is too large for that.
    """

    place: str
    failure_class: str
    run: RunView
    calls: tuple[CallLine, ...]
    files: tuple[str, ...]
    left: int
    count: int

    @property
    def command(self) -> str:
        return f"agenteval calls {as_word(self.run.run.id)} --class {as_word(self.failure_class)}"


Calls = dict[str, list[CallLine]]  # by the place of the list that they belong to


@dataclass(frozen=True, slots=True)
class CallsBeside:
    """A page beside the report: more calls behind one figure, whose list is in the page itself."""

    file: str
    of: CallList
    calls: Sequence[CallLine]
    first: int  # the number of the first one, from 1

    def href(self, call: CallLine, main: str) -> str:
        """From this page on; `main` is the file of the report."""
        beside = call.line.file.rpartition("/")[2]
        return f"{beside or f'../{main}'}#{call.line.place}-{call.turn}"


def gather(found: Calls, run: int, line: TrialLine, trial: Trial) -> None:
    """Add those that the rates count: the first agent's, in trials that are not void."""
    for record in trial.calls if not line.trial.void else ():
        if (primary := record.verdict.primary) is not None:
            place = calls_place(run, primary.failure_class)
            found.setdefault(place, []).append(_call_line(line, record))


def calls_place(run: int, failure_class: str) -> str:
    return f"c{run}-{failure_class}"


def _call_line(line: TrialLine, record: CallRecord) -> CallLine:
    before, marked, after = marked_text(record.call, record.verdict)
    if marked and len(before) > CALL_SHOWN:
        before = f"(...) {before[-CALL_SHOWN:].lstrip()}"
    shown = (shortened(part, CALL_SHOWN + 6) for part in (before, marked, after))
    return CallLine(line, record.turn + 1, *shown)


def call_lists(run: RunView, at: int, found: Calls, folder: str) -> Iterator[CallList]:
    """`found` has the first of them; `folder` is empty where not all of them are to be written."""
    counts: Counter[str] = Counter()
    for one in run.score.counted:
        counts.update(one.errors)
    for number, (name, count) in enumerate(counts.items(), 1):
        place = calls_place(at, name)
        file = name if as_file_part(name) == name else f"class-{number}"
        shown = tuple(found.get(place, ())[:CALLS])
        left = count - len(shown)
        pages = range(1, 1 + ceil(left / CALLS_BESIDE) if folder else 1)
        files = tuple(f"{folder}/calls-{at + 1}-{file}-{part}.html" for part in pages)
        yield CallList(place, name, run, shown, files, 0 if folder else left, count)


def calls_beside(lists: Sequence[CallList], found: Calls) -> Iterator[CallsBeside]:
    """The pages of the calls that have no place in the page itself."""
    for of in lists:
        for at, file in enumerate(of.files):
            first = CALLS + at * CALLS_BESIDE
            some = found.get(of.place, [])[first : first + CALLS_BESIDE]
            yield CallsBeside(file, of, some, first + 1)
