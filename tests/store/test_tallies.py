"""What SQL adds up of a stored run is what its whole trials add up to."""

from dataclasses import replace

import pytest
from stored import stored

from agenteval.store import read
from agenteval.store.search import tallied
from agenteval.store.sql import opened
from agenteval.store.summaries import summaries
from agenteval.testing import denied, failing, run, says, sub_agent, tool, trial
from agenteval.trial.call import Blame, Ending, MalformedCall, Outcome, Repair
from agenteval.trial.tally import Tallies
from agenteval.trial.trial import Timing, Usage

BROKEN = MalformedCall("broken-json", Blame.MODEL, "{", "why", 0)
LOST = MalformedCall("call-in-text", Blame.PARSER, "<tool_call>", "why")


def _odd_turns(made):
    first, second, *rest = made.turns
    first = replace(
        first,
        malformed=(BROKEN,),
        repairs=(Repair(0, "arguments", "{", "{}"),),
        usage=Usage(200, 30, 20, 50),
        timing=Timing(0.4, 5, 0.1, 0.2, 0.3, 0.4),
    )
    second = replace(second, malformed=(LOST, LOST), timing=Timing(0.5, 1), seconds=0.0)
    return replace(made, turns=(first, second, *rest))


def _objected(made):
    first, *rest = made.calls
    return replace(made, calls=(replace(first, objection="another reading"), *rest))


TRIALS = (
    _objected(trial("uv run a.py", failing("uv run b.py"), failing("uv run c.py", limit="memory"))),
    _odd_turns(trial(("uv run a.py", denied("ls")), says("No."), "uv run b.py", number=2)),
    trial(tool("write", amount=float("nan"), size=float("inf")), number=3),
    trial(
        failing("uv run a.py", None),
        failing("uv run b.py", None, limit="time"),
        denied("ls"),
        number=4,
        agents=(sub_agent("worker", "uv run a.py", denied("ls"), failing("x", limit="time")),),
    ),
    trial(denied("ls"), "uv run a.py", number=5, ending=Ending.BROKEN, outcome=Outcome.VOID),
    trial(denied("ls"), "uv run a.py", number=6),
)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    server = request.getfixturevalue("postgres")
    return server.url(server.new())


@pytest.mark.parametrize("in_flight", [False, True])
def test_sql_and_whole_trials_say_the_same(place, in_flight):
    trials = TRIALS if not place.startswith("postgresql") else (*TRIALS[:2], *TRIALS[3:])
    stored(place, run(*trials), run(run_id="empty"), in_flight=in_flight)
    with opened(place) as query:
        whole = read.load(query, "r1", where="here").trials
        said = tallied(query, "r1")
        assert said == Tallies.of(whole)
        assert [one.void for one in said.trials] == [one.void for one in summaries(query, "r1")]
        assert tallied(query, "empty") is None


def test_the_figures_that_are_added_up(tmp_path):
    with opened(stored(str(tmp_path / "runs.db"), run(*TRIALS))) as query:
        said = tallied(query, "r1")
    first, second, odd, fourth, *_ = said.trials
    assert (first.ran, first.failed, first.limits, first.objections) == (3, 1, {"memory": 1}, 1)
    assert (second.written, second.repairs, len(second.malformed)) == (3, 1, 3)
    assert (odd.written, odd.denied) == (1, 0)
    assert (fourth.ran, fourth.failed, fourth.limits, fourth.useful) == (2, 1, {"time": 1}, 4)
    assert said.served.gap_median is not None


def test_transcripts_come_in_the_order_that_is_asked_for_and_only_those(tmp_path):
    with opened(stored(str(tmp_path / "runs.db"), run(*TRIALS))) as query:
        lean = read.load(query, "r1", where="here", raw=False).trials
        whole = {one.number: one for one in lean}
        worlds = [(one.scenario, one.number, one.seed) for one in (whole[4], whole[2])]
        found = list(read.transcripts(query, "r1", [*worlds, ("gone", 1, 1)]))
    assert found == [whole[4], whole[2]]
