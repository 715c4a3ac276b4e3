"""The sums of a stored run's turns and calls, by SQL: no transcript is read.

And what their sums hide: trials that were played again, calls that were judged again, or spoilt.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agenteval.core.malformed import MalformedCall
from agenteval.core.outcome import Outcome
from agenteval.core.run import Rejudged
from agenteval.core.served import Request, as_served
from agenteval.core.tally import Tallies, Tally
from agenteval.store.mapping import malformed_value
from agenteval.store.summaries import Query, decoded

Basis = tuple[str, Mapping[str, str]]  # taxonomy, and digests of allow lists by their names
DIGEST = 13  # characters: "sha256:" and six digits
TOGETHER = 500  # trials that are asked about at a time
Turns = dict[int, tuple[int, int, tuple[tuple[int, MalformedCall], ...], int]]  # by trial

_TRIALS = """SELECT id, outcome FROM trial WHERE run_id = :run AND NOT replaced
    ORDER BY scenario, number"""
_CALLS = """SELECT trial_id, CASE WHEN own AND ran THEN "limit" ELSE '' END, count(*),
    sum(CASE WHEN own AND NOT allowed THEN 1 ELSE 0 END),
    sum(CASE WHEN own AND ran THEN 1 ELSE 0 END),
    sum(CASE WHEN own AND ran AND (exit_code IS NULL OR exit_code <> 0) THEN 1 ELSE 0 END),
    sum(CASE WHEN own AND objected THEN 1 ELSE 0 END),
    sum(CASE WHEN allowed AND ran THEN 1 ELSE 0 END)
    FROM (SELECT trial_id, "limit", exit_code, allowed, objection <> '' AS objected,
        agent = '' AS own, output IS NOT NULL AND seconds IS NOT NULL AS ran
        FROM "call" WHERE trial_id IN (%s)) AS made
    GROUP BY 1, 2"""
_TURNS = """SELECT trial_id, agent, number, garbles, repairs, calls, seconds, first_piece, pieces,
    gap_median, gap_p95, prompt_tokens, completion_tokens, reasoning_tokens, cached_tokens
    FROM turn WHERE trial_id IN (%s) ORDER BY id"""
_REPLACED = "SELECT cause, count(*) FROM trial WHERE run_id = :run AND replaced GROUP BY cause"
_FIRST = """SELECT rescore.taxonomy_before, rescore.policies_before, run.taxonomy, run.policies
    FROM rescore JOIN run ON run.id = rescore.run_id WHERE run.id = :run ORDER BY rescore.id"""
_MOVED = """SELECT "call".allowed, count(*) FROM (SELECT min(judgement.id) AS id FROM judgement
        JOIN rescore ON rescore.id = judgement.rescore_id WHERE rescore.run_id = :run
        GROUP BY judgement.call_id) AS one
    JOIN judgement ON judgement.id = one.id JOIN "call" ON "call".id = judgement.call_id
    JOIN trial ON trial.id = "call".trial_id
    WHERE NOT trial.replaced AND "call".allowed <> judgement.allowed GROUP BY 1"""
# From the few turns to their trials: the other way, by an index on the run, all trials are read.
_GARBLED = """SELECT turn.trial_id, turn.number, turn.garbles FROM turn
    JOIN trial ON trial.id = turn.trial_id WHERE trial.run_id || '' = :run AND turn.agent = ''
    AND NOT trial.replaced AND trial.outcome NOT IN ('', 'void')
    AND CAST(turn.garbles AS TEXT) <> '[]' ORDER BY turn.trial_id, turn.number"""


def tallied(query: Query, run: str) -> Tallies | None:
    """Return the tallies of a run in the order of its summaries; None if it has no trial."""
    trials = [(int(one), outcome) for one, outcome in query(_TRIALS, run=run)]
    if not trials:
        return None
    made: list[Tally] = []
    served = as_served(_requests(query, trials, made))
    return Tallies(tuple(made), served)


def _requests(
    query: Query, trials: Sequence[tuple[int, str]], tallies: list[Tally]
) -> Iterator[Request]:
    """Yield the requests of trials that are not void; add the tally of each trial to `tallies`."""
    for start in range(0, len(trials), TOGETHER):
        some = trials[start : start + TOGETHER]
        ids = ", ".join(str(one) for one, _ in some)
        void = {one for one, outcome in some if outcome in {"", Outcome.VOID}}
        rows = query(_TURNS % ids)
        turns, calls = _turns(rows), _calls(query(_CALLS % ids))
        tallies += [_tally(turns.get(one), calls.get(one, ()), void=one in void) for one, _ in some]
        yield from (Request(*row[6:]) for row in rows if row[0] not in void)


def _turns(rows: Sequence[Sequence[Any]]) -> Turns:
    """Return each trial's tokens, calls, malformed calls and repairs, of its first agent."""
    by_trial: Turns = {}
    for trial, agent, number, garbles, repairs, calls, *_, completion, _, _ in rows:
        if agent:
            continue
        tokens, written, malformed, mended = by_trial.get(trial, (0, 0, (), 0))
        if garbles not in ("[]", []):
            malformed += tuple((number, malformed_value(one)) for one in decoded(garbles))
        by_trial[trial] = (
            tokens + completion,
            written + _length(calls),
            malformed,
            mended + _length(repairs),
        )
    return by_trial


def _length(column: Any) -> int:
    """Return the length of a JSON list, whose entries stay unread: SQLite gives its text."""
    if not isinstance(column, str):
        return len(column)
    try:
        return 0 if column == "[]" else len(msgspec.json.decode(column, type=list[msgspec.Raw]))
    except msgspec.DecodeError:  # NaN, which Python writes
        return len(decoded(column))


def _calls(rows: Sequence[Sequence[Any]]) -> dict[int, list[Sequence[Any]]]:
    """A row for each trial and limit that ended calls of it."""
    found: dict[int, list[Sequence[Any]]] = defaultdict(list)
    for trial, *counted in rows:
        found[trial].append(counted)
    return found


def _tally(
    turns: tuple[int, int, tuple[tuple[int, MalformedCall], ...], int] | None,
    calls: Sequence[Sequence[Any]],
    *,
    void: bool,
) -> Tally:
    tokens, written, malformed, repairs = turns or (0, 0, (), 0)
    return Tally(
        void=void,
        denied=sum(int(row[2]) for row in calls),
        ran=sum(int(row[3]) for row in calls),
        failed=sum(int(row[4]) for row in calls if not row[0]),
        limits={limit: int(count) for limit, count, *_ in calls if limit},
        objections=sum(int(row[5]) for row in calls),
        useful=sum(int(row[6]) for row in calls),
        completion_tokens=tokens,
        written=written,
        malformed=malformed,
        repairs=repairs,
    )


def replayed(query: Query, run: str) -> Mapping[str, int]:
    """Return the number of void trials that were played again, by the cause of the void."""
    return {str(cause): int(count) for cause, count in query(_REPLACED, run=run)}


def garbled(query: Query, run: str) -> Sequence[Sequence[tuple[int, MalformedCall]]]:
    """The calls that did not arrive as such, each with its turn, of the trials that have any."""
    trials: dict[int, list[tuple[int, MalformedCall]]] = {}
    for trial, turn, garbles in query(_GARBLED, run=run):
        of = trials.setdefault(trial, [])
        of += [(turn, malformed_value(one)) for one in decoded(garbles)]
    return [*trials.values()]


def rejudged(query: Query, run: str) -> Rejudged | None:
    """None of a run whose calls are judged by what judged them first."""
    rows = query(_FIRST, run=run)
    if not rows:
        return None
    taxonomy, lists, taxonomy_now, lists_now = rows[0]
    first, now = (taxonomy, decoded(lists)), (taxonomy_now, decoded(lists_now))
    if first == now:
        return None
    moved = {bool(allowed): int(calls) for allowed, calls in query(_MOVED, run=run)}
    told = _basis(first, now), _basis(now, first)
    return Rejudged(*told, allowed=moved.get(True, 0), denied=moved.get(False, 0))


def _basis(one: Basis, other: Basis) -> str:
    """Its allow lists, and its taxonomy where that differs; a list's digest, where names do not."""
    (taxonomy, lists), (other_taxonomy, others) = one, other
    alike = lists != others and {*lists} == {*others}
    names = [f"{name} ({digest[:DIGEST]})" if alike else name for name, digest in lists.items()]
    told = ", ".join(sorted(names)) or "its own rules"
    return told if taxonomy == other_taxonomy else f"{told}, taxonomy {taxonomy}"
