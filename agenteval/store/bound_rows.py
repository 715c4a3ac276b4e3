"""Rows in the form of a database's driver: the columns of tables, and the binding of each value.

`rows` declares the same to SQLAlchemy, whose import takes 30 MB and 0.3 s that a run need not
spend; `tables.sql` is made of it by `make format`. A test compares the columns here with both.
Sessions from logs are bound wherever they were read.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from agenteval.core.logged import Session
from agenteval.core.run import Run
from agenteval.core.summary import ImportedCounts
from agenteval.core.trial import CallRecord, Trial
from agenteval.store import mapping
from agenteval.store.connections import Bound
from agenteval.store.kept_texts import packed, to_column
from agenteval.store.summaries import Values

# Columns but a row's own number, those marked: {} of JSON, * of any text, ~ of text that is packed.
RUN = """id model simulated started seed trials_planned max_turns concurrency sandbox prefork
    protocol taxonomy complete seconds joules second_reader{} card{} policies{} judged{} options{}
    scenarios{} arm{} source{} per_token"""
ENDED = """ending outcome reason* cause retries stretched seconds handshake{} goal{} goal_turn
    prompts{} agents{} calls errors{} executed crashed prompt_tokens agent_calls{} agent_errors{}
    counting"""
TRIAL = f"run_id scenario number seed shard replaced {ENDED}"
COUNTED = "recovery{}"  # nothing, until the trial has ended
TURN = """trial_id agent number text* finish_reason* prompt_tokens completion_tokens
    reasoning_tokens cached_tokens seconds first_piece pieces gap_mean gap_median gap_p95
    gap_longest garbles{} repairs{} repeats* model* reasoning* raw~ ended calls{}"""
CALL = """trial_id agent turn position call_id* name* raw* arguments{} garbled* allowed
    failure_class findings{} objection* policy taxonomy reply* exit_code output* output_is_reply
    seconds limit cut harness derived offending* shape"""
SESSION = """run_id trial_id session* part agent* version* project* parent* path* began ended size{}
    outcomes{} policy* differ"""
IMPORTED = "id imported source card{} trials{} by_trial calls{} by_class{}"
REVIEW = "trial_id call_id label note* at"
TAGS = "run_id labels{} note"

NEW_TRIAL: Values = {
    "shard": None,
    "replaced": False,
    "ending": "",
    "outcome": "",
    "reason": "",
    "cause": "",
    "retries": 0,
    "stretched": 1.0,
    "seconds": 0.0,
    "handshake": [],
    "goal": [],
    "goal_turn": None,
    "prompts": {},
    "agents": [],
    "calls": 0,
    "errors": {},
    "executed": 0,
    "crashed": 0,
    "prompt_tokens": 0,
    "agent_calls": {},
    "agent_errors": {},
    "counting": 0,
}


def run_values(run: Run) -> Values:
    return {
        "id": run.id,
        "model": run.model.name,
        "simulated": run.model.simulated,
        "started": run.started,
        "seed": run.seed,
        "trials_planned": run.trials_planned,
        "max_turns": run.max_turns,
        "concurrency": run.concurrency,
        "sandbox": run.sandbox,
        "prefork": run.prefork,
        "protocol": run.protocol,
        "taxonomy": run.taxonomy,
        "complete": run.complete,
        "seconds": run.effort.seconds if run.effort else None,
        "joules": run.effort.joules if run.effort else None,
        "second_reader": dict(run.second_reader),
        "card": asdict(run.model),
        "policies": dict(run.policies),
        "judged": dict(run.judged),
        "options": asdict(run.options) if run.options else {},
        "scenarios": dict(run.scenarios),
        "arm": asdict(run.arm) if run.arm else {},
        "source": asdict(run.source) if run.source else {},
        "per_token": run.per_token,
    }


def imported_values(imported: ImportedCounts) -> Values:
    counts = imported.counts
    return {
        "id": imported.id,
        "imported": imported.imported,
        "source": imported.source,
        "card": asdict(imported.model),
        "trials": [list(trial) for trial in imported.trials],
        "by_trial": counts.by_trial,
        "calls": list(counts.calls),
        "by_class": {name: list(errors) for name, errors in counts.by_class.items()},
    }


class TableWriter:
    """The statements that write a table: columns that are `given` on writing, then those bound.

    `mark` is what a database's driver has in the place of a value. `update` is of the row whose id
    stands behind what is bound.
    """

    def __init__(
        self, table: str, columns: str, mark: str, set_on_insert: Sequence[str] = ()
    ) -> None:
        kinds = {column.rstrip("{}*~"): column for column in columns.split()}
        news = [name for name in kinds if name not in set_on_insert]
        self._taken = itemgetter(*news, news[-1])  # of one column it would give no row
        self._binders = [
            (at, _BINDERS[kinds[name].removeprefix(name)])
            for at, name in enumerate(news)
            if kinds[name] != name
        ]
        quoted = [f'"{name}"' for name in (*set_on_insert, *news)]  # one is called limit
        marks = ", ".join([mark] * len(quoted))
        self.insert = f'INSERT INTO "{table}" ({", ".join(quoted)}) VALUES ({marks})'  # noqa: S608 -- our own columns
        put = ", ".join(f"{name} = {mark}" for name in quoted[len(set_on_insert) :])
        self.update = f'UPDATE "{table}" SET {put} WHERE id = {mark}'  # noqa: S608 -- likewise

    def bind(self, values: Values) -> Bound:
        *row, _ = self._taken(values)
        for at, bind in self._binders:
            row[at] = bind(row[at])
        return tuple(row)


def _json(value: Any) -> str:
    """JSON in a tenth of the time that the standard library takes.

    That one writes what msgspec cannot: lone surrogates, and a NaN, for which msgspec has null.
    """
    if not value:
        return _EMPTY.get(type(value)) or json.dumps(value)
    try:
        text = msgspec.json.encode(value)
    except (ValueError, OverflowError):
        return json.dumps(value)
    return json.dumps(value) if b"null" in text else text.decode()


_EMPTY: dict[type, str] = {dict: "{}", list: "[]"}


def _exact(value: str | None) -> str | None:
    return to_column(value) if value else value


_BINDERS: dict[str, Callable[[Any], Any]] = {"{}": _json, "*": _exact, "~": packed}


_OF_SESSION = ("agent", "version", "project", "parent", "path", "part", "began", "ended")


class LoggedRecord(NamedTuple):
    """A call as it is stored: with what is derived of it, next to what was recorded."""

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


@dataclass(frozen=True, slots=True)
class Entry:
    """All rows of a session, but for what only the store knows: its run, its trial, its number."""

    session: str
    part: int
    model: str
    size: tuple[int, int, int]
    scenario: str
    seed: int
    trial: Bound
    about: Bound
    turns: Sequence[Bound]
    calls: Sequence[Bound]


class SessionTables:
    """The tables that a session is written to; `mark` is that of the database's driver."""

    def __init__(self, mark: str, taxonomy: str) -> None:
        self._taxonomy = taxonomy
        named = ("run_id", "number", "scenario", "seed")
        self.trial = TableWriter("trial", f"{TRIAL} {COUNTED}", mark, named)
        self.turn = TableWriter("turn", TURN, mark, ("trial_id",))
        self.call = TableWriter("call", CALL, mark, ("trial_id",))
        self.session = TableWriter("session", SESSION, mark, ("run_id", "trial_id"))

    def entry(self, judged: Judged) -> Entry:
        session, trial = judged.session, judged.trial
        turns = (mapping.turn_values(0, n, turn, agent="") for n, turn in enumerate(trial.turns))
        return Entry(
            session=session.id,
            part=session.part,
            model=session.model,
            size=session.size,
            scenario=trial.scenario,
            seed=trial.seed,
            trial=self.trial.bind(NEW_TRIAL | mapping.ended_values(trial)),
            about=self.session.bind(_about(judged)),
            turns=[self.turn.bind(one) for one in turns],
            calls=self._calls(judged),
        )

    def _calls(self, judged: Judged) -> list[Bound]:
        policy = next(iter(judged.policies.values()), "")
        known = {"agent": "", "policy": policy, "taxonomy": self._taxonomy}
        return [
            self.call.bind(
                mapping.call_values(0, record, **known)
                | {"derived": derived, "offending": offending, "shape": shape}
            )
            for record, derived, offending, shape in judged.records
        ]


def _about(judged: Judged) -> Values:
    session = judged.session
    return {name: getattr(session, name) for name in _OF_SESSION} | {
        "session": session.id,
        "size": list(session.size),
        "outcomes": dict(session.outcomes),
        "policy": judged.policy,
        "differ": judged.differ,
    }
