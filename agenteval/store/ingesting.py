"""Sessions out of logs as trials of a run: written whole or not at all, and taken up again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import JSON, Column, Connection, Table, delete, func, insert, select, update
from sqlmodel import Field, SQLModel

from agenteval.core.logged import Session
from agenteval.core.run import Run
from agenteval.core.trial import CallRecord, Trial
from agenteval.store import mapping
from agenteval.store.rows import CallRow, ExactText, RunRow, TrialRow, TurnRow


class SessionRow(SQLModel, table=True):
    """One session, or a part of one, that is a trial. `outcomes` counts all calls as recorded.

    `policy` says where the allow list comes from that is known of it; `differ` counts the calls of
    which that says something else than was recorded.
    """

    __tablename__ = "session"

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    trial_id: int = Field(foreign_key="trial.id", index=True)
    session: str = Field(sa_type=ExactText)
    part: int
    agent: str = Field(sa_type=ExactText)
    version: str = Field(sa_type=ExactText)
    project: str = Field(sa_type=ExactText)
    parent: str = Field(sa_type=ExactText)
    path: str = Field(sa_type=ExactText)
    began: float | None = Field(default=None, index=True)
    ended: float | None = None
    size: list[int] = Field(sa_column=Column(JSON, nullable=False))  # of turns, results, text
    outcomes: dict[str, int] = Field(sa_column=Column(JSON, nullable=False))
    policy: str = Field(sa_type=ExactText)
    differ: int


class LogFileRow(SQLModel, table=True):
    """A file that was read to its end, as it was then; `id` is a digest of what was asked of it."""

    __tablename__ = "log_file"

    id: str = Field(primary_key=True)
    state: str


def _table(row: Any) -> Table:
    return SQLModel.metadata.tables[str(row.__tablename__)]


_RUN, _TRIAL, _TURN, _CALL, _SESSION, _FILE = map(
    _table, (RunRow, TrialRow, TurnRow, CallRow, SessionRow, LogFileRow)
)
_NEW_TRIAL = {
    name: column.default
    for name, column in TrialRow.model_fields.items()
    if name != "id" and not column.is_required()
}


class LoggedRecord(NamedTuple):
    """A call as it is stored: with what is derived of it, beside what was recorded."""

    record: CallRecord
    derived: str
    offending: str
    shape: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A session with the trial that it is; its number is given to it where it is stored.

    `trial` has what it takes to count it; `records` what is kept of each call.
    """

    session: Session
    trial: Trial
    records: Sequence[LoggedRecord]
    policies: Mapping[str, str]
    policy: str
    differ: int


class _Known(NamedTuple):
    row: int
    trial: int
    size: tuple[int, ...]


@dataclass(slots=True)
class LogWriter:
    """Writes sessions to a store, each in one transaction. `added` and `grown` count them."""

    connection: Connection
    taxonomy: str
    _known: dict[str, dict[tuple[str, int], _Known]] = field(default_factory=dict)
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    def has_read(self, name: str, state: str) -> bool:
        """Whether this file was read to its end when it was as it is now."""
        wanted = select(_FILE.c.state).where(_FILE.c.id == name)
        with self.connection.begin():
            return self.connection.execute(wanted).scalar() == state

    def read(self, name: str, state: str) -> None:
        with self.connection.begin():
            self.connection.execute(delete(_FILE).where(_FILE.c.id == name))
            self.connection.execute(insert(_FILE), {"id": name, "state": state})

    def run_of(self, session: Session, runs: Sequence[str]) -> str | None:
        """Which of these runs has a part of the session already."""
        for run in runs:
            if any(name == session.id for name, _ in self._of_run(run)):
                return run
        return None

    def write(self, run: Run, judged: Judged) -> str:
        """`added`, `grown` or `unchanged`; an older copy of what is there changes nothing."""
        session = judged.session
        known = self._of_run(run.id).get((session.id, session.part))
        if known and known.size >= session.size:
            return "unchanged"
        with self.connection.begin():
            trial = self._trial(run, judged) if known is None else self._emptied(known)
            self._fill(trial, judged)
            row = self._session(run, trial, judged)
            self._known[run.id][session.id, session.part] = row
        return "grown" if known else "added"

    def close_run(self, run: Run) -> None:
        """Keep what has come to a run: how many trials, by which allow lists."""
        values = {"trials_planned": run.trials_planned, "policies": dict(run.policies)}
        with self.connection.begin():
            self.connection.execute(update(_RUN).where(_RUN.c.id == run.id), values)

    def _of_run(self, run: str) -> dict[tuple[str, int], _Known]:
        if run not in self._known:
            columns = ("session", "part", "id", "trial_id", "size")
            wanted = select(*(_SESSION.c[name] for name in columns)).where(_SESSION.c.run_id == run)
            with self.connection.begin():
                rows = self.connection.execute(wanted).all()
            self._known[run] = {
                (name, part): _Known(row, trial, tuple(size))
                for name, part, row, trial, size in rows
            }
        return self._known[run]

    def _trial(self, run: Run, judged: Judged) -> int:
        scenario = judged.trial.scenario
        if (run.id, scenario) not in self._numbers:
            last = select(func.max(_TRIAL.c.number)).where(
                _TRIAL.c.run_id == run.id, _TRIAL.c.scenario == scenario
            )
            self._numbers[run.id, scenario] = self.connection.execute(last).scalar() or 0
        number = self._numbers[run.id, scenario] = self._numbers[run.id, scenario] + 1
        values = {
            "run_id": run.id,
            "scenario": scenario,
            "number": number,
            "seed": judged.trial.seed,
        }
        made = insert(_TRIAL).returning(_TRIAL.c.id)
        return int(self.connection.execute(made, _NEW_TRIAL | values).scalar_one())

    def _emptied(self, known: _Known) -> int:
        calls = select(_CALL.c.id).where(_CALL.c.trial_id == known.trial)
        judgement = SQLModel.metadata.tables["judgement"]
        for gone in (
            delete(judgement).where(judgement.c.call_id.in_(calls)),
            delete(_CALL).where(_CALL.c.trial_id == known.trial),
            delete(_TURN).where(_TURN.c.trial_id == known.trial),
            delete(_SESSION).where(_SESSION.c.id == known.row),
        ):
            self.connection.execute(gone)
        return known.trial

    def _fill(self, trial: int, judged: Judged) -> None:
        turns = [
            mapping.turn_values(trial, number, turn, agent="")
            for number, turn in enumerate(judged.trial.turns)
        ]
        calls = [*self._calls(trial, judged)]
        for table, rows in ((_TURN, turns), (_CALL, calls)):
            if rows:
                self.connection.execute(insert(table), rows)
        ended = mapping.ended_values(judged.trial)
        self.connection.execute(update(_TRIAL).where(_TRIAL.c.id == trial), ended)

    def _calls(self, trial: int, judged: Judged) -> Iterator[dict[str, Any]]:
        policy = next(iter(judged.policies.values()), "")
        for one in judged.records:
            yield mapping.call_values(
                trial, one.record, agent="", policy=policy, taxonomy=self.taxonomy
            ) | {"derived": one.derived, "offending": one.offending, "shape": one.shape}

    def _session(self, run: Run, trial: int, judged: Judged) -> _Known:
        one = judged.session
        told = ("agent", "version", "project", "parent", "path", "part", "began", "ended")
        values = {name: getattr(one, name) for name in told} | {
            "run_id": run.id,
            "trial_id": trial,
            "session": one.id,
            "size": list(one.size),
            "outcomes": dict(one.outcomes),
            "policy": judged.policy,
            "differ": judged.differ,
        }
        made = self.connection.execute(insert(_SESSION).returning(_SESSION.c.id), values)
        return _Known(made.scalar_one(), trial, one.size)
