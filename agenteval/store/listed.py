"""Runs and imported counts as a list has them: each in a few figures, by one query for all."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agenteval.core.counts import Cluster
from agenteval.core.outcome import Outcome
from agenteval.store.summaries import Query, decoded

_LISTED = """SELECT id, model, simulated, started, seed, trials_planned, complete, scenarios,
    arm, labels, note FROM run LEFT JOIN tags ON run_id = id ORDER BY started DESC, id DESC"""
_ENDED = """SELECT run_id, scenario, outcome, calls, errors FROM trial
    WHERE outcome != '' AND NOT replaced"""
_VERDICTS = "SELECT run_id, verdict FROM look ORDER BY number"
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
    calls: int
    errors: int
    source: str
    imported: str


class _Ended(NamedTuple):
    scenario: str
    outcome: str
    errors: Cluster


def listed(query: Query) -> list[Listed]:
    """All runs, newest first."""
    trials: dict[str, list[_Ended]] = defaultdict(list)
    for run, scenario, outcome, calls, errors in query(_ENDED):
        trials[run].append(_Ended(scenario, outcome, (sum(decoded(errors).values()), calls)))
    verdicts = {run: verdict for run, verdict in query(_VERDICTS)}  # noqa: C416 -- rows are no pairs
    return [_listed(*row, trials=trials[row[0]], verdicts=verdicts) for row in query(_LISTED)]


def _listed(
    *row: Any,
    trials: Sequence[_Ended],
    verdicts: Mapping[str, str],
) -> Listed:
    run, model, simulated, started, seed, planned, complete, scenarios, arm, labels, note = row
    counted = [one for one in trials if one.outcome != Outcome.VOID]
    return Listed(
        *(run, model, bool(simulated), started, seed, planned, bool(complete)),
        scenarios=tuple(decoded(scenarios)),
        arm=decoded(arm).get("name", ""),
        labels=tuple(decoded(labels or "[]")),
        note=note or "",
        verdict=verdicts.get(run, ""),
        outcomes=tuple(one.outcome for one in trials),
        errors=tuple(one.errors for one in counted),
        played=tuple(one.scenario for one in counted),
    )


def listed_tables(query: Query) -> list[ListedTable]:
    """All imported counts, newest first."""
    return [
        ListedTable(
            *(table, decoded(card)["name"], sum(decoded(calls))),
            *(sum(map(sum, decoded(by_class).values())), source, imported),
        )
        for table, card, calls, by_class, source, imported in query(_COUNTED)
    ]
