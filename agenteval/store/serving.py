"""How the server did during a run: its crashes, and out of how many requests."""

from sqlalchemy import func
from sqlmodel import Session, col, select

from agenteval.core.run import Crash
from agenteval.errors import Cause
from agenteval.store.rows import CrashRow, TrialRow, TurnRow

NO_REQUEST = ("", Cause.OURS, Cause.INTERRUPTED, Cause.CONTEXT_CUT)  # what no failed request ended


def crashes(session: Session, run_id: str) -> tuple[Crash, ...]:
    query = select(CrashRow).where(CrashRow.run_id == run_id).order_by(col(CrashRow.id))
    return tuple(Crash(row.at, row.said) for row in session.exec(query))


def requests(session: Session, run_id: str) -> int:
    """Those that were answered, those sent again, and those that made a trial void."""
    of_run = TrialRow.run_id == run_id
    turns = select(func.count(col(TurnRow.id))).join(TrialRow).where(of_run)
    again = select(func.coalesce(func.sum(TrialRow.retries), 0)).where(of_run)
    failed = select(func.count()).where(of_run, col(TrialRow.cause).not_in(NO_REQUEST))
    return sum(int(session.exec(query).one()) for query in (turns, again, failed))
