"""The goals of trials as checked in the sandbox at their end: reached, missed, or undone."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from agenteval.core.plain import visible
from agenteval.core.summary import RunSummary, TrialSummary
from agenteval.report.tables import Row, counted, plain, row, share
from agenteval.report.view import RunView, View
from agenteval.stats.estimand import Estimand, Layout
from agenteval.stats.rates import Rate, share_of


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
