"""A run read without its transcripts."""

from contextlib import closing
from dataclasses import replace

import pytest
from stored import stored

from agenteval.errors import UsageError
from agenteval.store.sql import SqlStore
from agenteval.store.summaries import INTERRUPTED
from agenteval.testing import denied, run, says, sub_agent, tool, trial
from agenteval.trial.call import Ending, Outcome
from agenteval.trial.summary import summarize, without
from agenteval.trial.trial import GoalCheck

LIST = "uv run notes.py list"
TRIALS = (
    trial(LIST, denied(f"{LIST} | head", "pipe-to-filter"), LIST, number=1),
    trial(
        (denied("ls"), LIST, denied("cd / && ls", "shell-chain")),
        (denied("ls"), tool("read", path="a")),
        denied("ls -a"),
        says("Shall I go on?"),
        number=2,
        handshake=[("one", True), ("two", False)],
        outcome=Outcome.GAVE_UP,
        goal=(GoalCheck("it is there", held=False, expected=1, found=1.5),),
        goal_turn=1,
    ),
    trial(says("Here it is."), LIST, denied("ls \udcff"), says("No."), LIST, number=3),
    trial(LIST, denied("ls"), number=4, ending=Ending.BROKEN, outcome=Outcome.VOID, reason="500"),
    trial(says("Nothing to do."), number=5),
    trial(
        denied("ls"),
        denied("ls"),
        number=6,
        scenario="another",
        agents=(
            sub_agent("worker", LIST, denied("ls"), says("No."), number=1),
            sub_agent("worker", LIST, number=2, parent=1, depth=2, turn=0, position=0),
            sub_agent("judge", number=3, reason="more than 2 agents", ending=Ending.REFUSED),
        ),
    ),
)


@pytest.fixture
def store(tmp_path):
    with closing(SqlStore(str(tmp_path / "runs.db"))) as opened:
        yield opened


def keep(store, run_id, *, ended=True):
    """A run of which all trials have ended, or the one with sub-agents has not."""
    stored(store.url, run(*TRIALS, run_id=run_id), in_flight=not ended)


def test_the_summaries_read_are_those_of_the_whole_run(store):
    keep(store, "other")
    keep(store, "r1")
    found, summaries = store.summarized("r1")
    whole = store.load("r1")
    assert (found, summaries) == (replace(whole, trials=()), tuple(map(summarize, whole.trials)))
    assert [sum(one.errors.values()) for one in summaries] == [2, 1, 4, 1, 1, 0]
    assert [dict(one.agents) for one in summaries] == [{"worker": (1, 3)}, {}, {}, {}, {}, {}]
    assert [dict(one.agent_errors) for one in summaries] == [{"bare-binary": 1}, *[{}] * 5]
    assert summaries[0].errors_of("bare-binary") == (2, 2)
    assert summaries[0].errors_of_anybody("bare-binary") == (3, 5)
    assert summaries[0].flawless().errors_of_anybody("bare-binary") == (0, 5)
    (left,) = without(summaries[:1], ["bare-binary"])
    assert left.errors_of_anybody("bare-binary") == (0, 5)


def test_sub_agents_come_back_as_they_were_apart_from_the_first_agent(store):
    keep(store, "r1")
    in_order = sorted(TRIALS, key=lambda one: (one.scenario, one.number))
    assert store.load("r1").trials == tuple(in_order)


def test_of_a_trial_in_flight_the_sub_agents_that_wrote_a_turn_are_kept(store):
    keep(store, "r1", ended=False)
    parts = store.load("r1").trials[0].agents
    assert [(part.label, part.depth, part.ending, len(part.calls)) for part in parts] == [
        ("worker/1", 0, Ending.BROKEN, 2),
        ("worker/2", 0, Ending.BROKEN, 1),
    ]


def test_trials_in_flight_are_void_in_both(store):
    keep(store, "r1", ended=False)
    _, found = store.summarized("r1")
    whole = store.load("r1").trials
    assert [(one.world, one.outcome, one.reason, one.cause) for one in found] == [
        ((one.scenario, one.number, one.seed), one.outcome, one.reason, one.cause) for one in whole
    ]
    assert (found[0].outcome, found[0].reason) == (Outcome.VOID, INTERRUPTED)


def test_an_unknown_run_has_no_summaries(store):
    with pytest.raises(UsageError, match=r"^no run 'x'"):
        store.summarized("x")
