"""What the loader takes, and the one line it says about everything else."""

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from agenteval.config.scenarios import load_fixture, load_scenarios
from agenteval.errors import UsageError
from agenteval.prompt.prompt import VARIANTS, Setting
from agenteval.sandbox.maker import render, variables
from agenteval.trial.trial import Check, CodeTest, Limits, Scenario, Step

GOOD = """
title = "Note something"
policy = "demo"
fixture = "notes"
tools = ["bash"]
database = "data/notes.db"
max_turns = 7
invites = ["pipe-to-filter"]

[limits]
call_seconds = 5

[[variant]]
word = "tea"
[[variant]]
word = "rice"

[[goal]]
name = "noted"
query = "SELECT word FROM notes WHERE word = '{{ word }}'"
expect = "{{ word }}"

[[solution]]
tool = "bash"
arguments = { command = "uv run scripts/note.py {{ word }}", limit = 3 }
"""
INSTRUCTIONS = "# System\n\nUse the script.\n\n{{ rules }}\n\n# Task\n\nNote {{ word }}.\n"
WORLD = "CREATE TABLE notes (word TEXT); INSERT INTO notes VALUES ('old {{ word }}');"


def write(project: Path, name: str, toml: str = GOOD, instructions: str = INSTRUCTIONS) -> Path:
    return put(project / "scenarios" / name, toml, instructions)


def put(folder: Path, toml: str = GOOD, instructions: str = INSTRUCTIONS) -> Path:
    folder.mkdir(parents=True)
    (folder / "scenario.toml").write_text(toml, encoding="utf-8")
    (folder / "instructions.md").write_text(instructions, encoding="utf-8")
    return folder


def projects(places: Iterable[Path]) -> list[Path]:
    """The roots of which these are the scenarios/."""
    return [place.parent for place in places]


def names(targets: list[str], *places: Path) -> list[str]:
    return [scenario.name for scenario in load_scenarios(targets, roots=projects(places))]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("tea", "ralf/handshake", "ralf/evaluate"):
        write(tmp_path, name)
    return tmp_path / "scenarios"


def test_a_scenario_file_becomes_a_scenario(tmp_path):
    write(tmp_path, "tea")

    assert load_scenarios(["tea"], roots=[tmp_path]) == (
        Scenario(
            name="tea",
            title="Note something",
            policy="demo",
            fixture="notes",
            instructions=INSTRUCTIONS,
            tools=("bash",),
            database="data/notes.db",
            goal=(
                Check("noted", "SELECT word FROM notes WHERE word = '{{ word }}'", "{{ word }}"),
            ),
            solution=(Step("bash", {"command": "uv run scripts/note.py {{ word }}", "limit": 3}),),
            invites=("pipe-to-filter",),
            variants=({"word": "tea"}, {"word": "rice"}),
            max_turns=7,
            limits=Limits(call_seconds=5),
        ),
    )


def test_the_seed_chooses_the_variant_that_fills_every_text(tmp_path):
    write(tmp_path, "tea")
    (scenario,) = load_scenarios([], roots=[tmp_path])

    prompt = render(scenario, 3)

    assert prompt.system.startswith("Use the script.\n\n## Rules for tool calls")
    assert (prompt.task, prompt.goal, prompt.solution) == (
        "Note rice.",
        (Check("noted", "SELECT word FROM notes WHERE word = 'rice'", "rice"),),
        (Step("bash", {"command": "uv run scripts/note.py rice", "limit": 3}),),
    )


def test_the_rules_speak_of_the_tools_that_there_are(tmp_path):
    write(tmp_path, "tea")
    write(tmp_path, "rice", GOOD.replace('["bash"]', '["bash", "read"]'))

    setting = Setting(rules=VARIANTS["all+tools"])
    scenarios = load_scenarios([], roots=[tmp_path])
    rice, tea = (render(scenario, 0, setting).system for scenario in scenarios)

    assert ("read tool" in rice, "than bash and read." in rice) == (True, True)
    assert ("read tool" in tea, "than bash." in tea) == (False, True)


def test_instructions_may_name_the_tools(tmp_path):
    write(tmp_path, "tea", instructions=INSTRUCTIONS.replace("the script", "{{ bash }}"))
    (scenario,) = load_scenarios([], roots=[tmp_path])

    assert render(scenario, 0).system.startswith("Use bash.\n")


def test_targets_are_folders_groups_and_names(root):
    everything = ["ralf/evaluate", "ralf/handshake", "tea"]

    assert names([], root) == everything
    assert names([str(root)], root) == everything
    assert names([f"{root}/"], root) == everything
    assert names(["ralf"], root) == everything[:2]
    assert names(["tea", "ralf/handshake"], root) == ["tea", "ralf/handshake"]
    assert names([str(root / "ralf" / "handshake")], root) == ["ralf/handshake"]
    assert names(["tea", str(root), "tea"], root) == ["tea", "ralf/evaluate", "ralf/handshake"]


def test_a_folder_outside_the_roots_names_its_own(root, tmp_path):
    elsewhere = put(tmp_path / "mine" / "coffee")

    assert names([str(elsewhere)], root) == ["coffee"]
    assert names([str(tmp_path / "mine")], root) == ["coffee"]


def test_a_name_is_looked_up_in_each_root(root, tmp_path):
    write(tmp_path / "shipped", "coffee")
    places = [tmp_path / "nowhere" / "scenarios", root, tmp_path / "shipped" / "scenarios"]

    assert names(["coffee", "tea"], *places) == ["coffee", "tea"]


def test_a_target_may_begin_with_the_folders_name_where_there_is_none(root, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    assert names(["scenarios/"], root) == ["ralf/evaluate", "ralf/handshake", "tea"]
    assert names(["scenarios/ralf", "scenarios/tea"], root) == names(["ralf", "tea"], root)
    assert complaint(["scenarios/../tea"], root).startswith("no scenario or folder")


def test_a_folder_of_ones_own_is_never_filled_with_what_is_shipped(root, tmp_path, monkeypatch):
    (tmp_path / "here" / "scenarios").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")

    assert complaint(["scenarios/"], root).startswith("scenarios: no scenario.toml in it")


def complaint(targets: list[str], *places: Path) -> str:
    with pytest.raises(UsageError) as caught:
        load_scenarios(targets, roots=projects(places))
    (line,) = str(caught.value).splitlines()
    return line


def test_what_is_not_there_is_named_with_what_is(root, tmp_path):
    (tmp_path / "empty").mkdir()
    other = put(tmp_path / "mine" / "tea")

    assert complaint(["milk"], root) == (
        f"no scenario or folder 'milk' in {root}/. Known: ralf/evaluate, ralf/handshake, tea"
    )
    assert complaint([str(tmp_path / "empty")], root).endswith("Name a folder of scenarios")
    assert complaint([], tmp_path / "x" / "scenarios").endswith("Make one, or name a folder")
    assert complaint([str(root / "tea"), str(other)], root).startswith(
        f"{other}: a scenario 'tea' was already taken from {root / 'tea'}"
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            ("max_turns = ", "max_turn = "),
            "unknown key max_turn; known keys: agent, another, ask, closing, ",
        ),
        (('policy = "demo"\n', ""), "key policy is missing"),
        (('"Note something"', '""'), "title: string should have at least 1 character"),
        (
            ('["bash"]', '["bash", "web_search"]'),
            "tools.1: input should be 'bash', 'read' or 'write'",
        ),
        (('"data/notes.db"', '"/data/notes.db"'), "database: must be a path inside the workspace"),
        (('expect = "{{ word }}"', "expect = true"), "goal.0.expect"),
        (('word = "rice"', "word = [1]"), "variant.1.word"),
        (("call_seconds = 5", 'call_seconds = "5"'), "limits.call_seconds"),
        (('"data/notes.db"', '"../notes.db"'), "database: must be a path inside the workspace"),
        (("max_turns = 7", "max_turns = 0"), "max_turns: input should be greater than 0"),
        (("max_turns = 7", 'max_turns = "7"'), "max_turns: input should be a valid integer"),
        (("call_seconds = 5", "call_second = 5"), "limits.call_second: no such key. Known: call_s"),
        (("call_seconds = 5", "call_seconds = 0"), "limits.call_seconds: must be"),
        (("call_seconds = 5", "processes = 1.5"), "limits.processes: must be"),
        (("call_seconds = 5", "call_seconds = nan"), "limits.call_seconds: must be"),
        (("call_seconds = 5", "call_seconds = inf"), "call_seconds: inf is above 480.0, the most"),
        (
            ("call_seconds = 5", f"memory = {1 << 62}"),
            "limits.memory: 4611686018427387904 is above",
        ),
        (
            ("call_seconds = 5", "open_files = 1_000_000"),
            "limits.open_files: 1000000 is above 4096",
        ),
        (('"data/notes.db"', '"data/a\\nb.db"'), "database: must be a path without characters"),
        (('name = "noted"\n', ""), "goal.0.name is missing"),
        (('tool = "bash"', 'tool = "read"'), "solution.0.tool: 'read' is not in tools"),
        (('word = "rice"', 'wort = "rice"'), "every [[variant]] must set the same variables"),
        (
            ("note.py {{ word }}", "note.py {{ wort }}"),
            "scenario.toml: 'wort' is undefined. Known variables: rul",
        ),
        (("note.py {{ word }}", "note.py {{ word"), "scenario.toml: "),
        (("[limits]", "[limits"), "not valid TOML"),
        (('"pipe-to-filter"', '"pipe-to-head"'), "invites: no failure class 'pipe-to-head'. Known"),
    ],
)
def test_a_faulty_file_is_one_line_with_its_place_and_the_cure(change, says, tmp_path):
    folder = write(tmp_path, "tea", GOOD.replace(*change))

    line = complaint(["tea"], tmp_path / "scenarios")

    assert (line.startswith(str(folder)), says in line) == (True, True), line


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# System\n\nNo task.\n", "must begin with `# System` and go on with `# Task`"),
        ("Hello\n# System\n\n# Task\n", "must begin with `# System`"),
        ("# System\n{{ colour }}\n# Task\nGo.\n", "instructions.md: 'colour' is undefined"),
        (
            "# System\n{{ bash }} and {{ write }}\n# Task\nGo.\n",
            "instructions.md: 'write' is undefined. Known variables: rules, bash, word",
        ),
        ("# System\n{{ 1 / 0 }}\n# Task\nGo.\n", "ZeroDivisionError"),
        ("# System\n{{ word + 1 }}\n# Task\nGo.\n", "TypeError"),
        ("# System\n{% for i in range(9999999) %}.{% endfor %}\n# Task\nGo.\n", "Overflow"),
        ("# System\n{% include 'a' %}\n# Task\nGo.\n", "instructions.md: TemplateNotFound: a."),
        ("# System\n{{ word.__class__.mro() }}\n# Task\nGo.\n", "unsafe"),
    ],
)
def test_faulty_instructions_are_named(text, says, tmp_path):
    write(tmp_path, "tea", instructions=text)

    assert says in complaint(["tea"], tmp_path / "scenarios")


def test_missing_and_unreadable_instructions_are_named(tmp_path):
    folder = write(tmp_path, "tea")
    (folder / "instructions.md").write_bytes(b"\xff")
    assert "instructions.md: cannot be read" in complaint(["tea"], tmp_path / "scenarios")

    (folder / "instructions.md").unlink()
    assert "instructions.md: cannot be read" in complaint(["tea"], tmp_path / "scenarios")


@pytest.fixture
def tea(tmp_path: Path) -> Scenario:
    write(tmp_path, "tea")
    (scenario,) = load_scenarios([], roots=[tmp_path])
    return scenario


def fixture(root: Path, world: str | None = WORLD) -> Path:
    files = root / "fixtures" / "notes" / "files"
    (files / "scripts" / "__pycache__").mkdir(parents=True)
    (files / "scripts" / "note.py").write_bytes(b"print()\n")
    (files / "scripts" / "__pycache__" / "note.pyc").write_bytes(b"stale")
    if world is not None:
        (root / "fixtures" / "notes" / "world.sql").write_text(world, encoding="utf-8")
    return root


def test_a_fixture_is_its_files_and_the_database_of_the_seeds_variant(tmp_path):
    roots = [tmp_path / "no", fixture(tmp_path)]
    write(tmp_path, "tea")
    (tea,) = load_scenarios(["tea"], roots=roots)

    one, two = (load_fixture(tea, seed, roots=roots) for seed in (0, 1))

    assert sorted(one) == ["data/notes.db", "scripts/note.py"]
    assert one["scripts/note.py"] == b"print()\n"
    assert (b"old tea" in one["data/notes.db"], b"old rice" in two["data/notes.db"]) == (True, True)


@pytest.mark.parametrize(
    ("world", "says"),
    [
        ("CREATE TABEL notes;", 'near "TABEL": syntax error'),
        ("CREATE TABLE {{ colour }} (a);", "'colour' is undefined"),
        (
            "CREATE TABLE notes (w);",
            "scenario.toml: goal.0.query: no such column: word, in `SELECT",
        ),
    ],
)
def test_a_world_that_cannot_be_built_or_asked_is_named(world, says, tmp_path):
    fixture(tmp_path, world)
    write(tmp_path, "tea")

    assert says in complaint(["tea"], tmp_path / "scenarios")


def test_instructions_may_name_the_tools_as_the_profile_does(tmp_path):
    write(tmp_path, "tea", GOOD, INSTRUCTIONS.replace("the script", "{{ bash }}"))

    (tea,) = load_scenarios(["tea"], roots=[tmp_path])

    assert render(tea, 0).system.startswith("Use bash.")


def test_what_is_asked_of_a_fixture_without_a_world_is_refused(tmp_path):
    write(tmp_path, "tea", GOOD.replace("[[goal]]\n", '[ask]\nmost = "SELECT 1"\n\n[[goal]]\n'))

    assert complaint(["tea"], tmp_path / "scenarios").endswith(
        "ask: no fixture 'notes' with a world.sql, so there is no world to ask. Add one, or mend "
        "the name"
    )


def test_a_fixture_without_the_database_is_named(tea, tmp_path):
    fixture(tmp_path, None)

    with pytest.raises(UsageError, match=r"is judged on .*, which the fixture does not hold"):
        load_fixture(tea, 0, roots=[tmp_path])


DRAWN = """
[draw]
number = { from = 400, to = 499 }
day = { from = "2026-01-30", to = "2026-02-02" }
drink = { of = ["tea", "coffee"] }
people = { of = "people", count = 2 }

[ask]
most = "SELECT word FROM stock ORDER BY amount DESC, word LIMIT 1"
twice = "SELECT 2 * {{ number }}"

[[goal]]
"""
STOCK = """
CREATE TABLE notes (word TEXT); CREATE TABLE stock (word TEXT, amount INTEGER);
{% for person in chance.shuffled(words.people) %}
INSERT INTO stock VALUES ('{{ person }} {{ drink }}', {{ chance.integer(1, 9) }});
{% endfor %}
"""


@pytest.fixture
def drawn(tmp_path: Path) -> Scenario:
    fixture(tmp_path, STOCK)
    write(tmp_path, "tea", GOOD.replace("[[goal]]\n", DRAWN))
    (tmp_path / "scenarios" / "words.toml").write_text('people = ["Ada", "Ben", "Cleo"]\n', "utf-8")
    (scenario,) = load_scenarios([], roots=[tmp_path])
    return scenario


def test_every_seed_draws_a_world_of_its_own_and_always_the_same(drawn):
    worlds = [variables(drawn, seed) for seed in range(40)]

    assert worlds == [variables(drawn, seed) for seed in range(40)]
    assert len({str(world) for world in worlds}) > 36
    assert {world["day"] for world in worlds} == {
        f"2026-{day}" for day in ("01-30", "01-31", "02-01", "02-02")
    }
    assert {world["drink"] for world in worlds} == {"tea", "coffee"}
    assert all(len({*world["people"]}) == 2 and 400 <= world["number"] <= 499 for world in worlds)


def test_what_is_asked_of_the_fresh_world_is_true_of_the_world_that_the_trial_gets(drawn, tmp_path):
    for seed in range(5):
        known = variables(drawn, seed)
        with closing(sqlite3.connect(":memory:")) as world:
            world.deserialize(load_fixture(drawn, seed, roots=[tmp_path])["data/notes.db"])
            (most,) = world.execute("SELECT word FROM stock ORDER BY amount DESC, word").fetchone()

        assert (known["most"], known["twice"]) == (most, 2 * known["number"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("from = 400", "from = 500"), "draw.number: `from` is above `to`"),
        (
            ("to = 499", 'to = "2026-01-01"'),
            "draw.number: `from` and `to` are two whole numbers or two days",
        ),
        (("to = 499 }", "to = 499, count = 2 }"), "draw.number: give `from` and `to`"),
        (('of = "people"', 'of = "animals"'), "draw.people: no word list 'animals'. Known: people"),
        (("count = 2", "count = 4"), "draw.people: 4 of a list of 3"),
        (("LIMIT 1", "LIMIT 0"), "ask.most: the fresh world has no answer to `SELECT word"),
        (("FROM stock", "FROM shop"), "ask.most: no such table: shop, in `SELECT word"),
        (("2 * {{ number }}", "2 * {{ size }}"), "ask.twice: 'size' is undefined, in `SELECT"),
    ],
)
def test_a_faulty_draw_or_question_is_one_line_with_its_place(change, says, drawn, tmp_path):
    del drawn
    file = tmp_path / "scenarios" / "tea" / "scenario.toml"
    file.write_text(file.read_text("utf-8").replace(*change), "utf-8")

    assert says in complaint(["tea"], tmp_path / "scenarios")


def test_a_test_is_a_program_beside_the_scenario(tmp_path):
    toml = GOOD + '[[test]]\nname = "it adds"\npython = "checks/adds.py"\n'
    folder = write(tmp_path, "tea", toml)
    assert "checks/adds.py: cannot be read" in complaint(["tea"], tmp_path / "scenarios")

    (folder / "checks").mkdir()
    (folder / "checks" / "adds.py").write_text("assert 1 + 1 == 2\n", "utf-8")
    (scenario,) = load_scenarios(["tea"], roots=[tmp_path])

    assert scenario.tests == (CodeTest("it adds", "assert 1 + 1 == 2\n"),)


def test_a_missing_fixture_is_named_with_those_that_are_there(tea, tmp_path):
    (tmp_path / "fixtures" / "other" / "files").mkdir(parents=True)

    with pytest.raises(UsageError) as caught:
        load_fixture(tea, 0, roots=[tmp_path])

    assert str(caught.value) == (
        "scenario 'tea': no fixture 'notes' (a folder with files/) in "
        f"{tmp_path / 'fixtures'}/. Known: other"
    )


def test_the_example_of_the_readme_is_a_scenario(tmp_path):
    text = (Path(__file__).resolve().parents[2] / "scenarios" / "README.md").read_text("utf-8")
    toml, trace, agents = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (instructions,) = re.findall(r"```markdown\n(.*?)```", text, re.DOTALL)
    notes = "CREATE TABLE notes (text TEXT, handed_over INTEGER);"
    fixture(tmp_path, f"{notes} CREATE TABLE checks (id INTEGER, text, kind, waits);")
    folder = write(tmp_path, "missing", f"{toml}\n{trace}\n{agents}", instructions)
    (folder / "checks").mkdir()
    (folder / "checks" / "count.py").touch()
    (folder / "checker.md").write_text("# System\nCheck.\n\n# Task\n{{ text }}")

    (scenario,) = load_scenarios([], roots=[tmp_path])

    assert render(scenario, 1).solution == (
        Step("bash", {"command": "uv run scripts/note.py add --text rice"}),
    )
    assert [agent.name for agent in scenario.agents] == ["checker", "counter"]


def test_a_folder_of_that_name_without_scenarios_does_not_hide_a_scenario(root, monkeypatch):
    (root.parent / "here" / "tea").mkdir(parents=True)
    monkeypatch.chdir(root.parent / "here")

    assert names(["tea"], root) == ["tea"]
