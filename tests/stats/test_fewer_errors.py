"""One error more never helps: no bound falls and no verdict improves."""

from dataclasses import replace
from itertools import product
from random import Random
from statistics import variance

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from summaries_of import run, trial

from agenteval.config.files import shipped
from agenteval.config.gate import load_rules
from agenteval.stats.fewer_errors import Group, _least_between_strata, evenest, widest
from agenteval.stats.limits import comparison, lower_bound, rate_test, upper_bound
from agenteval.stats.promotion import GateVerdict, judge_gate
from agenteval.stats.rates import Estimand, strata
from agenteval.trial.call import Outcome

SHIPPED = load_rules(shipped() / "gate.toml")
ORDER = (GateVerdict.FAIL, GateVerdict.INCONCLUSIVE, GateVerdict.PASS)
EXACTLY = 1e-9  # what halving leaves open
CHANCE = st.builds(Random, st.integers(0, 1 << 32))

GROUPS = (
    [Group(3, 5), Group(0, 4), Group(1, 9), Group(2, 2)],
    [
        Group(2, 5, 1.4, bears=True),
        Group(0, 4, -1.1),
        Group(3, 3, 0.4, bears=True),
        Group(1, 8, -0.7),
    ],
    [Group(3, 5), Group(2, 4, stratum=1), Group(1, 9), Group(2, 2, stratum=1), Group(1, 3)],
    [
        Group(2, 5, 1.4, bears=True, stratum=2),
        Group(0, 4, -1.1, stratum=1),
        Group(3, 3, 0.4, bears=True, stratum=1),
        Group(1, 8, -0.7, stratum=1),
        Group(2, 2),
    ],
)


def spread(groups, errors):
    """The variance of the sum, stratum by stratum."""
    rate = sum(errors) / sum(group.size for group in groups)
    parts = {}
    for group, count in zip(groups, errors, strict=True):
        parts.setdefault(group.stratum, []).append(count - group.shift - rate * group.size)
    return sum(len(of) * variance(of) if len(of) > 1 else of[0] ** 2 for of in parts.values())


@pytest.mark.parametrize("groups", GROUPS)
def test_no_choice_of_errors_lies_further_apart_or_closer_than_is_told(groups):
    choices = list(product(*(range(group.errors + 1) for group in groups)))
    least = {one.count: one.spread for one in evenest(groups)}
    for most in widest(groups):
        of_count = [spread(groups, one) for one in choices if sum(one) == most.count]
        assert least.get(most.count, min(of_count)) <= min(of_count) + EXACTLY
        assert max(of_count) <= most.spread + EXACTLY


@given(CHANCE, st.integers(2, 12))
@settings(max_examples=40, deadline=None)
def test_strata_differ_by_no_less_than_is_told_at_any_rate(chance, many):
    """Beside a search for the price that evens the strata out, by halving."""
    sums = []
    for _ in range(many):
        size = chance.choice((0, 1, 8, 60))
        sums.append(
            (chance.randint(0, size), chance.gauss(0, 3), size, chance.choice((1, 4, 1e12)))
        )
    middle, n = sum(one[1] for one in sums) / many, sum(one[2] for one in sums) or 1
    sums = [(errors, shift - middle, size, slack) for errors, shift, size, slack in sums]
    rates = [count / n for count in range(sum(one[0] for one in sums), -1, -1)]

    def evened(rate, price):
        ends = [(-shift - rate * size, errors, slack) for errors, shift, size, slack in sums]
        return [(min(max(price * of, low), low + errors), of) for low, errors, of in ends]

    for rate, told in zip(rates, _least_between_strata(sums, rates), strict=True):
        low, high = -200.0, 200.0
        for _ in range(60):
            price = (low + high) / 2
            low, high = (
                (price, high) if sum(x for x, _ in evened(rate, price)) < 0 else (low, price)
            )
        assert told == pytest.approx(sum(x * x / of for x, of in evened(rate, high)), abs=1e-6)


@pytest.mark.parametrize("groups", GROUPS)
def test_with_all_errors_the_spread_is_what_it_is(groups):
    whole, *_ = widest(groups)
    assert whole.spread == pytest.approx(spread(groups, [group.errors for group in groups]))
    some = sum(group.errors > 0 or group.bears for group in groups)
    assert whole.bearing == min(some, sum(one.errors < one.size or one.bears for one in groups))


def test_the_fewest_groups_bear_errors_that_can():
    assert [one.bearing for one in widest(GROUPS[0])] == [3, 2, 2, 1, 1, 1, 0]


@st.composite
def clusters(draw):
    """Trials of 5 to 400, alike in size or not, one of them a giant in some."""
    trials = draw(st.one_of(st.integers(5, 30), st.integers(31, 400)))
    sizes = draw(st.sampled_from([(9,), (3, 5, 8, 12, 20), (2, 8)]))
    chance = draw(CHANCE)
    share, streaky = draw(st.sampled_from([0.0, 0.01, 0.06, 0.15, 0.5, 0.95])), draw(st.booleans())
    made = []
    for _ in range(trials):
        size, all_or_none = chance.choice(sizes), streaky and chance.random() < 0.7
        hits = size * (chance.random() < share) if all_or_none else None
        made.append(
            (sum(chance.random() < share for _ in range(size)) if hits is None else hits, size)
        )
    if draw(st.booleans()):
        made[0] = (draw(st.integers(0, 60)), 150)
    return made


@st.composite
def one_more(draw):
    """A run, and the same with one error more."""
    run = draw(clusters())
    free = [at for at, (errors, size) in enumerate(run) if errors < size]
    at = draw(st.sampled_from(free)) if free else 0
    errors, size = run[at]
    return run, [*run[:at], (min(errors + 1, size), size), *run[at + 1 :]]


LEVELS = st.sampled_from([0.05, 0.01, 0.001])


SCENARIOS = st.sampled_from([1, 3, 9, 36])


def in_turn(scenarios, trials):
    """The strata of trials of so many scenarios."""
    return strata([str(at % scenarios) for at in range(trials)])


@pytest.mark.slow
@given(one_more(), LEVELS, SCENARIOS)
@settings(max_examples=60, deadline=None)
def test_no_bound_of_a_rate_falls_by_an_error_more(runs, level, scenarios):
    before, after = (rate_test(run, in_turn(scenarios, len(run)), icc=0.1) for run in runs)
    assert upper_bound(before, level) <= upper_bound(after, level) + EXACTLY
    assert lower_bound(before, level) <= lower_bound(after, level) + EXACTLY


@given(one_more(), CHANCE, st.booleans(), SCENARIOS)
@settings(max_examples=60, deadline=None)
def test_no_bound_of_a_comparison_falls_by_an_error_more(runs, chance, ratio, scenarios):
    """Beside a baseline that met the same worlds, whose errors are others.

    A p above a half decides nothing: there the estimate is on the wrong side, and the more the
    trials differ, the nearer to a half it is.
    """
    limit, others = (1.5 if ratio else 0.03), [errors for errors, _ in runs[0]]
    chance.shuffle(others)
    before, after = (
        comparison(
            [
                ((min(other, size), size), (errors, size))
                for other, (errors, size) in zip(others, run, strict=True)
            ],
            in_turn(scenarios, len(run)),
            limit=limit,
            ratio=ratio,
            icc=0.1,
        )
        for run in runs
    )
    assert min(before.below(limit), 0.5) <= min(after.below(limit), 0.5) + EXACTLY
    assert min(before.above(limit), 0.5) >= min(after.above(limit), 0.5) - EXACTLY


@pytest.mark.parametrize(("trials", "calls"), [(15, 9), (60, 9), (60, 15), (200, 9)])
def test_none_to_six_errors_of_a_trial_each_need_a_limit_that_is_no_lower(trials, calls):
    told = [
        upper_bound(rate_test([(1, calls)] * n + [(0, calls)] * (trials - n), icc=0.1), 0.05)
        for n in range(7)
    ]
    assert told == sorted(told)
    assert told[6] > told[0]


BAD_ENDS = [end for end in Outcome if end not in (Outcome.COMPLETED, Outcome.VOID)]


@st.composite
def candidates(draw):
    """A baseline, a candidate about as bad as the limits, and the candidate with a trial worse."""
    trials, scenarios = draw(st.integers(30, 150)), draw(st.sampled_from([3, 12]))
    chance = draw(CHANCE)
    ended, denied = (
        draw(st.sampled_from([0.05, 0.2, 0.5])),
        draw(st.sampled_from([0.0, 0.05, 0.12])),
    )

    def made(at, ended, denied):
        calls = chance.choice((4, 8, 8, 14))
        errors = sum(chance.random() < denied for _ in range(calls))
        outcome = chance.choice(BAD_ENDS) if chance.random() < ended else Outcome.COMPLETED
        handshake = outcome is Outcome.COMPLETED if at % 3 == 0 else None
        return trial(
            errors,
            calls,
            scenario=f"s{at % scenarios}",
            seed=at,
            outcome=outcome,
            handshake=handshake,
        )

    before = run(*(made(at, 0.05, 0.05) for at in range(trials)), name="base")
    after = [made(at, ended, denied) for at in range(trials)]
    at = draw(st.integers(0, trials - 1))
    worse = [
        *after[:at],
        draw(st.sampled_from([denied_once, ended_badly]))(after[at]),
        *after[at + 1 :],
    ]
    return before, run(*after, name="next"), run(*worse, name="next")


def denied_once(one):
    """A call of the trial becomes an error, and does not run."""
    if one.all_errors[0] == one.calls:
        return one
    errors = {**one.errors, "pipe-to-filter": one.errors.get("pipe-to-filter", 0) + 1}
    return replace(one, errors=errors, executed=one.executed - 1)


def ended_badly(one):
    """The trial that reached its goal claims that it did."""
    ended = BAD_ENDS[one.seed % len(BAD_ENDS)]
    return replace(one, outcome=ended) if one.completed else one


@given(candidates(), st.sampled_from(Estimand))
@settings(max_examples=30, deadline=None)
def test_a_trial_worse_never_improves_a_verdict_of_the_shipped_gate(runs, about):
    before, candidate, worse = runs
    rules = replace(SHIPPED, about=about, classes={"pipe-to-filter": 0.05})
    found, later = judge_gate(before, candidate, rules), judge_gate(before, worse, rules)
    assert ORDER.index(later.verdict) <= ORDER.index(found.verdict)
    for one, other in zip(found.criteria, later.criteria, strict=True):
        assert other.p_fail <= one.p_fail + EXACTLY or one.p_fail > 0.5
        assert ORDER.index(other.verdict) <= ORDER.index(one.verdict)
