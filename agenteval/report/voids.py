"""Lines on trials that are void, judged again, broken by a server, or not played yet."""

from collections.abc import Iterator, Mapping, Sequence

from agenteval.core.malformed import Blame
from agenteval.core.plain import visible
from agenteval.core.run import Rejudged
from agenteval.core.scoring import Score
from agenteval.core.summary import RunSummary, TrialSummary
from agenteval.errors import Cause
from agenteval.report.tables import Row, counted, plain, row, void_of
from agenteval.report.view import RunView, View
from agenteval.stats.estimand import Estimand, Layout
from agenteval.stats.rates import Rate, clustered

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
