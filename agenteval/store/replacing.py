"""Trials that are played again: what they were is kept, and counts no more."""

from collections.abc import Mapping, Sequence

from sqlalchemy import func
from sqlmodel import Session, col, or_, select

from agenteval.core.outcome import Ending, Outcome
from agenteval.errors import Cause
from agenteval.store.rows import TrialRow
from agenteval.store.summaries import INTERRUPTED

IN_FORCE = col(TrialRow.replaced).is_(False)


def set_aside(session: Session, run_id: str, *, voids: bool) -> Sequence[tuple[str, int]]:
    """Mark the trials in flight and, if wanted, the void ones as replaced; which they are."""
    open_ones = TrialRow.outcome == ""
    wanted = or_(open_ones, TrialRow.outcome == Outcome.VOID) if voids else open_ones
    query = select(TrialRow).where(TrialRow.run_id == run_id, IN_FORCE, wanted)
    rows = session.exec(query).all()
    for row in rows:
        row.replaced = True
        if not row.outcome:
            row.ending, row.outcome = Ending.BROKEN, Outcome.VOID
            row.reason, row.cause = INTERRUPTED, Cause.INTERRUPTED
    aside = [(row.scenario, row.number) for row in rows]
    session.commit()
    return aside


def replaced(session: Session, run_id: str) -> Mapping[str, int]:
    """How many trials were played again, by the cause of their void."""
    query = select(TrialRow.cause, func.count()).where(TrialRow.run_id == run_id, ~IN_FORCE)
    return dict(session.exec(query.group_by(TrialRow.cause)).all())
