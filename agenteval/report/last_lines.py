"""The last lines of a report: goals reached, fewer errors, and what is not known."""

from dataclasses import dataclass

from agenteval.core.outcome import Outcome
from agenteval.report.figures import pace, titled, useful
from agenteval.report.pairs import COMPLETED
from agenteval.report.sentences import VOID_BUDGET
from agenteval.report.tables import Table, counted, per_100, row, share, void_of
from agenteval.report.view import Pair, RunView, View
from agenteval.stats.comparison import Difference
from agenteval.stats.score import SETTLED

SHORT_NOTE = "An error is a tool call that the rules deny. In brackets: the long run, 95 % sure."


def in_short(view: View) -> tuple[str, ...]:
    """Return plain sentences: each model's goals and errors, then who is better, then unknowns.

    A difference of two models is that of their comparison. It is known if it is significant after
    correction for all claims of the report.
    """
    lines = [_of_model(one) for one in view.runs]
    goals = [(pair, one) for pair in view.pairs if (one := _goals(pair))]
    errors = [(pair, _errors(pair)) for pair in view.pairs]
    for does, unit, gaps in (
        ("reaches its goal more often than", "more of 100 trials", goals),
        ("makes fewer errors than", "fewer per 100 calls", errors),
    ):
        settled = [(pair, gap) for pair, gap in gaps if gap.is_settled]
        lines.extend(
            f"{gap.better} {does} {gap.worse}: {100 * gap.by:.0f} {unit} "
            f"({100 * gap.low:.0f} to {100 * gap.high:.0f}){_shared(pair)}."
            for pair, gap in settled
        )
        if unknown := [_both(pair.first, pair.second) for pair, gap in gaps if not gap.is_settled]:
            who = does.removesuffix(" than").replace("reaches its", "reaches the")
            of = "" if len(unknown) == len(gaps) else f", of {'; of '.join(unknown)}"
            lines.append(f"Not known: who {who}{of}.")
    if view.simulated:
        lines.append(
            "Simulated: these figures say that the tool works, and nothing of a real model."
        )
    return tuple(lines)


@dataclass(frozen=True, slots=True)
class _Gap:
    """The difference by which one model is better than another; `is_settled` if significant."""

    better: str
    worse: str
    by: float
    low: float
    high: float
    is_settled: bool


def _goals(pair: Pair) -> _Gap | None:
    figure = next((one for one in pair.figures if one.label == COMPLETED), None)
    if figure is None or not isinstance(figure.difference, Difference):
        return None
    gap, adjusted = figure.difference, figure.adjusted
    return _gap(
        pair, gap.value, gap.low, gap.high, is_settled=adjusted is not None and adjusted < SETTLED
    )


def _errors(pair: Pair) -> _Gap:
    gap = pair.difference
    return _gap(pair, -gap.value, -gap.high, -gap.low, is_settled=pair.adjusted < SETTLED)


def _gap(pair: Pair, by: float, low: float, high: float, *, is_settled: bool) -> _Gap:
    is_settled = is_settled and by != 0
    if by < 0:
        return _Gap(pair.second, pair.first, -by, -high, -low, is_settled)
    return _Gap(pair.first, pair.second, by, low, high, is_settled)


def _shared(pair: Pair) -> str:
    if not any(pair.left_out):
        return ""
    same = "where both met the same worlds" if pair.difference.paired else "in what both played"
    return f" {same}"


def _of_model(view: RunView) -> str:
    goals = dict(view.outcomes)[Outcome.COMPLETED]
    errors = view.errors.total
    if not view.score.counted:
        return f"{view.label}: no trial counts, nothing is known."
    line = (
        f"{view.label} reached its goal in {goals.count} of {counted(goals.n, 'trial')} "
        f"({100 * goals.low:.0f} to {100 * goals.high:.0f} %{_voids(view)})"
        if goals.n
        else f"{view.label}: whether goals were reached is not observable in logs"
    )
    if not errors.n:
        return f"{line}, and made no tool call."
    return (
        f"{line}, with {100 * errors.value:.1f} errors per 100 tool calls "
        f"({100 * errors.low:.1f} to {100 * errors.high:.1f})."
    )


def _voids(view: RunView) -> str:
    """Return a note on void trials, if there are more than a gate usually passes."""
    if view.score.void_share <= VOID_BUDGET:
        return ""
    return f"; {void_of(len(view.score.voids), view.played)} and left out"


def _both(one: str, other: str) -> str:
    return f"{one} and {other}"


def standing_table(view: View) -> Table:
    """Return the table of one line for each model: goals, errors, recovery, speed."""
    rows = []
    for run in view.runs:
        seconds = run.run.effort.seconds if run.run.effort else None
        tokens = run.executions.completion_tokens if run.executions else 0
        rows.append(
            row(
                run.label,
                (
                    share(dict(run.outcomes)[Outcome.COMPLETED], own_n=True),
                    per_100(run.errors.total, own_n=True),
                    share(run.recovery.at_once, own_n=True),
                    share(run.recovery.at_all, own_n=True),
                    pace(*useful(run)),
                    pace(tokens, tokens / seconds if seconds else None),
                ),
            )
        )
    labels = ("goal reached", "errors per 100 calls", "recovered next turn", "recovered ever")
    heads = titled(view.runs, *labels, "useful calls/min", "tokens/s")
    note = f"Counts, shares and 95 % intervals. {view.basis}"
    return Table("Each model on one line", note, heads, tuple(rows), "model")
