import pytest

from agenteval.trial.recovery import Access, EngineLine, Entry, Window, windows

OK, REFUSED = Access(200), Access(400)


def line(at: float | None, running: int = 1, generation: float = 50.0, engine: str = "0"):
    return EngineLine(at, engine, 10.0, generation, running, 0)


def window(running: int = 1, generation: float = 50.0, **known):
    known = {"seconds": 10.0, "follows": True, "prompt": 10.0, "waiting": 0} | known
    return Window(running=running, generation=generation, **known)


FIRST = window(follows=False)
TWO = {"running": 2, "generation": 100.0, "prompt": 20.0}


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([OK, OK], [], id="answers alone are in no window"),
        pytest.param(
            [OK, line(0), OK, REFUSED, line(10), OK],
            [window(follows=False, completions=1), window(completions=1, failed=1)],
            id="answers belong to the line that comes next",
        ),
        pytest.param([line(0), line(11)], [FIRST, window(seconds=11.0)], id="stamps are whole"),
        pytest.param([line(0), line(300)], [FIRST, FIRST], id="after a pause"),
        pytest.param([line(300), line(0)], [FIRST, FIRST], id="a clock set back, or a new year"),
        pytest.param([line(0), line(2)], [FIRST, FIRST], id="a server that was started again"),
        pytest.param([line(None), line(None)], [FIRST, window()], id="no stamps"),
        pytest.param(
            [line(0), line(1, engine="1"), line(10), line(11, engine="1")],
            [window(**TWO, follows=False), window(**TWO)],
            id="engines are added",
        ),
        pytest.param(
            [line(0), OK, line(1, engine="1"), line(10)],
            [window(**TWO, follows=False), window(completions=1)],
            id="an answer between two engines belongs to the next window",
        ),
        pytest.param(
            [line(0), line(10, engine="1")], [FIRST, window()], id="an idle engine logs nothing"
        ),
    ],
)
def test_the_lines_of_all_engines_become_windows(
    entries: list[Entry], expected: list[Window]
) -> None:
    assert list(windows(entries, 10.0)) == expected
