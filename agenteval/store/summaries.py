"""Summaries of trials in the store, and runs, trials and imported counts as a list has them.

A summary is written when a trial ends; all of a run are read by one SELECT. What a list shows of a
run, of a trial or of imported counts is a few figures each.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from agenteval.errors import Cause, UsageError
from agenteval.store.location import Known, Query, Values, decoded
from agenteval.store.texts import as_written, from_column
from agenteval.trial.call import Outcome
from agenteval.trial.recovery import COUNTING
from agenteval.trial.summary import TrialSummary
from agenteval.trial.trial import Cluster

INTERRUPTED = "interrupted before it ended"
_KNOWN = """SELECT run.id, run.model, tags.labels, run.simulated, EXISTS (SELECT 1 FROM trial
    WHERE run_id = run.id AND NOT replaced AND outcome NOT IN ('', 'void'))
    FROM run LEFT JOIN tags ON tags.run_id = run.id ORDER BY started DESC, run.id DESC"""
_TABLES = "SELECT id FROM imported ORDER BY imported DESC"
# Columns of a trial that are the field of the same name of its summary, but for `agents`.
_FIELDS = tuple(field.name for field in fields(TrialSummary))
_JSON = ("errors", "handshake", "recovery", "agents", "agent_errors", "goal")
_BEGUN = 3  # fields that are known when a trial begins: scenario, number and seed
_COLUMNS = ", ".join("agent_calls" if name == "agents" else name for name in _FIELDS)
_TRIALS = f"""SELECT {_COLUMNS} FROM trial
    WHERE run_id = :run AND NOT replaced ORDER BY scenario, number"""  # noqa: S608 -- our own columns


def summary_values(summary: TrialSummary) -> Values:
    """Return the columns that a trial's row gets from its summary when it has ended."""
    values = {name: getattr(summary, name) for name in _FIELDS[_BEGUN:]}
    for name in _JSON:
        values[name] = msgspec.to_builtins(values[name])
    values["agent_calls"] = values.pop("agents")
    values["cause"] = summary.cause or ""
    return values | {"counting": COUNTING}


def summaries(query: Query, run_id: str) -> tuple[TrialSummary, ...]:
    """Return the summaries of all trials in force, in the order of `SqlStore.load`."""
    return tuple(_summary(row) for row in query(_TRIALS, run=run_id))


@as_written()
def _summary(row: Sequence[Any]) -> TrialSummary:
    values = dict(zip(_FIELDS, row, strict=True))
    if not values["outcome"]:
        # It was in flight when the run died: nothing of it is counted.
        scenario, number, seed = row[:_BEGUN]
        return TrialSummary(
            scenario, number, seed, Outcome.VOID, reason=INTERRUPTED, cause=Cause.INTERRUPTED
        )
    for name in _JSON:
        values[name] = decoded(values[name])
    if values["recovery"] is None:  # an older version counted none
        del values["recovery"]
    values["reason"] = from_column(values["reason"])
    values["cause"] = values["cause"] or None
    return msgspec.convert(values, TrialSummary)


def known_runs(query: Query) -> list[Known]:
    """Return the runs with the words that name them, newest first."""
    runs = []
    for run, model, labels, simulated, usable in query(_KNOWN):
        names = tuple(decoded(labels or "[]"))
        runs.append(Known(run, model, names, bool(simulated), bool(usable)))
    return runs


def tables_known(query: Query) -> list[str]:
    """The ids of imported counts, newest first."""
    return [row[0] for row in query(_TABLES)]


# Lists.

_LISTED = """SELECT id, model, simulated, started, seed, trials_planned, complete, scenarios,
    arm, source, labels, note FROM run LEFT JOIN tags ON run_id = id {}
    ORDER BY started DESC, id DESC"""
_ENDED = """SELECT run_id, scenario, outcome, calls, errors FROM trial
    WHERE outcome != '' AND NOT replaced {}"""
_HEADINGS = """SELECT id, model, simulated, started, labels FROM run
    LEFT JOIN tags ON run_id = id ORDER BY started DESC, id DESC"""
_LISTED_TRIALS = """SELECT scenario, number, seed, outcome, calls, errors, seconds, goal_turn,
    reason FROM trial WHERE run_id = :run AND NOT replaced {}
    AND (scenario, number) > (:scenario, :number) ORDER BY scenario, number LIMIT :size"""
_VERDICTS = "SELECT run_id, verdict FROM look ORDER BY number"
_OF_OTHERS = """SELECT look.run_id, look.verdict FROM look JOIN run ON run.id = look.run_id
    JOIN run AS base ON base.id = look.baseline
    WHERE run.id <> :run AND run.model = :model AND base.model = :over ORDER BY look.number"""
_COUNTED = "SELECT id, card, calls, by_class, source, imported FROM imported ORDER BY imported DESC"


@dataclass(frozen=True, slots=True)
class Listed:
    """A run as a list has it. `errors` has denied calls and calls of each trial that counts.

    `played` has the scenario of each of them.
    """

    id: str
    model: str
    simulated: bool
    started: str
    seed: int
    trials_planned: int
    complete: bool
    scenarios: Sequence[str]
    arm: str = ""  # empty where nobody kept it
    source: str = ""  # the format of the logs it is from; empty of a run that was played
    judged: bool = True  # False of logs that do not tell which calls were errors
    labels: Sequence[str] = ()
    note: str = ""
    verdict: str = ""  # of the last look of a gate at it
    outcomes: Sequence[str] = ()  # of the trials that have ended
    errors: Sequence[Cluster] = ()
    played: Sequence[str] = ()

    @property
    def counted(self) -> int:
        """The trials that are not void."""
        return len(self.errors)


@dataclass(frozen=True, slots=True)
class ListedTable:
    """Imported counts as a list has them."""

    id: str
    model: str
    imported: str
    calls: int
    errors: int
    source: str


class _Ended(NamedTuple):
    scenario: str
    outcome: str
    errors: Cluster


@dataclass(frozen=True, slots=True)
class Heading:
    """The properties of a run by which runs are chosen."""

    id: str
    model: str
    simulated: bool
    started: str
    labels: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ListedTrial:
    """A trial in force as a list has it; `outcome` is empty while it runs."""

    scenario: str
    number: int
    seed: int
    outcome: str
    calls: int
    errors: Mapping[str, int]
    seconds: float
    goal_turn: int | None
    reason: str


def moment(option: str, word: str) -> datetime:
    """A day or time that a user names, in UTC where it has no offset. Raises UsageError."""
    for text in (word, f"{word}-01"):  # a month, too
        with suppress(ValueError):
            time = datetime.fromisoformat(text)
            return time.replace(tzinfo=time.tzinfo or UTC)
    raise UsageError(f"{option} {word}: no day or time. Give one such as 2026-11-22")


def begun_since(given: str | None) -> Callable[[str], bool]:
    """Return a test of whether a run started on or after this day. Raises UsageError."""
    first = moment("--since", given) if given else None
    return lambda started: first is None or moment("started", started) >= first


def headings(query: Query) -> list[Heading]:
    """Return the headings of all runs, newest first."""
    runs = []
    for run, model, simulated, started, labels in query(_HEADINGS):
        names = tuple(decoded(labels or "[]"))
        runs.append(Heading(run, model, bool(simulated), started, names))
    return runs


def listed(query: Query, ids: Sequence[str] | None = None) -> list[Listed]:
    """All runs, or those of these ids, newest first."""
    named = {f"id{number}": run for number, run in enumerate(ids or ())}
    of_runs = of_trials = ""
    if ids is not None:
        among = ", ".join(f":{name}" for name in named)
        of_runs = f"WHERE id IN ({among})"
        of_trials = f"AND run_id IN ({among})"
    trials: dict[str, list[_Ended]] = defaultdict(list)
    for run, scenario, outcome, calls, errors in query(_ENDED.format(of_trials), **named):
        denied = sum(decoded(errors).values())
        trials[run].append(_Ended(scenario, outcome, (denied, calls)))
    # The last look of a run stands, as it is read last.
    verdicts = {run: verdict for run, verdict in query(_VERDICTS)}  # noqa: C416 -- rows are no pairs
    runs = []
    for row in query(_LISTED.format(of_runs), **named):
        run = row[0]
        runs.append(_listed(row, trials[run], verdicts.get(run, "")))
    return runs


def verdicts_of_others(
    query: Query,
    run: str,
    *,
    model: str,
    over: str,
) -> Mapping[str, int]:
    """Count the other runs of a model by the verdict of their last gate over the model `over`."""
    looks = query(_OF_OTHERS, run=run, model=model, over=over)
    last = {other: verdict for other, verdict in looks}  # noqa: C416 -- rows are no pairs
    return Counter(last.values())


def listed_trials(
    query: Query,
    run: str,
    only: Mapping[Literal["scenario", "outcome"], str],
    *,
    after: tuple[str, int] = ("", 0),
    size: int,
) -> list[ListedTrial]:
    """Trials in force behind a scenario and number, in their order; `only` those that have this."""
    named = {"run": run, "scenario": after[0], "number": after[1], "size": size}
    named |= {f"only_{column}": value for column, value in only.items()}
    wanted = "".join(f"AND {column} = :only_{column} " for column in only)
    trials = []
    for *place, errors, seconds, goal_turn, reason in query(_LISTED_TRIALS.format(wanted), **named):
        figures = (decoded(errors), seconds, goal_turn, from_column(reason))
        values: list[Any] = [*place, *figures]
        trials.append(ListedTrial(*values))
    return trials


def _listed(row: Any, trials: Sequence[_Ended], verdict: str) -> Listed:
    run, model, simulated, started, seed, planned, complete, *rest = row
    scenarios, arm, source, labels, note = rest
    source = decoded(source)
    counted = [trial for trial in trials if trial.outcome != Outcome.VOID]
    return Listed(
        run,
        model,
        bool(simulated),
        started,
        seed,
        planned,
        bool(complete),
        scenarios=tuple(decoded(scenarios)),
        arm=decoded(arm).get("name", ""),
        source=source.get("format", ""),
        judged=source.get("judged", True),
        labels=tuple(decoded(labels or "[]")),
        note=note or "",
        verdict=verdict,
        outcomes=tuple(trial.outcome for trial in trials),
        errors=tuple(trial.errors for trial in counted),
        played=tuple(trial.scenario for trial in counted),
    )


def listed_tables(query: Query) -> list[ListedTable]:
    """All imported counts, newest first."""
    rows = []
    for table, card, calls, by_class, source, imported in query(_COUNTED):
        model = decoded(card)["name"]
        errors = sum(map(sum, decoded(by_class).values()))
        count = sum(decoded(calls))
        rows.append(ListedTable(table, model, imported, count, errors, source))
    return rows
