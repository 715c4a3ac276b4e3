"""Gates rehearsed, and the size of a run that they need."""

from dataclasses import replace

import numpy as np
import pytest

from agenteval.stats.planning import Rehearsal
from agenteval.stats.rules import Budget, Over, Rules
from agenteval.stats.simulation import Clustering, Design, Truth

TRUTH = Truth(0.056, {"a": 1.0})
RULES = Rules(0.03, budgets={Budget.ERRORS: 0.15}, over=Over.SCENARIOS)


def rehearsal(trials, rules=RULES, pairs=300):
    worlds = [(f"s{at}", at) for at in range(trials)]
    design = Design(worlds, [6, 7, 8, 9], frozenset(), Clustering(0.1, 0.05))
    return Rehearsal(design, TRUTH, rules, pairs)


def test_the_gate_promotes_the_same_and_rarely_one_at_the_margin_or_twice_as_bad():
    rehearsed, rng = rehearsal(120), np.random.default_rng(2)
    same, margin, twice = (
        rehearsed.characteristics(truth, rng)
        for truth in (TRUTH, rehearsed.at_the_margin, TRUTH.worse(2))
    )
    assert same.passed.value > 0.7
    assert same.failed.count == 0
    assert margin.passed.value < 0.09
    assert twice.passed.count <= 1
    assert set(same.criteria) == {"margin", "budgets.errors"}


def test_the_margin_alone_is_judged_as_the_gate_judges_it():
    rehearsed = rehearsal(60, Rules(0.03, over=Over.SCENARIOS), pairs=400)
    whole = rehearsed.characteristics(TRUTH, np.random.default_rng(3)).passed.value
    alone = rehearsed.passes(TRUTH, np.random.default_rng(4)).value
    assert alone == pytest.approx(whole, abs=0.1)


@pytest.mark.parametrize("over", [Over.SCENARIOS, Over.TRIALS])
def test_the_size_that_is_needed_has_the_power_and_much_less_has_not(over):
    rehearsed = rehearsal(30, replace(RULES, over=over))
    size = rehearsed.needed(np.random.default_rng(5))
    assert 80 < size.trials < 200
    assert size.calls == pytest.approx(7.5 * size.trials, abs=1)
    assert size.power.value >= 0.8
    half = replace(rehearsed, design=rehearsed.design.scaled(size.trials // 2, over))
    assert half.passes(TRUTH, np.random.default_rng(6)).value < 0.75


def test_a_margin_too_narrow_has_no_size():
    tiny = rehearsal(30, Rules(1.01, ratio=True, over=Over.TRIALS))
    assert tiny.needed(np.random.default_rng(5)) is None


def test_a_ratio_multiplies_the_rate_at_the_margin():
    assert rehearsal(9, Rules(1.5, ratio=True)).at_the_margin.errors == pytest.approx(0.084)
