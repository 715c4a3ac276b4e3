"""Simulated runs have the rates and the clustering that they are given."""

import numpy as np
import pytest
from summaries_of import run, trial

from agenteval.stats.planning import (
    Clustering,
    Design,
    Truth,
    _clustering_of,
    design_of,
    simulated_pairs,
    truth_of,
)
from agenteval.stats.rates import Estimand
from agenteval.trial.call import Outcome

ENDS = {Outcome.STALLED: 0.2, Outcome.VOID: 0.1, Outcome.CLAIMED_DONE: 0.15}
SHARES = {"handshake_missed": 0.3, "crashed": 0.05}
TRUTH = Truth(0.12, {"a": 0.75, "b": 0.25}, ENDS, SHARES)


def design(scenarios, each, scenario=0.0, within=0.0):
    worlds = [(f"s{at % scenarios}", at, at) for at in range(scenarios * each)]
    return Design(worlds, [6, 7, 8, 9], frozenset({"s0"}), Clustering(scenario, within))


def drawn(laid_out, truth=TRUTH, *, seed=1):
    (pair,) = simulated_pairs(laid_out, truth, truth, rng=np.random.default_rng(seed), pairs=1)
    return pair


def test_a_simulated_run_is_like_the_truth_that_it_was_drawn_from():
    _, candidate = drawn(design(2, 4_000))
    seen = truth_of(candidate)
    assert [seen.errors, *seen.classes.values()] == pytest.approx([0.12, 0.75, 0.25], abs=0.01)
    assert seen.outcomes == pytest.approx(ENDS, abs=0.02)
    assert seen.shares == pytest.approx(SHARES, abs=0.02)


def test_a_simulated_run_is_laid_out_like_its_design():
    laid_out = design(3, 10)
    baseline, candidate = drawn(laid_out)
    worlds = [trial.world for trial in baseline.trials]
    having = {trial.scenario for trial in candidate.trials if trial.handshake}
    assert (worlds, [trial.world for trial in candidate.trials], having) == (
        laid_out.worlds,
        laid_out.worlds,
        {"s0"},
    )
    assert design_of(baseline, icc=0.1).handshakes == {"s0"}


@pytest.mark.parametrize(
    ("scenarios", "each", "scenario", "within"),
    [(2_000, 1, 0.0, 0.2), (500, 12, 0.1, 0.1), (500, 12, 0.0, 0.15), (500, 12, 0.2, 0.0)],
)
def test_the_clustering_of_a_run_is_found_again(scenarios, each, scenario, within):
    found = _clustering_of(drawn(design(scenarios, each, scenario, within))[0], icc=0.5)
    assert (found.scenario, found.trial) == pytest.approx((scenario, within), abs=0.04)


def test_a_scenario_is_as_hard_for_both():
    baseline, candidate = drawn(design(300, 1, scenario=0.3))
    ours, theirs = ([trial.all_errors[0] for trial in one.trials] for one in (baseline, candidate))
    assert np.corrcoef(ours, theirs)[0, 1] > 0.4


def test_few_errors_show_no_clustering_and_the_planned_one_is_used():
    few = run(*(trial(at < 9, 8, seed=at) for at in range(40)))
    assert _clustering_of(few, icc=0.07) == Clustering(0.0, 0.07)


def test_single_calls_have_no_clustering():
    single = run(*(trial(at % 2, 1, seed=at) for at in range(40)))
    assert _clustering_of(single, icc=0.07) == Clustering(0.0, 0.0)


def test_without_errors_none_are_drawn():
    clean = truth_of(run(trial(0, 8), trial(0, 9, outcome=Outcome.VOID)))
    _, candidate = drawn(design(2, 50, 0.1, 0.1), clean)
    assert (
        clean.errors,
        clean.outcomes[Outcome.VOID],
        sum(one.all_errors[0] for one in candidate.trials),
    ) == (0, 0.5, 0)


def test_worse_is_worse_in_everything_and_never_more_than_always():
    worse = TRUTH.worse(4)
    assert (worse.errors, worse.shares["handshake_missed"], worse.classes) == (
        0.48,
        1.0,
        TRUTH.classes,
    )
    assert sum(worse.outcomes.values()) == pytest.approx(1.0)
    assert TRUTH.with_errors(7.0).errors == 1.0


@pytest.mark.parametrize(("over", "scenarios"), [(Estimand.THESE, 4), (Estimand.LIKE, 30)])
def test_a_larger_design_has_more_scenarios_only_where_they_are_the_clusters(over, scenarios):
    larger = design(4, 2).scaled(60, over)
    assert (len(larger.worlds), len({name for name, _, _ in larger.worlds})) == (60, scenarios)
