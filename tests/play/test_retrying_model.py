"""How long a trial may wait for its model, and when it asks again."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest
from clocks import in_no_time

from agenteval.errors import Cause, InfrastructureError, UnservedError
from agenteval.play.trial import RetryingModel
from agenteval.testing import ScriptedModel, says, trial
from agenteval.trial.call import Ending, Outcome
from agenteval.trial.trial import Turn, Usage

A, B = "uv run scripts/mark.py a", "uv run scripts/mark.py b"
REFUSED = UnservedError("refused", Cause.UNREACHABLE)
BUSY = UnservedError("503", Cause.BUSY, after=0.3)
BROKEN = InfrastructureError("500: cuda", Cause.SERVER_ERROR)


@dataclass
class Slow:
    """Waits before each turn, which then says how long it took and how much it wrote."""

    waits: float
    tokens: int
    times: float = 1.0
    asked: int = 0

    async def ask(self, messages, tools, *, seed) -> Turn:
        self.asked += 1
        await asyncio.sleep(self.waits)
        turn = trial("pwd").turns[0]
        return replace(turn, usage=Usage(0, self.tokens), seconds=self.waits * self.times)


async def asked(model, *, pauses=(0.0, 0.0), times: int = 1) -> RetryingModel:
    asking = RetryingModel(model, 1.0, pauses=pauses)
    for _ in range(times):
        await asking.ask([], [], seed=1)
    return asking


@pytest.mark.parametrize(("failures", "retries"), [((), 0), ((REFUSED,), 1), ((REFUSED, BUSY), 2)])
async def test_what_the_server_did_not_take_is_asked_again(failures, retries) -> None:
    asking = await asked(ScriptedModel(*failures, "pwd"))
    assert asking.retries == retries


@pytest.mark.parametrize(
    ("failures", "said", "asks"),
    [
        ((REFUSED,) * 3, "refused (asked again 2 times in this trial)", 3),
        ((BROKEN,), "500: cuda", 1),
        ((REFUSED, BROKEN), "500: cuda (asked again 1 times in this trial)", 2),
    ],
)
async def test_a_reply_that_was_begun_is_not_asked_for_again_and_patience_ends(
    failures, said, asks
) -> None:
    model = ScriptedModel(*failures, "pwd")
    with pytest.raises(InfrastructureError) as raised:
        await asked(model)
    assert (str(raised.value), raised.value.cause, len(model.heard)) == (
        said,
        failures[-1].cause,
        asks,
    )


def test_a_server_that_says_for_how_long_is_left_alone_for_so_long() -> None:
    async def waited() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asked(ScriptedModel(BUSY, "pwd"))
        return loop.time() - began

    assert in_no_time(waited()) == pytest.approx(0.3)


def test_a_trial_does_not_pay_for_the_pauses() -> None:
    """Its second is over after the pauses, and the answer comes all the same."""
    asking = RetryingModel(ScriptedModel(*(BUSY,) * 4, "pwd"), 1.0, pauses=(0.0,) * 4)
    turn = in_no_time(asking.ask([], [], seed=1))
    assert turn.calls[0].command == "pwd"


async def made_in_a_second(model: Slow) -> int:
    """How many turns of 0.3 s a trial of one second gets."""
    asking = RetryingModel(model, 1.0)
    with suppress(TimeoutError):
        while model.asked < 9:
            await asking.ask([], [], seed=1)
    return model.asked - 1


def test_a_slow_server_gets_more_time() -> None:
    """Both wait as long; the second one says that its turns took a hundred times of that."""
    fast, slow = Slow(0.3, 400), Slow(0.3, 400, times=100.0)
    assert in_no_time(made_in_a_second(fast)) == 3
    assert in_no_time(made_in_a_second(slow)) > 4


@dataclass
class Measured:
    """Knows from other trials how slow the server is."""

    times: float

    def stretch(self) -> float:
        return self.times


def test_what_other_trials_saw_of_a_slow_server_counts_from_the_first_request() -> None:
    asking = RetryingModel(Slow(0.5, 10), 0.2, pace=Measured(4.0))
    in_no_time(asking.ask([], [], seed=1))
    assert asking.stretched == 4.0


MISSED = "not met: b is marked (expected 1, found 0)"


async def test_how_much_more_time_a_trial_was_given_is_stored(play) -> None:
    (done,) = await play(Slow(0.01, 400, times=2000.0))
    assert (done.stretched, play.store.load("r").trials[0].stretched) == (2.0, 2.0)


async def test_the_retries_of_a_trial_are_stored_and_no_tool_ran_twice(play) -> None:
    (done,) = await play(ScriptedModel(A, REFUSED, B))
    assert (done.outcome, done.retries, [record.reply for record in done.calls]) == (
        Outcome.COMPLETED,
        1,
        ["marked a\n", "marked b\n"],
    )


@pytest.mark.parametrize(
    ("parts", "often"), [(("pwd",) * 6, "5 times"), (("pwd", "false") * 4, "4 times")]
)
async def test_a_loop_is_stored_with_its_round(play, parts, often) -> None:
    longer = replace(play.scenario, max_turns=20)
    (done,) = await play(ScriptedModel(*parts), scenario=longer)
    calls = "; then ".join(f'bash {{"command": "{part}"}}' for part in dict.fromkeys(parts))
    assert (done.outcome, done.reason) == (
        Outcome.LOOPED,
        f"{often} the same, with the same answers: {calls}; {MISSED}",
    )


async def test_words_without_end_are_a_loop(play) -> None:
    class Babbles(ScriptedModel):
        async def ask(self, messages, tools, *, seed) -> Turn:
            turn = await super().ask(messages, tools, seed=seed)
            return replace(turn, repeats="I will wait. ")

    (done,) = await play(Babbles(says("I will wait. I will wait. ")))
    assert (done.ending, done.reason, done.turns[0].repeats) == (
        Ending.LOOPED,
        f"wrote again and again: I will wait. ; {MISSED}",
        "I will wait. ",
    )
