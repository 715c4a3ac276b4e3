"""The tables of a view, as cells: console, Markdown and HTML each render them in their own way.

The table of how calls arrived: malformed calls by kind, and the layer to blame.

The goals of trials as checked in the sandbox at their end: reached, missed, or undone.

Lines on trials that are void, judged again, broken by a server, or not played yet.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from statistics import median

from agenteval.classes.malformed import FAULTS, KINDS
from agenteval.errors import Cause
from agenteval.report.view import Arrivals, Errors, RunView, View
from agenteval.stats.rates import Estimand, Layout, Rate, Repeated, clustered, share_of
from agenteval.trial.call import Blame, MalformedCall, Outcome
from agenteval.trial.run import NOT_OBSERVABLE, Rejudged
from agenteval.trial.summary import RunSummary, TrialSummary
from agenteval.trial.tally import Score, Tallies, Tally, as_served
from agenteval.trial.text import Name, as_name, visible
from agenteval.trial.trial import ErrorCounts

MARK = "SIMULATED"
SAID = "What can be said"
MISSED = "Goals that were missed"
NOTE = "Errors, errors per 100 tool calls and 95 % interval."
# Measured on messages of sources that nothing was made for: docs/report.md.
READ_FROM_WORDS = (
    "claimed-done is read from last words: of ten claims two are missed and count as stalled or "
    "gave-up, and of ten that are found one is none. Completion is asked of the world."
)
BY_WORDS = (Outcome.CLAIMED_DONE, Outcome.GAVE_UP, Outcome.STALLED)


@dataclass(frozen=True, slots=True)
class Cell:
    """One number: its count, value and interval, and its n if the head does not have it."""

    value: str
    count: str = ""
    interval: str = ""
    n: str = ""
    zero: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """The head of one column: the model, and below it the counted amounts, one a line."""

    label: Name
    counted: str = ""
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    label: Name
    cells: tuple[Cell, ...]
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    note: str
    heads: tuple[Head, ...]
    rows: tuple[Row, ...]
    first: str = ""  # the head of the label column

    @property
    def simulated(self) -> bool:
        return any(head.simulated for head in self.heads)


def comparison_table(view: View) -> Table:
    """Return the first table: how often the goal was reached, and errors per 100 calls by class.

    Classes without an error of any model share one row, unless the rows are those of a published
    table.
    """
    heads = tuple(
        head(
            model.label,
            _lines(f"n={counted(model.total.n, 'call')}", _trials(model.trials), model.arm),
            simulated=model.simulated,
        )
        for model in view.models
    )
    rows = {row.id: [model.rows[at] for model in view.models] for at, row in enumerate(view.rows)}
    impossible = {name for model in view.models for name in model.cannot_occur}
    unseen = [] if view.folded else [name for name in rows if not any(r.count for r in rows[name])]
    unseen = [name for name in unseen if name not in impossible]
    rows_shown = [(name, rates) for name, rates in rows.items() if name not in unseen]
    if unseen:
        label = f"{len(unseen)} classes not seen, each" if len(unseen) > 1 else "1 class not seen"
        rows_shown.append((label, rows[unseen[0]]))
    lines = [*_goals(view), *(_of_class(view, name, rates) for name, rates in rows_shown)]
    total = row("total", (per_100(model.total) for model in view.models), strong=True)
    lines += [total, *_with_voids(view)]
    return Table(view.title, f"{NOTE} {view.basis}", heads, tuple(lines), "failure class")


def _of_class(view: View, name: str, rates: Sequence[Rate]) -> Row:
    """Return a class's row; one that a server prevents has no rate, unless it occurred anyway."""
    is_impossible = [name in model.cannot_occur for model in view.models]
    return row(
        name,
        (
            Cell(CANNOT_OCCUR) if impossible and not rate.count else per_100(rate)
            for impossible, rate in zip(is_impossible, rates, strict=True)
        ),
    )


CANNOT_OCCUR = "cannot occur"
WITH_VOIDS = ("with the calls of void trials", "and each void an error more")


def _with_voids(view: View) -> list[Row]:
    """Return the totals with void trials in two ways, if there are more than a few.

    The other rows exclude void trials.
    """
    if not any(model.with_voids for model in view.models):
        return []
    return [
        row(label, (_other_total(model, at) for model in view.models))
        for at, label in enumerate(WITH_VOIDS)
    ]


def _other_total(model: Errors, at: int) -> Cell:
    return per_100(model.with_voids[at], own_n=True) if model.with_voids else Cell("-")


def _goals(view: View) -> list[Row]:
    """Return the row of goals; none if no model has a run, as a published table has no goals."""
    reached = {
        run.label: observable_cell(run, share(dict(run.outcomes)[Outcome.COMPLETED], own_n=True))
        for run in view.runs
    }
    cells = tuple(reached.get(model.label, Cell("-")) for model in view.models)
    return [row("goal reached, of trials", cells, strong=True)] if reached else []


def observable_cell(view: RunView, cell: Cell) -> Cell:
    """Return the cell, or "not observable" if it is empty and the run is from logs."""
    return Cell(NOT_OBSERVABLE) if view.run.source and cell == NOTHING else cell


NOTHING = Cell("-")


def _trials(number: int | None) -> str:
    return "unknown trials" if number is None else counted(number, "trial")


def per_100(rate: Rate, *, own_n: bool = False) -> Cell:
    return _cell(rate, f"{100 * rate.value:.2f}", own_n=own_n)


def share(rate: Rate, *, own_n: bool = False) -> Cell:
    """Return a share in percent, with its own n if the column's head counts something else."""
    return _cell(rate, f"{100 * rate.value:.1f}%", own_n=own_n)


def _cell(rate: Rate, value: str, *, own_n: bool) -> Cell:
    if not rate.n:
        return NOTHING
    n = f"n={rate.n}" if own_n else ""
    return Cell(value, str(rate.count), rate.percent, n, zero=not rate.count)


def repeated(chance: Repeated | None) -> Cell:
    """Return a chance in percent; it has no count of its own."""
    if chance is None:
        return Cell("-")
    interval = f"[{100 * chance.low:.1f}, {100 * chance.high:.1f}]"
    return Cell(f"{100 * chance.value:.1f}%", "", interval, f"n={chance.n}")


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with its noun: "1 trial", "2 trials"."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def void_of(voids: int, played: int) -> str:
    """Return void trials of those played: "1 of 5 trials is void", "all 3 trials are void"."""
    are = "is void" if voids == 1 else "are void"
    if voids == played:
        return f"the one trial {are}" if voids == 1 else f"all {voids} trials {are}"
    return f"{voids} of {played} trials {are}"


def plain(number: float | None) -> Cell:
    return Cell("-" if number is None else f"{number:g}")


def heads(
    views: Sequence[RunView], counted: Callable[[RunView], str] = lambda _: ""
) -> tuple[Head, ...]:
    return tuple(
        head(
            view.label,
            _lines(counted(view), view.errors.arm),
            simulated=view.errors.simulated,
        )
        for view in views
    )


def _lines(*texts: str) -> str:
    """Join texts with line ends, also in place of commas: a column must stay narrow."""
    return "\n".join(map(as_name, filter(None, texts))).replace(", ", "\n")


def head(label: str, counted: str = "", *, simulated: bool = False) -> Head:
    return Head(as_name(label), counted, simulated)


def row(label: str, cells: Iterable[Cell], *, strong: bool = False) -> Row:
    return Row(as_name(label), tuple(cells), strong)


FAULTY = "faulty"
Place = tuple[int, int | None, int]  # of a call: turn, position, which one of those without any


@dataclass(frozen=True, slots=True)
class Arrived:
    """Counts by trial of malformed calls, out of the calls that were tried.

    `blames` and `faulty` count only faults, `kinds` also notes. `repairs` are those in what was
    sent back.
    """

    kinds: ErrorCounts
    blames: ErrorCounts
    faulty: ErrorCounts
    repairs: int


def arrived(tallies: Tallies, faults: Collection[str]) -> Arrived:
    """Count the malformed calls by trial; `faults` names the kinds that are more than a note."""
    kinds, blames, faulty = [], [], []
    for tally in tallies.counted:
        placed = list(_places(tally))
        wrong = [(place, each) for place, each in placed if each.kind in faults]
        lost = len({place for place, each in wrong if each.position is None})
        tried = tally.written + lost
        kinds.append((tried, Counter(kind for _, kind in {(at, each.kind) for at, each in placed})))
        blamed = Counter(str(b) for _, b in {(at, each.blame) for at, each in wrong})
        blames.append((tried, blamed))
        faulty.append((tried, {FAULTY: len({place for place, _ in wrong})}))
    return Arrived(
        kinds=ErrorCounts.added(kinds),
        blames=ErrorCounts.added(blames),
        faulty=ErrorCounts.added(faulty),
        repairs=sum(tally.repairs for tally in tallies.counted),
    )


def blamed(malformed: Iterable[Sequence[tuple[int, MalformedCall]]]) -> tuple[dict[str, int], int]:
    """Return how many calls each layer broke in these trials, and how many never arrived."""
    tallies = Tallies(tuple(Tally(malformed=tuple(one)) for one in malformed), as_served(()))
    blames = arrived(tallies, FAULTS).blames
    return {name: sum(of) for name, of in blames.by_class.items()}, sum(blames.calls)


def _places(tally: Tally) -> Iterator[tuple[Place, MalformedCall]]:
    """Yield malformed calls with their places; calls without position are numbered by turn."""
    for turn, of in groupby(tally.malformed, key=itemgetter(0)):
        for which, (_, one) in enumerate(of):
            yield (turn, one.position, which if one.position is None else 0), one


def arrivals_of(tallies: Tallies, layout: Layout) -> Arrivals:
    counts = arrived(tallies, FAULTS)
    return Arrivals(
        faulty=clustered(counts.faulty.clusters(FAULTY), layout),
        kinds=_rates(counts.kinds, [kind.id for kind in KINDS], layout),
        blames=_rates(counts.blames, [str(blame) for blame in Blame], layout),
        repairs=counts.repairs,
    )


def _rates(counts: ErrorCounts, names: Sequence[str], layout: Layout) -> Mapping[str, Rate]:
    return {name: clustered(counts.clusters(name), layout) for name in names}


def arrival_tables(views: Sequence[RunView]) -> tuple[Table, ...]:
    """Return the table; none where all calls arrived well formed, or only summaries were read."""
    arrivals = [view.arrivals for view in views if view.arrivals]
    if len(arrivals) < len(views):
        return ()
    kinds = [kind for kind in KINDS if any(one.kinds[kind.id].count for one in arrivals)]
    if not kinds:
        return ()
    blames = [blame for blame in Blame if any(one.blames[blame].count for one in arrivals)]
    rows = [
        row("faulty, of any kind", (per_100(one.faulty) for one in arrivals)),
        *(
            row(
                f"{kind.id}, a note" if kind.note else kind.id,
                (per_100(one.kinds[kind.id]) for one in arrivals),
            )
            for kind in kinds
        ),
        *(
            row(f"to blame: {blame}", (per_100(one.blames[blame]) for one in arrivals))
            for blame in blames
        ),
        row("repairs in what was sent back", (plain(one.repairs) for one in arrivals)),
    ]
    tried = {view.label: one.faulty.n for view, one in zip(views, arrivals, strict=True)}
    columns = heads(views, lambda view: f"n={tried[view.label]} calls tried")
    note = "Malformed calls per 100 that were tried, those included that never arrived as calls."
    return (Table("How calls arrived", note, columns, tuple(rows)),)


@dataclass(frozen=True, slots=True)
class Missed:
    """One check of a scenario's goal: the trials that missed it, `of` all that were played."""

    scenario: str
    check: str
    trials: tuple[TrialSummary, ...]
    of: int

    @property
    def line(self) -> str:
        first = self.trials[0]
        why = next(one.why for one in first.goal if one.name == self.check and not one.held)
        trials = f"{len(self.trials)} of {counted(self.of, 'trial')}"
        return f"{self.scenario}, {self.check}: missed in {trials}; {why} in #{first.number}"


def missed(view: RunView) -> list[Missed]:
    """Return the checks that did not hold at the end, those missed by most trials first."""
    trials: dict[tuple[str, str], list[TrialSummary]] = {}
    for trial in view.score.counted:
        for check in trial.goal:
            if not check.held:
                trials.setdefault((trial.scenario, check.name), []).append(trial)
    played = Counter(trial.scenario for trial in view.score.counted)
    checks = [Missed(*of, tuple(those), played[of[0]]) for of, those in trials.items()]
    return sorted(checks, key=lambda trial: (-len(trial.trials), trial.scenario, trial.check))


def missed_lines(view: View, most: int | None = None) -> list[str]:
    """Return a line for each check of a goal that trials missed; at most `most` of each run."""
    lines = []
    for run in view.runs:
        lines_of_run = missed_of(run)
        lines += lines_of_run[:most]
        if most is not None and len(lines_of_run) > most:
            lines.append(f"{run.label}: {len(lines_of_run) - most} more, with --details")
    return lines


def missed_of(run: RunView) -> list[str]:
    return [visible(f"{run.label}: {one.line}") for one in missed(run)]


def undone(view: RunView) -> Rate:
    """Return the share of trials whose goal held once and not at the end."""
    return share_of([one.undone for one in view.score.counted], view.layout)


def goal_turns(view: RunView) -> tuple[float | None, float | None]:
    """Return the median of turns until the goal first held, and of turns played after it."""
    turns_at_goal = [
        (one.goal_turn + 1, one.turns) for one in view.score.counted if one.goal_turn is not None
    ]
    if not turns_at_goal:
        return None, None
    return median(turn for turn, _ in turns_at_goal), median(
        turns - turn for turn, turns in turns_at_goal
    )


def goal_rows(views: Sequence[RunView]) -> Iterator[Row]:
    """Yield the rows on goals of the table of outcomes.

    There are none if no trial recorded when its goal held.
    """
    if any(one.goal_turn is not None for view in views for one in view.score.counted):
        until, after = zip(*map(goal_turns, views), strict=True)
        yield row("goal held and undone", (share(undone(view)) for view in views))
        yield row("median turns to goal", map(plain, until))
        yield row("median turns after", map(plain, after))


def reached(run: RunSummary, about: Estimand) -> Rate:
    """Return the share of trials whose goal was reached, of those of which it is known."""
    observed = [trial for trial in run.counted if trial.observed]
    layout = Layout(about, [trial.scenario for trial in observed])
    return share_of([trial.completed for trial in observed], layout)


def is_logged(run: RunSummary) -> bool:
    """Return True if the run is from logs, which do not show whether goals were reached."""
    return bool(run.counted) and not any(trial.observed for trial in run.counted)


FEW = 0.02  # of all trials: up to here it makes no difference how voids are counted
MATERIAL = 0.05  # of the calls tried: from here on a server makes a difference
NAMED = 3  # trials of one cause


def with_voids(scored: Score, about: Estimand) -> tuple[Rate, Rate] | None:
    """Return the error rate with the calls of void trials, and with each void as one more error.

    None if few trials are void.
    """
    if scored.void_share <= FEW:
        return None
    trials = (*scored.counted, *scored.voids)
    layout = Layout(about, [one.scenario for one in trials])
    clusters = [one.all_errors for one in trials]
    worse = [
        (errors + one.void, calls + one.void)
        for one, (errors, calls) in zip(trials, clusters, strict=True)
    ]
    return clustered(clusters, layout), clustered(worse, layout)


def void_lines(view: View) -> list[str]:
    """Return one line for each cause of voids: which trials, and why, without tracebacks."""
    return [
        _line(run, [void for void in run.score.voids if void.cause is cause])
        for run in view.runs
        for cause in dict.fromkeys(void.cause for void in run.score.voids)
    ]


def _line(run: RunView, voids: Sequence[TrialSummary]) -> str:
    names = ", ".join(f"{void.scenario} #{void.number}" for void in voids[:NAMED])
    if len(voids) > 1:
        more = ", ..." if len(voids) > NAMED else ""
        names = f"{len(voids)} of {run.played} trials ({names}{more})"
    first = voids[0]
    reason = visible(first.reason.partition("\n")[0]) or "no reason was kept"
    return f"{run.label}: {names}: " + (f"{first.cause}: {reason}" if first.cause else reason)


def retried_told(who: str, replaced: Mapping[str, int]) -> list[str]:
    """Return the remark that void trials were played again; none if none were.

    Interrupted trials do not count.
    """
    again = sum(count for cause, count in replaced.items() if cause != Cause.INTERRUPTED)
    if not again:
        return []
    line = (
        f"{who}: {counted(again, 'void trial')} {'was' if again == 1 else 'were'} played again "
        "(--retry-void) and left out, of the budget of voids too. What breaks a trial where the "
        "model would fail is hidden by that."
    )
    return [line]


def rejudged_told(who: str, rejudged: Rejudged | None) -> list[str]:
    """Return the remark that a run's calls were judged again by other rules; none if not."""
    if rejudged is None:
        return []
    line = (
        f"{who}: judged first by {rejudged.first}, and after the fact by {rejudged.now}: "
        f"{counted(rejudged.allowed, 'call')} denied then, and allowed now; {rejudged.denied} the "
        "other way round. What the model did next was its answer to the first."
    )
    return [line]


def spoilt_told(who: str, blames: Mapping[str, int], tried: int) -> list[str]:
    """Return the remark that other layers than the model broke many of its calls; or none."""
    others = {one: calls for one in Blame if one != Blame.MODEL and (calls := blames.get(one))}
    spoilt = sum(others.values())
    if spoilt < max(1, MATERIAL * tried):
        return []
    layers = ", ".join(f"{blame} {calls}" for blame, calls in others.items())
    line = (
        f"{who}: {spoilt} of {counted(tried, 'call')} tried were spoilt by another than the model "
        f"({layers}): left as text, cut off or broken. These figures are of its server as well; "
        "`agenteval show --details` tells what to mend."
    )
    return [line]


def cause_rows(views: Sequence[RunView]) -> list[Row]:
    """Return the rows of void trials by cause."""
    causes = sorted({str(one.cause) for view in views for one in view.score.voids if one.cause})
    return [row(f"void: {cause}", (plain(_by(view, cause)) for view in views)) for cause in causes]


def _by(view: RunView, cause: str) -> int:
    return sum(one.cause == cause for one in view.score.voids)


def run_remarks(role: str, run: RunSummary) -> Iterator[str]:
    """Yield the remarks on one side of a gate: void or missing trials, and no sandbox."""
    voids = len(run.trials) - len(run.counted)
    if voids:
        yield (
            f"Of the {role}, {void_of(voids, len(run.trials))} and left out of all but their own "
            "budget; leaving them out can flatter."
        )
    if not run.complete:
        yield (
            f"The {role}'s run is not complete: {len(run.trials)} of {run.trials_planned} trials."
        )
    if run.conditions.other.get("sandbox") == "none":
        yield f"The {role}'s commands ran WITHOUT A SANDBOX (sandbox none)."
