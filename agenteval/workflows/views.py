"""Stored runs as they are read: side by side, compared, by their speed, one trial, some calls.

The sections are, in order: runs read from a store; views of them, alone and compared; what made
trials void; and the transcript and the calls of one run.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from agenteval.classes.catalogue import fold
from agenteval.errors import Cause, UsageError, fault
from agenteval.logs.counts_csv import load_counts
from agenteval.report import build
from agenteval.report.build import build_comparison, build_view, class_texts
from agenteval.report.gate import GateView
from agenteval.report.provenance import without_told
from agenteval.report.sentences import Side
from agenteval.report.speed import Served
from agenteval.report.tables import void_of
from agenteval.report.view import View
from agenteval.stats.loads import run_speed
from agenteval.store import read
from agenteval.store.location import Location, Query, resolve_name
from agenteval.store.search import START, FoundCall, Key, Wanted, calls_page, rejudged, tallied
from agenteval.store.sql import opened
from agenteval.store.summaries import known_runs, tables_known
from agenteval.trial.run import Conditions, Run
from agenteval.trial.summary import TrialSummary, World
from agenteval.trial.text import as_name, as_word, visible
from agenteval.trial.trial import AgentPart, Trial
from agenteval.workflows.gate import check_arms, declared, left_out

Runs = tuple[Run, Run]


def loaded(names: Sequence[str], store: str) -> list[Run]:
    """Runs but the bytes of their replies, by what names them. Raises UsageError."""
    where = str(Location(store))
    with opened(store) as query:
        return [read.load(query, name, where=where, raw=False) for name in names]


def sides(names: Sequence[str], store: str) -> list[Side]:
    """Runs as a report shows them, by what names them: transcripts are read when a page asks.

    Raises UsageError.
    """
    where = str(Location(store))
    with opened(store) as query:
        return [_side(query, name, store, where) for name in names]


def played(names: Sequence[str], store: str) -> list[Side]:
    """Return the `sides` of runs just played. Raises HostError if the store went away."""
    if not (where := Location(store)).is_there:
        raise fault(str(where), "it was removed, or moved, while the run was played")
    return sides(names, store)


def whole(sides: Sequence[Side]) -> list[Run]:
    """Return their runs with all trials."""
    runs = []
    for side in sides:
        run, score = side.run_and_score
        if side.transcripts and not run.trials:
            run = replace(run, trials=tuple(side.transcripts(sorted(score.worlds))))
        runs.append(run)
    return runs


def _side(
    query: Query,
    name: str,
    store: str,
    where: str,
) -> Side:
    run, summaries = _summarized(query, name, where)
    transcripts = partial(_transcripts, store, run.id)
    return Side.of_stored(run, summaries, tallied(query, run.id), transcripts)


def _summarized(
    query: Query,
    name: str,
    where: str,
) -> tuple[Run, Sequence[TrialSummary]]:
    run, summaries = read.summarized(query, name, where=where)
    return replace(run, rejudged=rejudged(query, run.id)), summaries


def _transcripts(
    store: str,
    run: str,
    worlds: Sequence[World],
) -> Iterator[Trial]:
    with opened(store) as query:
        yield from read.transcripts(query, run, worlds)


# Views of runs, alone and compared.


def view_of(
    runs: Sequence[Side],
    taxonomy: str,
    about: str | None = None,
) -> View:
    return build_view(
        runs,
        classes=class_texts(),
        fold=fold(taxonomy),
        about=declared(about),
    )


def as_compared(
    runs: Sequence[Side],
    view: View,
    taxonomy: str,
    about: str | None = None,
) -> View:
    """The view of one run as it is; of several with all claims that `compare` makes of them."""
    if len(runs) < 2:
        return view
    return build_comparison(
        runs,
        classes=class_texts(),
        fold=fold(taxonomy),
        about=declared(about),
    )


def of_verdict(gate: GateView, store: str) -> View:
    """Return candidate and baseline, as far as runs of this store stand behind them."""
    with opened(store) as query:
        stored_ids = {run.id for run in known_runs(query)}
    names = [run.id for run in (gate.candidate, gate.baseline) if run.id in stored_ids]
    if not names:
        raise UsageError(f"--report: {gate.candidate.id} is not in {Location(store)}; give --store")
    return view_of(sides(names, store), "full")


def models_of(
    names: Sequence[str],
    store: str,
    *,
    calls: bool,
) -> list[Side]:
    """Return two or more models; `calls` says if the view needs facts that only their calls hold.

    Raises UsageError.
    """
    compared_sides = []
    # Files alone need no store, which may not be there.
    if all(name.endswith(".csv") for name in names):
        for name in names:
            compared_sides += _of_file(name)
    else:
        with opened(store) as query:
            for name in names:
                compared_sides += _sides(name, query, store, calls=calls)
    counts = Counter(side.run.id for side in compared_sides if side.run)
    for run, count in counts.items():
        if count > 1:
            raise UsageError(f"compare: {run} is named twice; name two runs")
    if len(compared_sides) < 2:
        raise UsageError(
            f"compare: {' '.join(names)} is one model; name another run, or a file of counts"
        )
    return compared_sides


def compared(
    compared_sides: Sequence[Side],
    taxonomy: str,
    about: str | None = None,
    *,
    across_arms: bool = False,
) -> View:
    """Return the comparison of two or more models, pair by pair. Raises UsageError."""
    runs = [side.run for side in compared_sides if side.run]
    ids = [run.id for run in runs]
    conditions = [Conditions.of(run) for run in runs]
    if not across_arms:
        check_arms(ids, conditions)
    excluded = left_out(ids, conditions, across=across_arms)
    if excluded:
        compared_sides = [side.without(excluded) for side in compared_sides]
    view = build_comparison(
        compared_sides,
        classes=[row for row in class_texts() if row.id not in excluded],
        fold=fold(taxonomy),
        about=declared(about),
    )
    return replace(view, warnings=(*without_told(excluded), *view.warnings))


def stacks(
    names: Sequence[str],
    store: str,
    about: str | None = None,
) -> tuple[Runs, View]:
    """Two runs of one model, whole, and their comparison. Raises UsageError."""
    if len(names) != 2:
        raise UsageError(f"compare --stacks: two runs of one model, not {len(names)}")
    one, other = loaded(names, store)
    models = models_of([one.id, other.id], store, calls=False)
    return (one, other), compared(models, "full", about, across_arms=True)


def _sides(
    name: str,
    query: Query,
    store: str,
    *,
    calls: bool,
) -> list[Side]:
    """Return the models behind one name: as many as its file has."""
    if name.endswith(".csv"):
        return _of_file(name)
    where = str(Location(store))
    tables = tables_known(query)
    stored_id = resolve_name(name, known_runs(query), tables, where=where)
    if stored_id in tables:
        table = read.imported(query, stored_id)
        scenarios = [scenario for scenario, _ in table.trials]
        return [Side.of_counts(table.model, table.counts, scenarios)]
    if calls:
        return [_side(query, stored_id, store, where)]
    return [Side.of_stored(*_summarized(query, stored_id, where))]


def _of_file(name: str) -> list[Side]:
    tables = load_counts(Path(name))
    from agenteval.logs import ingest  # noqa: PLC0415 -- start-up: pydantic

    known = ingest.cards(tables)
    return [
        Side.of_counts(known[model], table.counts, [scenario for scenario, _ in table.trials])
        for model, table in tables.items()
    ]


def speeds(runs: Sequence[Run]) -> list[Served]:
    """Return how fast stored runs were served."""
    return [Served(run.model.name, run.model.simulated, run_speed(run), run.id) for run in runs]


# What made trials void.

_WHOSE = {
    Cause.AGENTEVAL: "a defect of agenteval",
    Cause.SCENARIO: "a slip of their scenario",
}


def faults(sides: Sequence[Side]) -> list[str]:
    """Return what broke trials by a defect of ours or a mistake in a scenario, in words."""
    voids = []
    for side in sides:
        run, score = side.run_and_score
        voids += [(run, trial) for trial in score.voids]
    lines = []
    for cause, whose in _WHOSE.items():
        struck = [(run, trial) for run, trial in voids if trial.cause is cause]
        if struck:
            lines.append(_line(len(struck), whose, *struck[0]))
    return lines


_OURS = "look at this machine (`agenteval doctor`)"
_LOOK: dict[Cause | None, str] = {Cause.OURS: _OURS, Cause.HARNESS: "look at what it said"}


def voids_beyond(sides: Sequence[Side], limit: float) -> list[str]:
    """Return a line for each run of which more trials are void than `limit`, a share, or all."""
    lines = []
    for side in sides:
        run, score = side.run_and_score
        void = len(score.voids)
        trials = score.trials + void
        if void == 0 or (void < trials and void <= limit * trials):
            continue
        consequence = "its rates say little of the model"
        if void == trials:
            consequence = "nothing was measured"
        share = void_of(void, trials)
        lines.append(f"{run.model.name}: {share}, {consequence}. {_most_common(score.voids)}")
    return lines


def _most_common(voids: Sequence[TrialSummary]) -> str:
    """Return the cause of most of these trials, the reason of the first, and where to look."""
    cause, _ = Counter(trial.cause for trial in voids).most_common(1)[0]
    first = next(trial for trial in voids if trial.cause is cause)
    reason = visible(first.reason.partition("\n")[0])
    summary = f"{cause}: {reason}" if cause else reason
    look = _LOOK.get(cause, "look at the server's log")
    return f"Most by {summary}; {look}"


def check_usable(sides: Sequence[Side]) -> None:
    """Raises UsageError when the server broke every trial of a run: then nothing was measured."""
    if lines := voids_beyond(sides, 1.0):
        raise UsageError("; ".join((*lines, "then run again")))


def _line(
    count: int,
    whose: str,
    run: Run,
    trial: TrialSummary,
) -> str:
    reason, _, trace = trial.reason.partition("\n")
    trials = "trial is" if count == 1 else "trials are"
    line = as_name(
        f"{count} {trials} void by {whose}. The first one: "
        f"{trial.scenario} #{trial.number}, seed {trial.seed}: {reason}"
    )
    if not trace:
        return line
    where = f"in the report, and in `reason` of `agenteval show {as_word(run.id)} --json`"
    return f"{line}\nTraceback: {where}"


# The transcript and the calls of one run.

SHOWN = 8  # names in a message
PAGE = 200  # calls that are asked for at a time: a reader may go before the last
_TRIALS = "SELECT scenario, number FROM trial WHERE run_id = :run AND NOT replaced ORDER BY 1, 2"
_TRIAL_NAME = re.compile(r"(?P<scenario>.*?)\s*(?:#(?P<number>\d{1,9}))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A trial of a run, which is given without its other ones."""

    run: Run
    trial: Trial

    def agent(self, word: str) -> AgentPart:
        """Return the sub-agent of this label, or the first of this name. Raises UsageError."""
        for part in self.trial.agents:
            if word in {part.label, part.name}:
                return part
        there = ", ".join(part.label for part in self.trial.agents)
        known = f"it has {there}" if there else "it has none"
        raise UsageError(f"--agent {word}: no sub-agent of this trial; {known}")


def transcript(
    run: str,
    trial_name: str,
    store: str,
) -> Transcript:
    """Return the trial SCENARIO#N of the run of this id. Raises UsageError."""
    with opened(store) as query:
        scenario, number = _resolve_trial(query, run, trial_name)
        trial = read.load_trial(query, run, scenario, number)
        if trial is None:
            raise UsageError(f"{trial_name}: no such trial in {run} any more")
        return Transcript(read.without_trials(query, run), trial)


def _resolve_trial(
    query: Query,
    run: str,
    trial_name: str,
) -> tuple[str, int]:
    """Return scenario and number of a trial. A scenario with one trial needs no number."""
    match = _TRIAL_NAME.fullmatch(trial_name)
    scenario, number = match.group("scenario", "number") if match else (trial_name, None)
    played_trials = [tuple(row) for row in query(_TRIALS, run=run)]
    numbers = [number for name, number in played_trials if name == scenario]
    if not numbers:
        names = dict.fromkeys(name for name, _ in played_trials)
        raise UsageError(
            f"{trial_name}: {run} played no scenario {scenario!r}; it has {_some([*names])}"
        )
    if number is None and len(numbers) == 1:
        return scenario, numbers[0]
    if number is None or int(number) not in numbers:
        trials = _some([f"{scenario}#{known}" for known in numbers])
        raise UsageError(f"{trial_name}: which trial? {run} has {trials}")
    return scenario, int(number)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) or "none") + more


def calls(
    run: str,
    filters: Wanted,
    store: str,
) -> Iterator[FoundCall]:
    """The calls of the run of this id that are wanted, as they are found.

    Raises UsageError where there are none, as no class or scenario has such a name.
    """
    filters = replace(filters, run=run)
    with opened(store) as query:
        after: Key | None = START
        while after is not None:
            page = calls_page(
                query,
                filters,
                after=after,
                size=PAGE,
            )
            yield from page.calls
            # Nothing was found: a wrong name is told, a right one simply has no such call.
            if after == START and not page.calls:
                _check_named(query, filters)
            after = page.later


def _check_named(query: Query, filters: Wanted) -> None:
    wanted_class = filters.failure_class
    classes = [row.id for row in build.class_texts()] if wanted_class else []
    if wanted_class and wanted_class not in classes:
        near = get_close_matches(wanted_class, classes, n=1)
        cure = f"{near[0]}?" if near else "`agenteval explain` lists all"
        raise UsageError(f"--class {wanted_class}: no such failure class; {cure}")
    played = dict.fromkeys(row[0] for row in query(_TRIALS, run=filters.run))
    if filters.scenario and filters.scenario not in played:
        raise UsageError(
            f"--scenario {filters.scenario}: {filters.run} played no such; "
            f"it has {_some([*played])}"
        )
