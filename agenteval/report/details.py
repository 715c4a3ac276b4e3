"""The tables below the comparison: how trials ended, what ran, how it was served, what was void.

Denied calls by class: the first of each in the report, the others on separate pages.

The evidence behind a report's figures: trials, denied calls, and how to play them again.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

from agenteval.report.figures import denial_tables
from agenteval.report.pairs import pair_tables
from agenteval.report.provenance import agent_tables, provenance_table
from agenteval.report.tables import (
    BY_WORDS,
    READ_FROM_WORDS,
    Cell,
    Table,
    arrival_tables,
    cause_rows,
    counted,
    goal_rows,
    heads,
    observable_cell,
    per_100,
    plain,
    repeated,
    row,
    share,
)
from agenteval.report.transcripts import AgentShown, TrialShown, marked_text, rank, shown_trial
from agenteval.report.view import RunView, ScenarioView, View
from agenteval.shell.gate import quoted
from agenteval.stats.rates import Rate, clustered
from agenteval.trial.run import NOT_OBSERVABLE, Run
from agenteval.trial.summary import TrialSummary
from agenteval.trial.tally import Spread
from agenteval.trial.text import as_file_part, as_word, shortened
from agenteval.trial.trial import CallRecord, Trial

UNSEEN = Cell(NOT_OBSERVABLE)


def _served_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    """Return the table of speed; none where only the summaries of a run were read."""
    served = [view.served for view in views if view.served]
    if len(served) < len(views):
        return ()
    rows = (
        row("to the first piece, ms", (_cell(one.first_piece, 1000) for one in served)),
        row("gap between pieces, median, ms", (_cell(one.gap_median, 1000) for one in served)),
        row("gap between pieces, p95, ms", (_cell(one.gap_p95, 1000) for one in served)),
        row("completion tokens/s", (_cell(one.tokens_per_second, 1) for one in served)),
        row("reasoning, % of completion", (_cell(one.reasoning, 100) for one in served)),
        row("cached, % of prompt", (_cell(one.cached, 100) for one in served)),
    )
    note = (
        "Median of all requests, and the 5th and 95th percentile; tokens/s from request to end, as "
        "the server counts tokens."
    )
    return (Table("Speed as served", note, heads(views), rows),)


def _cell(spread: Spread | None, unit: float) -> Cell:
    if spread is None:
        return UNSEEN
    low, high = f"{unit * spread.low:.3g}", f"{unit * spread.high:.3g}"
    return Cell(f"{unit * spread.median:.3g}", interval=f"[{low}, {high}]", n=f"n={spread.n}")


def _executions_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    """Return the table of executions; none where only the summaries of a run were read."""
    ran = [view.executions for view in views if view.executions]
    if len(ran) < len(views):
        return ()
    limits = sorted({limit for one in ran for limit in one.limits})
    errors = {
        view.label: clustered(one.tool_errors, view.layout)
        for view, one in zip(views, ran, strict=True)
    }
    rows = [
        row("tool errors", map(share, errors.values())),
        *(
            row(f"ended by {limit}", (plain(one.limits.get(limit, 0)) for one in ran))
            for limit in limits
        ),
        row("second reader objected", (plain(one.objections) for one in ran)),
        # It is asked only about what is about to run.
        *(
            row(
                f"second reader {answer}",
                (plain(view.run.second_reader.get(answer, 0)) for view in views),
            )
            for answer in ("agreed", "known faults", "failed", "timed out")
        ),
        row("turns", (plain(view.score.turns) for view in views)),
        row("completion tokens", (plain(one.completion_tokens) for one in ran)),
    ]
    columns = heads(views, lambda view: f"n={errors[view.label].n} executed")
    note = "A tool error is an allowed call that ran and failed: no error of the model's by itself."
    return (Table("What ran", note, columns, tuple(rows)),)


IN_ORDER = "all, in order"
FLAG_GUESSING = "hallucinated-flag"


def detail_tables(view: View) -> tuple[Table, ...]:
    """Return the tables of the pairs, if the view compares them, and of the runs of the view."""
    if not view.runs:
        return pair_tables(view)
    return (
        *pair_tables(view),
        _outcomes(view.runs),
        _behaviour(view.runs),
        *_scenarios(view.runs),
        *_handshakes(view.runs),
        *agent_tables(view.runs),
        *denial_tables(view.runs),
        *arrival_tables(view.runs),
        *_executions_tables(view.runs),
        *_served_tables(view.runs),
        provenance_table(view.runs),
    )


def summary_tables(view: View) -> tuple[Table, ...]:
    """Return the detail tables that a decision needs: outcome and recovery."""
    pairs = pair_tables(view)
    return (_outcomes(view.runs), _behaviour(view.runs), *pairs) if view.runs else pairs


def _behaviour(views: Sequence[RunView]) -> Table:
    again = [view.recovery.after_denied for view in views]
    rows = (
        row("reaction to a denial", (_commonest(view.recovery.kinds) for view in views)),
        row("denied again after a denial", (share(rate, own_n=True) for rate in again)),
        row("flag guessing, per 100 calls", (_flag_guessing(view) for view in views)),
        row(
            "handshake completed", (observable_cell(view, _handshake_total(view)) for view in views)
        ),
        row("typical exit", (observable_cell(view, _commonest(view.outcomes)) for view in views)),
    )
    return Table("Behaviour", "The most frequent of each kind, with its share.", heads(views), rows)


def _commonest(shares: Sequence[tuple[str, Rate]]) -> Cell:
    name, rate = max(shares, key=lambda one: one[1].count)
    if not rate.count:
        return Cell("-")
    return Cell(f"{name} {100 * rate.value:.0f}%", interval=rate.percent, n=f"n={rate.n}")


def _flag_guessing(view: RunView) -> Cell:
    return per_100(clustered(view.score.errors.clusters(FLAG_GUESSING), view.layout), own_n=True)


def _handshake_total(view: RunView) -> Cell:
    funnels = view.score.funnels
    completed, trials = sum(one.completed for one in funnels), sum(one.trials for one in funnels)
    return share(Rate(completed, trials), own_n=True)


def _outcomes(views: Sequence[RunView]) -> Table:
    rows = [
        row(end, (observable_cell(view, share(dict(view.outcomes)[end])) for view in views))
        for end, _ in views[0].outcomes
    ]
    rows += goal_rows(views)
    rows.append(row("trials with a denial", (share(view.any_denial) for view in views)))
    rows.append(row("void, left out", (plain(len(view.score.voids)) for view in views)))
    rows += cause_rows(views)
    for name, count in (("void, played again", _replaced), ("requests sent again", _retries)):
        if any(map(count, views)):
            rows.append(row(name, (plain(count(view)) for view in views)))
    if any(_stretched(view) > 1 for view in views):
        given = (Cell(f"x {_stretched(view):.1f}") for view in views)
        rows.append(row("time limits, for slowness up to", given))
    if any(view.run.crashes for view in views):
        rows.append(row("crashes per 1,000 requests", map(_crashes, views)))
    columns = heads(views, lambda view: f"n={counted(view.score.trials, 'trial')}")
    by_words = any(end in BY_WORDS and of.count for view in views for end, of in view.outcomes)
    caption = "Trials, share and 95 % interval." + (f" {READ_FROM_WORDS}" if by_words else "")
    return Table("How trials ended", caption, columns, tuple(rows))


def _crashes(view: RunView) -> Cell:
    rate = Rate(len(view.run.crashes), view.run.requests)
    low, high = 1000 * rate.low, 1000 * rate.high
    return Cell(f"{1000 * rate.value:.2f}", interval=f"[{low:.2f}, {high:.2f}]", n=f"n={rate.n}")


def _replaced(view: RunView) -> int:
    return sum(view.run.replaced.values())


def _retries(view: RunView) -> int:
    return sum(one.retries for one in (*view.score.counted, *view.score.voids))


def _stretched(view: RunView) -> float:
    trials = (*view.score.counted, *view.score.voids)
    return max((one.stretched for one in trials), default=1.0)


def _scenarios(views: Sequence[RunView]) -> tuple[Table, ...]:
    """Return the table by scenario; none where no trial counts."""
    played = [{one.name: one for one in view.scenarios} for view in views]
    names = sorted({name for run in played for name in run})
    nothing = Rate(0, 0)
    rows = []
    for name in names:
        here = [run.get(name, ScenarioView(name, nothing, nothing)) for run in played]
        rows.append(row(f"{name}, completed", (share(one.completed, own_n=True) for one in here)))
        rows.append(row("all of 3 trials, pass^3", (repeated(one.all_of) for one in here)))
        rows.append(row("any of 3 trials, pass@3", (repeated(one.any_of) for one in here)))
        rows.append(row("errors per 100 calls", (per_100(one.errors, own_n=True) for one in here)))
    note = "Trials completed, how surely so again, and errors per 100 calls, with 95 % interval."
    return (Table("By scenario", note, heads(views), tuple(rows)),) if rows else ()


def _handshakes(views: Sequence[RunView]) -> list[Table]:
    """Return one funnel for each scenario that has a handshake."""
    scenarios = sorted({one.scenario for view in views for one in view.handshakes})
    return [_handshake(views, scenario) for scenario in scenarios]


def _handshake(views: Sequence[RunView], scenario: str) -> Table:
    funnels = [
        {
            step: rate
            for one in view.handshakes
            if one.scenario == scenario
            for step, rate in one.steps
        }
        for view in views
    ]
    nothing = Rate(0, 0)
    rows = tuple(
        row(step, (share(funnel.get(step, nothing)) for funnel in funnels))
        for step in dict.fromkeys(step for funnel in funnels for step in funnel)
    )
    ordered = row(IN_ORDER, (_in_order(view, scenario) for view in views))
    note = "Trials that passed a step and all before it, share and 95 % interval."
    columns = heads(views, lambda view: f"n={counted(_tried(view, scenario), 'trial')}")
    return Table(f"Handshake of {scenario}", note, columns, (*rows, ordered))


def _in_order(view: RunView, scenario: str) -> Cell:
    """Return the share in order of the trials that show it: fewer in a run of an older version."""
    rate = next((one.in_order for one in view.handshakes if one.scenario == scenario), Rate(0, 0))
    return share(rate, own_n=rate.n != _tried(view, scenario))


def _tried(view: RunView, scenario: str) -> int:
    return sum(funnel.trials for funnel in view.score.funnels if funnel.scenario == scenario)


CALLS = 40  # of one class and model in the page itself
CALLS_BESIDE = 400  # of them on a page beside it
CALL_SHOWN = 160  # characters before, in and after the evidence


@dataclass(frozen=True, slots=True)
class TrialLine:
    """One trial in the list of all, with the place of its transcript, if that is written."""

    trial: TrialSummary
    denials: int
    place: str
    file: str = ""  # that it stands in; empty for the page itself
    written: bool = True

    @property
    def href(self) -> str:
        return f"{self.file}#{self.place}"


@dataclass(frozen=True, slots=True)
class _CallLine:
    """One denied call: its place, and its text split at the evidence."""

    line: TrialLine
    turn: int
    before: str
    marked: str
    after: str

    @property
    def href(self) -> str:
        return f"{self.line.href}-{self.turn}"

    @property
    def where(self) -> str:
        return f"{self.line.trial.scenario} #{self.line.trial.number}, turn {self.turn}"


@dataclass(frozen=True, slots=True)
class CallList:
    """The calls behind one figure: the first of them, and the pages with the others.

    `left` is the number of calls that are on no page, as the run is too large.
    """

    place: str
    failure_class: str
    run: RunView
    calls: tuple[_CallLine, ...]
    files: tuple[str, ...]
    left: int
    count: int

    @property
    def command(self) -> str:
        return f"agenteval calls {as_word(self.run.run.id)} --class {as_word(self.failure_class)}"


Calls = dict[str, list[_CallLine]]  # by the place of the list that they belong to


@dataclass(frozen=True, slots=True)
class _CallsPage:
    """A separate page with more calls behind one figure, whose list is in the report itself."""

    file: str
    of: CallList
    calls: Sequence[_CallLine]
    first: int  # the number of the first one, from 1

    def href(self, call: _CallLine, main: str) -> str:
        """Return the link from this page to a call; `main` is the file of the report."""
        beside = call.line.file.rpartition("/")[2]
        return f"{beside or f'../{main}'}#{call.line.place}-{call.turn}"


def gather(calls: Calls, run: int, line: TrialLine, trial: Trial) -> None:
    """Add the denied calls of a trial that the rates count.

    These are the first agent's, if the trial is not void.
    """
    for record in trial.calls if not line.trial.void else ():
        if (primary := record.verdict.primary) is not None:
            place = _calls_place(run, primary.failure_class)
            calls.setdefault(place, []).append(_call_line(line, record))


def _calls_place(run: int, failure_class: str) -> str:
    return f"c{run}-{failure_class}"


def _call_line(line: TrialLine, record: CallRecord) -> _CallLine:
    before, marked, after = marked_text(record.call, record.verdict)
    if marked and len(before) > CALL_SHOWN:
        before = f"(...) {before[-CALL_SHOWN:].lstrip()}"
    shown = (shortened(part, CALL_SHOWN + 6) for part in (before, marked, after))
    return _CallLine(line, record.turn + 1, *shown)


def call_lists(run: RunView, at: int, calls: Calls, folder: str) -> Iterator[CallList]:
    """Yield the list of each class; `calls` has the first calls by place.

    `folder` is empty if not all calls are to be written.
    """
    counts: Counter[str] = Counter()
    for trial in run.score.counted:
        counts.update(trial.errors)
    for number, (name, count) in enumerate(counts.items(), 1):
        place = _calls_place(at, name)
        file = name if as_file_part(name) == name else f"class-{number}"
        first_calls = tuple(calls.get(place, ())[:CALLS])
        remaining = count - len(first_calls)
        pages = range(1, 1 + ceil(remaining / CALLS_BESIDE) if folder else 1)
        files = tuple(f"{folder}/calls-{at + 1}-{file}-{part}.html" for part in pages)
        yield CallList(place, name, run, first_calls, files, 0 if folder else remaining, count)


def calls_beside(lists: Sequence[CallList], calls: Calls) -> Iterator[_CallsPage]:
    """Yield the pages of the calls that are not in the report itself."""
    for of in lists:
        for at, file in enumerate(of.files):
            first = CALLS + at * CALLS_BESIDE
            some = calls.get(of.place, [])[first : first + CALLS_BESIDE]
            yield _CallsPage(file, of, some, first + 1)


INLINE = 90  # trials in the page itself, of all runs together
BESIDE = 100  # trials on a page beside it
MOST = 2500  # trials of all runs together, up to which each is written
LONG = 500  # characters of a message from which on it stands once in a page


@dataclass(frozen=True, slots=True)
class Beside:
    """A separate page next to the report, with some trials of one run."""

    file: str
    at: int  # which run
    run: RunView
    lines: tuple[TrialLine, ...]
    first: int  # the number of the first one, from 1, among those that are written


@dataclass(frozen=True, slots=True)
class Behind:
    """The trials and denied calls of a report.

    `lines` are all trials of each run, the worst first. `calls` are the denied calls by class.
    `inline` has the calls of the trials in the page itself, by the place of their list.
    """

    lines: tuple[tuple[TrialLine, ...], ...]
    transcripts: tuple[list[TrialShown], ...]  # those in the page itself
    pages: tuple[Beside, ...]
    calls: tuple[CallList, ...]
    inline: Calls

    def lines_on_other_pages(self, run: int) -> list[TrialLine]:
        """Return the trials that are on separate pages."""
        return [one for one in self.lines[run] if one.file]

    def unwritten(self, run: int) -> int:
        return sum(not one.written for one in self.lines[run])

    def scenario(self, run: int, name: str) -> str:
        """Return the link to the worst trial of a scenario; empty if it was not played."""
        lines = (line for line in self.lines[run] if line.trial.scenario == name)
        return next((line.href for line in lines), "")


def behind(view: View, folder: str) -> Behind:
    """Collect the evidence of a view; `folder` has the separate pages, relative to the report."""
    total = sum(run.played for run in view.runs)
    keep = INLINE // max(1, len(view.runs)) if total > INLINE else INLINE
    parts = [
        _of_run(run, at, keep, folder, everything=total <= MOST) for at, run in enumerate(view.runs)
    ]
    calls = (one for part in parts for one in part.calls)
    return Behind(
        lines=tuple(lines for part in parts for lines in part.lines),
        transcripts=tuple(of_run for part in parts for of_run in part.transcripts),
        pages=tuple(page for part in parts for page in part.pages),
        calls=tuple(sorted(calls, key=lambda one: (one.failure_class, one.place))),
        inline={place: of for part in parts for place, of in part.inline.items()},
    )


def _of_run(run: RunView, at: int, keep: int, folder: str, *, everything: bool) -> Behind:
    worst = worst_first(run, at)
    linked = {one.place for one in _linked_lines(worst, keep)}
    written = {one.place for one in worst} if everything else linked
    lines = _placed(worst, keep, written, f"{folder}/trials-{at + 1}")
    on_other_pages = [one for one in lines if one.file]
    pages = (
        Beside(some[0].file, at, run, tuple(some), keep + start + 1)
        for start in range(0, len(on_other_pages), BESIDE)
        for some in [on_other_pages[start : start + BESIDE]]
    )
    read = list(read_trials(run, [one for one in lines if one.place in linked]))
    transcripts = [shown_trial(trial, line.place) for line, trial in read if not line.file]
    inline: Calls = {}
    calls: Calls = {}
    for line, trial in read:
        gather(calls, at, line, trial)
        if not line.file:
            gather(inline, at, line, trial)
    lists = tuple(call_lists(run, at, calls, folder if everything else "")) if worst else ()
    return Behind((lines,), (transcripts,), tuple(pages), lists, inline)


def worst_first(run: RunView, at: int) -> list[TrialLine]:
    """Return trials that did not complete, then void ones, then the others; most denials first."""
    if run.tallies is None:
        return []
    tallies = run.tallies.trials
    counted, void = ([one for one in tallies if one.void is kind] for kind in (False, True))
    played = zip((*run.score.counted, *run.score.voids), (*counted, *void), strict=True)
    found = sorted(played, key=lambda one: (rank(one[0].outcome), -one[1].denied))
    return [
        TrialLine(trial, tally.denied, f"t{at}-{number}")
        for number, (trial, tally) in enumerate(found)
    ]


def _linked_lines(lines: Sequence[TrialLine], keep: int) -> list[TrialLine]:
    """Return the trials that the page shows or links to.

    These are the first `keep`, the worst of each scenario, and those with the first calls of each
    class.
    """
    errors_so_far: Counter[str] = Counter()
    scenarios: set[str] = set()
    linked = []
    for number, line in enumerate(lines):
        errors = {} if line.trial.void else line.trial.errors
        rare = any(errors_so_far[name] < CALLS for name, count in errors.items() if count)
        if number < keep or rare or line.trial.scenario not in scenarios:
            linked.append(line)
        scenarios.add(line.trial.scenario)
        errors_so_far.update(errors)
    return linked


def _placed(
    lines: Sequence[TrialLine], keep: int, written: Collection[str], file: str
) -> tuple[TrialLine, ...]:
    """Return the lines with the file that each is written to; a file has several of them."""
    on_other_pages = [one.place for one in lines[keep:] if one.place in written]
    files = {place: f"{file}-{at // BESIDE + 1}.html" for at, place in enumerate(on_other_pages)}
    return tuple(
        replace(one, file=files.get(one.place, ""), written=number < keep or one.place in files)
        for number, one in enumerate(lines)
    )


def read_trials(run: RunView, lines: Sequence[TrialLine]) -> Iterator[tuple[TrialLine, Trial]]:
    """Yield the lines with their transcripts, without trials that were replaced since."""
    by_world = {line.trial.world: line for line in lines}
    for trial in run.transcripts(list(by_world)) if run.transcripts else ():
        if line := by_world.get((trial.scenario, trial.number, trial.seed)):
            yield line, trial


def prompts_of(trials: Sequence[TrialShown]) -> dict[str, str]:
    """Return the long messages that these trials began with, each with its anchor in the page."""
    texts = dict.fromkeys(text for one in trials for text in _messages(one) if len(text) >= LONG)
    return {text: f"p{at}" for at, text in enumerate(texts)}


def _messages(shown: TrialShown | AgentShown) -> Iterator[str]:
    yield from (text for _, text in shown.prompt)
    agents = (agent for turn in shown.turns for call in turn.calls for agent in call.agents)
    for agent in (*agents, *shown.agents):
        yield from _messages(agent)


def repeat_line(run: Run) -> str:
    """Return the command that repeats the run with the same task instances.

    Empty where its options were not stored.
    """
    options = run.options
    if options is None:
        return ""
    words = ["agenteval run", *(f"--model {quoted(name)}" for name in (run.model.name,))]
    words += [quoted(target) for target in options.targets]
    words += [f"--trials {options.trials}", f"--seed {options.seed}"]
    words.append(f"--concurrency {run.concurrency}")
    option_values = {
        "base-url": re.sub(r"(?<=://)[^/]*@", "", options.base_url or ""),  # a password
        "max-turns": options.max_turns,
        "arm": options.arm,
        "prompt-variant": options.prompt_variant,
        "rules": options.rules if options.rules != "start" else None,
        "context": options.context if options.context != "0" else None,
        "sandbox": options.sandbox,
        "harness": options.harness or None,
        "allowlist": options.allowlist or None,
    }
    words += [f"--{name} {quoted(str(value))}" for name, value in option_values.items() if value]
    return " ".join(words) + ("" if options.prefork else " --no-prefork")
