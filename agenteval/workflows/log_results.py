"""Which sessions of logs are wanted, and what came of taking them in."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from agenteval.core.logged import Session, Skipped
from agenteval.errors import UsageError
from agenteval.readers.json_source import when


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sessions are taken in: those that ended since or began until, and of these names."""

    since: str | None = None
    until: str | None = None
    model: str | None = None
    agent: str | None = None
    project: str | None = None

    def check(self) -> None:
        """Raises UsageError for a day that is none."""
        for option, given in (("--since", self.since), ("--until", self.until)):
            if given is not None and when(given) is None:
                raise UsageError(f"{option} {given}: no day or time. Give one such as 2026-11-22")

    def fits(self, session: Session) -> bool:
        since, until = when(self.since), when(self.until)
        return (
            (since is None or (session.ended or 0) >= since)
            and (until is None or (session.began or 0) < until)
            and (self.model or "") in session.model
            and (self.agent or "") in session.agent
            and (self.project or "") in session.project
        )


EVERYTHING = Wanted()


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of one run: its calls by what was recorded, and how many its list denies."""

    run: str
    model: str
    format: str
    sessions: Counter[str] = field(default_factory=Counter)  # added, grown, unchanged
    recorded: Counter[str] = field(default_factory=Counter)
    derived: Counter[str] = field(default_factory=Counter)
    policies: Counter[str] = field(default_factory=Counter)  # where the lists of sessions are from
    differ: list[str] = field(default_factory=list)  # as many as are shown
    differing: Counter[str] = field(default_factory=Counter)  # by what was recorded


NAMED = 1_000  # skipped parts: a file of garbage has millions


@dataclass(slots=True)
class Intake:
    """All that one command took in."""

    runs: dict[str, Taken] = field(default_factory=dict)
    files: int = 0
    unchanged: int = 0  # files
    left_out: int = 0  # sessions that were not wanted
    empty: int = 0  # sessions in which the model said nothing
    skipped: list[Skipped] = field(default_factory=list)  # as many as are named
    skips: int = 0  # all that were skipped
    redacted: Sequence[str] = ()

    def skip(self, one: Skipped) -> None:
        self.skips += 1
        if self.skips <= NAMED:
            self.skipped.append(one)

    @property
    def has_news(self) -> bool:
        return any(
            taken.sessions["added"] or taken.sessions["grown"] for taken in self.runs.values()
        )
