"""`agenteval gate --explain` and `agenteval plan`: gates rehearsed on simulated runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from agenteval.core.summary import RunSummary
from agenteval.errors import UsageError
from agenteval.report.gate.explain import Explained
from agenteval.report.tables import counted
from agenteval.stats.criteria import CRITERIA, Over, Rules
from agenteval.stats.feasibility import out_of_reach
from agenteval.stats.gate import decided
from agenteval.stats.planning import FEWEST, PAIRS, Rehearsal
from agenteval.stats.simulation import (
    Clustering,
    Design,
    Truth,
    design_of,
    simulated_pairs,
    truth_of,
)
from agenteval.workflows.gating import rules_at, run_summary

SEED = 1
TRIALS_PLAYED = 30_000  # in one rehearsal of a whole gate: a second or two

# Without a baseline: the dense model of the published comparison, over as many trials as will do.
PUBLISHED = Truth(errors=9 / 161, classes={"any": 1.0})
PUBLISHED_SIZES = (7, 7, 8, 8, 8, 9)
PUBLISHED_TRIALS = 120


def rehearsal_of(run: RunSummary, rules: Rules) -> Rehearsal:
    """A gate over runs like this one. Raises UsageError when it made no calls."""
    if not any(trial.calls for trial in run.counted):
        raise UsageError(f"{run.id}: made no tool calls, so nothing can be planned from it")
    design = design_of(run, icc=rules.icc)
    return Rehearsal(design, truth_of(run), decided(rules, run))


def explain_rules(baseline: str | None, path: Path | None, store: str) -> Explained:
    """What the rules mean for runs of the baseline's size, or of a common one."""
    rules, source = rules_at(path)
    run = run_summary(baseline, store) if baseline else None
    if run is None:
        rehearsal, size = _published(rules)
    else:
        mark = " (SIMULATED)" if run.simulated else ""
        rehearsal, size = rehearsal_of(run, _seen_in(rules, run)), f"Like {run.id}{mark}"
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
    asked = replace(rules, over=rehearsal.rules.over)
    return Explained(asked, rehearsal.pairs, source, words, played, reach)


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
    alike = design.clustering
    return (
        f"{counted(len(design.worlds), 'trial')} of {counted(scenarios, 'scenario')}, "
        f"{counted(round(calls), 'call')}, "
        f"{100 * truth.errors:.2f} errors per 100; two calls of a scenario correlate by "
        f"{alike.scenario:.2f}, of a trial by {alike.trial:.2f} on top"
    )


def _published(rules: Rules) -> tuple[Rehearsal, str]:
    worlds = [(f"scenario {number}", number, number) for number in range(PUBLISHED_TRIALS)]
    scenarios = frozenset(scenario for scenario, _, _ in worlds)
    design = Design(worlds, PUBLISHED_SIZES, scenarios, Clustering(0.0, rules.icc))
    over = Over.SCENARIOS if rules.over is Over.AUTO else rules.over
    rehearsal = Rehearsal(design, PUBLISHED, replace(rules, over=over))
    return rehearsal, "Without --baseline RUN, like the dense model of a published comparison"
