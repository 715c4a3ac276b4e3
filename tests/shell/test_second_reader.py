"""The second reader: bashlex agrees with the gate, objects, fails, hangs and is started again."""

import asyncio
import io
import json
import os
import signal

import pytest
from test_gate import ACCEPTED
from test_leaves import READ

from agenteval.play import second_reader_child
from agenteval.play.second_reader import SecondReader, _in_other_words
from agenteval.policy.rules import run_of_text
from agenteval.shell.leaves import Leaves, read_leaves
from agenteval.trial.call import BashRun

HANGS = "echo a'${'b"


def read(text, *commands):
    """What is to run, as if the gate had read these commands in it."""
    return BashRun(text, ("bash", "-c", text), tuple(map(tuple, commands)))


async def test_bashlex_agrees_with_the_gate_on_all_it_accepts():
    async with SecondReader(5) as reader:
        objections = [await reader.objection(read(text, argv)) for text, argv in ACCEPTED]
    assert set(objections) == {""}
    assert reader.counts["agreed"] >= len(ACCEPTED) - 1


async def test_bashlex_agrees_with_the_splitter_or_can_not_read():
    async with SecondReader(5) as reader:
        for text, _, _ in READ:
            leaves = read_leaves(text)
            assert isinstance(leaves, Leaves)
            assert await reader.objection(run_of_text(text, leaves)) == ""
    assert reader.counts["agreed"] >= len(READ) - 4


async def test_another_reading_is_an_objection_with_both_readings():
    async with SecondReader(5) as reader:
        objection = await reader.objection(read("ls a; rm b", ["ls", "a"]))
    assert objection == ('the gate reads [["ls", "a"]]; bashlex reads [["ls", "a"], ["rm", "b"]]')
    assert +reader.counts == {"objected": 1}


@pytest.mark.parametrize(
    "text",
    [
        "echo $(ls a\nls b)",
        "echo \"$(ls a # (\n  ls 'b\nc'\n)\" x",
        "echo $(\nls a\nls b\n)",
        'echo $(ls a && \nls b; (ls c\nls "d\ne"))\nls f',
        "echo $(ls \\\na b\\ c)",
        'echo $(ls "it\'s\n# d"\nls \\))',
        "(cat <<E\nx $ y\nE\n)",
    ],
)
async def test_its_known_faults_are_counted_apart_and_never_deny(text):
    leaves = read_leaves(text)
    assert isinstance(leaves, Leaves)
    async with SecondReader(5) as reader:
        assert await reader.objection(run_of_text(text, leaves)) == ""
    assert reader.counts["agreed"] + reader.counts["known faults"] == 1
    assert reader.counts["known faults"] or "&&" in text


async def test_another_reading_in_text_of_that_kind_is_still_an_objection():
    assert _in_other_words("(cat <<E\n$(rm b)\nE\n)") == "(cat <<E\n$(rm b)\nE\n)"
    async with SecondReader(5) as reader:
        for text in ("echo $(ls a\nrm b)", "(cat <<E\nx\nE\nrm b)", "(cat <<E\n$(rm b)\nE\n) ls"):
            await reader.objection(read(text, ["ls", "a"]))
    assert reader.counts["agreed"] + reader.counts["known faults"] == 0
    assert reader.counts["objected"] >= 2


async def test_text_that_bashlex_can_not_read_is_counted_and_not_obeyed():
    async with SecondReader(5) as reader:
        assert await reader.objection(read("cat <<'E'\nx\nE", ["cat"])) == ""
    assert reader.counts["failed"] == 1


async def test_a_hang_is_killed_while_other_work_goes_on_and_the_next_answer_is_right():
    async with SecondReader(0.3) as reader:
        await reader.objection(read("ls", ["ls"]))
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        async with asyncio.TaskGroup() as group:
            ticking = group.create_task(tick())
            assert await reader.objection(read(HANGS, ["echo"])) == ""
            ticking.cancel()
        assert ticks >= 5
        assert await reader.objection(read("ls b", ["rm", "b"])) != ""
    assert +reader.counts == {"agreed": 1, "objected": 1, "timed out": 1}


async def test_a_reader_that_dies_is_started_again():
    async with SecondReader(5) as reader:
        await reader.objection(read("ls", ["ls"]))
        os.kill(reader._process.pid, signal.SIGKILL)
        assert await reader.objection(read("ls b", ["ls", "b"])) == ""
        assert await reader.objection(read("ls b", ["ls", "b"])) == ""
    assert (reader.counts["agreed"], reader.counts["failed"]) == (2, 1)


async def test_what_was_read_is_not_asked_again_and_each_reading_is_held_against_it():
    async with SecondReader(5) as reader:
        await reader.objection(read("ls a", ["ls", "a"]))
        await reader.stop()
        assert await reader.objection(read("ls a", ["ls", "a"])) == ""
        assert await reader.objection(read("ls a", ["ls", "b"])) != ""
        assert reader._process is None
        await reader.objection(read("ls b", ["ls", "b"]))
        assert reader._process is not None
    assert +reader.counts == {"agreed": 3, "objected": 1}


async def test_a_cancelled_question_does_not_answer_the_next_one():
    async with SecondReader(5) as reader:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await reader.objection(read(HANGS, ["echo"]))
        assert await reader.objection(read("ls", ["ls"])) == ""
    assert reader.counts["agreed"] == 1


async def test_questions_asked_at_once_each_get_their_own_answer():
    async with SecondReader(5) as reader, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(reader.objection(read(f"ls {n}", ["ls", str(n % 3)])))
            for n in range(9)
        ]
    assert [bool(task.result()) for task in tasks] == [n != n % 3 for n in range(9)]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a | b 'c d'", {"commands": [["a"], ["b", "c d"]]}),
        ('a "x $(b "c)") y"', {"commands": [["a", 'x $(b "c)") y'], ["b", "c)"]]}),
        ('a \\"z\\q "\\q\\$\\"" \\\nw', {"commands": [["a", '"zq', '\\q$"', "w"]]}),
        ("a $(b 'c)' \\) )", {"commands": [["a", "$(b 'c)' \\) )"], ["b", "c)", ")"]]}),
        ("perl -e'a `x` b'", {"commands": [["perl", "-ea `x` b"]]}),
        ("A=1 > f", {"commands": []}),
        ("", {"failed": "AttributeError: 'NoneType' object has no attribute 'kind'"}),
    ],
)  # fmt: skip
def test_the_child_answers_each_request_by_a_line(text: str, answer: dict[str, object]):
    answers = io.BytesIO()
    second_reader_child.main(io.BytesIO(json.dumps(text).encode()), answers)
    ready, reply = map(json.loads, answers.getvalue().splitlines())
    assert ready == {}
    assert {name: sorted(v) if name == "commands" else v for name, v in reply.items()} == answer
