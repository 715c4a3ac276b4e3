"""A person's reviews of calls: a label that corrects the classifier's, and a note."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agenteval.store.bound_rows import REVIEW, TableWriter
from agenteval.store.connections import Connection
from agenteval.store.kept_texts import from_column
from agenteval.store.summaries import Query

ALLOWED = "allowed"
_TRIAL = 'SELECT trial_id FROM "call" WHERE id = :call'
_FORGET = "DELETE FROM review WHERE call_id = :call"


def save_review(connection: Connection, call_id: int, label: str, note: str, at: str) -> bool:
    """Replace the review of the call; delete it if label and note are empty.

    Returns False if there is no such call.
    """
    with connection.together():
        trials = connection.ask(_TRIAL, call=call_id)
        connection.ask(_FORGET, call=call_id)
        if trials and (label or note):
            written = TableWriter("review", REVIEW, connection.mark)
            values = {"trial_id": trials[0][0], "call_id": call_id}
            values |= {"label": label, "note": note, "at": at}
            connection.execute(written.insert, written.bind(values))
    return bool(trials)


@dataclass(frozen=True, slots=True)
class Review:
    """A person's review of a call, with the failure class of the judgement in force (`judged`)."""

    call: int
    trial: int
    run: str
    model: str
    scenario: str
    number: int
    agent: str
    turn: int
    tool: str
    arguments: str
    judged: str  # a failure class, or "allowed"
    label: str
    note: str
    at: str

    @property
    def agrees(self) -> bool:
        return self.label == self.judged


_REVIEWS = """SELECT review.call_id, review.trial_id, trial.run_id, run.model, trial.scenario,
    trial.number, one.agent, one.turn, one.name, one.raw, one.failure_class, review.label,
    review.note, review.at FROM review JOIN "call" AS one ON one.id = review.call_id
    JOIN trial ON trial.id = review.trial_id JOIN run ON run.id = trial.run_id"""


def reviews(query: Query, *, run: str = "", call: int | None = None) -> list[Review]:
    """All, or those of a run's calls, or of one call; in the order of the calls."""
    filters = {"run": run} if run else {} if call is None else {"call": call}
    where = {"run": "WHERE trial.run_id = :run", "call": "WHERE review.call_id = :call"}
    only = "".join(where[name] for name in filters)
    asked = f"{_REVIEWS} {only} ORDER BY review.trial_id, review.call_id"
    return [_review(*row) for row in query(asked, **filters)]


def _review(*row: Any) -> Review:
    *place, tool, raw, judged, label, note, at = row
    texts: Sequence[str] = (from_column(tool), from_column(raw), judged or ALLOWED)
    values: list[Any] = [*place, *texts, label, from_column(note), at]
    return Review(*values)
