"""A run without its transcripts: only the columns that its figures are made from."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Select, Table, and_, case, func, select, union
from sqlmodel import SQLModel

from agenteval.core.call import ToolCall
from agenteval.core.counts import Cluster
from agenteval.core.outcome import Outcome
from agenteval.core.recovery import Attempt, recovery_of
from agenteval.core.tally import AgentCall, Tally, calls_by_agent
from agenteval.core.trial import HandshakeStep
from agenteval.store.mapping import INTERRUPTED, cause_of
from agenteval.store.rows import CallRow, TrialRow, TurnRow

TRIAL, TURN, CALL = (
    SQLModel.metadata.tables[str(row.__tablename__)] for row in (TrialRow, TurnRow, CallRow)
)
UNREAD = ToolCall("", "", "")  # of a call that no denial is near to

Place = tuple[int, int, int]  # trial, turn, position
Texts = dict[int, dict[int, str]]  # by trial and turn


def tallies(database: Connection, run_id: str) -> Iterator[Tally]:
    """In the order of `SqlStore.load`, and equal to the tallies of what that gives."""
    turns = {trial: (count, asked) for trial, count, asked in database.execute(_turns(run_id))}
    attempts, texts = _attempts(database, run_id), _texts_after_denials(database, run_id)
    agents = _agents(database, run_id)
    for row in database.execute(_trials(run_id)).all():
        made = attempts.get(row.id, [])
        seen, prompt_tokens = turns.get(row.id, (0, 0))
        yield Tally(
            scenario=row.scenario,
            number=row.number,
            seed=row.seed,
            outcome=Outcome(row.outcome) if row.outcome else Outcome.VOID,
            reason=row.reason if row.outcome else INTERRUPTED,
            calls=len(made),
            errors=Counter(one.failure_class for one in made if one.failure_class),
            handshake=tuple(HandshakeStep(**step) for step in row.handshake),
            recovery=recovery_of(made, turns=seen, texts=texts.get(row.id, {})),
            prompt_tokens=prompt_tokens,
            agents=agents.get(row.id, {}),
            cause=cause_of(row.outcome, row.cause),
            retries=row.retries,
            stretched=row.stretched,
        )


def _trials(run_id: str) -> Select[Any]:
    at = TRIAL.c
    about = at.id, at.scenario, at.number, at.seed, at.outcome, at.reason, at.handshake
    columns = (*about, at.cause, at.retries, at.stretched)
    of_run = select(*columns).where(at.run_id == run_id, at.replaced.is_(False))
    return of_run.order_by(at.scenario, at.number)


def _turns(run_id: str) -> Select[Any]:
    """How many turns each trial has, and the prompt tokens of its first."""
    at = TURN.c
    first = func.max(case((at.number == 0, at.prompt_tokens), else_=0))
    query = select(at.trial_id, func.count(), first).group_by(at.trial_id)
    return _of_run(query, TURN, run_id)


def _attempts(database: Connection, run_id: str) -> dict[int, list[Attempt]]:
    """The calls of each trial, in their order."""
    near = dict(_near_denials(database, run_id))
    at = CALL.c
    query = select(at.trial_id, at.turn, at.position, at.allowed, at.failure_class).order_by(at.id)
    attempts: dict[int, list[Attempt]] = {}
    for trial, turn, position, allowed, failure_class in database.execute(
        _of_run(query, CALL, run_id)
    ).all():
        call = near.get((trial, turn, position), UNREAD)
        one = Attempt(turn, position, "" if allowed else failure_class, call)
        attempts.setdefault(trial, []).append(one)
    return attempts


def _agents(database: Connection, run_id: str) -> dict[int, dict[str, Cluster]]:
    """Of each trial, the denied calls and all calls of its sub-agents, by their names."""
    at = CALL.c
    query = select(at.trial_id, at.agent, at.allowed).where(at.agent != "")
    found: dict[int, list[AgentCall]] = {}
    for trial, label, allowed in database.execute(_of_all_agents(query, CALL, run_id)).all():
        found.setdefault(trial, []).append((label.rpartition("/")[0], not allowed))
    return {trial: calls_by_agent(calls) for trial, calls in found.items()}


def _near_denials(database: Connection, run_id: str) -> Iterator[tuple[Place, ToolCall]]:
    """The calls of turns with a denial, and of the turns after them."""
    at, near = CALL.c, union(_denied(run_id, 0), _denied(run_id, 1)).subquery()
    there = and_(at.trial_id == near.c.trial_id, at.turn == near.c.turn, at.agent == "")
    query = select(
        *(at.trial_id, at.turn, at.position),
        *(at.call_id, at.name, at.raw, at.arguments, at.garbled),
    ).join(near, there)
    for trial, turn, position, *call in database.execute(query).all():
        yield (trial, turn, position), ToolCall(*call)


def _texts_after_denials(database: Connection, run_id: str) -> Texts:
    at, after = TURN.c, _denied(run_id, 1).distinct().subquery()
    there = and_(at.trial_id == after.c.trial_id, at.number == after.c.turn, at.agent == "")
    query = select(at.trial_id, at.number, at.text).join(after, there)
    texts: Texts = {}
    for trial, number, text in database.execute(query).all():
        texts.setdefault(trial, {})[number] = text
    return texts


def _denied(run_id: str, later: int) -> Select[Any]:
    """Trial and turn of each denial, so many turns later."""
    query = select(CALL.c.trial_id, (CALL.c.turn + later).label("turn"))
    return _of_run(query.where(CALL.c.allowed.is_(False)), CALL, run_id)


def _of_run(query: Select[Any], table: Table, run_id: str) -> Select[Any]:
    """Of the trials' first agents."""
    return _of_all_agents(query.where(table.c.agent == ""), table, run_id)


def _of_all_agents(query: Select[Any], table: Table, run_id: str) -> Select[Any]:
    return query.join(TRIAL, TRIAL.c.id == table.c.trial_id).where(TRIAL.c.run_id == run_id)
