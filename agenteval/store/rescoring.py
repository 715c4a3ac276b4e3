"""Stored calls judged again: the new judgement is in force, and the one before it is kept."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import JSON, Column, Engine
from sqlmodel import Field, Session, SQLModel, col
from sqlmodel import select as select_rows

from agenteval.core.call import ToolCall, Verdict
from agenteval.core.summary import summarize
from agenteval.core.trial import CallRecord
from agenteval.store.kept_texts import written_call
from agenteval.store.mapping import call_value, trial_value, verdict_values
from agenteval.store.rows import CallRow, RunRow, TrialRow, TurnRow
from agenteval.store.summaries import summary_values

ALLOWED = "allowed"
Moves = Mapping[tuple[str, str], int]  # from which class, or "allowed", to which: how many calls


class RescoreRow(SQLModel, table=True):
    """One rescoring of a run, with the basis of its judgements before and after."""

    __tablename__ = "rescore"

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    at: str  # ISO 8601, UTC
    taxonomy_before: str
    taxonomy: str
    policies_before: dict[str, str] = Field(sa_column=Column(JSON, nullable=False))
    policies: dict[str, str] = Field(sa_column=Column(JSON, nullable=False))


class JudgementRow(SQLModel, table=True):
    """An earlier judgement of a call; of a call that is not here, the judgement did not change."""

    __tablename__ = "judgement"

    id: int | None = Field(default=None, primary_key=True)
    rescore_id: int | None = Field(foreign_key="rescore.id", index=True)
    call_id: int | None = Field(foreign_key="call.id", index=True)
    allowed: bool
    failure_class: str
    findings: list[Any] = Field(sa_column=Column(JSON, nullable=False))


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


def rescore(engine: Engine, run_id: str, judge: Judge, basis: Basis) -> Rescored:
    """Judge every call of a run's trials again, all or none.

    `judge` takes the place of a call, the call as the model wrote it, and its record. It returns
    the verdict and the digest of the allow list that gave it. The end of a trial and the effects of
    its calls stay as they happened.
    """
    with Session(engine) as session:
        run = session.get_one(RunRow, run_id)
        rescore_row = RescoreRow(
            run_id=run_id,
            at=basis.at,
            taxonomy_before=run.taxonomy,
            taxonomy=basis.taxonomy,
            policies_before=run.policies,
            policies=dict(basis.policies),
        )
        session.add(rescore_row)
        session.flush()
        rescoring = _Rescoring(session, rescore_row, judge)
        trials = select_rows(TrialRow).where(TrialRow.run_id == run_id, TrialRow.outcome != "")
        for row in session.exec(trials).all():
            rescoring.trial(row)
        run.taxonomy, run.policies, run.judged = (
            rescore_row.taxonomy,
            rescore_row.policies,
            dict(basis.judged),
        )
        session.commit()
        return Rescored(run_id, rescoring.calls, dict(rescoring.moves))


@dataclass(slots=True)
class _Rescoring:
    """A rescoring under way, with the judgements so far."""

    session: Session
    rescore_row: RescoreRow
    judge: Judge
    calls: int = 0
    moves: Counter[tuple[str, str]] = field(default_factory=Counter)

    def trial(self, row: TrialRow) -> None:
        turns, calls = self._rows(TurnRow, row), self._rows(CallRow, row)
        written = {(turn.agent, turn.number): turn.calls for turn in turns}
        for call in calls:
            meant = written_call(written[call.agent, call.turn][call.position])
            place = Place(row.scenario, row.seed, call.agent.rpartition("/")[0], row.id or 0)
            verdict, call.policy = self.judge(place, meant, call_value(call))
            call.taxonomy = self.rescore_row.taxonomy
            self._set_verdict(call, verdict)
        for name, value in summary_values(summarize(trial_value(row, turns, calls))).items():
            setattr(row, name, value)

    def _set_verdict(self, row: CallRow, verdict: Verdict) -> None:
        """Put the verdict in force, and keep the one before it where they differ."""
        self.calls += 1
        new = verdict_values(verdict)
        before = {name: getattr(row, name) for name in new}
        if new == before:
            return
        self.session.add(JudgementRow(rescore_id=self.rescore_row.id, call_id=row.id, **before))
        for name, value in new.items():
            setattr(row, name, value)
        self.moves[before["failure_class"] or ALLOWED, new["failure_class"] or ALLOWED] += 1

    def _rows(self, table: type[Any], trial: TrialRow) -> list[Any]:
        query = select_rows(table).where(table.trial_id == trial.id).order_by(col(table.id))
        return list(self.session.exec(query).all())
