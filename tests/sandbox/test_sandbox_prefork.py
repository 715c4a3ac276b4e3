"""A pre-forked script does what an executed one does; where it might not, it is executed."""

import pytest
from behaviours import BEHAVING, BEHAVIOURS, forked_is_executed, named, shown
from witness import WITNESS

from agenteval.cli.running import load_stages
from agenteval.core.prompt import render
from agenteval.core.scenario import Limits
from agenteval.core.shell import read_simple

STAGES = load_stages([])
SCENARIOS = [stage.scenario.name for stage in STAGES]

ARGUMENTS = [[], ["--help"], ["-x", "a b", "ü", "\udcff", "", "$HOME", "*"]]


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
            yield [*argv[:3], *argv[4:]]
            yield argv[:-1]
            yield [*argv[:-1], ""]
            yield [*argv[:4], "--help"]
        yield argv


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_shipped_script_gives_the_same_bytes(backend, forking, name):
    stage = STAGES[SCENARIOS.index(name)]
    files = dict(stage.files(0))
    scripts = [path for path in files if path.endswith(".py")]
    wrong = [[], ["--help"], ["-h"], ["--nosuch"], ["nosuch"], [""], ["--"], ["list"], ["x", "ü"]]
    calls = [["uv", "run", path, *arguments] for path in scripts for arguments in wrong]
    await forked_is_executed(backend, forking, files, [*calls, *tried(stage, 0, wrong=True)])
    assert scripts


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_solution_gives_the_same_bytes(backend, forking, name):
    stage = STAGES[SCENARIOS.index(name)]
    for seed in range(1, len(stage.scenario.variants)):
        await forked_is_executed(
            backend, forking, dict(stage.files(seed)), list(tried(stage, seed))
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
