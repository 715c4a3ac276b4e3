"""Gate and comparison of the same two runs stand on the same trials and the same figures."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenteval.report.build import build_comparison
from agenteval.report.sentences import Side
from agenteval.stats.criteria import Rules
from agenteval.stats.promotion import judge_gate
from agenteval.stats.rates import Estimand
from agenteval.testing import card, denied, run, trial
from agenteval.trial.call import Outcome
from agenteval.trial.summary import RunSummary, pair, summarize

LIST = "uv run notes.py list"
ENDS = [Outcome.COMPLETED, Outcome.STALLED, Outcome.VOID]
TRIALS = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(1, 4)),
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(ENDS)),
    min_size=1,
    max_size=8,
)


def played(name, drawn):
    made = (
        trial(
            *[denied("ls | head", "pipe-to-filter")] * errors,
            *[LIST] * allowed,
            scenario=scenario,
            number=number,
            outcome=end,
        )
        for (scenario, number), (errors, allowed, end) in sorted(drawn.items())
    )
    return run(*made, run_id=name, model=card(name))


def compared(first, second, about):
    """The pair that `compare` shows of two runs, and the margin of a gate over them."""
    view = build_comparison([Side.of_run(first), Side.of_run(second)], about=about)
    baseline, candidate = (
        RunSummary.of(one, tuple(map(summarize, one.trials))) for one in (second, first)
    )
    judged = judge_gate(baseline, candidate, Rules(0.03, about=about))
    return view.pairs, judged


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(TRIALS, TRIALS, st.sampled_from(Estimand))
def test_the_margin_of_a_gate_is_the_difference_of_a_comparison(ours, theirs, about):
    pairs, judged = compared(played("a", ours), played("b", theirs), about)
    margin = judged.criteria[0]
    if not pairs or pairs[0].silent or not judged.pairing.alike:
        assert margin.estimate is None
        return
    (shown,) = pairs
    gap = shown.difference
    left_out = tuple(reversed(judged.pairing.left_out))
    assert margin.estimate == pytest.approx(gap.value)
    assert (margin.measure.count, margin.measure.n) == (gap.first.count, gap.first.n)
    assert (gap.paired, shown.left_out) == (judged.pairing.paired, left_out)
    assert shown.scope == about.label
    assert gap.low <= margin.estimate <= gap.high
    assert judged.minimums[1].observed == gap.first.n


def test_a_void_trial_meets_no_world():
    ends = (Outcome.COMPLETED, Outcome.VOID)
    first, second = (
        [summarize(trial(LIST, number=1)), summarize(trial(LIST, LIST, number=2, outcome=end))]
        for end in ends
    )
    found = pair(first, second)
    assert (found.worlds, [one.number for one in found.second], found.left_out) == (1, [1], (2, 0))


def test_runs_without_a_world_in_common_are_compared_whole():
    first, second = [summarize(trial(LIST, number=1))], [summarize(trial(LIST, number=2))]
    found = pair(first, second)
    assert (found.paired, found.worlds, len(found.first), found.left_out) == (False, 0, 1, (0, 0))
