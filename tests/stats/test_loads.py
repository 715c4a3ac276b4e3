from hypothesis import given
from hypothesis import strategies as st

from agenteval.stats.loads import Load, loads
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
