from dataclasses import replace

import pytest

from agenteval.testing import trial
from agenteval.trial.call import FULL, Ending, Outcome
from agenteval.trial.tally import (
    LONGEST,
    AsServed,
    Spread,
    Tallies,
    cut_reply,
    generated,
    sent,
    spread,
    stretch,
)
from agenteval.trial.trial import AgentPart, Message, Timing, Turn, Usage, timing_of


@pytest.mark.parametrize(
    ("values", "seen"),
    [
        ([], None),
        ([3.0], Spread(1, 3.0, 3.0, 3.0)),
        ([4.0, 2.0], Spread(2, 3.0, 2.0, 4.0)),
        ([float(one) for one in range(101)], Spread(101, 50.0, 5.0, 95.0)),
    ],
)
def test_a_spread_has_the_median_and_nine_in_ten(values, seen) -> None:
    assert spread(values) == seen


def asked(usage: Usage, timing: Timing | None = None, seconds: float = 2.0) -> Turn:
    return Turn("", (), "stop", usage, "", seconds, timing)


def test_speed_is_of_all_requests_of_the_trials_that_are_not_void() -> None:
    one_piece = asked(Usage(100, 10, 5, 50), Timing(0.5, 1))
    pieces = asked(Usage(200, 20, 0, 0), Timing(1.5, 3, 0.1, 0.2, 0.4, 0.4))
    of_a_helper = asked(Usage(0, 0))
    part = AgentPart("helper", 1, 0, 1, Ending.STOPPED, turns=(of_a_helper,))
    played = replace(trial(), turns=(one_piece, pieces), agents=(part,))
    void = replace(played, outcome=Outcome.VOID)
    assert Tallies.of([played, void]).served == AsServed(
        first_piece=Spread(2, 1.0, 0.5, 1.5),
        gap_median=Spread(1, 0.2, 0.2, 0.2),
        gap_p95=Spread(1, 0.4, 0.4, 0.4),
        tokens_per_second=Spread(2, 7.5, 5.0, 10.0),
        reasoning=Spread(2, 0.25, 0.0, 0.5),
        cached=Spread(2, 0.25, 0.0, 0.5),
    )


def test_what_no_server_told_was_not_seen() -> None:
    silent = replace(trial(), turns=(asked(Usage(0, 0)), asked(Usage(7, 3), seconds=0.0)))
    assert Tallies.of([silent]).served == AsServed(None, None, None, None, None, None)


@pytest.mark.parametrize(
    ("turn", "prompt", "context", "ending"),
    [
        (asked(Usage(90, 10)), 90, 100, Ending.CONTEXT),
        (asked(Usage(70, 14)), 70, 100, Ending.CONTEXT),
        (asked(Usage(70, 13)), 70, 100, None),
        (asked(Usage(0, 0), Timing(0.5, 10)), 90.0, 100, Ending.CONTEXT),  # pieces, not counted
        (asked(Usage(90, 10)), 90, None, None),
        (replace(asked(Usage(9, 1)), finish_reason=FULL), 9, None, Ending.CONTEXT),
    ],
)
def test_a_reply_that_was_cut_fills_its_context_or_not(turn, prompt, context, ending) -> None:
    assert cut_reply(turn, prompt, context)[0] is ending


def test_a_request_is_the_same_counted_as_a_whole_or_from_the_last_one_on() -> None:
    told = [
        Message("user", "four"),
        Message("assistant", "<think>so</think>it"),
        Message("tool", ""),
    ]
    first = sent(told[:1], 3)
    assert sent(told, 9, [first]) == sent(told, 9)


@pytest.mark.parametrize(
    ("arrivals", "timing"),
    [
        ([], None),
        ([0.5], Timing(0.5, 1)),
        ([0.5, 0.75], Timing(0.5, 2, 0.25, 0.25, 0.25, 0.25)),
        ([1.0, 2.0, 4.0, 8.0], Timing(1.0, 4, 7 / 3, 2.0, 4.0, 4.0)),
        ([float(at) for at in range(21)] + [30.0], Timing(0.0, 22, 30 / 21, 1.0, 1.0, 10.0)),
    ],
)
def test_the_pieces_of_a_stream_become_first_mean_median_p95_and_longest(arrivals, timing) -> None:
    assert timing_of(arrivals) == timing


@pytest.mark.parametrize(
    ("tokens", "seconds", "times"),
    [
        (0, 20.0, 1.0),
        (199, 1000.0, 1.0),  # too little to be a speed
        (400, 5.0, 1.0),  # fast: nobody gets less than the limit
        (400, 10.0, 1.0),
        (400, 40.0, 4.0),
        (400, 10_000.0, LONGEST),
    ],
)
def test_a_slow_server_gets_as_much_more_time_as_it_is_slower_than_the_reference(
    tokens, seconds, times
) -> None:
    assert stretch(tokens, seconds) == times


@pytest.mark.parametrize(
    ("counted", "timing", "tokens"),
    [(50, Timing(0.1, 20), 50), (0, Timing(0.1, 20), 20), (0, None, 0)],
)
def test_pieces_stand_for_tokens_that_nobody_counted(counted, timing, tokens) -> None:
    assert generated(Turn("", (), "stop", Usage(100, counted), "{}", 1.0, timing)) == tokens
