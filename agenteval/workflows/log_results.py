"""Files of logs read and judged: the filter of sessions, and the results."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from agenteval.core.call import ToolCall
from agenteval.core.logged import LONGEST_NAME, Session, Skipped
from agenteval.core.policy.policy import Policy
from agenteval.core.redaction import Redactor
from agenteval.dialects.registry import dialects
from agenteval.formats.packed import UNREADABLE
from agenteval.readers.log_formats import FORMATS
from agenteval.store.bound_rows import Entry, Judged, SessionTables
from agenteval.store.listed import moment
from agenteval.workflows.log_trials import LogJudge, differs


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter of the sessions to import: by the time of their end or beginning, and by names."""

    since: str | None = None
    until: str | None = None
    model: str | None = None
    agent: str | None = None
    project: str | None = None

    def check(self) -> None:
        """Raises UsageError for a day that is none."""
        for option, given in (("--since", self.since), ("--until", self.until)):
            if given is not None:
                moment(option, given)

    def fits(self, session: Session) -> bool:
        ended, began = session.ended or 0, session.began or 0
        return (
            (self.since is None or ended >= moment("--since", self.since).timestamp())
            and (self.until is None or began < moment("--until", self.until).timestamp())
            and (self.model or "") in session.model
            and (self.agent or "") in session.agent
            and (self.project or "") in session.project
        )


EVERYTHING = Wanted()


SHOWN = 10  # calls of which list and record differ


@dataclass(frozen=True, slots=True)
class Counted:
    """A session that was read and judged: the entry to store, and the counts to report."""

    entry: Entry
    recorded: Counter[str]
    derived: Counter[str]
    policy: str  # what kind of place its list is from
    differ: Sequence[str]
    differing: Counter[str]


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of one run: its calls by their record, and how many of them its list denies."""

    run: str
    model: str
    format: str
    sessions: Counter[str] = field(default_factory=Counter)  # added, grown, unchanged
    recorded: Counter[str] = field(default_factory=Counter)
    derived: Counter[str] = field(default_factory=Counter)
    policies: Counter[str] = field(default_factory=Counter)  # where the lists of sessions are from
    differ: list[str] = field(default_factory=list)  # as many as are shown
    differing: Counter[str] = field(default_factory=Counter)  # by what was recorded

    def add(self, how: str, session: Counted) -> None:
        self.sessions[how] += 1
        if how == "unchanged":
            return
        self.recorded.update(session.recorded)
        self.derived.update(session.derived)
        self.policies[session.policy] += 1
        self.differing.update(session.differing)
        self.differ.extend(session.differ[: SHOWN - len(self.differ)])


NAMED = 1_000  # skipped parts: a file of garbage has millions


@dataclass(slots=True)
class Intake:
    """All that one command took in."""

    runs: dict[str, Taken] = field(default_factory=dict)
    file_count: int = 0  # files that there are
    files: int = 0  # that were come to
    unchanged: int = 0  # files
    left_out: int = 0  # sessions that were not wanted
    empty: int = 0  # sessions in which the model said nothing
    skipped: list[Skipped] = field(default_factory=list)  # as many as are named
    skips: int = 0  # all that were skipped
    redacted: Sequence[str] = ()
    lost_workers: int = 0  # worker processes that died
    bare: str = ""  # the first file in which there was no session

    def skip(self, one: Skipped) -> None:
        self.skips += 1
        if self.skips <= NAMED:
            self.skipped.append(one)

    @property
    def has_news(self) -> bool:
        return any(
            taken.sessions["added"] or taken.sessions["grown"] for taken in self.runs.values()
        )


EMPTY, LEFT_OUT = "empty", "left out"
Item = Counted | Skipped | str
Found = list[Item]  # of one thing in a file: several where a session changed its model


class Unread(NamedTuple):
    """The reason why a file could not be read, or not to its end."""

    skipped: Skipped


class Unit(NamedTuple):
    """A file, or every `shares`-th of the things in it, from the one numbered `share` on."""

    format: str
    path: Path
    share: int = 0
    shares: int = 1


# What an odd value does where nobody foresaw it: it is not read, and everything else is.
_ODD = (ValueError, RecursionError, MemoryError)
_FIRST = 20  # things in a file by which its format is told
_SMALL = 1 << 24  # bytes of a file that each format may read for that


@dataclass(slots=True)
class Reading:
    """Reads and judges files. Each thing in a file gives a list of results, in its order."""

    allowlist: Policy | None
    filters: Wanted
    redactor: Redactor | None
    tables: SessionTables
    _judges: dict[str, LogJudge] = field(default_factory=dict)

    def of(self, unit: Unit) -> Iterator[Found | Unread]:
        try:
            found = FORMATS[unit.format].read(unit.path)
            for one in islice(found, unit.share, None, unit.shares):
                yield [one] if isinstance(one, Skipped) else self._judged(unit, one)
        except (*UNREADABLE, *_ODD) as error:
            yield Unread(Skipped(str(unit.path), "the file", _why(error)))

    def _judged(self, unit: Unit, session: Session) -> Found:
        """Return the results of a session; one that cannot be read stops no other."""
        try:
            return [*self._session(unit.format, session)]
        except _ODD as error:
            place = f"session {session.id[:LONGEST_NAME]}"
            return [Skipped(str(unit.path), place, _why(error))]

    def remembers(self, format_name: str) -> bool:
        """Return True if rules that one session of the format quoted can judge a later one."""
        dialect = dialects().get(format_name)
        return self.allowlist is None and dialect is not None and dialect.quoted is not None

    def _session(self, format_name: str, session: Session) -> Iterator[Item]:
        if not session.turns:
            yield EMPTY
            return
        judge = self._judges.setdefault(
            format_name, LogJudge(format_name, self.allowlist, self.redactor)
        )
        for own in session.plain().by_model():
            if self.filters.fits(own):
                yield self._counted(judge.judged(own))
            else:
                yield LEFT_OUT

    def _counted(self, judged: Judged) -> Counted:
        other = [one for one in judged.records if differs(one)]
        return Counted(
            entry=self.tables.entry(judged),
            recorded=judged.session.outcomes,
            derived=Counter(one.derived for one in judged.records if one.derived),
            policy=judged.policy.partition(":")[0],
            differ=[
                f"{one.record.harness}, but {one.derived}: {_call_text(one.record.call)}"
                for one in other[:SHOWN]
            ],
            differing=Counter(one.record.harness for one in other),
        )


def reads_as(path: Path) -> list[str]:
    """Return the formats in which the beginning of a file reads without a fault, calls included.

    A large file has none: some formats hold a document until they know that it is not theirs.
    """
    formats = []
    for log in FORMATS.values():
        try:
            first = list(islice(log.read(path), _FIRST)) if path.stat().st_size < _SMALL else []
        except (*UNREADABLE, *_ODD):
            continue
        sessions = [one for one in first if not isinstance(one, Skipped)]
        if len(sessions) == len(first) and any(one.calls for one in sessions):
            formats.append(log.name)
    return formats


def _why(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or "no memory for it"


def _call_text(call: ToolCall) -> str:
    return call.command or f"{call.name} {call.raw}"
