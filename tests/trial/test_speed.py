from dataclasses import replace

import pytest

from agenteval.stats.loads import _generation_speed, _prefill_speed, all_turns
from agenteval.testing import denied, failing, says, trial
from agenteval.trial.call import Ending
from agenteval.trial.tally import useful_calls
from agenteval.trial.trial import AgentPart, Timing, Turn, Usage


def turn(usage: Usage, timing: Timing | None) -> Turn:
    return Turn("", (), "stop", usage, "{}", 1.0, timing)


@pytest.mark.parametrize(
    ("tokens", "timing", "speed"),
    [
        (20, None, None),
        (20, Timing(0.5, 1), None),
        (20, Timing(0.5, 20, gap_mean=0.1), 10.0),
        (40, Timing(0.5, 20, gap_mean=0.1), 20.0),  # two tokens a piece
        (160, Timing(0.5, 20, gap_mean=0.1), 80.0),
        (161, Timing(0.5, 20, gap_mean=0.1), None),  # held back
    ],
)
def test_generation_is_timed_between_pieces_where_these_tell(tokens, timing, speed) -> None:
    assert _generation_speed(turn(Usage(0, tokens), timing)) == speed


@pytest.mark.parametrize(
    ("prompt", "cached", "timing", "speed"),
    [
        (100, 0, None, None),
        (100, 0, Timing(0.0, 1), None),
        (100, 0, Timing(0.5, 1), 200.0),
        (100, 80, Timing(0.5, 1), 40.0),
        (100, 100, Timing(0.5, 1), None),
        (0, 0, Timing(0.5, 1), None),  # a server that does not say
    ],
)
def test_prefill_counts_what_was_not_cached(prompt, cached, timing, speed) -> None:
    usage = Usage(prompt, 1, cached_tokens=cached)
    assert _prefill_speed(turn(usage, timing)) == speed


def test_turns_and_useful_calls_are_those_of_all_agents() -> None:
    part = trial("uv run notes.py list", denied("ls"))
    agent = AgentPart("clerk", 1, 0, 1, Ending.STOPPED, part.turns, part.calls)
    whole = replace(
        trial(
            ("uv run notes.py list", denied("ls | head")),
            failing("uv run notes.py show 9"),
            says("Done."),
        ),
        agents=(agent,),
    )
    assert (len(list(all_turns(whole))), useful_calls(whole)) == (5, 3)


def test_an_allowed_call_that_never_ran_is_not_useful() -> None:
    played = trial("uv run notes.py list")
    calls = tuple(replace(call, execution=None) for call in played.calls)
    assert useful_calls(replace(played, calls=calls)) == 0
