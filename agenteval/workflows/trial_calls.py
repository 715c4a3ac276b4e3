"""Reading a stored run: the transcript of a trial, and the calls that are looked for."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from agenteval import workflows
from agenteval.core.run import Run
from agenteval.core.trial import AgentPart, Trial
from agenteval.errors import UsageError
from agenteval.store import loading
from agenteval.store.call_search import START, FoundCall, Key, Wanted, calls_page
from agenteval.store.summaries import Query, opened

SHOWN = 8  # names in a message
PAGE = 200  # calls that are asked for at a time: a reader may go before the last
_TRIALS = "SELECT scenario, number FROM trial WHERE run_id = :run AND NOT replaced ORDER BY 1, 2"
_WANTED = re.compile(r"(?P<scenario>.*?)\s*(?:#(?P<number>\d{1,9}))?", re.DOTALL)


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


def transcript(run: str, trial_name: str, store: str) -> Transcript:
    """Return the trial SCENARIO#N of the run of this id. Raises UsageError."""
    with opened(store) as query:
        scenario, number = _resolve_trial(query, run, trial_name)
        trial = loading.load_trial(query, run, scenario, number)
        if trial is None:
            raise UsageError(f"{trial_name}: no such trial in {run} any more")
        return Transcript(loading.without_trials(query, run), trial)


def _resolve_trial(query: Query, run: str, trial_name: str) -> tuple[str, int]:
    """Return scenario and number of a trial. A scenario with one trial needs no number."""
    match = _WANTED.fullmatch(trial_name)
    scenario, number = match.group("scenario", "number") if match else (trial_name, None)
    played_trials = [tuple(row) for row in query(_TRIALS, run=run)]
    numbers = [of for name, of in played_trials if name == scenario]
    if not numbers:
        names = list(dict.fromkeys(name for name, _ in played_trials))
        raise UsageError(
            f"{trial_name}: {run} played no scenario {scenario!r}; it has {_some(names)}"
        )
    if number is None and len(numbers) == 1:
        return scenario, numbers[0]
    if number is None or int(number) not in numbers:
        trials = _some([f"{scenario}#{of}" for of in numbers])
        raise UsageError(f"{trial_name}: which trial? {run} has {trials}")
    return scenario, int(number)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) or "none") + more


def calls(run: str, filters: Wanted, store: str) -> Iterator[FoundCall]:
    """The calls of the run of this id that are wanted, as they are found.

    Raises UsageError where there are none, as no class or scenario has such a name.
    """
    filters = replace(filters, run=run)
    with opened(store) as query:
        after: Key | None = START
        while after is not None:
            page = calls_page(query, filters, after=after, size=PAGE)
            yield from page.calls
            if after == START and not page.calls:
                _check_named(query, filters)
            after = page.later


def _check_named(query: Query, filters: Wanted) -> None:
    classes = [] if not filters.failure_class else [one.id for one in workflows.views.class_texts()]
    if filters.failure_class and filters.failure_class not in classes:
        near = [f"{name}?" for name in get_close_matches(filters.failure_class, classes)]
        cure = near[0] if near else "`agenteval explain` lists all"
        raise UsageError(f"--class {filters.failure_class}: no such failure class; {cure}")
    played = dict.fromkeys(row[0] for row in query(_TRIALS, run=filters.run))
    if filters.scenario and filters.scenario not in played:
        raise UsageError(
            f"--scenario {filters.scenario}: {filters.run} played no such; "
            f"it has {_some([*played])}"
        )
