from dataclasses import replace

import pytest

from agenteval.stats.loads import Speed, Timeline, run_speed, speed_of
from agenteval.stats.quantiles import Samples
from agenteval.testing import denied, run, sub_agent, trial
from agenteval.trial.run import Effort
from agenteval.trial.trial import Timing, Turn, Usage


def turn(prompt: int = 100, cached: int = 0) -> Turn:
    timing = Timing(0.5, 20, gap_mean=0.1)
    return Turn("", (), "stop", Usage(prompt, 20, cached_tokens=cached), "{}", 2.5, timing)


def same(n: int, value: float) -> Samples:
    return Samples(n, value, value, value, value)


def test_replies_at_one_level_become_its_speed() -> None:
    found = speed_of([turn(), turn()], concurrency=2, seconds=4.0, new=True)
    found = replace(found, useful=3, failed=1, joules=7200.0)
    assert found == Speed(
        concurrency=2,
        requests=2,
        completion_tokens=40,
        seconds=4.0,
        generation=same(2, 10.0),
        prefill=same(2, 200.0),
        first=same(2, 0.5),
        useful=3,
        failed=1,
        joules=7200.0,
    )
    assert (
        found.tokens_per_second,
        found.completions_per_minute,
        found.useful_per_minute,
        found.tokens_per_kwh,
    ) == (10.0, 30.0, 45.0, 20_000.0)


@pytest.mark.parametrize(
    ("turns", "new", "prefill"),
    [
        ([turn()], True, same(1, 200.0)),
        ([turn()], False, None),
        ([turn(), turn(cached=50)], False, Samples(2, 150.0, 150.0, 195.0, 200.0)),
    ],
)
def test_prefill_is_told_only_where_it_is_known_what_was_cached(turns, new, prefill) -> None:
    assert speed_of(turns, concurrency=1, seconds=1.0, new=new).prefill == prefill


def test_what_was_not_measured_has_no_speed() -> None:
    untimed = replace(turn(), timing=None)
    found = speed_of([untimed], concurrency=1, seconds=None, new=True)
    assert (
        (found.generation, found.prefill, found.first),
        (found.tokens_per_second, found.completions_per_minute),
        (found.useful_per_minute, found.tokens_per_kwh),
    ) == ((None, None, None), (None, None), (None, None))


def test_where_no_tokens_were_counted_they_are_pieces_or_not_known() -> None:
    uncounted = replace(turn(), usage=Usage())
    pieces = speed_of([uncounted], concurrency=1, seconds=2.0, new=True)
    assert (pieces.completion_tokens, pieces.tokens_per_second, pieces.by_pieces) == (
        20,
        10.0,
        True,
    )
    assert (pieces.generation, pieces.prefill) == (same(1, 10.0), None)
    whole = speed_of([replace(uncounted, timing=None)], concurrency=1, seconds=2.0, new=True)
    whole = replace(whole, joules=10.0)
    assert (whole.tokens_per_second, whole.tokens_per_kwh, whole.by_pieces) == (None, None, False)
    assert (whole.windows.tokens, whole.watts) == (None, 5.0)


def test_prefill_of_windows_is_told_as_that_of_requests_is() -> None:
    """100 tokens in the first half second of a request, in two windows."""
    ended = [replace(turn(), ended=1002.5), replace(turn(cached=40), ended=1020.0)]
    known = speed_of(ended, concurrency=1, seconds=20.0, new=False).windows.prefill
    assert known == Samples(2, 8.0, 8.0, 9.8, 10.0)
    assert speed_of(ended[:1] * 2, concurrency=1, seconds=20.0, new=False).windows.prefill is None


def at(ended: float) -> Turn:
    return replace(turn(), timing=None, ended=ended)


def test_the_windows_of_a_run_hold_all_its_agents_and_their_useful_calls() -> None:
    """Twenty tokens each: of the first agent, of the other in the next window, and an end."""
    made = trial("pwd")
    first = replace(made, turns=(at(1002.5), at(1024.0)))
    second = replace(sub_agent("worker"), turns=(at(1015.0),), calls=made.calls)
    found = run_speed(run(replace(first, agents=(second,)))).windows
    assert found == Timeline(same(2, 2.0), same(2, 6.0), same(2, 6.0))


@pytest.mark.parametrize(
    ("effort", "rates"), [(None, (None, None)), (Effort(60.0, 3.6e6), (40 / 60, 40.0))]
)
def test_the_speed_of_a_run_is_that_of_all_its_trials(effort, rates) -> None:
    played = run(trial("uv run notes.py list", denied("ls")), effort=effort, concurrency=3)
    found = run_speed(played)
    assert (
        (found.concurrency, found.requests, found.completion_tokens, found.useful),
        (found.tokens_per_second, found.tokens_per_kwh),
    ) == ((3, 2, 40, 1), rates)
