"""What nobody foresaw within a trial: it is one trial's, with its traceback."""

import asyncio
from dataclasses import replace

import pytest

from agenteval.errors import Cause, UsageError
from agenteval.testing import ScriptedModel, says
from agenteval.trial.call import Outcome

A, B = "uv run scripts/mark.py a", "uv run scripts/mark.py b"


async def test_a_defect_makes_one_trial_void_and_the_run_goes_on(play) -> None:
    model = ScriptedModel(A, KeyError("\ud83d"), A, B)
    trials = await play(model, trials=2, concurrency=1)
    first = trials[0]
    assert [(one.outcome, one.cause, len(one.calls)) for one in trials] == [
        (Outcome.VOID, Cause.AGENTEVAL, 1),
        (Outcome.COMPLETED, None, 2),
    ]
    assert (first.reason.partition("\n")[0], "in _play" in first.reason) == (
        r"KeyError: '\ud83d'",
        True,
    )
    assert play.watched.void == [True, False]


async def test_such_a_trial_counts_as_played_when_the_run_is_gone_on_with(play) -> None:
    await play(ScriptedModel(KeyError("x"), A, B), trials=2, concurrency=1)
    play.store.set_aside("r", voids=False)
    assert play.store.played("r") == {("marks", 1), ("marks", 2)}


@pytest.mark.parametrize(
    "error", [UsageError("world.sql: makes no database"), ValueError("ask.a: has no answer")]
)
async def test_a_world_that_cannot_be_made_for_one_seed_costs_one_trial(play, error) -> None:
    whole, seeds = play.files, []

    def files(seed: int):
        seeds.append(seed)
        if len(seeds) == 1:
            raise error
        return whole(seed)

    play.files = files
    trials = await play(ScriptedModel(A, B), trials=2, concurrency=1)
    assert [(one.outcome, one.cause) for one in trials] == [
        (Outcome.VOID, Cause.SCENARIO),
        (Outcome.COMPLETED, None),
    ]
    assert trials[0].reason == f"scenario 'marks', seed {seeds[0]}: {error}"


async def test_an_ask_without_an_answer_costs_its_trials_and_no_run(play) -> None:
    asking = replace(play.scenario, asks={"first": "SELECT 1 WHERE 0"})
    (trial,) = await play(ScriptedModel(), scenario=asking)
    assert (trial.cause, "has no answer to" in trial.reason) == (Cause.SCENARIO, True)


async def test_a_template_of_the_scenario_that_fails_within_the_trial_is_its_slip(play) -> None:
    broken = replace(play.scenario, goal=(replace(play.scenario.goal[0], query="{{ no_such }}"),))
    (trial,) = await play(ScriptedModel(A), scenario=broken)
    assert (trial.cause, "'no_such' is undefined" in trial.reason) == (Cause.SCENARIO, True)


async def test_a_row_that_cannot_be_stored_costs_its_trial(play) -> None:
    model = ScriptedModel(A, says("x"), A, B)
    kept = play.store.recorder

    def recorder(run, digests):
        made = kept(run, digests)
        return _Failing(made)

    play.store.recorder = recorder
    trials = await play(model, trials=2, concurrency=1)
    assert [one.cause for one in trials] == [Cause.AGENTEVAL, None]


class _Failing:
    """A recorder whose first end of a trial fails."""

    def __init__(self, real) -> None:
        self.real, self.failed = real, False

    def __getattr__(self, name):
        return getattr(self.real, name)

    def finish(self, key, trial) -> None:
        if not self.failed:
            self.failed = True
            raise OverflowError("Python int too large to convert to SQLite INTEGER")
        self.real.finish(key, trial)


async def test_a_trial_that_is_cancelled_is_no_defect(play) -> None:
    class Cancelled:
        async def ask(self, messages, tools, *, seed):
            raise asyncio.CancelledError

    (trial,) = await play(Cancelled())
    assert trial.cause is Cause.INTERRUPTED
