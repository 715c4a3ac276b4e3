"""The criteria of a gate: each counts what it says, and a candidate that does no work fails."""

import numpy as np
import pytest
from summaries_of import run, trial

from agenteval.config.files import shipped
from agenteval.config.gate import load_rules
from agenteval.stats.criteria import CRITERIA, TRIALS, Criterion, Rules, as_it_ended, errors_of
from agenteval.stats.promotion import GateVerdict, judge_gate
from agenteval.trial.call import Outcome

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
    "never",
    [
        lambda one: (one.outcome == "cheated", 1),
        lambda one: (one.retries > 3, 1),
    ],
    ids=["an outcome that there is not", "what no outcome tells"],
)
def test_a_criterion_that_no_end_of_a_trial_meets_is_not_simulated_as_what_never_happens(never):
    with pytest.raises(
        ValueError, match="criterion 'cheated' is simulated as_it_ended, and counts no"
    ):
        Criterion("cheated", TRIALS, "trials that cheat, per 100", never, as_it_ended)


@pytest.mark.parametrize(
    "ends",
    [
        lambda one: (one.outcome == "looped", 1),
        lambda one: (not one.calls, 1),
        lambda one: (one.errors != {} and one.outcome is Outcome.GAVE_UP, 1),
    ],
    ids=["an outcome", "a trial without calls", "an outcome behind a denial"],
)
def test_a_criterion_that_an_end_of_a_trial_meets_is_simulated_as_it_ended(ends):
    one = Criterion("mine", TRIALS, "trials of mine, per 100", ends, as_it_ended)
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
