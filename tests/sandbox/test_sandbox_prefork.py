"""A pre-forked script does what an executed one does; where it might not, it is executed."""

import pytest
from behaviours import BEHAVING, BEHAVIOURS, forked_is_executed, named, shown
from clocks import awake
from witness import WITNESS

from agenteval.sandbox.backends import AUTOMATIC
from agenteval.sandbox.maker import render
from agenteval.shell.gate import read_simple
from agenteval.trial.trial import Limits
from agenteval.workflows.stages import load_stages

STAGES = load_stages([])
SCENARIOS = [stage.scenario.name for stage in STAGES]
FIXTURES = {stage.scenario.fixture: stage for stage in reversed(STAGES)}


def dealt(names):
    """One backend each, by turns: which script is forked is for none of them another question."""
    return [(AUTOMATIC[at % len(AUTOMATIC)], name) for at, name in enumerate(names)]


ARGUMENTS = [[], ["--help"], ["-x", "a b", "ü", "\udcff", "", "$HOME", "*"]]


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
async def test_a_python_program_behaves_the_same(backend, forking, behaviour):
    await forked_is_executed(backend, forking, BEHAVING, [["python3", named(behaviour)]])


@pytest.mark.parametrize("behaviour", ["what is seen of itself", "its place", "help"])
async def test_a_python_program_is_given_the_same(backend, forking, behaviour):
    calls = [
        [*call, named(behaviour), *arguments]
        for call in (["python3"], ["uv", "run"])
        for arguments in ARGUMENTS
    ]
    await forked_is_executed(backend, forking, BEHAVING, calls)


def tried(stage, seed, *, wrong=False):
    """The solution of this variant; `wrong`: before each call, the same in several wrong ways."""
    for step in render(stage.scenario, seed).solution:
        if step.tool != "bash":
            continue
        argv = list(read_simple(step.arguments["command"]).argv)
        if wrong:
            yield [*argv, "--nosuch"]
            yield argv[:-1]
            yield [*argv[:-1], ""]
        yield argv


@pytest.mark.slow
@pytest.mark.parametrize(("backend_name", "fixture"), dealt(FIXTURES), indirect=["backend_name"])
async def test_every_shipped_script_gives_the_same_bytes(backend, forking, fixture):
    stage = FIXTURES[fixture]
    files = awake(stage.files(0))
    scripts = [path for path in files if path.endswith(".py")]
    wrong = [[], ["--help"], ["--nosuch"], ["nosuch"], ["x", "ü"]]
    calls = [["uv", "run", path, *arguments] for path in scripts for arguments in wrong]
    await forked_is_executed(backend, forking, files, [*calls, *tried(stage, 0, wrong=True)])
    assert scripts


@pytest.mark.slow
@pytest.mark.parametrize(("backend_name", "name"), dealt(SCENARIOS), indirect=["backend_name"])
async def test_every_solution_gives_the_same_bytes(backend, forking, name):
    stage = STAGES[SCENARIOS.index(name)]
    for seed in range(1, 1 + min(2, len(stage.scenario.variants))):
        await forked_is_executed(
            backend, forking, awake(stage.files(seed)), list(tried(stage, seed))
        )


@pytest.mark.parametrize(
    "call", [["python3"], ["python"], ["uv", "run"], ["uv", "run", "--script"]]
)
async def test_an_unchanged_script_of_the_fixture_is_forked(forking, call):
    async with forking.open(BEHAVING, Limits()) as sandbox:
        seen = [await sandbox.run([*call, "scripts/witness.py"]) for _ in range(2)]
    assert [done.output for done in seen] == ["forked\n"] * 2


UNSURE = {
    "it was changed": "printf '#\\n' >> scripts/witness.py",
    "it was changed and has its size": "sed -i s/forked/f0rked/ scripts/witness.py",
    "it is a link": "mv scripts/witness.py w; ln -s ../w scripts/witness.py",
    "a module beside it is called like one of ours": "echo > scripts/argparse.py",
    "a package beside it is called like one of ours": "mkdir scripts/json",
    "the user has a site": "mkdir -p .local/lib",
    "it is no file": "rm scripts/witness.py; mkdir scripts/witness.py",
}


@pytest.mark.parametrize("change", UNSURE.values(), ids=UNSURE)
async def test_a_script_that_an_exec_might_run_otherwise_is_executed(backend, forking, change):
    calls = [["sh", "-c", change], ["python3", "scripts/witness.py"]]
    async with forking.open(BEHAVING, Limits()) as sandbox:
        before = await sandbox.run(calls[1])
        await sandbox.run(calls[0])
        after = await sandbox.run(calls[1])
    executed, _ = await shown(backend, {"scripts/witness.py": WITNESS}, calls)
    assert (before.output, after.output, after.exit_code) == (
        "forked\n",
        executed[1][2],
        executed[1][1],
    )


async def test_what_was_written_later_is_no_script_of_the_fixture(forking):
    async with forking.open({}, Limits()) as sandbox:
        await sandbox.write("witness.py", WITNESS)
        seen = await sandbox.run(["python3", "witness.py"])
    assert seen.output == "executed\n"


async def test_nothing_stays_from_one_call_to_the_next(forking):
    code = (
        b"import argparse, json, os, random, sys\nprint(hasattr(json, 'mark'), random.random())\n"
        b"json.mark = 1; sys.path.append('x'); os.environ['MARK'] = '1'; os.chdir('/tmp')\n"
    )
    async with forking.open({"mark.py": code, "w/witness.py": WITNESS}, Limits()) as sandbox:
        marks = [(await sandbox.run(["python3", "mark.py"])).output.split() for _ in range(2)]
        last = await sandbox.run(["python3", "w/witness.py"])
    assert [mark[0] for mark in marks] == ["False", "False"]
    assert (marks[0][1] != marks[1][1], last.output) == (True, "forked\n")


async def test_words_that_no_program_can_be_given_are_refused_alike(backend, forking):
    calls = [["python3", "scripts/witness.py", word] for word in ("a\0b", "\ud800", "x" * 150_000)]
    await forked_is_executed(backend, forking, BEHAVING, calls)


# What an earlier call may leave so that a later one does something else: forked or not, the same.
POISONED = {
    "a start-up module in the workspace": "echo 'print(1)' | tee sitecustomize.py usercustomize.py",
    "a start-up module beside the script": "cp near.py scripts/sitecustomize.py; echo > scripts/x",
    "a module beside the script": "echo 'X = 1 + 1' > scripts/near.py",
    "a compiled module beside the script": (
        "echo 'X = 3' > near.py; python3 -c 'import py_compile as c; c.compile(\"near.py\", "
        'cfile="scripts/near.pyc")\'; rm scripts/near.py'
    ),
    "an unchecked compiled module": (
        "echo 'X = 4' > near.py; python3 -c 'import py_compile as c, importlib.util as u; "
        'c.compile("near.py", cfile=u.cache_from_source("scripts/near.py"), '
        "invalidation_mode=c.PycInvalidationMode.UNCHECKED_HASH)'"
    ),
    "a compiled script": "python3 -m compileall -q scripts",
    "a module of ours in the workspace": "echo 'print(1)' | tee json.py argparse.py re.py",
    "a compiled module of ours beside the script": (
        "echo 'print(1)' > json.py; python3 -c 'import py_compile as c; c.compile(\"json.py\", "
        'cfile="scripts/json.pyc")\'; rm json.py'
    ),
    "a settings file of Python": "echo 'home = /tmp' | tee pyvenv.cfg scripts/pyvenv.cfg",
    "a Python of its own": "printf '#!/bin/sh\\necho mine' > python3; chmod +x python3",
    "a folder that is a link": (
        "mv scripts /tmp/moved; ln -s /tmp/moved scripts; echo 'X = 50' > /tmp/moved/near.py"
    ),
    "a script that nobody may read": "chmod 0 scripts/reader.py",
    "a folder that nobody may list": "chmod 311 scripts",
    "lower limits for the runner": (
        "python3 -c 'import resource as r; r.prlimit(1, r.RLIMIT_NOFILE, (8, 8))'"
    ),
    "a lower priority for the runner": "renice -n 9 -p 1; chrt -i -p 0 1; taskset -p 1 1",
    "marks on the standard input": ("python3 -c 'import fcntl; fcntl.fcntl(0, 4, 2048 | 1024)'"),
    "files in every place": "echo x | tee /tmp/json.py /dev/shm/near.py; mkdir .config .cache",
}
READER = b"""
import fcntl, json, os, resource, sys
import near
print(near.X, near.__file__, json.__file__, sys.path, "sitecustomize" in sys.modules)
print([resource.getrlimit(n) for n in range(10)], os.nice(0), len(os.sched_getaffinity(0)))
print(fcntl.fcntl(0, fcntl.F_GETFL))
"""


@pytest.mark.slow
@pytest.mark.parametrize("poison", POISONED.values(), ids=POISONED)
async def test_what_an_earlier_call_left_has_the_same_effect(backend, forking, poison):
    files = {"scripts/reader.py": READER, "scripts/near.py": b"X = 1\n", "near.py": b"X = 9\n"}
    calls = [["sh", "-c", f"{poison}; true"], *[["python3", "scripts/reader.py"]] * 2]
    calls += [["chmod", "755", "scripts", "scripts/reader.py"]]
    before = [["python3", "scripts/reader.py"]]
    await forked_is_executed(backend, forking, files, [*before, *calls])
    await forked_is_executed(backend, forking, files, calls)
