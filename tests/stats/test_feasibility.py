"""What a run is too small for, whatever the candidate does."""

from math import inf

import pytest
from summaries_of import run, trial

from agenteval.stats.criteria import Rules
from agenteval.stats.promotion import GateVerdict, OutOfReach, judge_gate, needed, out_of_reach
from agenteval.stats.rates import Estimand
from agenteval.trial.call import Outcome

MISSED = "handshake_missed"


def played(trials, *, errors=1, **known):
    return run(*(trial(errors, 8, seed=at, handshake=at % 2 == 0, **known) for at in range(trials)))


def rules(about=Estimand.THESE, *, margin=0.5, **known):
    return Rules(margin, about=about, **known)


def reach(made, asked):
    return out_of_reach(made, made, asked)


def test_a_handshake_budget_with_few_trials_can_never_pass_and_the_number_that_could_is_told():
    (found,) = reach(played(8), rules(budgets={MISSED: 0.25}))
    assert found == OutOfReach("budgets.handshake_missed", 8, "handshakes", 11)


@pytest.mark.parametrize(("trials", "verdict"), [(10, "INCONCLUSIVE"), (11, "PASS")])
def test_the_number_that_is_told_is_the_fewest_that_pass(trials, verdict):
    made = run(*(trial(0, 8, seed=at, handshake=True) for at in range(trials)))
    judged = judge_gate(made, made, rules(budgets={MISSED: 0.25}))
    assert judged.criteria[1].verdict is GateVerdict(verdict)


def test_a_void_trial_is_one_that_could_have_been_played():
    made = run(
        *(trial(0, 8, seed=at, handshake=True) for at in range(12)),
        trial(0, 8, seed=99, handshake=True, outcome=Outcome.VOID),
    )
    assert reach(made, rules(budgets={MISSED: 0.25})) == ()


def test_a_run_that_is_large_enough_can_pass_everything():
    assert reach(played(30), rules(budgets={MISSED: 0.25, "errors": 0.3})) == ()


def test_over_scenarios_more_of_them_are_counted():
    found = {one.name: one for one in reach(played(5), rules(Estimand.LIKE, budgets={MISSED: 0.3}))}
    missed = found["budgets.handshake_missed"]
    assert (missed.n, missed.enough) == (5, 24)


def test_minimums_that_the_run_does_not_have_are_out_of_its_reach():
    assert reach(played(9), rules(trials=30, calls=50)) == (
        OutOfReach("minimum.trials", 9, "trials", 30),
    )


def test_a_margin_that_no_number_of_trials_proves_is_told_as_that():
    found = reach(played(4, errors=0), rules(margin=1e-6))
    fields = {"name": "margin", "n": 32, "of": "calls", "enough": None}
    assert (found, found[0].fields) == ((OutOfReach("margin", 32, "calls", inf),), fields)


def test_without_a_trial_nothing_passes():
    found = out_of_reach(played(4), run(), rules())
    assert found == (OutOfReach("margin", 0, "calls", inf),)


def test_a_new_run_is_sized_at_its_own_level_and_not_at_that_of_an_early_look():
    made = run(*(trial(1, 8, seed=at) for at in range(10)))
    early, whole = (
        judge_gate(made, made, rules(margin=0.05), level=level).criteria[0]
        for level in (1e-6, 0.05)
    )
    assert needed(early) == needed(whole) is not None


def test_what_is_passed_as_it_was_played_need_not_be_asked_again():
    budgets = {MISSED: 0.3, "errors": 0.4, "stalled": 0.05, "void": 0.9}
    asked = rules(margin=0.9, budgets=budgets, classes={"heredoc": 0.5}, never=("bare-binary",))
    before, after = played(40), played(12, errors=2)
    judged = judge_gate(before, after, asked)
    still = judged.still_open
    assert {*still.budgets} == {MISSED, "stalled"}
    assert (still.classes, still.never, still.margin) == ({}, ("bare-binary",), 0.9)
    found = out_of_reach(before, after, still)
    assert found == out_of_reach(before, after, asked) != ()
