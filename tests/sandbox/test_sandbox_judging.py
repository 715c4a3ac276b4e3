"""A scenario's own program: no code of the model's can pretend its end, or see what it knows."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest
from test_sandbox_asking import COSTLY, COUNT, WORLD

from agenteval.sandbox.maker import declared
from agenteval.trial.trial import Limits, Question

SECRET = "the-answer-is-4711"
MODULE = b"""
def double(number): return 2 * number
def grown(numbers): numbers.append(9); return len(numbers)
def fails(): raise KeyError('no such thing')
def odd(): return object()
def hangs():
    import time
    time.sleep(60)
def ends():
    import os
    os._exit(0)
def floods():
    import os
    while True: os.write(3, b'x' * 65536)
"""
HEAD = "from agenteval_test import Broken, Raised, call, call_in_place, known, run, select\n"
GOOD = {
    "a value": "assert call('m.py', 'double', known['n']) == 6",
    "by name": "assert call('m.py', 'double', number=4) == 8",
    "arguments that are changed": "assert call_in_place('m.py', 'grown', [1]) == (2, [[1, 9]])",
    "a program's output": "assert run('p.py', 'a b', given='x')[:2] == (3, \"['a b'] x\\n\")",
    "a query": (
        "before = [('INSERT INTO t VALUES (?)', [known['n']])]\n"
        "asked = lambda before: select('SELECT max(x) m FROM t', database='w.db', before=before)\n"
        "assert (asked(before), asked([])) == ((['m'], [[3]]), (['m'], [[None]]))"
    ),
    "the variables, as before": "import json, sys; assert json.loads(sys.argv[1]) == known",
    "a module of Python's own": "import statistics",
}
BAD = {
    "a wrong value": "assert call('m.py', 'double', 3) == 7",
    "an exception of the module": "call('m.py', 'fails')",
    "no plain value": "call('m.py', 'odd')",
    "no such function": "call('m.py', 'absent')",
    "no such module": "call('absent.py', 'double', 3)",
    "a module that ends its process": "call('m.py', 'ends')",
    "a module that floods": "call('m.py', 'floods')",
    "a query that is none": "select('DELETE', database='w.db')",
    "an exit": "raise SystemExit(0)",
    "an exit past Python": "import os; os._exit(0)",
    "a syntax error": "def",
    "a signal": "import os; os.kill(os.getpid(), 15)",
}
PROGRAM = b"import sys\nprint(sys.argv[1:], sys.stdin.read())\nsys.exit(3)\n"


@pytest.fixture
def files(world):
    return {"m.py": MODULE, "p.py": PROGRAM, "w.db": world}


@pytest.fixture(scope="module")
def world():
    import sqlite3  # noqa: PLC0415

    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (x)")
    content = connection.serialize()
    connection.close()
    return content


async def test_a_program_that_holds_comes_to_its_end(backend, files):
    async with backend.open(files, Limits()) as sandbox:
        ran = {how: await sandbox.judge(HEAD + text, '{"n": 3}') for how, text in GOOD.items()}
    assert {how: one.output for how, one in ran.items() if one.exit_code != 0} == {}


async def test_whatever_ends_before_its_end_does_not_hold(backend, files):
    async with backend.open(files, Limits()) as sandbox:
        ran = {how: await sandbox.judge(HEAD + text, '{"n": 3}') for how, text in BAD.items()}
    assert [how for how, one in ran.items() if one.exit_code == 0] == []


async def test_what_the_module_raised_is_there_to_be_judged(backend, files):
    text = HEAD + (
        "try:\n    call('m.py', 'fails')\nexcept Raised as error:\n"
        "    assert error.kinds[:2] == ['KeyError', 'LookupError'], error\n"
    )
    async with backend.open(files, Limits()) as sandbox:
        assert (await sandbox.judge(text, "{}")).exit_code == 0


async def test_a_module_that_hangs_ends_at_the_limit_of_a_call(backend, files):
    async with backend.open(files, Limits(call_seconds=1.0)) as sandbox:
        ran = await sandbox.judge(HEAD + "call('m.py', 'hangs')", "{}")
    assert (ran.exit_code, ran.limit) == (None, "wall-time")


LOOK = b"""
import glob, os, sys
def look(*_):
    seen = [repr(sys.argv), repr(dict(os.environ))]
    for path in glob.glob('/proc/[0-9]*/*') + glob.glob('/proc/[0-9]*/fd/*'):
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 'rb') as file:
                if path.endswith('/mem'):
                    for line in open(path[:-3] + 'maps'):
                        low, high = (int(end, 16) for end in line.split()[0].split('-'))
                        try:
                            file.seek(low)
                            seen.append(file.read(min(high - low, 1 << 23)).decode('latin-1'))
                        except (OSError, ValueError): pass
                else:
                    seen.append((file.read(1 << 20) or b'').decode('latin-1'))
        except OSError: pass
    text = ''.join(seen)
    text = text[::-1]  # so that what is looked for stands in no process that looks
    return [text.count('1174-si-rewsna-eht'), text.count('dne eht taht')]
MARK = ''.join(['that the ', 'end'])
if __name__ == '__main__': print(look())
"""
SEES = f"""
from agenteval_test import call, known, run
right = {SECRET!r}
assert known['secret'] == right
found = call('look.py', 'look')
assert found[0] == 0, found
assert found[1] > 0, found
ran = run('look.py')
assert ran.output.startswith('[0, '), ran
"""


async def test_no_process_of_the_models_sees_the_program_its_variables_or_the_questions(
    forking, world
):
    """Not while it runs, and not afterwards in a fork of the runner, which relayed them."""
    files = {"look.py": LOOK, "w.db": world}
    async with forking.open(files, Limits(call_seconds=60.0)) as sandbox:
        await sandbox.run(["python3", "look.py"])  # warm
        judged = await sandbox.judge(SEES, json.dumps({"secret": SECRET}))
        question = Question(f"SELECT '{SECRET}'")
        asked = await sandbox.ask("w.db", [question], declared(world))
        after = await sandbox.run(["python3", "look.py"])
    assert (judged.exit_code, asked.answers[0].first) == (0, SECRET), judged.output
    assert after.output.startswith("[0, "), after.output


async def test_seven_trials_make_their_turns_while_the_world_of_an_eighth_is_judged(backend):
    costly = COSTLY["one instr of a megabyte"]
    files, still = {"w.db": WORLD, "costly.db": costly}, []
    async with AsyncExitStack() as stack:
        eighth, *others = [
            await stack.enter_async_context(backend.open(files, Limits())) for _ in range(8)
        ]

        async def turn(world) -> None:
            await world.run(["true"])
            given = await world.ask("w.db", [COUNT], declared(WORLD))
            still.append((given.answers[0].first, judged.done()))

        async with asyncio.TaskGroup() as group:
            question = eighth.ask("costly.db", [Question("SELECT x FROM t")], declared(costly))
            judged = group.create_task(question)
            for world in others:
                group.create_task(turn(world))
    assert (still, "it took too much" in judged.result().broken) == ([(2, False)] * 7, True)
