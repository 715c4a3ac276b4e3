"""Every shipped scenario can be solved, and only by doing it."""

import itertools
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alone import holds
from suite import PROJECT, SCENARIOS

from agenteval.classes.catalogue import failure_classes
from agenteval.config.scenarios import load_fixture
from agenteval.sandbox.maker import render
from agenteval.trial.trial import Check, Scenario, Step

VARIANTS = [
    pytest.param(scenario, seed, id=f"{scenario.name}-{seed}")
    for scenario in SCENARIOS
    for seed in range(3)
]

ALONE = [  # sub-agents are started by the engine: `scenarios check` plays those that have some
    pytest.param(scenario, seed, id=f"{scenario.name}-{seed}")
    for scenario in SCENARIOS
    for seed in range(3)
    if not scenario.agents
]


def open_checks(database: Path, checks: tuple[Check, ...]) -> list[str]:
    with closing(sqlite3.connect(database)) as world:
        return [
            check.name
            for check in checks
            if (world.execute(check.query).fetchone() or [None])[0] != check.expect
        ]


def files(scenario: Scenario, seed: int):
    return load_fixture(scenario, seed, roots=[PROJECT])


def failing_tests(scenario: Scenario, seed: int, place: Path) -> list[str]:
    given = json.dumps(render(scenario, seed).variables)
    return [test.name for test in scenario.tests if not holds(test.source, given, place)]


def fault(step: Step, place: Path, play) -> str:
    """What goes wrong when a step of the solution is played: it should be nothing."""
    if step.tool == "read":
        return "" if (place / step.arguments["path"]).read_text(encoding="utf-8") else "empty"
    if step.tool == "write":
        (place / step.arguments["path"]).write_text(step.arguments["content"], encoding="utf-8")
        return ""
    done = play(step.arguments["command"])
    return "" if done.returncode == 0 and done.stdout and not done.stderr else str(done)


@pytest.mark.parametrize(("scenario", "seed"), ALONE)
def test_the_reference_solution_reaches_goal_and_handshake_with_its_last_step(
    scenario, seed, workspace, play
):
    prompt = render(scenario, seed)
    place = workspace(files(scenario, seed))
    database = place / scenario.database

    faults = [fault(step, place, play) for step in prompt.solution[:-1]]
    too_early = open_checks(database, prompt.goal) == []
    faults.append(fault(prompt.solution[-1], place, play))

    assert (list(filter(None, faults)), too_early) == ([], False)
    assert open_checks(database, prompt.goal + prompt.handshake) == []
    assert failing_tests(scenario, seed, place) == []


@pytest.mark.parametrize(("scenario", "seed"), VARIANTS)
def test_nothing_is_reached_before_anything_was_done(scenario, seed, workspace):
    prompt = render(scenario, seed)
    database = workspace(files(scenario, seed)) / scenario.database

    handshake = open_checks(database, prompt.handshake)

    assert open_checks(database, prompt.goal)
    assert handshake == [check.name for check in prompt.handshake]


# What a model or its template does by itself: no task is the cause.
HABITS = {"template-residue", "typographic-character", "self-written-script"}


def test_every_failure_class_that_has_a_cause_in_a_task_is_invited_by_a_scenario():
    invited = {name for scenario in SCENARIOS for name in scenario.invites}

    assert {each.id for each in failure_classes()} - invited == HABITS


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_what_solves_another_world_does_not_solve_this_one(scenario, workspace, play):
    prompt = render(scenario, 0)
    place = workspace(files(scenario, 0))
    another = len(scenario.variants) * 4

    for step in render(scenario, another).solution:
        if step.tool == "bash":
            play(step.arguments["command"])

    assert open_checks(place / scenario.database, prompt.goal)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_no_two_seeds_read_the_same(scenario):
    tasks = {render(scenario, seed).task for seed in range(24)}

    assert len(tasks) == 24


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_prompt_states_the_rules_and_names_every_script_that_the_solution_uses(scenario):
    prompt = render(scenario, 0)
    used = {
        word
        for step in prompt.solution
        if step.tool == "bash"
        for word in step.arguments["command"].split()
        if word.startswith("scripts/")
    }

    missing = [script for script in used if f"uv run {script}" not in prompt.system]

    assert (missing, "compared with an allow list" in prompt.system) == ([], True)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_each_script_in_the_prompt_exists_and_explains_itself(scenario, workspace, play):
    place = workspace(files(scenario, 0))
    words = render(scenario, 0).system.split()
    scripts = {after for word, after in itertools.pairwise(words) if word == "run"} - {"exactly"}
    scripts = {script for script in scripts if script.startswith("scripts/")}

    helps = {script: play(f"uv run {script} --help").stdout for script in scripts}

    assert [script for script in scripts if not (place / script).is_file()] == []
    assert [script for script, text in helps.items() if not text.startswith("usage: ")] == []


def test_the_same_seed_gives_the_same_bytes():
    again = [
        [files(scenario, seed) for scenario in SCENARIOS for seed in range(3)] for _ in range(2)
    ]

    assert again[0] == again[1]


(RALF,) = (scenario for scenario in SCENARIOS if scenario.name == "ralf/handshake")
ATTEMPT, STAGE = (render(RALF, 0).variables[name] for name in ("attempt", "stage"))
CLOSING = {
    "outcome": f"update-attempt-outcome --attempt {ATTEMPT} --outcome success --summary x",
    "status": f"update-stage-status {STAGE} awaiting_eval",
    "spawn": f"ralf_spawn step_evaluator --attempt {ATTEMPT}",
}


@pytest.mark.parametrize(
    ("order", "in_order", "attempt"),
    [
        (["outcome", "status", "spawn"], [1, 1, 1], "closed"),
        (["outcome", "outcome", "status", "spawn"], [1, 1, 1, 1], "closed"),
        (["status", "outcome", "spawn"], [0, 1, 0], "alive"),
        (["spawn", "outcome", "status", "spawn"], [0, 1, 1, 1], "closed"),
        (["spawn"], [0], "alive"),
    ],
)
def test_closing_calls_are_recorded_as_in_order_or_not(order, in_order, attempt, workspace, play):
    place = workspace(files(RALF, 0))

    for name in order:
        play(f"uv run scripts/ralf.py {CLOSING[name]}")

    with closing(sqlite3.connect(place / RALF.database)) as world:
        marks = [mark for (mark,) in world.execute("SELECT in_order FROM closing_calls")]
        status = world.execute("SELECT status FROM attempts WHERE id = ?", [ATTEMPT]).fetchone()[0]
    assert (marks, status) == (in_order, attempt)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            "ralf.py ralf_spawn step_evaluator --attempt 9",
            f"no attempt 9. Known: 401, {ATTEMPT - 1}, {ATTEMPT}",
        ),
        ("ralf.py ralf_spawn step_evaluator --attempt 401", "attempt 401 is closed already"),
        (f"ralf.py ralf_spawn nobody --attempt {ATTEMPT}", "invalid choice: 'nobody'"),
        (f"ralf.py update-stage-status {STAGE} passed", "invalid choice: 'passed'"),
        ("evaluate.py pass --attempt 401", "required: --feedback"),
        ("evaluate.py maybe --attempt 401 --feedback x", "invalid choice: 'maybe'"),
        ("evaluate.py pass --attempt 401 --feedback x", "stage 86 is passed: it waits for no"),
        ("fetch_context.py --document 77", "no document 77"),
        ("fetch_context.py", "one of the arguments --attempt --document is required"),
        (f"context_cache.py --command get --attempt {ATTEMPT}", "get needs --key"),
        (f"context_cache.py --command set --attempt {ATTEMPT} --key a", "set needs it"),
        (f"context_cache.py --command get --attempt {ATTEMPT} --key a", "nothing kept under 'a'"),
        ("db_query.py --sql 'SELECT colour'", "no such column: colour"),
        ("db_query.py --sql 'DELETE FROM attempts'", "readonly database"),
        ("db_query.py --tables --command search-videos", "unrecognized arguments"),
        ("embedding_search.py", "required: --query"),
    ],
)
def test_a_script_says_what_was_wrong_with_a_call(command, says, workspace, play):
    workspace(files(RALF, 0))

    done = play(f"uv run scripts/{command}")

    assert (done.returncode > 0, says in done.stderr) == (True, True), done.stderr


READING = {scenario.fixture: scenario for scenario in SCENARIOS}
WRITING = ["VACUUM INTO 'scripts/sqlite3.py'", "ATTACH 'scripts/sqlite3.py' AS other"]


@pytest.mark.parametrize("fixture", ["coding", "data", "ralf"])
@pytest.mark.parametrize("sql", WRITING)
def test_what_says_that_it_reads_only_writes_no_other_file(fixture, sql, workspace, play):
    place = workspace(files(READING[fixture], 0))
    before = sorted(place.rglob("*"))

    done = play(f'uv run scripts/db_query.py --sql "{sql}"')
    after = play("uv run scripts/db_query.py --tables", warm=False)  # imports what lies there

    assert (done.returncode, "authoriz" in done.stderr) == (1, True), done
    assert (sorted(place.rglob("*")), after.returncode) == (before, 0)


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("why does the evaporator ice over", 1),
        ("defrosting", 1),
        ("battery in dark winter", 4),
        ("frost heater bypass of ventilation", 6),
        ("bread", 9),
    ],
)
def test_the_search_finds_the_nearest_document(query, best, workspace, play):
    workspace(files(RALF, 0))

    found = play(f"uv run scripts/embedding_search.py --query '{query}' --limit 1").stdout

    assert f"document {best}:" in found
