"""A gate rehearsed: what its rules mean for a run, and how large a run has to be."""

from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from agenteval.config.gate_rules import rules_at
from agenteval.core.summary import RunSummary
from agenteval.errors import UsageError
from agenteval.report.gate_explained import Explained
from agenteval.report.tables import counted
from agenteval.stats.criteria import CRITERIA, Rules
from agenteval.stats.feasibility import MOST_TRIALS, out_of_reach
from agenteval.stats.planning import FEWEST, PAIRS, Rehearsal, Size
from agenteval.stats.simulation import (
    Clustering,
    Design,
    Truth,
    design_of,
    simulated_pairs,
    truth_of,
)
from agenteval.workflows.gating import run_summary

SEED = 1
TRIALS_PLAYED = 30_000  # in one rehearsal of a whole gate: a second or two

# Without a baseline: the dense model of the published comparison, over as many trials as will do.
PUBLISHED = Truth(errors=9 / 161, classes={"any": 1.0})
PUBLISHED_SIZES = (7, 7, 8, 8, 8, 9)
PUBLISHED_TRIALS = 120


def _rehearsal_of(run: RunSummary, rules: Rules) -> Rehearsal:
    """Return a gate over runs like this one. Raises UsageError when it made no calls."""
    if not any(trial.calls for trial in run.counted):
        raise UsageError(f"{run.id}: made no tool calls, so nothing can be planned from it")
    design = design_of(run, icc=rules.icc)
    return Rehearsal(design, truth_of(run), rules)


def explain_rules(
    baseline: str | None, path: Path | None, store: str, *, about: str | None = None
) -> Explained:
    """Explain the rules for runs of the baseline's size, or of a common size without a baseline."""
    rules, source = rules_at(path, about)
    run = run_summary(baseline, store) if baseline else None
    if run is None:
        rehearsal, size = _published(rules)
    else:
        mark = " (SIMULATED)" if run.simulated else ""
        rehearsal, size = _rehearsal_of(run, _seen_in(rules, run)), f"Like {run.id}{mark}"
    design, truth = rehearsal.design, rehearsal.baseline
    pairs = max(FEWEST, min(PAIRS, TRIALS_PLAYED // len(design.worlds)))
    rehearsal = replace(rehearsal, pairs=pairs)
    candidates = {
        "the same": truth,
        "at the margin": rehearsal.at_the_margin,
        "twice as bad": truth.worse(2),
    }
    rng = np.random.default_rng(SEED)
    played = {name: rehearsal.characteristics(one, rng) for name, one in candidates.items()}
    like = run or next(simulated_pairs(design, truth, truth, rng=rng, pairs=1))[0]
    reach = out_of_reach(like, like, rehearsal.rules)
    words = f"{size}: {in_words(rehearsal)}."
    return Explained(rules, rehearsal.pairs, source, words, played, reach)


def _seen_in(rules: Rules, run: RunSummary) -> Rules:
    """The rules, of a table without those for which it has nothing to rehearse with."""
    if not run.of_counts:
        return rules
    known = {name: of for name, of in rules.budgets.items() if CRITERIA[name].in_tables}
    return replace(rules, budgets=known, completed=None)


def in_words(rehearsal: Rehearsal) -> str:
    design, truth = rehearsal.design, rehearsal.baseline
    scenarios = len({scenario for scenario, _, _ in design.worlds})
    calls = sum(design.sizes) / len(design.sizes) * len(design.worlds)
    clustering = design.clustering
    return (
        f"{counted(len(design.worlds), 'trial')} of {counted(scenarios, 'scenario')}, "
        f"{counted(round(calls), 'call')}, "
        f"{100 * truth.errors:.2f} errors per 100; two calls of a scenario correlate by "
        f"{clustering.scenario:.2f}, of a trial by {clustering.trial:.2f} on top"
    )


def _published(rules: Rules) -> tuple[Rehearsal, str]:
    worlds = [(f"scenario {number}", number, number) for number in range(PUBLISHED_TRIALS)]
    scenarios = frozenset(scenario for scenario, _, _ in worlds)
    design = Design(worlds, PUBLISHED_SIZES, scenarios, Clustering(0.0, rules.icc))
    return Rehearsal(
        design, PUBLISHED, rules
    ), "Without --baseline RUN, like the dense model of a published comparison"


PLANNED_PAIRS = 1_000
SCHEMA = "agenteval.plan/1"


@dataclass(frozen=True, slots=True)
class Planned:
    """The sizes that an equal candidate needs, and one that is worse by half the margin.

    None when no run of a sensible size would do.
    """

    run: RunSummary
    rehearsal: Rehearsal
    size: Size | None
    if_half: Size | None
    minimum: tuple[int, int] = (0, 0)  # trials and calls, without which the gate passes nothing

    @property
    def calls_per_minute(self) -> float | None:
        """By the clock, with as many trials at the same time as the run had; None: not known."""
        calls = sum(trial.calls for trial in self.run.counted)
        return 60 * calls / self.run.seconds if self.run.seconds else None

    @property
    def hours(self) -> float | None:
        pace = self.calls_per_minute
        return self.size.calls / pace / 60 if self.size and pace else None

    def document(self) -> dict[str, Any]:
        """The JSON document. Its keys are stable, and docs/json.md describes them."""
        rules = self.rehearsal.rules
        return {
            "schema": SCHEMA,
            "baseline": self.run.id,
            "simulated": self.run.simulated,
            "margin": rules.margin,
            "ratio": rules.ratio,
            "about": rules.about,
            "rate": self.rehearsal.baseline.errors,
            "clustering": asdict(self.rehearsal.design.clustering),
            **(_document(self.size) or dict.fromkeys(("trials", "calls", "power"))),
            "if_half_as_good": _document(self.if_half),
            "calls_per_minute": self.calls_per_minute,
            "hours": self.hours,
        }


def _document(size: Size | None) -> dict[str, Any] | None:
    if size is None:
        return None
    power = {"value": size.power.value, "n": size.power.n}
    return {"trials": size.trials, "calls": size.calls, "power": power}


def planned(  # noqa: PLR0913 -- what a plan is asked for
    baseline: str,
    store: str,
    *,
    margin: float | None,
    ratio: float | None,
    about: str | None = None,
    declared: Rules | None = None,
) -> Planned:
    """Return the plan for the `declared` rules, or for those that are found here.

    Raises UsageError.
    """
    if margin is not None and not 0 < margin < 100:
        raise UsageError(f"--margin {margin:g}: points per 100 calls, between 0 and 100")
    if ratio is not None and ratio <= 1:
        raise UsageError(f"--ratio {ratio:g}: above 1; 1.5 allows half as many errors more")
    run = run_summary(baseline, store)
    rules_in_force = declared or rules_at(None, about)[0]
    share = ratio or (margin or 0) / 100
    rules = Rules(
        share, ratio=ratio is not None, about=rules_in_force.about, icc=rules_in_force.icc
    )
    rehearsal = replace(_rehearsal_of(run, rules), pairs=PLANNED_PAIRS)
    if ratio is not None and not rehearsal.baseline.errors:
        raise UsageError(f"{run.id}: made no errors, and no ratio to none exists; give --margin")
    rng = np.random.default_rng(SEED)
    size = rehearsal.needed(rng)
    harder = rehearsal.needed(rng, rehearsal.half_as_good, least=size.trials) if size else None
    return Planned(run, rehearsal, size, harder, (rules_in_force.trials, rules_in_force.calls))


def sentences(plan: Planned) -> str:
    rules, size = plan.rehearsal.rules, plan.size
    margin = f"{rules.margin:g} times" if rules.ratio else f"{100 * rules.margin:g} points"
    mark = " SIMULATED" if plan.run.simulated else ""
    lines = [f"Like {plan.run.id}{mark}: {in_words(plan.rehearsal)}."]
    if size is None:
        lines.append(
            f"More than {MOST_TRIALS:,} trials would be needed to prove a margin of {margin}: "
            "ask for a wider one."
        )
        return "\n".join(lines)
    lines.append(
        f"To prove that an equally good model is no worse by {margin}: {size.trials:,} trials, "
        f"about {size.calls:,} calls, of each model in the same worlds. Simulated power "
        f"{size.power}, about {rules.about.label}."
    )
    if size.trials < plan.minimum[0] or size.calls < plan.minimum[1]:
        lines.append(_too_few(size, *plan.minimum))
    harder = plan.if_half
    lines.append(
        "For one that is worse by half of that: "
        + (
            f"{harder.trials:,} trials, about {harder.calls:,} calls. "
            if harder
            else f"more than {MOST_TRIALS:,} trials. "
        )
        + "Choose the size before the run: do not add to one until it passes."
    )
    if plan.hours is not None and plan.calls_per_minute is not None:
        lines.append(
            f"At the measured {plan.calls_per_minute:,.0f} calls per minute "
            f"(concurrency {plan.run.concurrency}) that takes {_time(plan.hours)} per model."
        )
    else:
        lines.append(
            "How long that takes is not known: the time of this run was not kept (a table, a run "
            "that was cut off, or one of an older version)."
        )
    return "\n".join(lines)


def _too_few(size: Size, trials: int, calls: int) -> str:
    """That the gate asks for more than its margin needs, and for how many trials that is."""
    enough = max(trials, ceil(calls * size.trials / max(size.calls, 1)))
    return (
        f"That is fewer than the gate's [minimum] of {trials:,} trials and {calls:,} calls, below "
        f"which nothing passes: play at least {counted(enough, 'trial')}."
    )


def _time(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"
