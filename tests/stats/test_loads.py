import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenteval.stats.loads import Load, Timeline, _Stint, _timeline, loads
from agenteval.stats.quantiles import Samples
from agenteval.trial.recovery import Access, EngineLine, Window, windows


def window(running: int, generation: float, *, follows: bool = True, **known) -> Window:
    known = {"waiting": 0, "prompt": 0.0, "seconds": 10.0} | known
    return Window(running=running, generation=generation, follows=follows, **known)


def same(n: int, value: float) -> Samples:
    return Samples(n, value, value, value, value)


def test_windows_are_gathered_by_what_was_running_active_and_sustained() -> None:
    log = [
        window(2, 80.0, follows=False, prompt=6.0, completions=1),
        window(2, 0.0, failed=1),
        window(2, 80.0, prompt=6.0, completions=1),
        window(1, 50.0),
        window(1, 50.0, follows=False),
        window(1, 50.0),
        window(1, 50.0),
    ]
    assert loads(log) == (
        Load(
            running=1,
            windows=4,
            active=same(4, 50.0),
            sustained=same(1, 50.0),
            each=same(4, 50.0),
            prompt=None,
            prompt_sustained=same(4, 0.0),
            per_minute=same(4, 0.0),
            completions=0,
            failed=0,
        ),
        Load(
            running=2,
            windows=3,
            active=same(2, 80.0),
            sustained=same(1, 0.0),  # a window that generated nothing between two like it
            each=same(2, 40.0),
            prompt=same(2, 6.0),
            prompt_sustained=Samples(3, 4.0, 6.0, 6.0, 6.0),
            per_minute=Samples(3, 4.0, 6.0, 6.0, 6.0),
            completions=2,
            failed=1,
        ),
    )


def test_what_was_generated_by_requests_that_have_ended_is_none_of_them_each() -> None:
    (found,) = loads([window(0, 12.0)])
    assert (found.active, found.each) == (same(1, 12.0), None)


def test_no_window_makes_no_load() -> None:
    assert loads([]) == ()


speeds = st.decimals(0, 5000, places=1).map(float)
engine_lines = st.builds(
    EngineLine,
    st.none() | st.integers(0, 400).map(float),
    st.sampled_from(["Engine 000", "Engine 001", ""]),
    speeds,
    speeds,
    st.integers(0, 5),
    st.integers(0, 5),
)
entries = st.lists(engine_lines | st.builds(Access, st.sampled_from([200, 400, 500])))


@given(entries, st.floats(1, 60))
def test_totals_add_up_whatever_the_log_says(log, seconds) -> None:
    cut = list(windows(log, seconds))
    found = loads(cut)
    last = max((at for at, one in enumerate(log) if isinstance(one, EngineLine)), default=-1)
    answers = [one for one in log[: last + 1] if isinstance(one, Access)]
    placed = sum(one.completions + one.failed for one in found)
    assert (
        sum(one.windows for one in found),
        sum(one.active.n for one in found if one.active),
        sum(one.per_minute.n for one in found if one.per_minute),
        all(one.sustained is None or one.sustained.n <= one.windows for one in found),
        placed <= len(answers),  # one between two engines of the last window is in none
        sum(one.completions for one in found),
    ) == (
        len(cut),
        sum(one.generation > 0 for one in cut),
        len(cut),
        True,
        True,
        sum(one.completions for one in cut),
    )


@given(st.lists(engine_lines))
def test_what_the_engines_generated_is_what_the_windows_generated(log) -> None:
    cut = [one.generation for one in windows(log, 10.0)]
    assert round(sum(cut), 3) == round(sum(one.generation for one in log), 3)


# Windows of requests of known times.


def both(low: float, high: float) -> Samples:
    return Samples(2, (low + high) / 2, (low + high) / 2, low + 0.95 * (high - low), high)


NOTHING = Samples(2, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("stints", "found"),
    [
        ([], Timeline()),
        ([_Stint(0.0, 1.0, 9.0, 80)], Timeline()),  # no whole window
        (
            # Eighty tokens from 5 to 13: fifty in the first window, thirty in the second.
            [_Stint(0.0, 5.0, 13.0, 80, useful=1), _Stint(12.0, 12.0, 20.0, 0)],
            Timeline(both(3.0, 5.0), both(0.0, 6.0), both(0.0, 6.0)),
        ),
        (
            # What came in one piece came at its end; the idle minute between counts for nothing.
            [_Stint(100.0, 108.0, 108.0, 50), _Stint(170.0, 171.0, 180.0, 90)],
            Timeline(both(5.0, 9.0), both(0.0, 6.0), NOTHING),
        ),
    ],
)
def test_what_came_in_each_window_is_counted_there(stints, found) -> None:
    assert _timeline(stints) == found


def test_prompts_are_read_before_their_first_piece_and_idle_windows_count() -> None:
    """200 tokens from 5 to 15, then nothing until 30."""
    stints = [_Stint(0.0, 0.0, 2.0, 10), _Stint(5.0, 15.0, 16.0, 5, prompt=200)]
    stints.append(_Stint(36.0, 36.0, 40.0, 10))
    assert _timeline(stints).prefill == Samples(4, 5.0, 5.0, 10.0, 10.0)


def test_a_day_between_two_parts_of_a_run_is_no_idle_window() -> None:
    stints = [_Stint(at, at + 5.0, at + 20.0, 10, prompt=100) for at in (0.0, 86_400.0)]
    found = _timeline(stints).prefill
    assert found is not None
    assert (found.n, found.peak) == (5, 10.0)
