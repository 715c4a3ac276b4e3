"""`agenteval gate --explain` and `agenteval plan`: gates rehearsed on simulated runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from agenteval.cli.gating import gated_run, rules_at
from agenteval.core.gated import GatedRun
from agenteval.errors import UsageError
from agenteval.report.gate.explain import Explained, render
from agenteval.stats.gate import decided
from agenteval.stats.planning import FEWEST, PAIRS, Rehearsal
from agenteval.stats.rules import Over, Rules
from agenteval.stats.simulation import Clustering, Design, Truth, design_of, truth_of

SEED = 1
TRIALS_PLAYED = 30_000  # in one rehearsal of a whole gate: a second or two

# Without a baseline: the dense model of the published comparison, over as many trials as will do.
PUBLISHED = Truth(errors=9 / 161, classes={"any": 1.0})
PUBLISHED_SIZES = (7, 7, 8, 8, 8, 9)
PUBLISHED_TRIALS = 120


def rehearsal_of(run: GatedRun, rules: Rules) -> Rehearsal:
    """A gate over runs like this one. Raises UsageError when it made no calls."""
    if not any(trial.calls for trial in run.counted):
        raise UsageError(f"{run.id}: made no tool calls, so nothing can be planned from it")
    design = design_of(run, icc=rules.icc)
    return Rehearsal(design, truth_of(run), decided(rules, run))


def explain_rules(baseline: str | None, path: Path | None, store: str) -> None:
    """Print what the rules mean for runs of the baseline's size, or of a common one."""
    rules, source = rules_at(path)
    if baseline is None:
        rehearsal, size = _published(rules)
    else:
        run = gated_run(baseline, store)
        mark = " (SIMULATED)" if run.simulated else ""
        rehearsal, size = rehearsal_of(run, rules), f"Like {run.id}{mark}"
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
    render(Explained(rehearsal, source, f"{size}: {in_words(rehearsal)}.", played), Console())


def in_words(rehearsal: Rehearsal) -> str:
    design, truth = rehearsal.design, rehearsal.baseline
    scenarios = len({scenario for scenario, _ in design.worlds})
    calls = sum(design.sizes) / len(design.sizes) * len(design.worlds)
    alike = design.clustering
    return (
        f"{len(design.worlds)} trials of {scenarios} scenarios, {calls:,.0f} calls, "
        f"{100 * truth.errors:.2f} errors per 100; two calls of a scenario correlate by "
        f"{alike.scenario:.2f}, of a trial by {alike.trial:.2f} on top"
    )


def _published(rules: Rules) -> tuple[Rehearsal, str]:
    worlds = [(f"scenario {number}", number) for number in range(PUBLISHED_TRIALS)]
    scenarios = frozenset(scenario for scenario, _ in worlds)
    design = Design(worlds, PUBLISHED_SIZES, scenarios, Clustering(0.0, rules.icc))
    over = Over.SCENARIOS if rules.over is Over.AUTO else rules.over
    rehearsal = Rehearsal(design, PUBLISHED, replace(rules, over=over))
    return rehearsal, "Without --baseline RUN, like the dense model of a published comparison"
