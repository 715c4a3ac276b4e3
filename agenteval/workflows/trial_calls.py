"""What a stored run holds, read a trial's transcript, its calls, and what these hide."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from agenteval import report, workflows
from agenteval.core.malformed import MalformedCall
from agenteval.core.run import Rejudged, Run
from agenteval.core.summary import RunSummary
from agenteval.core.trial import AgentPart, Trial
from agenteval.errors import UsageError
from agenteval.report.voids import rejudged_told, retried_told, spoilt_told
from agenteval.store import loading
from agenteval.store.call_search import START, FoundCall, Key, Wanted, calls_page
from agenteval.store.mapping import malformed_value
from agenteval.store.summaries import Query, decoded, opened

Basis = tuple[str, Mapping[str, str]]  # taxonomy, and digests of allow lists by their names
DIGEST = 13  # characters: "sha256:" and six digits
SHOWN = 8  # names in a message
PAGE = 200  # calls that are asked for at a time: a reader may go before the last
_TRIALS = "SELECT scenario, number FROM trial WHERE run_id = :run AND NOT replaced ORDER BY 1, 2"
_REPLACED = "SELECT cause, count(*) FROM trial WHERE run_id = :run AND replaced GROUP BY cause"
_FIRST = """SELECT rescore.taxonomy_before, rescore.policies_before, run.taxonomy, run.policies
    FROM rescore JOIN run ON run.id = rescore.run_id WHERE run.id = :run ORDER BY rescore.id"""
_MOVED = """SELECT "call".allowed, count(*) FROM (SELECT min(judgement.id) AS id FROM judgement
        JOIN rescore ON rescore.id = judgement.rescore_id WHERE rescore.run_id = :run
        GROUP BY judgement.call_id) AS one
    JOIN judgement ON judgement.id = one.id JOIN "call" ON "call".id = judgement.call_id
    JOIN trial ON trial.id = "call".trial_id
    WHERE NOT trial.replaced AND "call".allowed <> judgement.allowed GROUP BY 1"""
_GARBLED = """SELECT turn.trial_id, turn.number, turn.garbles FROM turn
    JOIN trial ON trial.id = turn.trial_id WHERE trial.run_id = :run AND turn.agent = ''
    AND NOT trial.replaced AND trial.outcome NOT IN ('', 'void')
    AND CAST(turn.garbles AS TEXT) <> '[]' ORDER BY turn.id"""
_WANTED = re.compile(r"(?P<scenario>.*?)\s*(?:#(?P<number>\d{1,9}))?")


@dataclass(frozen=True, slots=True)
class Transcript:
    """A trial of a run, which is given without its other ones."""

    run: Run
    trial: Trial

    def agent(self, word: str) -> AgentPart:
        """The sub-agent of this label, or the first of this name. Raises UsageError."""
        for part in self.trial.agents:
            if word in {part.label, part.name}:
                return part
        there = ", ".join(part.label for part in self.trial.agents)
        known = f"it has {there}" if there else "it has none"
        raise UsageError(f"--agent {word}: no sub-agent of this trial; {known}")


def transcript(run: str, wanted: str, store: str) -> Transcript:
    """The trial SCENARIO#N of the run of this id. Raises UsageError."""
    with opened(store) as query:
        scenario, number = _meant(query, run, wanted)
        trial = loading.load_trial(query, run, scenario, number)
        if trial is None:
            raise UsageError(f"{wanted}: no such trial in {run} any more")
        return Transcript(loading.without_trials(query, run), trial)


def _meant(query: Query, run: str, wanted: str) -> tuple[str, int]:
    """A scenario that was played once needs no number."""
    found = _WANTED.fullmatch(wanted)
    scenario, number = found.group("scenario", "number") if found else (wanted, None)
    there = [tuple(row) for row in query(_TRIALS, run=run)]
    numbers = [of for name, of in there if name == scenario]
    if not numbers:
        names = list(dict.fromkeys(name for name, _ in there))
        raise UsageError(f"{wanted}: {run} played no scenario {scenario!r}; it has {_some(names)}")
    if number is None and len(numbers) == 1:
        return scenario, numbers[0]
    if number is None or int(number) not in numbers:
        trials = _some([f"{scenario}#{of}" for of in numbers])
        raise UsageError(f"{wanted}: which trial? {run} has {trials}")
    return scenario, int(number)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) or "none") + more


def calls(run: str, wanted: Wanted, store: str) -> Iterator[FoundCall]:
    """The calls of the run of this id that are wanted, as they are found.

    Raises UsageError where there are none, as no class or scenario has such a name.
    """
    wanted = replace(wanted, run=run)
    with opened(store) as query:
        after: Key | None = START
        while after is not None:
            page = calls_page(query, wanted, after=after, size=PAGE)
            yield from page.calls
            if after == START and not page.calls:
                _check_named(query, wanted)
            after = page.later


def _check_named(query: Query, wanted: Wanted) -> None:
    classes = [] if not wanted.failure_class else [one.id for one in workflows.views.class_texts()]
    if wanted.failure_class and wanted.failure_class not in classes:
        near = [f"{name}?" for name in get_close_matches(wanted.failure_class, classes)]
        cure = near[0] if near else "`agenteval explain` lists all"
        raise UsageError(f"--class {wanted.failure_class}: no such failure class; {cure}")
    played = dict.fromkeys(row[0] for row in query(_TRIALS, run=wanted.run))
    if wanted.scenario and wanted.scenario not in played:
        raise UsageError(
            f"--scenario {wanted.scenario}: {wanted.run} played no such; it has {_some([*played])}"
        )


def hidden(run: RunSummary, store: str, who: str) -> Sequence[str]:
    """What its counts do not show: trials played again, calls judged again or spoilt."""
    if run.of_counts:
        return ()
    with opened(store) as query:
        again = {str(cause): int(count) for cause, count in query(_REPLACED, run=run.id)}
        return (
            *retried_told(who, again),
            *rejudged_told(who, rejudged(query, run.id)),
            *_spoilt(query, run, who),
        )


def _spoilt(query: Query, run: RunSummary, who: str) -> Sequence[str]:
    """That its server spoilt many calls; those that never arrived as such were tried as well."""
    trials: dict[int, list[tuple[int, MalformedCall]]] = {}
    for trial, turn, garbles in query(_GARBLED, run=run.id):
        of = trials.setdefault(trial, [])
        of += [(turn, malformed_value(one)) for one in decoded(garbles)]
    if not trials:
        return ()
    blames, lost = report.arrivals.blamed(trials.values())
    return spoilt_told(who, blames, run.calls + lost)


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
