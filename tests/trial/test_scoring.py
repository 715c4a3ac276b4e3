"""What a run's trials add up to."""

from dataclasses import replace

from agenteval.testing import denied, failing, trial
from agenteval.trial.call import Ending, Outcome
from agenteval.trial.tally import Funnel, Tallies, executions, score
from agenteval.trial.trial import ErrorCounts, HandshakeStep, influence

LIST = "uv run notes.py list"
STEPS = ("one", "two", "three")


def reached(*steps):
    return [(step, step in steps) for step in STEPS]


def test_classes_add_up_to_errors_trial_by_trial():
    counts = ErrorCounts.of([["a", None, "b", "a"], [None], ["b"]])
    assert counts.by_class == {"a": (2, 0, 0), "b": (1, 0, 1)}
    assert counts.total() == ((3, 4), (0, 1), (1, 1))
    assert counts.clusters("a") == ((2, 4), (0, 1), (0, 1))
    assert counts.clusters("never") == ((0, 4), (0, 1), (0, 1))


def test_without_errors_every_trial_counts_with_none():
    assert ErrorCounts.of([[None, None], []]).total() == ((0, 2), (0, 0))


def test_folding_adds_the_counts_of_classes_that_share_a_row():
    counts = ErrorCounts.of([["a", "b", "y"], ["b"]]).folded({"a": "x", "b": "x"})
    assert counts.by_class == {"x": (2, 1), "y": (1, 0)}
    assert counts.total() == ((3, 3), (1, 1))


def test_void_trials_are_left_out_of_every_count_and_listed():
    void = trial(denied("ls"), number=2, ending=Ending.BROKEN, outcome=Outcome.VOID, reason="500")
    scored = score([trial(LIST), void])
    assert scored.trials == 1
    assert [(one.world, one.reason) for one in scored.voids] == [(("notes", 2, 1002), "500")]
    assert scored.worlds == {("notes", 1, 1001), ("notes", 2, 1002)}
    assert scored.errors.total() == ((0, 1),)
    assert scored.outcomes == {Outcome.COMPLETED: 1}
    assert (scored.turns, executions(Tallies.of([trial(LIST), void])).completion_tokens) == (1, 20)


def test_tool_errors_and_limits_are_counted_apart_out_of_what_was_executed():
    ended = trial(
        LIST, failing("uv run a.py"), failing("uv run b.py", limit="memory"), denied("ls")
    )
    ran = executions(Tallies.of([ended]))
    assert (ran.tool_errors, ran.limits, ran.objections) == (((1, 3),), {"memory": 1}, 0)
    assert score([ended]).errors.total() == ((1, 4),)


def test_a_handshake_step_counts_only_when_all_before_it_were_reached():
    trials = [
        trial(LIST, number=1, handshake=reached(*STEPS)),
        trial(LIST, number=2, handshake=reached("one", "three")),
        trial(LIST, number=3, handshake=reached()),
        trial(LIST, number=4, scenario="plain"),
    ]
    (funnel,) = score(trials).funnels
    assert funnel == Funnel("notes", 3, (("one", 2), ("two", 1), ("three", 1)), (1, 3))
    assert funnel.completed == 1


def test_a_trial_that_does_not_know_when_its_steps_were_reached_says_nothing_about_their_order():
    early = HandshakeStep("two", reached=True, agent="", turn=0, position=0, in_order=False)
    trials = [
        trial(LIST, handshake=[("one", True), ("two", True)]),
        replace(trial(LIST), handshake=(HandshakeStep("one", reached=True), early)),
        replace(trial(LIST), handshake=(HandshakeStep("one", reached=True, in_order=True), early)),
    ]
    (funnel,) = score(trials).funnels
    assert funnel.in_order == (1, 2)


def test_the_trial_of_most_influence_is_named_with_what_is_left_without_it():
    found = influence([(0, 8), (1, 7), (0, 9), (0, 6), (30, 200), (0, 8), (1, 8)])
    assert (found.at, found.errors, found.calls, found.runs_away) == (4, (30, 32), (200, 246), True)
    assert found.without == found.low == 2 / 46
    assert found.high == 32 / 237


def test_no_trial_runs_away_where_errors_are_spread_or_few():
    assert not influence([(2, 8), (2, 8), (2, 8), (1, 8)]).runs_away
    assert influence([(0, 8), (0, 8)]) is influence([(3, 8), (0, 0)]) is None
