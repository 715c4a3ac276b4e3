"""Gates rehearsed, and the size of a run that they need."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, betabinom
from summaries_of import run, trial

from agenteval.stats.criteria import Rules
from agenteval.stats.planning import Clustering, Design, Rehearsal, Truth
from agenteval.stats.promotion import MOST_TRIALS, GateVerdict, judge_gate, needed
from agenteval.stats.rates import Estimand, Rate

TRUTH = Truth(0.056, {"a": 1.0})
RULES = Rules(0.03, budgets={"errors": 0.15}, about=Estimand.LIKE)
# Calls without clustering, one in a hundred wrong: quickly rehearsed.
PLAIN = Design([("a", at, at) for at in range(20)], [4], frozenset(), Clustering(0.0, 0.0))
SELDOM = Truth(0.01, {"a": 1.0})


def rehearsal(trials, rules=RULES, pairs=300):
    worlds = [(f"s{at}", at, at) for at in range(trials)]
    design = Design(worlds, [6, 7, 8, 9], frozenset(), Clustering(0.1, 0.05))
    return Rehearsal(design, TRUTH, rules, pairs)


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_margin_alone_is_judged_as_the_gate_judges_it():
    rehearsed = rehearsal(60, Rules(0.03, about=Estimand.LIKE), pairs=400)
    whole = rehearsed.characteristics(TRUTH, np.random.default_rng(3)).passed.value
    alone = rehearsed.passes(TRUTH, np.random.default_rng(4)).value
    assert alone == pytest.approx(whole, abs=0.1)


def test_a_model_that_hardly_errs_passes_a_margin_and_one_that_errs_often_does_not():
    rehearsed, rng = (
        rehearsal(40, Rules(0.03, about=Estimand.LIKE), pairs=40),
        np.random.default_rng(4),
    )
    assert rehearsed.passes(TRUTH.with_errors(0.001), rng).count > 35
    assert rehearsed.passes(TRUTH.worse(4), rng).count == 0


@pytest.mark.slow
@pytest.mark.parametrize("over", [Estimand.LIKE, Estimand.THESE])
def test_the_size_that_is_needed_has_the_power_and_much_less_has_not(over):
    rehearsed = rehearsal(30, replace(RULES, about=over))
    size = rehearsed.needed(np.random.default_rng(5))
    assert 80 < size.trials < 200
    assert size.calls == pytest.approx(7.5 * size.trials, abs=1)
    assert size.power.value >= 0.8
    half = replace(rehearsed, design=rehearsed.design.scaled(size.trials // 2, over))
    assert half.passes(TRUTH, np.random.default_rng(6)).value < 0.75


def test_a_size_that_a_short_search_found_has_the_power_by_all_the_pairs_too():
    rehearsed = Rehearsal(PLAIN, SELDOM, Rules(0.013), 300)
    power = rehearsed.needed(np.random.default_rng(3)).power
    assert power.value >= 0.8
    assert power.n == 300


@pytest.mark.slow
def test_a_size_just_below_the_most_is_found():
    """A test of two shares of 1 % in 3,000 trials of 2 calls, by the normal: 0.45 points."""
    found = Rehearsal(replace(PLAIN, sizes=[2]), SELDOM, Rules(0.0045), 100)
    assert 2_200 < found.needed(np.random.default_rng(3)).trials < MOST_TRIALS


def test_a_size_that_the_search_found_too_small_grows_until_it_has_the_power(monkeypatch) -> None:
    here = Rehearsal(PLAIN, SELDOM, Rules(0.05), 100)
    monkeypatch.setattr(Rehearsal, "_enough", lambda *_: (15, Rate(0, 0)))
    size = here.needed(np.random.default_rng(1))
    assert size.trials > 15
    assert size.power.value >= 0.8


def test_a_margin_too_narrow_has_no_size():
    tiny = Rehearsal(PLAIN, SELDOM, Rules(1.01, ratio=True), 30)
    assert tiny.needed(np.random.default_rng(5)) is None


def test_a_ratio_multiplies_the_rate_at_the_margin():
    planned = rehearsal(9, Rules(1.5, ratio=True))
    assert planned.at_the_margin.errors == pytest.approx(0.084)
    assert planned.half_as_good.errors == pytest.approx(0.07)


def drawn(rng, rate, hardness):
    """A run of one trial a scenario, drawn by scipy: ICC 0.1 of scenarios, 0.05 of trials."""
    rates = beta.ppf(hardness, rate * 9, (1 - rate) * 9)
    sizes = rng.integers(6, 10, len(hardness))
    errors = betabinom.rvs(sizes, rates * 19, (1 - rates) * 19, random_state=rng)
    counts = zip(errors.tolist(), sizes.tolist(), strict=True)
    return run(*(trial(*one, scenario=f"s{at}", seed=at) for at, one in enumerate(counts)))


@pytest.mark.slow
@pytest.mark.parametrize(("times", "verdict"), [(1, GateVerdict.PASS), (2.5, GateVerdict.FAIL)])
def test_what_is_told_of_a_gate_is_what_it_does_to_runs_drawn_otherwise(times, verdict):
    """Of 300 pairs on both sides: three standard errors of their difference are 12 points."""
    rules, rng = Rules(0.03, about=Estimand.LIKE), np.random.default_rng(21)
    told = rehearsal(100, rules, pairs=300).characteristics(TRUTH.worse(times), rng)
    seen = 0
    for _ in range(300):
        hardness = rng.random(100)
        sides = [drawn(rng, rate, hardness) for rate in (TRUTH.errors, TRUTH.errors * times)]
        seen += judge_gate(*sides, rules).verdict is verdict
    share = told.passed if verdict is GateVerdict.PASS else told.failed
    assert 0.2 < share.value == pytest.approx(seen / 300, abs=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True])
def test_a_new_run_of_so_many_trials_settles_it_with_the_power_said(half):
    """If the truth is what was seen, that the two are the same, or half as far from the limit."""
    rules = Rules(0.03, about=Estimand.THESE)
    sides = [run(*(trial(at < errors, 8, seed=at) for at in range(40))) for errors in (18, 18)]
    (criterion,) = judge_gate(*sides, rules).criteria
    assert criterion.verdict is GateVerdict.INCONCLUSIVE
    trials = round(40 * needed(criterion)[half])
    worlds = [(f"s{at}", at, at) for at in range(trials)]
    truth = Truth(18 / 320, {"a": 1.0})
    design = Design(worlds, [8], frozenset(), Clustering(0.0, 0.0))
    candidate = truth.with_errors(truth.errors + half * 0.015)
    found = Rehearsal(design, truth, rules, 500).passes(candidate, np.random.default_rng(3))
    assert found.value == pytest.approx(0.8, abs=0.05)
