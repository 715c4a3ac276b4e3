"""The cells, rows and tables of a view; console, Markdown and HTML each render them in their way.

`comparison_table` comes first in every report. The other titles, notes and rows are in
texts.toml. Below them: counts of malformed calls, the goals of trials as the sandbox checked
them, and remarks on trials that are void, judged again or broken by a server.
"""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from agenteval.classes.malformed import FAULTS, KINDS
from agenteval.errors import Cause
from agenteval.report.view import Arrivals, RunView, View, Views
from agenteval.stats.rates import Estimand, Layout, Rate, Repeated, clustered, share_of
from agenteval.trial.call import Blame, MalformedCall, Outcome
from agenteval.trial.run import NOT_OBSERVABLE, Rejudged
from agenteval.trial.summary import RunSummary, TrialSummary
from agenteval.trial.tally import Score, Spread, Tallies, Tally
from agenteval.trial.text import Name, as_name, visible
from agenteval.trial.trial import ErrorCounts, GoalCheck

MARK = "SIMULATED"
SAID = "What can be said"
MISSED = "Goals that were missed"
_NOTE = "Errors, errors per 100 tool calls and 95 % interval."
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
    columns = []
    for model in view.models:
        calls = f"n={counted(model.total.n, 'call')}"
        trials = "unknown trials" if model.trials is None else counted(model.trials, "trial")
        counts = _lines(calls, trials, model.arm)
        columns.append(head(model.label, counts, simulated=model.simulated))
    rows = [
        *_goals(view),
        *_class_rows(view),
        row("total", [per_100(model.total) for model in view.models], strong=True),
        *_with_voids(view),
    ]
    return Table(
        view.title,
        f"{_NOTE} {view.basis}",
        tuple(columns),
        tuple(rows),
        "failure class",
    )


# A row of a class that a grammar of the server prevents: 0 errors would look like a virtue.
_CANNOT_OCCUR = "cannot occur"
WITH_VOIDS = ("with the calls of void trials", "and each void an error more")


def _class_rows(view: View) -> Iterator[Row]:
    """Yield the rows of classes, that of all unseen ones last.

    A class that a server prevents has no rate, unless it occurred anyway.
    """
    unseen: list[Row] = []
    for name in [text.id for text in view.rows]:
        cells = []
        is_shown = view.folded
        for model in view.models:
            rate = model.rows[name]
            prevented = name in model.cannot_occur
            is_shown = is_shown or prevented or rate.count > 0
            cells.append(per_100(rate) if rate.count or not prevented else Cell(_CANNOT_OCCUR))
        if is_shown:
            yield row(name, cells)
        else:
            unseen.append(row(name, cells))
    if unseen:
        several = f"{len(unseen)} classes not seen, each"
        yield row(several if len(unseen) > 1 else "1 class not seen", unseen[0].cells)


def _with_voids(view: View) -> Iterator[Row]:
    """Yield the totals with void trials in two ways, if there are more than a few.

    The other rows exclude void trials.
    """
    if not any(model.with_voids for model in view.models):
        return
    for at, label in enumerate(WITH_VOIDS):
        totals = [model.with_voids for model in view.models]
        yield row(label, [own_per_100(both[at]) if both else NOTHING for both in totals])


def _goals(view: View) -> Iterator[Row]:
    """Yield the row of goals; none if no model has a run, as a published table has no goals."""
    cells = {}
    for run in view.runs:
        cells[run.label] = observable_cell(run, own_share(run.completed))
    if cells:
        cells_of_models = [cells.get(model.label, NOTHING) for model in view.models]
        yield row("goal reached, of trials", cells_of_models, strong=True)


def observable_cell(view: RunView, cell: Cell) -> Cell:
    """Return the cell, or "not observable" if it is empty and the run is from logs."""
    return Cell(NOT_OBSERVABLE) if view.run.source and cell == NOTHING else cell


# A rate of n = 0 has no value, and must not look like 0.
NOTHING = Cell("-")


def per_100(rate: Rate, n: str = "") -> Cell:
    return _cell(rate, f"{100 * rate.value:.2f}", n)


def own_per_100(rate: Rate) -> Cell:
    """Return errors per 100 with their own n, as the column's head counts something else."""
    return per_100(rate, f"n={rate.n}")


def share(rate: Rate, n: str = "") -> Cell:
    return _cell(rate, f"{100 * rate.value:.1f}%", n)


def own_share(rate: Rate) -> Cell:
    """Return a share in percent with its own n, as the column's head counts something else."""
    return share(rate, f"n={rate.n}")


def _cell(rate: Rate, value: str, n: str) -> Cell:
    if not rate.n:
        return NOTHING
    return Cell(value, str(rate.count), rate.percent, n, zero=not rate.count)


def _repeated(chance: Repeated | None) -> Cell:
    """Return a chance in percent; it has no count of its own."""
    if chance is None:
        return NOTHING
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


def _points(shares: Mapping[str, float] | None) -> Cell:
    """Return a difference in percent points, with its interval."""
    if shares is None:
        return NOTHING
    value, low, high = (100 * share for share in shares.values())
    return Cell(f"{value:+.1f}", interval=f"[{low:.1f}, {high:.1f}]")


def _spread(spread: Spread | None, unit: int = 1) -> Cell:
    if spread is None:
        return Cell(NOT_OBSERVABLE)
    interval = f"[{unit * spread.low:.3g}, {unit * spread.high:.3g}]"
    return Cell(
        f"{unit * spread.median:.3g}",
        interval=interval,
        n=f"n={spread.n}",
    )


# The forms of a cell, as texts.toml names them.
_FORMS: Mapping[str, Callable[[Any], Cell]] = {
    "plain": plain,
    "share": share,
    "share of n": own_share,
    "per 100": per_100,
    "per 100 of n": own_per_100,
    "chance": _repeated,
    "points": _points,
    "spread": _spread,
    "hundredths": partial(_spread, unit=100),
    "thousandths": partial(_spread, unit=1000),
}


@cache
def report_texts() -> Mapping[str, Any]:
    """Return texts.toml, by the names of its tables."""
    text = files("agenteval.report").joinpath("texts.toml").read_text("utf-8")
    return tomllib.loads(text)


def titled_table(
    name: str,
    columns: Iterable[Head],
    rows: Iterable[Row],
    *,
    more: str = "",
    **values: Any,
) -> Table:
    """Return a table with the title and note that texts.toml has under this name.

    `values` fill both, and `more` is added to the note.
    """
    text = report_texts()[name]
    title, note = (text[key].format(**values) for key in ("title", "note"))
    return Table(
        title,
        note + more,
        tuple(columns),
        tuple(rows),
        text.get("first", ""),
    )


def figure_rows(table: str, owners: Sequence[object], **values: str) -> Iterator[Row]:
    """Yield the rows that texts.toml lists under this name, a column for each owner.

    `values` fill the labels.
    """
    for label, path, form in report_texts()[table]["rows"]:
        cell_of = _FORMS[form]
        figure_of = attrgetter(path)
        cells = [cell_of(figure_of(owner)) for owner in owners]
        yield row(label.format(**values), cells)


def figure_table(name: str, views: Views) -> Table:
    """Return the table of this name, all of whose rows are listed there."""
    return titled_table(name, heads(views), figure_rows(name, views))


def heads(views: Views, counts: Iterable[str] = ()) -> tuple[Head, ...]:
    """Return a column for each run, with what is counted in it."""
    texts = list(counts) or [""] * len(views)
    columns = []
    for view, text in zip(views, texts, strict=True):
        counts_and_arm = _lines(text, view.errors.arm)
        columns.append(head(view.label, counts_and_arm, simulated=view.errors.simulated))
    return tuple(columns)


def _lines(*texts: str) -> str:
    """Join texts with line ends, also in place of commas: a column must stay narrow."""
    return "\n".join(map(as_name, filter(None, texts))).replace(", ", "\n")


def head(
    label: str,
    counted: str = "",
    *,
    simulated: bool = False,
) -> Head:
    return Head(as_name(label), counted, simulated)


def marked_heads(labels: Iterable[str], *, simulated: bool) -> tuple[Head, ...]:
    """Return columns that are no models; the first one is marked if any model was simulated."""
    first, *others = labels
    return (head(first, simulated=simulated), *map(head, others))


def row(label: str, cells: Iterable[Cell], *, strong: bool = False) -> Row:
    return Row(as_name(label), tuple(cells), strong)


# How calls arrived: malformed calls by kind, and the layer to blame.

FAULTY = "faulty"
_Place = tuple[int, int | None, int]  # of a call: turn, position, which one of those without any


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


def arrived(tallies: Sequence[Tally]) -> Arrived:
    """Count the malformed calls of trials that count, by trial."""
    kinds, blames, faulty = [], [], []
    for tally in tallies:
        placed = list(_places(tally))
        wrong = [(place, call) for place, call in placed if call.kind in FAULTS]
        never_arrived = {place for place, call in wrong if call.position is None}
        tried = tally.written + len(never_arrived)
        # A call counts once for each kind and each layer, however often it shows it.
        kinds_by_place = {(place, call.kind) for place, call in placed}
        blames_by_place = {(place, str(call.blame)) for place, call in wrong}
        kinds.append((tried, Counter(kind for _, kind in kinds_by_place)))
        blames.append((tried, Counter(blame for _, blame in blames_by_place)))
        faulty.append((tried, {FAULTY: len(dict(wrong))}))
    return Arrived(
        kinds=ErrorCounts.added(kinds),
        blames=ErrorCounts.added(blames),
        faulty=ErrorCounts.added(faulty),
        repairs=sum(tally.repairs for tally in tallies),
    )


def blamed(malformed: Iterable[Sequence[tuple[int, MalformedCall]]]) -> tuple[dict[str, int], int]:
    """Return how many calls each layer broke in these trials, and how many never arrived."""
    tallies = [Tally(malformed=tuple(calls)) for calls in malformed]
    blames = arrived(tallies).blames
    totals = {name: sum(counts) for name, counts in blames.by_class.items()}
    return totals, sum(blames.calls)


def _places(tally: Tally) -> Iterator[tuple[_Place, MalformedCall]]:
    """Yield malformed calls with their places; calls without position are numbered by turn."""
    for turn, calls in groupby(tally.malformed, key=itemgetter(0)):
        for which, (_, call) in enumerate(calls):
            number = which if call.position is None else 0
            yield (turn, call.position, number), call


def arrivals_of(tallies: Tallies, layout: Layout) -> Arrivals:
    counts = arrived(tallies.counted)
    kinds = {}
    for kind in KINDS:
        kinds[kind.id] = clustered(counts.kinds.clusters(kind.id), layout)
    blames = {}
    for blame in Blame:
        blames[str(blame)] = clustered(counts.blames.clusters(blame), layout)
    faulty = clustered(counts.faulty.clusters(FAULTY), layout)
    return Arrivals(faulty, kinds, blames, counts.repairs)


def arrival_tables(views: Views) -> Iterator[Table]:
    """Yield the table; none where all calls arrived well formed, or only summaries were read."""
    arrivals = [view.arrivals for view in views if view.arrivals]
    kinds, blames = {}, {}
    for kind in KINDS:
        label = f"{kind.id}, a note" if kind.note else kind.id
        kinds[label] = [run.kinds[kind.id] for run in arrivals]
    for blame in Blame:
        blames[f"to blame: {blame}"] = [run.blames[blame] for run in arrivals]
    seen_kinds = _seen_rows(kinds)
    if len(arrivals) == len(views) and seen_kinds:
        rows = [
            row("faulty, of any kind", [per_100(run.faulty) for run in arrivals]),
            *seen_kinds,
            *_seen_rows(blames),
            row("repairs in what was sent back", [plain(run.repairs) for run in arrivals]),
        ]
        columns = heads(views, [f"n={run.faulty.n} calls tried" for run in arrivals])
        yield titled_table("arrivals", columns, rows)


def _seen_rows(rates_by_label: Mapping[str, Sequence[Rate]]) -> list[Row]:
    """Return the rows that are not all 0."""
    rows = []
    for label, rates in rates_by_label.items():
        if any(rate.count for rate in rates):
            rows.append(row(label, map(per_100, rates)))
    return rows


# The goals of trials: reached, missed, or undone.


def missed_lines(view: View, most: int | None = None) -> list[str]:
    """Return a line for each check of a goal that trials missed; at most `most` of each run."""
    lines = []
    for run in view.runs:
        lines_of_run = missed_of(run)
        lines += lines_of_run[:most]
        if most is not None and len(lines_of_run) > most:
            lines.append(f"{run.label}: {len(lines_of_run) - most} more, with --details")
    return lines


_Misses = list[tuple[TrialSummary, GoalCheck]]


def missed_of(run: RunView) -> list[str]:
    """Return a line for each check that did not hold at the end, most trials first."""
    played = Counter(trial.scenario for trial in run.score.counted)
    misses: dict[tuple[str, str], _Misses] = defaultdict(list)
    for trial in run.score.counted:
        for check in trial.goal:
            if not check.held:
                misses[trial.scenario, check.name].append((trial, check))
    lines = []
    for (scenario, name), missing in sorted(misses.items(), key=_by_misses):
        trial, check = missing[0]
        trials = f"{len(missing)} of {counted(played[scenario], 'trial')}"
        why = f"{check.why} in #{trial.number}"
        lines.append(visible(f"{run.label}: {scenario}, {name}: missed in {trials}; {why}"))
    return lines


def _by_misses(misses: tuple[tuple[str, str], _Misses]) -> tuple[int, tuple[str, str]]:
    place, missing = misses
    return -len(missing), place


def goal_rows(views: Views) -> Iterator[Row]:
    """Yield the rows on goals of the table of outcomes.

    There are none if no trial recorded when its goal held.
    """
    if any(view.turns_to_goal for view in views):
        yield from figure_rows("goals", views)


def reached(run: RunSummary, about: Estimand) -> Rate:
    """Return the share of trials whose goal was reached, of those of which it is known."""
    observed = [trial for trial in run.counted if trial.observed]
    layout = Layout(about, [trial.scenario for trial in observed])
    return share_of([trial.completed for trial in observed], layout)


def is_logged(run: RunSummary) -> bool:
    """Return True if the run is from logs, which do not show whether goals were reached."""
    return bool(run.counted) and not any(trial.observed for trial in run.counted)


# Remarks on trials that are void, judged again, broken by a server, or not played yet.

_FEW = 0.02  # of all trials: up to here it makes no difference how voids are counted
_MATERIAL = 0.05  # of the calls tried: from here on a server makes a difference
_NAMED = 3  # trials of one cause


def with_voids(scored: Score, about: Estimand) -> tuple[Rate, ...]:
    """Return the error rate with the calls of void trials, and with each void as one more error.

    None of them if few trials are void.
    """
    if scored.void_share <= _FEW:
        return ()
    trials = (*scored.counted, *scored.voids)
    layout = Layout(about, [trial.scenario for trial in trials])
    clusters, worse = [], []
    for trial in trials:
        errors, calls = trial.all_errors
        clusters.append((errors, calls))
        worse.append((errors + trial.void, calls + trial.void))
    return clustered(clusters, layout), clustered(worse, layout)


def void_lines(view: View) -> list[str]:
    """Return one line for each cause of voids: which trials, and why, without tracebacks."""
    lines = []
    for run in view.runs:
        voids: dict[Cause | None, list[TrialSummary]] = defaultdict(list)
        for void in run.score.voids:
            voids[void.cause].append(void)
        lines += [_void_line(run, of_cause) for of_cause in voids.values()]
    return lines


def _void_line(run: RunView, voids: Sequence[TrialSummary]) -> str:
    names = ", ".join(f"{void.scenario} #{void.number}" for void in voids[:_NAMED])
    if len(voids) > 1:
        more = ", ..." if len(voids) > _NAMED else ""
        names = f"{len(voids)} of {run.played} trials ({names}{more})"
    first = voids[0]
    reason = visible(first.reason.partition("\n")[0]) or "no reason was kept"
    cause = f"{first.cause}: " if first.cause else ""
    return f"{run.label}: {names}: {cause}{reason}"


def retried_told(who: str, replaced: Mapping[str, int]) -> Iterator[str]:
    """Yield the remark that void trials were played again; none if none were.

    Interrupted trials do not count.
    """
    again = sum(count for cause, count in replaced.items() if cause != Cause.INTERRUPTED)
    if again:
        yield (
            f"{who}: {counted(again, 'void trial')} {'was' if again == 1 else 'were'} played again "
            "(--retry-void) and left out, of the budget of voids too. What breaks a trial where "
            "the model would fail is hidden by that."
        )


def rejudged_told(who: str, rejudged: Rejudged | None) -> Iterator[str]:
    """Yield the remark that a run's calls were judged again by other rules; none if not."""
    if rejudged:
        yield (
            f"{who}: judged first by {rejudged.first}, and after the fact by {rejudged.now}: "
            f"{counted(rejudged.allowed, 'call')} denied then, and allowed now; {rejudged.denied} "
            "the other way round. What the model did next was its answer to the first."
        )


def spoilt_told(
    who: str,
    blames: Mapping[str, int],
    tried: int,
) -> Iterator[str]:
    """Yield the remark that other layers than the model broke many of its calls, if they did."""
    others = {blame: blames.get(blame, 0) for blame in Blame if blame is not Blame.MODEL}
    spoilt = sum(others.values())
    if spoilt and spoilt >= _MATERIAL * tried:
        layers = ", ".join(f"{blame} {calls}" for blame, calls in others.items() if calls)
        yield (
            f"{who}: {spoilt} of {counted(tried, 'call')} tried were spoilt by another than the "
            f"model ({layers}): left as text, cut off or broken. These figures are of its server "
            "as well; `agenteval show --details` tells what to mend."
        )


def cause_rows(views: Views) -> Iterator[Row]:
    """Yield the rows of void trials by cause."""
    counts = [Counter(void.cause for void in view.score.voids) for view in views]
    causes = {cause for count in counts for cause in count if cause}
    for cause in sorted(causes):
        cells = [plain(count[cause]) for count in counts]
        yield row(f"void: {cause}", cells)


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
