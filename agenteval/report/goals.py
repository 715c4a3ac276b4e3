"""What the world showed when trials had ended: goals that were reached, missed, or undone."""

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
    """One check of a scenario's goal, the trials that could show it, and those that did not."""

    scenario: str
    check: str
    trials: tuple[TrialSummary, ...]
    of: int

    @property
    def told(self) -> str:
        first = self.trials[0]
        why = next(one.why for one in first.goal if one.name == self.check and not one.held)
        trials = f"{len(self.trials)} of {counted(self.of, 'trial')}"
        return f"{self.scenario}, {self.check}: missed in {trials}; {why} in #{first.number}"


def missed(view: RunView) -> list[Missed]:
    """The checks that did not hold at the end, those that most trials missed first."""
    trials: dict[tuple[str, str], list[TrialSummary]] = {}
    for one in view.score.counted:
        for check in one.goal:
            if not check.held:
                trials.setdefault((one.scenario, check.name), []).append(one)
    played = Counter(one.scenario for one in view.score.counted)
    found = [Missed(*of, tuple(those), played[of[0]]) for of, those in trials.items()]
    return sorted(found, key=lambda one: (-len(one.trials), one.scenario, one.check))


def missed_lines(view: View, most: int | None = None) -> list[str]:
    """A line for each check of a goal that trials missed; at most so many of each run."""
    lines = []
    for run in view.runs:
        told = missed_of(run)
        lines += told[:most]
        if most is not None and len(told) > most:
            lines.append(f"{run.label}: {len(told) - most} more, with --details")
    return lines


def missed_of(run: RunView) -> list[str]:
    return [visible(f"{run.label}: {one.told}") for one in missed(run)]


def undone(view: RunView) -> Rate:
    """Trials whose goal held once and not at the end."""
    return share_of([one.undone for one in view.score.counted], view.layout)


def goal_turns(view: RunView) -> tuple[float | None, float | None]:
    """The median turns until the goal first held, and those that were played after it."""
    held = [
        (one.goal_turn + 1, one.turns) for one in view.score.counted if one.goal_turn is not None
    ]
    if not held:
        return None, None
    return median(turn for turn, _ in held), median(turns - turn for turn, turns in held)


def goal_rows(views: Sequence[RunView]) -> Iterator[Row]:
    """Of the table of outcomes; none where no trial kept when its goal held."""
    if any(one.goal_turn is not None for view in views for one in view.score.counted):
        until, after = zip(*map(goal_turns, views), strict=True)
        yield row("goal held and undone", (share(undone(view)) for view in views))
        yield row("median turns to goal", map(plain, until))
        yield row("median turns after", map(plain, after))


def reached(run: RunSummary, about: Estimand) -> Rate:
    """The share of a run's trials whose goal was reached, of those of which it is known."""
    known = [trial for trial in run.counted if trial.observed]
    layout = Layout(about, [trial.scenario for trial in known])
    return share_of([trial.completed for trial in known], layout)


def is_logged(run: RunSummary) -> bool:
    """Whether it comes out of logs, in which no world was looked at."""
    return bool(run.counted) and not any(trial.observed for trial in run.counted)
