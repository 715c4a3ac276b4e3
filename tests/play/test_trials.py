import asyncio
from dataclasses import replace

import pytest
from clocks import on_own_clock, skip

from agenteval.errors import Cause, InfrastructureError, OutgrownError, UsageError
from agenteval.play.second_reader import SecondReader
from agenteval.sandbox.session import Session
from agenteval.testing import ScriptedModel, says, tool
from agenteval.trial.call import Ending, Outcome
from agenteval.trial.summary import summarize
from agenteval.trial.trial import Check, CodeTest, GoalCheck, HandshakeStep, Limits, Turn

A, B = "uv run scripts/mark.py a", "uv run scripts/mark.py b"


def reached(name: str, turn: int, *, in_order: bool = True) -> HandshakeStep:
    return HandshakeStep(name, reached=True, agent="", turn=turn, position=0, in_order=in_order)


async def test_a_trial_goes_on_until_the_model_stops_and_really_changed_its_world(play) -> None:
    (trial,) = await play(ScriptedModel(A, B, "pwd", says("Done.")))
    assert (
        [record.reply for record in trial.calls][:2],
        len(trial.turns),
        trial.ending,
        trial.outcome,
        (trial.goal, trial.goal_turn),
        trial.handshake,
    ) == (
        ["marked a\n", "marked b\n"],
        4,
        Ending.STOPPED,
        Outcome.COMPLETED,
        ((GoalCheck("b is marked", held=True, expected=1, found=1),), 1),
        (reached("a", turn=0), reached("b", turn=1)),
    )


async def test_who_undoes_the_work_has_not_completed_it_and_it_is_kept_when_the_goal_held(
    play,
) -> None:
    (trial,) = await play(ScriptedModel(B, B, says("All done.")))
    assert (trial.outcome, trial.reason, trial.goal_turn, summarize(trial).undone) == (
        Outcome.CLAIMED_DONE,
        "not met: b is marked (expected 1, found 2)",
        0,
        True,
    )


async def test_a_goal_that_another_call_must_not_touch_is_judged_at_the_end(play) -> None:
    only = Check("nothing else", "SELECT count(*) FROM mark WHERE name <> 'b'", 0)
    strict = replace(play.scenario, goal=(*play.scenario.goal, only))
    guesses = [f"uv run scripts/mark.py {name}" for name in ("b", "c", "d")]
    (trial,) = await play(ScriptedModel(*guesses, says("One of them is it.")), scenario=strict)
    assert (trial.outcome, trial.goal_turn, [check.held for check in trial.goal]) == (
        Outcome.STALLED,
        0,
        [True, False],
    )


async def test_a_step_that_comes_too_early_is_reached_and_out_of_order(play) -> None:
    not_yet = replace(play.scenario, goal=(Check("never", "SELECT 1", 0),))
    (trial,) = await play(ScriptedModel(B, A, B, says("Hm.")), scenario=not_yet)
    assert trial.handshake == (reached("a", turn=1), reached("b", turn=0, in_order=False))


async def test_a_denied_call_runs_nothing_and_the_model_reads_why(play) -> None:
    model = ScriptedModel(f"{A} | head -1", says("I see."))
    (trial,) = await play(model)
    (record,) = trial.calls
    assert (
        record.execution,
        record.verdict.findings[0].failure_class,
        model.heard[1][-1].content,
        trial.handshake[0].reached,
        trial.outcome,
    ) == (None, "pipe-to-filter", record.reply, False, Outcome.GAVE_UP)


OTHERS = ("ls .", "ls notes", "pwd", "ls w.db", "ls scripts")


@pytest.mark.parametrize(
    ("parts", "ending", "outcome"),
    [
        ((A, says("I found a note.")), Ending.STOPPED, Outcome.STALLED),
        ((A, says("All done.")), Ending.STOPPED, Outcome.CLAIMED_DONE),
        ((A, *OTHERS), Ending.TURNS, Outcome.OUT_OF_TURNS),
        ((B, *OTHERS), Ending.TURNS, Outcome.COMPLETED),
        (("pwd",) * 6, Ending.LOOPED, Outcome.LOOPED),
        ((B, *("pwd",) * 5), Ending.LOOPED, Outcome.COMPLETED),
    ],
)
async def test_a_trial_ends_in_one_of_these_ways_and_work_that_was_done_counts(
    play, parts, ending, outcome
) -> None:
    (trial,) = await play(ScriptedModel(*parts))
    goal_turn = 0 if outcome is Outcome.COMPLETED else None
    assert (trial.ending, trial.outcome, trial.goal_turn) == (ending, outcome, goal_turn)


class Falters(ScriptedModel):
    """After its script it never answers, while an hour goes by."""

    async def ask(self, messages, tools, *, seed) -> Turn:
        if len(self.heard) < 2:
            return await super().ask(messages, tools, seed=seed)
        skip(3600)
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")


def test_a_trial_that_runs_out_of_time_is_timed_out(play) -> None:
    slow = replace(play.scenario, limits=Limits(trial_seconds=3000.0))
    (trial,) = on_own_clock(play(Falters("pwd", "ls ."), scenario=slow))
    assert (trial.ending, trial.outcome, len(trial.calls)) == (Ending.TIME, Outcome.TIMED_OUT, 2)


def test_the_rest_of_a_turn_is_left_when_the_time_is_up(play, monkeypatch) -> None:
    async def an_hour(*_: object) -> str:
        skip(3600)
        return ""

    monkeypatch.setattr(SecondReader, "objection", an_hour)
    slow = replace(play.scenario, limits=Limits(trial_seconds=3000.0))
    model = ScriptedModel((B, "ls .", "pwd"), says("Done."))
    (trial,) = on_own_clock(play(model, scenario=slow))
    assert (trial.ending, len(trial.turns), len(trial.calls), trial.goal_turn) == (
        *(Ending.TIME, 1, 1),
        0,
    )


async def test_the_rest_of_a_turn_is_left_when_its_calls_are_a_loop(play) -> None:
    (trial,) = await play(ScriptedModel(("pwd",) * 300))
    assert (trial.ending, len(trial.turns), len(trial.calls)) == (Ending.LOOPED, 1, 5)


async def test_a_conversation_that_outgrows_the_context_ends_its_trial_and_counts(play) -> None:
    model = ScriptedModel("pwd", "ls .", OutgrownError("400: 5000 of 4096 tokens"), A, B)
    first, second = await play(model, trials=2, concurrency=1)
    assert (first.ending, first.outcome, len(first.calls), first.reason[:24]) == (
        *(Ending.CONTEXT, Outcome.OUT_OF_CONTEXT),
        *(2, "400: 5000 of 4096 tokens"),
    )
    assert second.outcome is Outcome.COMPLETED


async def test_a_trial_that_writes_without_end_is_stopped_at_its_tokens(play) -> None:
    short = replace(play.scenario, limits=Limits(completion_tokens=30))  # a scripted turn counts 20
    (trial,) = await play(ScriptedModel("pwd", "ls .", A, B), scenario=short)
    assert (trial.ending, len(trial.turns)) == (Ending.TOKENS, 2)


async def test_a_call_over_its_time_is_ended_and_the_trial_goes_on(play) -> None:
    (trial,) = await play(ScriptedModel("sleep 30", A, B))
    first = trial.calls[0]
    assert (first.execution.limit, first.reply, trial.outcome) == (
        "wall-time",
        "[The command was stopped: it ran longer than 1 s.]",
        Outcome.COMPLETED,
    )


async def test_several_calls_of_one_turn_are_answered_in_their_order(play) -> None:
    model = ScriptedModel((A, "ls nowhere", tool("read", path="notes/n.txt")), says("Hm."))
    await play(model)
    heard = [message.content for message in model.heard[1] if message.role == "tool"]
    assert [heard[0], "[exit code 2]" in heard[1], heard[2]] == ["marked a\n", True, "a note"]


async def test_the_read_tool_reads_what_its_rules_allow_by_the_names_that_harnesses_give(
    play,
) -> None:
    cases = [
        (tool("read", path="notes/n.txt"), True, "a note"),
        (tool("read", filePath="notes/n.txt"), True, "a note"),
        (tool("read", path="notes/none.txt"), True, "[exit code 1]"),
        (tool("read", path="/etc/passwd"), False, "Permission denied"),
        (tool("read", path="notes/../w.db"), False, "Permission denied"),
    ]
    (trial,) = await play(ScriptedModel(tuple(call for call, _, _ in cases), says("Hm.")))
    for record, (_, allowed, said) in zip(trial.calls, cases, strict=True):
        assert (record.verdict.allowed, said in record.reply) == (allowed, True)


async def test_a_file_that_is_too_long_is_read_in_parts_and_the_model_is_told(play) -> None:
    text = "".join(f"{number:04}\n" for number in range(1, 101))
    model = ScriptedModel(
        tool("write", path="notes/long", content=text),
        tool("read", path="notes/long"),
        tool("read", path="notes/long", offset=100),
        tool("read", path="notes/long", offset=21, limit=2),
        tool("write", path="notes/long", content="x" * 500),
        tool("read", path="notes/long"),
    )
    short = replace(play.scenario, tools=("read", "write"), limits=Limits(output_kept=103))
    (trial,) = await play(model, scenario=short)
    read = [record for record in trial.calls if record.call.name == "read"]
    assert [(record.reply, record.execution.cut) for record in read] == [
        (
            text[:100] + "\n[output cut here: it shows lines 1 to 20 of the file, which goes on]",
            True,
        ),
        ("0100\n", False),
        ("0021\n0022\n", False),
        ("x" * 103 + "\n[output cut here: line 1 of the file goes on]", True),
    ]


async def test_a_trial_whose_outputs_come_to_too_much_ends_and_keeps_no_more(
    play, monkeypatch
) -> None:
    monkeypatch.setattr("agenteval.play.tools.KEPT", 2_400)
    long = tool("write", path="notes/long", content="x" * 900)
    often = (tool("read", path="notes/long"),) * 4
    reading = replace(play.scenario, tools=("read", "write"))
    (trial,) = await play(ScriptedModel(long, often, A), scenario=reading)
    assert (trial.outcome, trial.ending) == (Outcome.OUT_OF_CONTEXT, Ending.CONTEXT)
    assert trial.reason.startswith("replies and outputs have filled the room of a trial; not met: ")
    read = [(len(one.execution.output), one.execution.cut) for one in trial.calls[1:]]
    assert (read[0], read[1][0] < 900, read[1][1], len(read)) == ((900, False), True, True, 2)
    assert "[output cut here" in trial.calls[-1].reply


async def test_globs_are_expanded_as_bash_does(play) -> None:
    (trial,) = await play(ScriptedModel("ls notes/*"))
    assert trial.calls[0].reply == "notes/n.txt\n"


async def test_a_server_that_breaks_makes_a_void_and_the_run_goes_on(play) -> None:
    model = ScriptedModel(A, InfrastructureError("500: cuda", Cause.SERVER_ERROR), says("Done."))
    trials = await play(model, trials=2, concurrency=1)
    assert [(one.outcome, one.reason, one.cause, len(one.calls)) for one in trials] == [
        (Outcome.VOID, "500: cuda", Cause.SERVER_ERROR, 1),
        (Outcome.CLAIMED_DONE, "not met: b is marked (expected 1, found 0)", None, 0),
    ]
    assert (play.watched.denied, play.watched.void) == ([False], [True, False])
    assert play.ended == [trial.seed for trial in trials]


async def test_what_only_the_user_can_mend_ends_the_run_and_keeps_what_was_played(play) -> None:
    model = ScriptedModel(A, B, says("Done."), "pwd", UsageError("401: no key"))
    with pytest.raises(UsageError, match="401: no key"):
        await play(model, trials=3, concurrency=1)
    assert play.outcomes() == [Outcome.COMPLETED, Outcome.VOID]


async def test_trials_share_nothing(play) -> None:
    model = ScriptedModel(A, says("Done."), "uv run scripts/mark.py c", B)
    trials = await play(model, trials=2, concurrency=1)
    assert [step.reached for trial in trials for step in trial.handshake] == [
        True,
        False,
        False,
        True,
    ]


PASSES = 'import json, sys; assert open("notes/new.txt").read() == json.loads(sys.argv[1])["word"]'


@pytest.mark.parametrize(
    ("content", "path", "outcome"),
    [
        ("tea", "notes/new.txt", Outcome.COMPLETED),
        ("tea", "/workspace/notes/new.txt", Outcome.COMPLETED),
        ("rice", "notes/new.txt", Outcome.STALLED),
        ("\ud800", "notes/new.txt", Outcome.STALLED),
        ("tea", "scripts/mark.py", Outcome.GAVE_UP),
        ("tea", "notes/n.txt/new.txt", Outcome.STALLED),
    ],
)
async def test_a_goal_with_a_test_is_reached_when_its_program_passes(
    play, content, path, outcome
) -> None:
    tested = replace(
        play.scenario,
        tools=("bash", "write"),
        tests=(CodeTest("the word is noted", PASSES),),
        variants=({"word": "tea"},),
    )
    write = tool("write", path=path, content=content)

    (trial,) = await play(ScriptedModel(B, write, says("Hm.")), scenario=tested)

    assert (trial.outcome, len(trial.calls)) == (outcome, 2)


async def test_a_written_file_is_answered_and_so_is_one_that_cannot_be(play) -> None:
    calls = [
        tool("write", path=path, content="one\ntwo\n")
        for path in ("notes/deep/new.txt", "notes/n.txt/x", "w.db")
    ]

    writing = replace(play.scenario, tools=("bash", "write"))
    (trial,) = await play(ScriptedModel(*calls), scenario=writing)

    assert [record.reply for record in trial.calls] == [
        "wrote 2 lines to notes/deep/new.txt",
        "notes/n.txt/x: Not a directory\n[exit code 1]",
        "Permission denied: the rules do not allow `w.db` here. Nothing was run.",
    ]


class Thinks(ScriptedModel):
    """Takes the time that a real model takes, so that a world is no more new when a call runs."""

    async def ask(self, messages, tools, *, seed) -> Turn:
        await asyncio.sleep(0.1)
        return await super().ask(messages, tools, seed=seed)


@pytest.mark.parametrize(
    ("parts", "most", "ends"),  # once less where so much time has passed that the files are settled
    [
        (("pwd", "ls .", "ls notes"), 1, (None, Outcome.STALLED)),  # at the end alone
        (("pwd", B, "pwd"), 2, (1, Outcome.COMPLETED)),
        (("pwd", B, "pwd", B), 2, (1, Outcome.STALLED)),
    ],
)
async def test_a_world_is_asked_when_something_was_done(
    play, monkeypatch, parts, most, ends
) -> None:
    asks, ask = [], Session.ask
    monkeypatch.setattr(Session, "ask", lambda *given: asks.append(given) or ask(*given))
    plain = replace(play.scenario, handshake=())
    (trial,) = await play(Thinks(*parts, says("It is over.")), scenario=plain)
    assert (1 <= len(asks) <= most, (trial.goal_turn, trial.outcome)) == (True, ends)


async def test_a_goal_that_holds_from_the_start_is_reached_at_the_end(play) -> None:
    idle = Check("nothing is marked", "SELECT count(*) FROM mark", 0)
    scenario = replace(play.scenario, goal=(idle,), handshake=())
    (trial,) = await play(Thinks("pwd", says("Done.")), scenario=scenario)
    assert (trial.outcome, trial.goal_turn) == (Outcome.COMPLETED, 1)
