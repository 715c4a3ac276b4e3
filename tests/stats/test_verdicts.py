"""Pass, fail or not enough evidence."""

from dataclasses import replace
from itertools import pairwise
from math import ceil, inf

import pytest
from summaries_of import run, runs, trial

from agenteval.errors import Cause
from agenteval.report.gate import gate_view
from agenteval.stats.criteria import CRITERIA, Rules
from agenteval.stats.promotion import GateVerdict, Minimum, judge_gate, needed
from agenteval.stats.rates import Estimand
from agenteval.trial.call import Outcome

PASS, FAIL, INCONCLUSIVE = GateVerdict.PASS, GateVerdict.FAIL, GateVerdict.INCONCLUSIVE
SOME = [0, 1, 0, 0, 0, 0, 1, 0, 0, 0]


def verdicts(judgement):
    return {one.measure.name: one.verdict for one in judgement.criteria}


@pytest.mark.parametrize(
    ("ours", "theirs", "rules", "expected"),
    [
        (SOME * 12, SOME * 12, Rules(0.03), PASS),
        (SOME * 2, SOME * 2, Rules(0.03), INCONCLUSIVE),
        (SOME * 12, [2, 1] * 60, Rules(0.03), FAIL),
        (SOME * 12, [0] * 120, Rules(1.5, ratio=True), PASS),
        (SOME * 12, [2, 1] * 60, Rules(1.5, ratio=True), FAIL),
        (SOME * 12, SOME * 12, Rules(0.03, trials=121), INCONCLUSIVE),
        (SOME * 12, SOME * 12, Rules(0.03, calls=960), PASS),
        (SOME * 12, SOME * 12, Rules(0.03, budgets={"errors": 0.02}), INCONCLUSIVE),
        (SOME * 12, SOME * 12, Rules(0.03, budgets={"errors": 0.01}), FAIL),
        (SOME * 12, SOME * 12, Rules(0.03, classes={"pipe-to-filter": 0.01}), FAIL),
        (SOME * 12, SOME * 12, Rules(0.03, never=("pipe-to-filter",)), FAIL),
        (SOME * 12, SOME * 12, Rules(0.03, never=("shell-chain",)), PASS),
        (SOME * 12, SOME * 12, Rules(0.03, never=("heredoc",), never_below=0.001), INCONCLUSIVE),
        ([0], [0], Rules(0.03), INCONCLUSIVE),
    ],
)  # fmt: skip
def test_the_verdict(ours, theirs, rules, expected):
    assert judge_gate(*runs(ours, theirs), rules).verdict is expected


def test_every_budget_is_held_by_the_trials_it_is_about():
    done = {"handshake": True}
    trials = [
        *(trial(0, 8, seed=at, **done) for at in range(40)),
        *(trial(0, 8, seed=at) for at in range(40, 60)),
        *(trial(0, 8, seed=at, outcome=Outcome.STALLED, handshake=False) for at in range(60, 80)),
        *(trial(3, 8, seed=at, outcome=Outcome.VOID) for at in range(80, 120)),
    ]
    trials[0] = trial(0, 8, crashed=2, **done)
    judged = judge_gate(
        run(trial(0, 8), name="base"),
        run(*trials, name="next"),
        Rules(0.03, budgets=dict.fromkeys(CRITERIA, 0.1)),
    )
    assert {one.measure.name: (one.measure.count, one.measure.n) for one in judged.criteria} == {
        "margin": (0, 8),
        "budgets.errors": (0, 640),
        "budgets.handshake_missed": (20, 60),
        "budgets.not_completed": (20, 80),
        "budgets.claimed_done": (0, 80),
        "budgets.gave_up": (0, 80),
        "budgets.looped": (0, 80),
        "budgets.out_of_turns": (0, 80),
        "budgets.timed_out": (0, 80),
        "budgets.out_of_context": (0, 80),
        "budgets.stalled": (20, 80),
        "budgets.crashed": (2, 640),
        "budgets.void": (40, 120),
    }
    assert verdicts(judged)["budgets.void"] is FAIL
    assert judged.minimums[0] == Minimum("trials", 0, 1)


def test_a_budget_of_which_nothing_was_counted_is_not_asked_for():
    rules = Rules(0.03, budgets={"handshake_missed": 0.1})
    assert verdicts(judge_gate(*runs(SOME * 12, SOME * 12), rules)) == {"margin": PASS}


def test_only_worlds_that_both_met_are_compared_and_strangers_where_there_are_none():
    base, candidate = runs(SOME * 12, SOME * 6)
    stranger = run(*(trial(0, 8, seed=1000 + at) for at in range(60)), name="other")
    met, apart = (judge_gate(base, one, Rules(0.03)) for one in (candidate, stranger))
    assert (met.pairing.worlds, met.criteria[0].measure.n, apart.pairing.worlds) == (60, 480, 0)


def test_a_run_without_calls_settles_nothing():
    judged = judge_gate(run(trial(0, 8), name="base"), run(trial(0, 0), name="next"), Rules(0.03))
    (margin,) = judged.criteria
    assert (margin.verdict, margin.p_fail, margin.estimate, margin.bounds, needed(margin)) == (
        INCONCLUSIVE,
        1.0,
        None,
        None,
        (inf, inf),
    )


def test_a_margin_bears_on_what_is_compared_and_a_budget_on_what_it_counts():
    """The baseline met two of the candidate's four worlds; two of these have a handshake."""
    trials = [trial(0, 8, seed=at, handshake=True if at % 2 else None) for at in range(4)]
    rules = Rules(0.03, budgets={"handshake_missed": 0.2})
    candidate = run(*trials, name="next")
    judged = judge_gate(run(*trials[:2], name="base"), candidate, rules)
    assert [one.bearing(candidate) for one in judged.criteria] == [
        (trials[0], trials[1]),
        [trials[1], trials[3]],
    ]


def test_seeds_do_not_make_scenarios():
    """Five scenarios of which one is hard for the candidate, each played forty times."""
    sides = [
        run(
            *(
                trial(errors if number == 0 else 0, 8, scenario=f"s{number}", seed=seed)
                for number in range(5)
                for seed in range(40)
            ),
            name=name,
        )
        for name, errors in (("base", 0), ("next", 2))
    ]
    by_trial, by_scenario = (
        judge_gate(*sides, Rules(0.03, about=over)) for over in (Estimand.THESE, Estimand.LIKE)
    )
    assert by_trial.criteria[0].bounds[1] < 0.08 < by_scenario.criteria[0].bounds[1]


@pytest.mark.parametrize("about", Estimand)
def test_nothing_jumps_where_the_number_of_scenarios_passes_ten(about):
    def bound(scenarios):
        """Of twenty trials of each scenario, as like in every one as the next."""
        trials = [
            trial(seed % 4 == 0, 8, scenario=f"s{number:02}", seed=20 * number + seed)
            for number in range(scenarios)
            for seed in range(20)
        ]
        found = judge_gate(run(*trials), run(*trials), Rules(0.03, about=about))
        return found.criteria[0].bounds[1]

    falls = [after / before for before, after in pairwise(map(bound, range(6, 15)))]
    assert all(abs(after - before) < 0.04 for before, after in pairwise(falls))


def test_what_is_not_settled_says_how_much_more_would_settle_it():
    judged = judge_gate(*runs(SOME * 2, SOME * 2), Rules(0.03))
    as_seen, half = needed(judged.criteria[0])
    size = ceil(as_seen)
    larger = judge_gate(*runs(SOME * 2 * size, SOME * 2 * size), Rules(0.03))
    assert (judged.verdict, 1 < as_seen < 10, larger.verdict) == (INCONCLUSIVE, True, PASS)
    assert 2 * as_seen < half < 6 * as_seen


def test_what_is_settled_or_at_its_limit_has_no_such_number():
    passed = judge_gate(*runs(SOME * 12, SOME * 12), Rules(0.03)).criteria[0]
    budget = Rules(0.5, budgets={"errors": 2 / 80})
    at_limit = judge_gate(*runs(SOME * 12, SOME * 12), budget).criteria[1]
    assert (needed(passed), needed(at_limit)) == (None, (inf, inf))


def test_many_criteria_make_failing_harder_and_passing_no_easier():
    sides = runs(SOME * 6, [1, 1, 0, 0, 1, 0, 0, 1, 1, 0] * 6)
    alone = judge_gate(*sides, Rules(0.01))
    budgets = {"errors": 0.9, "stalled": 0.9, "void": 0.9, "crashed": 0.9}
    among = judge_gate(*sides, Rules(0.01, budgets=budgets))
    assert among.criteria[0].p_fail == pytest.approx(5 * alone.criteria[0].p_fail)
    assert (alone.verdict, among.verdict) == (FAIL, INCONCLUSIVE)


def test_a_look_at_a_lower_level_settles_less():
    sides = runs(SOME * 6, SOME * 6)
    seen = [judge_gate(*sides, Rules(0.03), level=level).verdict for level in (0.05, 1e-4)]
    assert seen == [PASS, INCONCLUSIVE]


def worlds(name, *scenarios, seed=0):
    """A run by scenario: trials, and how many of the 10 calls of each are errors."""
    made = []
    for scenario, trials, errors in scenarios:
        at = range(seed, seed + trials)
        made += (trial(errors[one % len(errors)], 10, scenario=scenario, seed=one) for one in at)
    return run(*made, name=name)


def test_who_left_out_the_hard_scenario_is_held_in_the_others_alone():
    base = worlds("base", ("hard", 60, [2]), ("easy", 60, [0, 0, 0, 0, 1]))
    easy_alone = worlds("next", ("easy", 120, [1]), seed=1000)
    judged = judge_gate(base, easy_alone, Rules(0.03))
    (margin,) = judged.criteria
    assert (margin.verdict, judged.pairing.paired, judged.pairing.alike) == (FAIL, False, True)
    assert judged.pairing.trials_left_out == (60, 0)


def test_of_unlike_mixes_as_many_trials_of_each_scenario_are_compared():
    base = worlds("base", ("hard", 60, [2]), ("easy", 60, [0]))
    often_easy = worlds("next", ("hard", 10, [2]), ("easy", 110, [0]), seed=1000)
    judged = judge_gate(base, often_easy, Rules(0.03))
    assert judged.criteria[0].estimate == pytest.approx(0)
    assert judged.pairing.trials_left_out == (50, 50)
    twice = worlds("next", ("hard", 30, [2]), ("easy", 30, [0]), seed=1000)
    assert judge_gate(base, twice, Rules(0.03)).pairing.trials_left_out == (0, 0)


def test_between_runs_without_a_scenario_in_common_no_margin_is_held():
    base, other = worlds("base", ("a", 90, [0])), worlds("next", ("b", 90, [0]))
    judged = judge_gate(base, other, Rules(0.5, completed=0.5))
    assert [one.verdict for one in judged.criteria] == [INCONCLUSIVE] * 2
    assert [one.estimate for one in judged.criteria] == [None] * 2


def test_what_the_baseline_shows_and_only_void_trials_of_the_candidate_would_is_not_passed():
    plain = [trial(0, 10, seed=at) for at in range(300)]
    closed = [trial(0, 10, scenario="ralf", seed=at, handshake=True) for at in range(20)]
    void = [trial(0, 0, scenario="ralf", seed=at, outcome=Outcome.VOID) for at in range(20)]
    rules = Rules(0.03, budgets={"handshake_missed": 0.2, "void": 0.15})
    judged = judge_gate(run(*plain, *closed), run(*plain, *void, name="next"), rules)
    assert verdicts(judged)["budgets.handshake_missed"] is INCONCLUSIVE
    assert judged.minimums[2:] == (Minimum("scenarios", 2, 1),)
    assert judged.verdict is INCONCLUSIVE
    (open_,) = (one for one in judged.criteria if one.measure.name == "budgets.handshake_missed")
    assert (open_.measure.n, open_.estimate, open_.bounds) == (0, None, None)
    assert verdicts(judge_gate(run(*plain), run(*plain, name="next"), rules)).keys() == {
        "margin",
        "budgets.void",
    }


@pytest.mark.parametrize(("voids", "expected"), [(10, PASS), (11, INCONCLUSIVE)])
def test_a_run_that_is_mostly_void_passes_only_where_a_budget_of_voids_says_so(voids, expected):
    base = worlds("base", ("a", 50, [0]))
    broken = [replace(one, outcome=Outcome.VOID) for one in base.trials[:voids]]
    made = replace(base, id="next", trials=(*base.trials[voids:], *broken))
    asked = judge_gate(base, made, Rules(0.5))
    assert (asked.verdict, len(asked.minimums)) == (expected, 2 + (expected is INCONCLUSIVE))
    assert judge_gate(base, made, Rules(0.5, budgets={"void": 0.9})).verdict is PASS


def test_a_run_that_goes_on_passes_after_it_has_played_every_scenario_of_the_baseline():
    base = worlds("base", ("easy", 300, [0]), ("hard", 300, [0]))
    easy = worlds("next", ("easy", 300, [0]))
    so_far, whole = (replace(easy, complete=complete) for complete in (False, True))
    assert judge_gate(base, so_far, Rules(0.03)).minimums[2:] == (Minimum("scenarios", 2, 1),)
    assert judge_gate(base, so_far, Rules(0.03)).verdict is INCONCLUSIVE
    assert judge_gate(base, whole, Rules(0.03)).verdict is PASS  # it was asked for no more
    both = replace(base, id="next", complete=False)
    assert judge_gate(base, both, Rules(0.03)).verdict is PASS


def test_of_a_run_that_goes_on_what_was_in_flight_has_not_ended():
    cut = trial(0, 0, seed=2, outcome=Outcome.VOID, cause=Cause.INTERRUPTED)
    broken = trial(0, 0, seed=3, outcome=Outcome.VOID, cause=Cause.TIMEOUT)
    made = run(trial(0, 8), cut, broken)
    assert made.ended.trials == made.trials
    assert replace(made, complete=False).ended.trials == (made.trials[0], broken)


def test_what_must_never_happen_no_sub_agent_may_do():
    rules = Rules(0.03, classes={"heredoc": 0.02}, never=("heredoc",), never_below=0.01)
    clean = [trial(0, 8, seed=at, agents={"helper": (0, 2)}) for at in range(60)]
    once = replace(clean[0], agents={"helper": (1, 2)}, agent_errors={"heredoc": 1})
    both = [
        judge_gate(run(*clean), run(*made, name="next"), rules)
        for made in (clean, [once, *clean[1:]])
    ]
    assert [verdicts(one)["never.heredoc"] for one in both] == [PASS, FAIL]
    assert [verdicts(one)["budgets.classes.heredoc"] for one in both] == [PASS, PASS]
    (never,) = (one.measure for one in both[1].criteria if one.measure.name == "never.heredoc")
    assert (never.count, never.n) == (1, 600)


def test_what_no_figure_shows_is_told_beside_them():
    helped = {"helper": (20, 24), "other": (0, 1)}
    before = worlds("base", ("easy", 40, [0]), *((f"hard {at}", 5, [0]) for at in range(5)))
    after = run(*(trial(0, 8, scenario="easy", seed=at, agents=helped) for at in range(40)))
    judged = judge_gate(before, after, Rules(0.03))
    told = gate_view(judged, before, after, rules="mine").remarks
    assert (
        "Sub-agents of the candidate made 1,000 calls, 800 of them denied: in no figure here but "
        "of what must never happen; all others are of first agents."
    ) in told
    assert (
        "The candidate played 1 of the baseline's 6 scenarios: nothing is known of hard 0, hard 1, "
        "hard 2, ...."
    ) in told
    assert not any("of the baseline made" in one for one in told)
