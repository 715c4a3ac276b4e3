"""Additions to a stored run: sessions out of logs, and new judgements of its calls.

`LogWriter` stores sessions as trials of a run, each whole or not at all, and takes them up again
when they have grown. `rescore` judges stored calls again: the new judgement is in force, and the
one before it is kept.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agenteval.store.location import Bound, Connection, decoded
from agenteval.store.read import call_value, trial_value, verdict_values
from agenteval.store.summaries import summary_values
from agenteval.store.tables import change_row, insert_row, read_rows
from agenteval.store.texts import written_call
from agenteval.store.write import Entry, SessionTables
from agenteval.trial.call import ToolCall, Verdict
from agenteval.trial.summary import summarize
from agenteval.trial.trial import CallRecord

_STATE = "SELECT state FROM log_file WHERE id = :file"
_KEEP_STATE = """INSERT INTO log_file (id, state) VALUES (:file, :state)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state"""
_SESSIONS = "SELECT session, part, trial_id, size FROM session WHERE run_id = :run"
_LAST = "SELECT max(number) FROM trial WHERE run_id = :run AND scenario = :scenario"
_PLANNED = "UPDATE run SET trials_planned = trials_planned + :added WHERE id = :run"
_REVIEWS = """SELECT one.agent, one.turn, one.position, review.label, review.note, review.at
    FROM review JOIN "call" AS one ON one.id = review.call_id WHERE review.trial_id = :trial"""
_ADD_REVIEW = """INSERT INTO review (trial_id, call_id, label, note, at)
    SELECT trial_id, id, :label, :note, :at FROM "call"
    WHERE trial_id = :trial AND agent = :agent AND turn = :turn AND position = :position"""
_EMPTY = (
    """DELETE FROM judgement WHERE call_id IN (SELECT id FROM "call" WHERE trial_id = :trial)""",
    "DELETE FROM review WHERE trial_id = :trial",
    """DELETE FROM "call" WHERE trial_id = :trial""",
    "DELETE FROM turn WHERE trial_id = :trial",
    "DELETE FROM session WHERE trial_id = :trial",
)
AT_ONCE = 4_000  # calls that one transaction writes, about
SESSIONS = 1_000  # likewise


class _Known(NamedTuple):
    """The stored state of a session; its trial is None while it waits to be written."""

    trial: int | None
    size: tuple[int, ...]


@dataclass(slots=True)
class LogWriter:
    """Writes sessions to a store, each whole or not at all, many in one transaction."""

    connection: Connection
    tables: SessionTables
    _stored: dict[str, dict[tuple[str, int], _Known]] = field(default_factory=dict)
    _names: dict[str, set[str]] = field(default_factory=dict)  # of sessions, by run
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    _waiting: list[tuple[str, Entry, int | None]] = field(default_factory=list)
    _files: list[tuple[str, str]] = field(default_factory=list)
    _calls: int = 0  # of those waiting

    def has_read(self, name: str, state: str) -> bool:
        """Return True if the log was read to its end in this state; False if no state is known."""
        if not state:
            return False
        known = self.connection.ask(_STATE, file=name)
        return bool(known) and known[0][0] == state

    def read(self, name: str, state: str) -> None:
        """This file was read to its end: kept when all that was in it is written."""
        self._files.append((name, state))

    def run_of(self, session: str, runs: Sequence[str]) -> str | None:
        """Return the one of these runs that has a part of the session already; else None."""
        for run in runs:
            if self._of_run(run) and session in self._names[run]:
                return run
        return None

    def add(self, run: str, entry: Entry) -> str:
        """`added`, `grown` or `unchanged`; an older copy of what is there changes nothing."""
        key = (entry.session, entry.part)
        stored = self._of_run(run).get(key)
        if stored and stored.size >= entry.size:
            return "unchanged"
        # It still waits: its row has no number before it is written.
        if stored and stored.trial is None:
            self.flush()
            stored = self._stored[run][key]
        self._waiting.append((run, entry, stored.trial if stored else None))
        self._stored[run][key] = _Known(None, entry.size)
        self._names[run].add(entry.session)
        self._calls += len(entry.calls)
        if self._calls >= AT_ONCE or len(self._waiting) >= SESSIONS:
            self.flush()
        return "grown" if stored else "added"

    def flush(self) -> None:
        """Write what waits, in one transaction: of no session a part is ever there."""
        entries, self._waiting = self._waiting, []
        files, self._files = self._files, []
        self._calls = 0
        if not entries and not files:
            return
        with self.connection.together():
            added = Counter[str]()
            for run, entry, trial in entries:
                if trial is None:
                    added[run] += 1
                    self._fill(run, self._new(run, entry), entry)
                else:
                    self._replace(run, trial, entry)
            for run, count in added.items():
                self.connection.ask(_PLANNED, run=run, added=count)
            for name, state in files:
                self.connection.ask(_KEEP_STATE, file=name, state=state)

    def _of_run(self, run: str) -> dict[tuple[str, int], _Known]:
        if run not in self._stored:
            stored = {}
            for session, part, trial, size in self.connection.ask(_SESSIONS, run=run):
                stored[session, part] = _Known(trial, tuple(decoded(size)))
            self._stored[run] = stored
            self._names[run] = {session for session, _ in stored}
        return self._stored[run]

    def _new(self, run: str, entry: Entry) -> int:
        key = (run, entry.scenario)
        # The numbers go on behind those of earlier imports.
        if key not in self._numbers:
            last = self.connection.ask(
                _LAST,
                run=run,
                scenario=entry.scenario,
            )
            self._numbers[key] = last[0][0] or 0
        self._numbers[key] += 1
        row = (run, self._numbers[key], entry.scenario, entry.seed, *entry.trial)
        adding = f"{self.tables.trial.insert} RETURNING id"
        return int(self.connection.execute(adding, row)[0][0])

    def _replace(self, run: str, trial: int, entry: Entry) -> None:
        """Replace the rows of a trial.

        A person's review of a call is kept for the call that takes its place.
        """
        reviews = self.connection.ask(_REVIEWS, trial=trial)
        for emptying in _EMPTY:
            self.connection.ask(emptying, trial=trial)
        self.connection.execute(self.tables.trial.update, (*entry.trial, trial))
        self._fill(run, trial, entry)
        for agent, turn, position, label, note, at in reviews:
            place = {"trial": trial, "agent": agent, "turn": turn, "position": position}
            self.connection.ask(_ADD_REVIEW, **place, label=label, note=note, at=at)

    def _fill(self, run: str, trial: int, entry: Entry) -> None:
        self._write(self.tables.turn.insert, (trial,), entry.turns)
        self._write(self.tables.call.insert, (trial,), entry.calls)
        self._write(
            self.tables.session.insert,
            (run, trial),
            [entry.about],
        )
        self._stored[run][entry.session, entry.part] = _Known(trial, entry.size)

    def _write(
        self,
        insert: str,
        place: Bound,
        rows: Sequence[Bound],
    ) -> None:
        if rows:
            self.connection.execute_each(insert, [place + row for row in rows])


# Stored calls judged again.

ALLOWED = "allowed"
Moves = Mapping[tuple[str, str], int]  # from which class, or "allowed", to which: how many calls


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a call: its task instance, and its sub-agent ("" is the first agent)."""

    scenario: str
    seed: int
    agent: str
    trial: int  # tells trials apart, of which several may meet one world


@dataclass(frozen=True, slots=True)
class Basis:
    """The basis of judgements: a taxonomy's version, and the digests of allow lists."""

    taxonomy: str
    policies: Mapping[str, str]
    judged: Mapping[str, str]  # as `Run.judged`
    at: str  # ISO 8601, UTC


Judge = Callable[[Place, ToolCall, CallRecord], tuple[Verdict, str]]


@dataclass(frozen=True, slots=True)
class Rescored:
    """The changes of a run's judgement. `calls` are all that were judged again."""

    run_id: str
    calls: int
    moves: Moves

    @property
    def changed(self) -> int:
        return sum(self.moves.values())


def rescore(
    connection: Connection,
    run_id: str,
    judge: Judge,
    basis: Basis,
) -> Rescored:
    """Judge every call of a run's trials again, all or none.

    `judge` takes the place of a call, the call as the model wrote it, and its record. It returns
    the verdict and the digest of the allow list that gave it. The end of a trial and the effects of
    its calls stay as they happened.
    """
    with connection.together():
        (run,) = read_rows(connection.ask, "run", "WHERE id = :run", run=run_id)
        now = {"taxonomy": basis.taxonomy, "policies": dict(basis.policies)}
        before = {"taxonomy_before": run.taxonomy, "policies_before": run.policies}
        record = {"run_id": run_id, "at": basis.at, **before, **now}
        [(number,)] = insert_row(connection, "rescore", record, "RETURNING id")
        rescoring = _Rescoring(connection, number, basis.taxonomy, judge)
        ended = "WHERE run_id = :run AND outcome <> ''"
        trials = list(read_rows(connection.ask, "trial", ended, run=run_id))
        for trial in trials:
            rescoring.rescore_trial(trial)
        change_row(
            connection,
            "run",
            run,
            now | {"judged": dict(basis.judged)},
        )
    return Rescored(run_id, rescoring.calls, dict(rescoring.moves))


@dataclass(slots=True)
class _Rescoring:
    """A rescoring under way, with the judgements so far."""

    connection: Connection
    number: int  # of its row
    taxonomy: str
    judge: Judge
    calls: int = 0
    moves: Counter[tuple[str, str]] = field(default_factory=Counter)

    def rescore_trial(self, trial: Any) -> None:
        turns = self._rows("turn", trial.id)
        calls = self._rows("call", trial.id)
        written = {(turn.agent, turn.number): turn.calls for turn in turns}
        for call in calls:
            meant = written_call(written[call.agent, call.turn][call.position])
            agent = call.agent.rpartition("/")[0]
            place = Place(trial.scenario, trial.seed, agent, trial.id)
            verdict, policy = self.judge(place, meant, call_value(call))
            self._set_verdict(call, verdict, policy)
        summary = summarize(trial_value(trial, turns, calls))
        change_row(self.connection, "trial", trial, summary_values(summary))

    def _set_verdict(
        self,
        call: Any,
        verdict: Verdict,
        policy: str,
    ) -> None:
        """Put the verdict in force, and keep the one before it where they differ."""
        self.calls += 1
        basis = {"policy": policy, "taxonomy": self.taxonomy}
        change_row(self.connection, "call", call, basis)
        new = verdict_values(verdict)
        before = {name: getattr(call, name) for name in new}
        if not change_row(self.connection, "call", call, new):
            return
        judgement = {"rescore_id": self.number, "call_id": call.id, **before}
        insert_row(self.connection, "judgement", judgement)
        move = (before["failure_class"] or ALLOWED, new["failure_class"] or ALLOWED)
        self.moves[move] += 1

    def _rows(self, table: str, trial: int) -> list[Any]:
        own = "WHERE trial_id = :trial ORDER BY id"
        return list(read_rows(self.connection.ask, table, own, trial=trial))
