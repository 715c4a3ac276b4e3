"""How slow a server is taken to be, before it has ended its first reply."""

from types import SimpleNamespace

import pytest

from agenteval.models.stream import ServerPace
from agenteval.testing import trial
from agenteval.trial.tally import LONGEST

WORD = b'data: {"choices": [{"index": 0, "delta": {"content": "a "}}]}\n\n'
TURN = trial("pwd").turns[0]  # 20 tokens in a second


@pytest.mark.parametrize(
    ("pieces", "ago", "stretch"),
    [
        (0, 100.0, 1.0),  # it may be waiting in line
        (190, 100.0, 1.0),  # too few to tell
        (400, 1.0, 1.0),
        (400, 20.0, 2.0),
        (400, 10_000.0, LONGEST),
    ],
)
def test_a_reply_under_way_tells_how_slow_the_server_is(monkeypatch, pieces, ago, stretch) -> None:
    monkeypatch.setattr(
        "agenteval.models.stream.time", SimpleNamespace(perf_counter=lambda: 20_000)
    )
    pace = ServerPace()
    with pace.reading(20_000 - ago) as reader:
        reader.feed(WORD * pieces, 0.0)
        under_way = pace.stretch()
    assert (round(under_way, 1), pace.stretch()) == (stretch, 1.0)


def test_the_replies_of_all_trials_tell_it_together() -> None:
    pace = ServerPace()
    for _ in range(10):
        pace.add(TURN)
    assert pace.stretch() == 2.0
