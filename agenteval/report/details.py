"""The tables below the comparison, and the evidence behind every figure of a page.

`detail_tables` are all tables of the runs, `summary_tables` those that a decision needs.
`evidence_of` chooses which transcripts and denied calls stand in a page, and which on pages next to
it.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from math import ceil
from operator import attrgetter, itemgetter

from agenteval.report.figures import denial_tables
from agenteval.report.pairs import pair_tables
from agenteval.report.provenance import agent_tables, provenance_table
from agenteval.report.tables import (
    BY_WORDS,
    NOTHING,
    READ_FROM_WORDS,
    Cell,
    Row,
    Table,
    arrival_tables,
    cause_rows,
    counted,
    figure_rows,
    figure_table,
    goal_rows,
    heads,
    observable_cell,
    own_per_100,
    own_share,
    plain,
    row,
    share,
    titled_table,
)
from agenteval.report.transcripts import (
    TrialShown,
    agents_below,
    marked_text,
    rank,
    shown_trial,
)
from agenteval.report.view import RunView, ScenarioView, View, Views
from agenteval.shell.gate import quoted
from agenteval.stats.rates import Rate, clustered
from agenteval.trial.call import Outcome
from agenteval.trial.recovery import Recovery
from agenteval.trial.run import Run
from agenteval.trial.summary import TrialSummary
from agenteval.trial.text import as_file_part, as_word, shortened
from agenteval.trial.trial import CallRecord, Trial

_IN_ORDER = "all, in order"
_FLAG_GUESSING = "hallucinated-flag"


def detail_tables(view: View) -> tuple[Table, ...]:
    """Return the tables of the pairs, if the view compares them, and of the runs of the view."""
    pairs = tuple(pair_tables(view))
    if not view.runs:
        return pairs
    return (
        *pairs,
        _outcomes(view.runs),
        _behaviour(view.runs),
        *_scenarios(view.runs),
        *_handshakes(view.runs),
        *agent_tables(view.runs),
        *denial_tables(view.runs),
        *arrival_tables(view.runs),
        *_executions(view.runs),
        *_served(view.runs),
        provenance_table(view.runs),
    )


def summary_tables(view: View) -> tuple[Table, ...]:
    """Return the detail tables that a decision needs: outcome and recovery."""
    pairs = tuple(pair_tables(view))
    return (_outcomes(view.runs), _behaviour(view.runs), *pairs) if view.runs else pairs


def _served(views: Views) -> Iterator[Table]:
    """Yield the table of speed; none where only the summaries of a run were read."""
    if all(view.served for view in views):
        yield figure_table("served", views)


def _executions(views: Views) -> Iterator[Table]:
    """Yield the table of executions; none where only the summaries of a run were read."""
    executions = [view.executions for view in views if view.executions]
    errors = [view.tool_errors for view in views if view.tool_errors]
    if len(executions) < len(views):
        return
    rows = [row("tool errors", map(share, errors))]
    for limit in sorted({limit for run in executions for limit in run.limits}):
        counts = [run.limits.get(limit, 0) for run in executions]
        rows.append(row(f"ended by {limit}", map(plain, counts)))
    rows.append(row("second reader objected", [plain(run.objections) for run in executions]))
    # It is asked only about what is about to run.
    for answer in ("agreed", "known faults", "failed", "timed out"):
        counts = [view.run.second_reader.get(answer, 0) for view in views]
        rows.append(row(f"second reader {answer}", map(plain, counts)))
    rows += figure_rows("executions", views)
    columns = heads(views, [f"n={rate.n} executed" for rate in errors])
    yield titled_table("executions", columns, rows)


def _behaviour(views: Views) -> Table:
    reactions, again, flags, handshakes, exits = [], [], [], [], []
    for view in views:
        guessed = clustered(view.score.errors.clusters(_FLAG_GUESSING), view.layout)
        reactions.append(_commonest(view.recovery.kinds))
        again.append(own_share(view.recovery.after_denied))
        flags.append(own_per_100(guessed))
        handshakes.append(observable_cell(view, _handshake_total(view)))
        exits.append(observable_cell(view, _commonest(view.outcomes)))
    rows = (
        row("reaction to a denial", reactions),
        row("denied again after a denial", again),
        row("flag guessing, per 100 calls", flags),
        row("handshake completed", handshakes),
        row("typical exit", exits),
    )
    return titled_table("behaviour", heads(views), rows)


def _commonest(rates: Mapping[Recovery, Rate] | Mapping[Outcome, Rate]) -> Cell:
    name, rate = max(rates.items(), key=_by_count)
    if not rate.count:
        return NOTHING
    return Cell(
        f"{name} {100 * rate.value:.0f}%",
        interval=rate.percent,
        n=f"n={rate.n}",
    )


def _by_count(named_rate: tuple[str, Rate]) -> int:
    return named_rate[1].count


def _handshake_total(view: RunView) -> Cell:
    funnels = view.score.funnels
    completed = sum(funnel.completed for funnel in funnels)
    return own_share(Rate(completed, sum(funnel.trials for funnel in funnels)))


def _outcomes(views: Views) -> Table:
    rows = []
    for end in views[0].outcomes:
        cells = [observable_cell(view, share(view.outcomes[end])) for view in views]
        rows.append(row(end, cells))
    rows += [
        *goal_rows(views),
        row("trials with a denial", [share(view.any_denial) for view in views]),
        row("void, left out", [plain(len(view.score.voids)) for view in views]),
        *cause_rows(views),
        *_troubles(views),
    ]
    columns = heads(views, [f"n={counted(view.score.trials, 'trial')}" for view in views])
    ends = {end for view in views for end, rate in view.outcomes.items() if rate.count}
    more = "" if ends.isdisjoint(BY_WORDS) else f" {READ_FROM_WORDS}"
    return titled_table("outcomes", columns, rows, more=more)


def _troubles(views: Views) -> Iterator[Row]:
    """Yield the rows on what a server or our side did wrong, without those of no trouble."""
    replayed = [sum(view.run.replaced.values()) for view in views]
    for name, counts in (
        ("void, played again", replayed),
        ("requests sent again", [view.retries for view in views]),
    ):
        if any(counts):
            yield row(name, map(plain, counts))
    slowness = [view.stretched for view in views]
    if max(slowness) > 1:
        yield row("time limits, for slowness up to", [Cell(f"x {up:.1f}") for up in slowness])
    if any(view.run.crashes for view in views):
        yield row("crashes per 1,000 requests", [_per_1000(view.crashes) for view in views])


def _per_1000(rate: Rate) -> Cell:
    low, high = 1000 * rate.low, 1000 * rate.high
    return Cell(
        f"{1000 * rate.value:.2f}",
        interval=f"[{low:.2f}, {high:.2f}]",
        n=f"n={rate.n}",
    )


_NO_TRIAL = Rate(0, 0)


def _scenarios(views: Views) -> Iterator[Table]:
    """Yield the table by scenario; none where no trial counts."""
    nothing = ScenarioView(_NO_TRIAL, _NO_TRIAL)
    rows: list[Row] = []
    for name in sorted({*chain(*(view.scenarios for view in views))}):
        scenarios = [view.scenarios.get(name, nothing) for view in views]
        rows += figure_rows("scenarios", scenarios, name=name)
    if rows:
        yield titled_table("scenarios", heads(views), rows)


def _handshakes(views: Views) -> Iterator[Table]:
    """Yield one funnel for each scenario that has a handshake."""
    scenarios = {handshake.scenario for view in views for handshake in view.handshakes}
    for scenario in sorted(scenarios):
        yield _handshake(views, scenario)


def _handshake(views: Views, scenario: str) -> Table:
    trials = []
    in_order = []
    rates_by_step: dict[str, list[Rate]] = {}
    for at, view in enumerate(views):
        funnels = [funnel for funnel in view.score.funnels if funnel.scenario == scenario]
        tried = sum(funnel.trials for funnel in funnels)
        trials.append(f"n={counted(tried, 'trial')}")
        ordered = _NO_TRIAL
        for handshake in view.handshakes:
            if handshake.scenario == scenario:
                ordered = handshake.in_order
                for step in handshake.steps:
                    rates = rates_by_step.setdefault(step.name, [_NO_TRIAL] * len(views))
                    rates[at] = step.passed
        # Fewer trials show the order in a run of an older version.
        in_order.append(share(ordered) if ordered.n == tried else own_share(ordered))
    rows = [row(step, map(share, rates)) for step, rates in rates_by_step.items()]
    rows.append(row(_IN_ORDER, in_order))
    return titled_table(
        "handshake",
        heads(views, trials),
        rows,
        scenario=scenario,
    )


# Denied calls by class: the first of each in the report, the others on separate pages.

CALLS = 40  # of one class and model in the page itself
CALLS_BESIDE = 400  # of them on a page beside it
_CALL_SHOWN = 160  # characters before, in and after the evidence


@dataclass(frozen=True, slots=True)
class _TrialLine:
    """One trial in the list of all, with the place of its transcript.

    `file` is "" for the page itself, and None for a transcript that is not written.
    """

    trial: TrialSummary
    denials: int
    place: str
    file: str | None = ""

    @property
    def href(self) -> str:
        return f"{self.file}#{self.place}"


@dataclass(frozen=True, slots=True)
class _CallLine:
    """One denied call: its place, and its text split at the evidence."""

    line: _TrialLine
    turn: int
    before: str
    marked: str
    after: str


@dataclass(frozen=True, slots=True)
class CallList:
    """The calls behind one figure: the first of them, and the pages with the others.

    `unwritten` is the number of calls that are on no page, as the run is too large.
    """

    place: str
    failure_class: str
    run: RunView
    calls: Sequence[_CallLine]
    files: Sequence[str]
    unwritten: int
    count: int

    @property
    def command(self) -> str:
        return f"agenteval calls {as_word(self.run.run.id)} --class {as_word(self.failure_class)}"


_Calls = dict[str, list[_CallLine]]  # by the place of the list that they belong to


@dataclass(frozen=True, slots=True)
class _CallsPage:
    """A separate page with more calls behind one figure, whose list is in the report itself."""

    file: str
    of: CallList
    calls: Sequence[_CallLine]
    first: int  # the number of the first one, from 1


def gather(
    calls: _Calls,
    run: int,
    line: _TrialLine,
    trial: Trial,
) -> None:
    """Add the denied calls of a trial that the rates count.

    These are the first agent's, if the trial is not void.
    """
    for record in trial.calls if not line.trial.void else ():
        if (primary := record.verdict.primary) is not None:
            place = _calls_place(run, primary.failure_class)
            calls.setdefault(place, []).append(_call_line(line, record))


def _calls_place(run: int, failure_class: str) -> str:
    return f"c{run}-{failure_class}"


def _call_line(line: _TrialLine, record: CallRecord) -> _CallLine:
    before, marked, after = marked_text(record.call, record.verdict)
    if marked and len(before) > _CALL_SHOWN:
        before = f"(...) {before[-_CALL_SHOWN:].lstrip()}"
    texts = (shortened(part, _CALL_SHOWN + 6) for part in (before, marked, after))
    return _CallLine(line, record.turn + 1, *texts)


def _call_lists(
    run: RunView,
    at: int,
    calls: _Calls,
    folder: str,
) -> Iterator[CallList]:
    """Yield the list of each class; `calls` has the first calls by place.

    `folder` is empty if not all calls are to be written.
    """
    counts: Counter[str] = Counter()
    for trial in run.score.counted:
        counts.update(trial.errors)
    for number, (name, count) in enumerate(counts.items(), 1):
        place = _calls_place(at, name)
        first_calls = calls.get(place, [])[:CALLS]
        remaining = count - len(first_calls)
        files = []
        if folder:
            # A class of a plug-in may have a name that no file can have.
            part = name if as_file_part(name) == name else f"class-{number}"
            pages = range(1, 1 + ceil(remaining / CALLS_BESIDE))
            files = [f"{folder}/calls-{at + 1}-{part}-{page}.html" for page in pages]
            remaining = 0
        yield CallList(place, name, run, first_calls, files, remaining, count)


def calls_beside(lists: Sequence[CallList], calls: _Calls) -> Iterator[_CallsPage]:
    """Yield the pages of the calls that are not in the report itself."""
    for call_list in lists:
        others = calls.get(call_list.place, [])[CALLS:]
        for at, file in enumerate(call_list.files):
            first = at * CALLS_BESIDE
            calls_of_page = others[first : first + CALLS_BESIDE]
            yield _CallsPage(file, call_list, calls_of_page, CALLS + first + 1)


# The trials of a report: in the page itself, on separate pages, or written nowhere.

INLINE = 90  # trials in the page itself, of all runs together
BESIDE = 100  # trials on a page beside it
MOST = 2500  # trials of all runs together, up to which each is written
_LONG = 500  # characters of a message from which on it stands once in a page


@dataclass(frozen=True, slots=True)
class _TrialsPage:
    """A separate page next to the report, with some trials of one run."""

    file: str
    at: int  # which run
    run: RunView
    lines: Sequence[_TrialLine]
    first: int  # the number of the first one, from 1, among those that are written


@dataclass(frozen=True, slots=True)
class Evidence:
    """The trials and denied calls of a report.

    `lines` are all trials of each run, the worst first. `calls` are the denied calls by class.
    `inline` has the calls of the trials in the page itself, by the place of their list.
    """

    lines: list[list[_TrialLine]]
    transcripts: list[list[TrialShown]]  # in the page itself
    pages: list[_TrialsPage]
    calls: list[CallList]
    inline: _Calls


def evidence_of(view: View, folder: str) -> Evidence:
    """Collect the evidence of a view; `folder` has the separate pages, relative to the report."""
    total = sum(run.played for run in view.runs)
    # A page must open in a browser: of many trials each run shows its share.
    keep = INLINE // max(1, len(view.runs)) if total > INLINE else INLINE
    evidence = Evidence([], [], [], [], {})
    for at, run in enumerate(view.runs):
        worst = _worst_first(run, at)
        linked = {line.place for line in _linked_lines(worst, keep)}
        written = linked if total > MOST else {line.place for line in worst}
        lines = _placed(worst, keep, written, f"{folder}/trials-{at + 1}")
        calls: _Calls = {}
        transcripts = []
        for line, trial in read_trials(run, [line for line in lines if line.place in linked]):
            gather(calls, at, line, trial)
            if line.file == "":
                transcripts.append(shown_trial(trial, line.place))
                gather(evidence.inline, at, line, trial)
        evidence.lines.append(lines)
        evidence.transcripts.append(transcripts)
        evidence.pages.extend(_pages(run, at, lines, keep))
        if worst:
            lists = _call_lists(run, at, calls, "" if total > MOST else folder)
            evidence.calls.extend(lists)
    evidence.calls.sort(key=attrgetter("failure_class", "place"))
    return evidence


def _pages(
    run: RunView,
    at: int,
    lines: Sequence[_TrialLine],
    keep: int,
) -> Iterator[_TrialsPage]:
    first = keep + 1
    # Lines of one file are neighbours once the unwritten ones between them are gone.
    on_other_pages = (line for line in lines if line.file)
    for file, group in groupby(on_other_pages, attrgetter("file")):
        lines_of_page = list(group)
        yield _TrialsPage(file, at, run, lines_of_page, first)
        first += len(lines_of_page)


def _worst_first(run: RunView, at: int) -> list[_TrialLine]:
    """Return trials that did not complete, then void ones, then the others; most denials first."""
    if run.tallies is None:
        return []
    tallies = sorted(run.tallies.trials, key=attrgetter("void"))  # in the order of the score
    trials = zip(run.trials, tallies, strict=True)
    # Sorted by these two alone: trials themselves have no order.
    ranked = [(rank(trial.outcome), -tally.denied, trial) for trial, tally in trials]
    ranked.sort(key=itemgetter(0, 1))
    return [
        _TrialLine(trial, -denials, f"t{at}-{number}")
        for number, (_, denials, trial) in enumerate(ranked)
    ]


def _linked_lines(lines: Sequence[_TrialLine], keep: int) -> Iterator[_TrialLine]:
    """Yield the trials that the page shows or links to.

    These are the first `keep`, the worst of each scenario, and those with the first calls of each
    class.
    """
    errors_so_far: Counter[str] = Counter()
    scenarios: set[str] = set()
    for number, line in enumerate(lines):
        errors = {} if line.trial.void else line.trial.errors
        rare = any(errors_so_far[name] < CALLS for name, count in errors.items() if count)
        if number < keep or rare or line.trial.scenario not in scenarios:
            yield line
        scenarios.add(line.trial.scenario)
        errors_so_far.update(errors)


def _placed(
    lines: Sequence[_TrialLine],
    keep: int,
    written: Collection[str],
    file: str,
) -> list[_TrialLine]:
    """Return the lines with the file that each is written to; a file has several of them."""
    placed = list(lines[:keep])
    on_other_pages = 0
    for line in lines[keep:]:
        name = None
        if line.place in written:
            name = f"{file}-{on_other_pages // BESIDE + 1}.html"
            on_other_pages += 1
        placed.append(replace(line, file=name))
    return placed


def read_trials(run: RunView, lines: Sequence[_TrialLine]) -> Iterator[tuple[_TrialLine, Trial]]:
    """Yield the lines with their transcripts, without trials that were replaced since."""
    by_world = {line.trial.world: line for line in lines}
    # A store that is still written to may have replaced a trial since its summary was read.
    for trial in run.transcripts(list(by_world)) if run.transcripts else ():
        line = by_world.get((trial.scenario, trial.number, trial.seed))
        if line is not None:
            yield line, trial


def prompts_of(trials: Iterable[TrialShown]) -> dict[str, str]:
    """Return the long messages that these trials began with, each with its anchor in the page."""
    anchors: dict[str, str] = {}
    for trial in trials:
        prompts = [trial.prompt, *(agent.prompt for agent in agents_below(trial))]
        for prompt in prompts:
            for _, text in prompt:
                if len(text) >= _LONG:
                    anchors.setdefault(text, f"p{len(anchors)}")
    return anchors


_WAY = ("base-url", "max-turns", "arm", "prompt-variant", "rules", "context")
_PLACE = ("sandbox", "harness", "allowlist")
_USUAL = {"rules": "start", "context": "0"}


def repeat_line(run: Run) -> str:
    """Return the command that repeats the run with the same task instances.

    Empty where its options were not stored.
    """
    options = run.options
    if options is None:
        return ""
    words = [
        "agenteval run",
        f"--model {quoted(run.model.name)}",
        *map(quoted, options.targets),
        f"--trials {options.trials}",
        f"--seed {options.seed}",
        f"--concurrency {run.concurrency}",
    ]
    for name in (*_WAY, *_PLACE):
        value = getattr(options, name.replace("-", "_"))
        if value and value != _USUAL.get(name):
            shown = re.sub(r"(?<=://)[^/]*@", "", str(value))  # a password
            words.append(f"--{name} {quoted(shown)}")
    if not options.prefork:
        words.append("--no-prefork")
    return " ".join(words)
