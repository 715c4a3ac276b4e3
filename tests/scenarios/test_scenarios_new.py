"""`agenteval scenarios new` writes a scenario that works, and overwrites nothing."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from agenteval.cli.scenarios import app
from agenteval.errors import UsageError
from agenteval.sandbox.maker import render
from agenteval.workflows.stages import load_stages

WRITTEN = [
    "scenarios/home/shutters/scenario.toml",
    "scenarios/home/shutters/instructions.md",
    "fixtures/home-shutters/world.sql",
    "fixtures/home-shutters/files/scripts/chores.py",
    "allowlists/home-shutters.toml",
]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_what_is_written_passes_check_at_once(project):
    written = run("new", "home/shutters")

    assert written.splitlines() == [
        *(f"wrote {project / path}" for path in WRITTEN),
        "It works: agenteval scenarios check home/shutters",
    ]
    assert run("check", "home/shutters") == (
        "home/shutters: solved in 2 calls, 1 world; slips: pipe-to-filter, hallucinated-flag\n"
    )


def test_it_goes_into_the_project_around(project, monkeypatch):
    (project / "agenteval.toml").touch()
    (project / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(project / "deep" / "down")

    run("new", "home/shutters")

    assert [path for path in WRITTEN if not (project / path).is_file()] == []


def test_hardly_two_seeds_of_it_read_the_same(project):
    run("new", "chores")
    (stage,) = load_stages(["chores"])

    tasks = {render(stage.scenario, seed).task for seed in range(40)}

    assert len(tasks) >= 36


@pytest.mark.parametrize("there", WRITTEN)
def test_nothing_is_written_when_one_of_the_files_is_there(there, project):
    (project / there).parent.mkdir(parents=True)
    (project / there).write_text("mine")

    with pytest.raises(UsageError, match=f"{there}: is there already, so nothing was written"):
        run("new", "home/shutters")

    found = [path for path in project.rglob("*") if path.is_file()]
    assert [(path.relative_to(project).as_posix(), path.read_text()) for path in found] == [
        (there, "mine")
    ]


@pytest.mark.parametrize("name", ["Home", "../x", "/x", "home/", "a b", "", ".", "ü"])
def test_a_name_that_is_no_path_of_plain_words_is_refused(name, project):
    with pytest.raises(UsageError, match="is no name for a scenario: use small letters"):
        run("new", name)


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        ('[[bash.script]]\npath = "scripts/old.py"\n', "script"),
        ('[bash]\nallow = ["uv run scripts/old.py *"]\n', "allow"),
    ],
)
def test_a_rule_for_a_script_that_is_not_there_is_refused(rule, key, project):
    run("new", "home/shutters")
    (project / "allowlists/home-shutters.toml").write_text(rule)

    with pytest.raises(UsageError) as caught:
        load_stages(["home/shutters"])

    assert str(caught.value) == (
        f"{project}/allowlists/home-shutters.toml: bash.{key}: a rule is for scripts/old.py, and "
        "the fixture 'home-shutters' of scenario 'home/shutters' has no such file. Add it to "
        "fixtures/home-shutters/files/, mend the path, or take the rule out"
    )
