"""The criteria of a gate: each counts what it says, and a candidate that does no work fails."""

import numpy as np
import pytest
from summaries_of import run, trial

from agenteval.config.files import shipped
from agenteval.config.gate import load_rules
from agenteval.stats.criteria import CRITERIA, TRIALS, Criterion, Drawn, Rules, errors_of
from agenteval.stats.promotion import GateVerdict, judge_gate
from agenteval.trial.call import Outcome

OUTCOME, DENIED = Drawn.OUTCOME, Drawn.DENIED_CALLS
SHIPPED = load_rules(shipped() / "gate.toml")
GOOD_OR_UNKNOWN = {Outcome.COMPLETED, Outcome.NOT_OBSERVABLE}
BAD_ENDS = [end for end in Outcome if end not in GOOD_OR_UNKNOWN]


def ended(outcome, *, trials=70, name="next"):
    made = (
        trial(at % 3 == 0, 8, scenario=f"s{at % 3}", seed=at, outcome=outcome)
        for at in range(trials)
    )
    return run(*made, name=name)


@pytest.mark.parametrize("outcome", BAD_ENDS)
@pytest.mark.parametrize("trials", [30, 70, 200])
def test_a_candidate_whose_trials_all_end_badly_fails_the_shipped_gate(outcome, trials):
    baseline = ended(Outcome.COMPLETED, trials=trials, name="base")
    judged = judge_gate(baseline, ended(outcome, trials=trials), SHIPPED)
    assert judged.verdict is GateVerdict.FAIL


def test_a_candidate_fails_that_completes_as_little_as_its_baseline():
    sides = ended(Outcome.LOOPED, name="base"), ended(Outcome.LOOPED)
    assert judge_gate(*sides, SHIPPED).verdict is GateVerdict.FAIL


def test_completing_fewer_trials_fails_by_the_margin_alone():
    sides = [
        run(
            *(
                trial(0, 8, seed=at, outcome=Outcome.GAVE_UP if at < missed else Outcome.COMPLETED)
                for at in range(100)
            ),
            name=str(missed),
        )
        for missed in (10, 40)
    ]
    judged = judge_gate(*sides, Rules(0.5, completed=0.1))
    assert {one.measure.name: one.verdict for one in judged.criteria} == {
        "margin": GateVerdict.PASS,
        "margin.completed": GateVerdict.FAIL,
    }


def test_beside_a_table_completion_is_held_by_its_budget_or_not_proven():
    counts = (trial(0, 8, scenario="", seed=-1 - at) for at in range(100))
    table = run(*counts, name="table", of_counts=True)
    candidate = ended(Outcome.COMPLETED, trials=100)
    asked = Rules(0.5, completed=0.1)
    held = Rules(0.5, completed=0.1, budgets={"not_completed": 0.5})
    assert [judge_gate(table, candidate, rules).verdict for rules in (asked, held)] == [
        GateVerdict.INCONCLUSIVE,
        GateVerdict.PASS,
    ]


def test_each_criterion_counts_its_own_and_is_simulated_at_its_share():
    rng = np.random.default_rng(1)
    made = trial(2, 10, handshake=True)
    for name, one in CRITERIA.items():
        count, n = one.counts(made)
        always, never = (one.simulate(made, share, rng) for share in (1.0, 0.0))
        assert (0 <= count <= n, name) == (True, one.name)
        if name in {"handshake_missed", "crashed"}:
            assert (one.counts(always), one.counts(never)) == ((n, n), (0, n))
        else:
            assert always == made


@pytest.mark.parametrize(
    ("counts", "moved_by", "reason"),
    [
        (lambda one: one.outcome == "cheated", OUTCOME, "moved by the outcome, and counts trials"),
        (lambda one: one.retries > 3, OUTCOME, "moved by the outcome, and counts trials alike"),
        (lambda _: False, DENIED, "moved by denied calls, and counts trials alike"),
        (lambda one: one.calls > 20, DENIED, "moved by denied calls, and counts trials alike"),
        (lambda one: one.void, OUTCOME | DENIED, "moved by denied calls, and counts trials"),
        (lambda one: one.completed or one.calls > 5, OUTCOME, "moved by calls too, which it does"),
        (lambda one: one.completed or one.errors, OUTCOME, "moved by denied calls too, which it"),
        (lambda one: one.errors or one.void, DENIED, "moved by the outcome too, which it does"),
        (lambda one: one.errors or one.retries, DENIED, "moved by retries too, which it"),
        (lambda one: one.void or one.turns > 9, OUTCOME, "moved by recovery too, which it does"),
    ],
)
def test_a_criterion_that_misstates_what_moves_it_is_refused(counts, moved_by, reason):
    with pytest.raises(ValueError, match=f"criterion 'mine' is (said to be )?({reason})"):
        Criterion("mine", TRIALS, "of mine", lambda one: (bool(counts(one)), 1), moved_by)


@pytest.mark.parametrize(
    ("counts", "moved_by"),
    [
        (lambda one: one.outcome == "looped", OUTCOME),
        (lambda one: one.errors != {}, DENIED),
        (lambda one: sum(one.errors.values()) * 2 > one.calls, DENIED),
        (lambda one: one.errors != {} and one.outcome is Outcome.GAVE_UP, OUTCOME | DENIED),
    ],
    ids=["an outcome", "any denial", "half of the calls denied", "an outcome behind a denial"],
)
def test_what_a_rehearsal_draws_is_simulated_as_it_was_drawn(counts, moved_by):
    one = Criterion("mine", TRIALS, "of mine", lambda one: (counts(one), 1), moved_by)
    assert one.simulate(trial(2, 10), 0.5, np.random.default_rng(1)) == trial(2, 10)


def test_a_trial_without_a_handshake_has_none_to_miss():
    made, missed = trial(0, 3), CRITERIA["handshake_missed"]
    rng = np.random.default_rng(1)
    assert (missed.counts(made), [*missed.counted([made])]) == ((0, 0), [])
    assert missed.simulate(made, 1.0, rng) == made


def test_a_failure_class_is_a_criterion_of_its_own():
    one = errors_of("pipe-to-filter")
    assert (one.name, one.counts(trial(2, 10)), errors_of("heredoc").counts(trial(2, 10))) == (
        "classes.pipe-to-filter",
        (2, 10),
        (0, 10),
    )


@pytest.mark.parametrize(("stalled", "passes"), [(0, True), (1, True), (2, False)])
def test_one_yes_or_no_a_trial_is_held_by_its_exact_bound(stalled, passes):
    """Of 30 trials, 1 stalled has the upper bound 14.9 % (Clopper-Pearson), 2 have 19.5 %."""
    made = run(
        *(
            trial(0, 8, seed=at, outcome=Outcome.STALLED if at < stalled else Outcome.COMPLETED)
            for at in range(30)
        )
    )
    judged = judge_gate(made, made, Rules(0.5, budgets={"stalled": 0.15}))
    assert (judged.criteria[1].verdict is GateVerdict.PASS) is passes
