"""What another distribution adds by entry points takes part as if it was shipped."""

import importlib
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenteval import plugins
from agenteval.classes import catalogue
from agenteval.classes.catalogue import SHIPPED_VERSION
from agenteval.config import prompts
from agenteval.config.allowlists import load_any
from agenteval.config.files import shipped
from agenteval.config.prompts import load_setting
from agenteval.dialects import registry
from agenteval.errors import UsageError
from agenteval.logs.tool_calls import tool_calls
from agenteval.policy.policy import Policy, ToolRule, allows
from agenteval.sandbox.backends import choose
from agenteval.stats import criteria
from agenteval.trial.call import ToolCall
from agenteval.workflows.reference import BadLine, _written_for, read_lines

PACKAGE = Path(__file__).parent / "plugin_package"
PAGE = Path(__file__).parents[1] / "docs" / "plugins.md"
CACHED = (plugins.load, plugins.leave_out, plugins._loaded, plugins._groups)
CACHED_ABOVE = (registry.dialects, prompts._arms)
SILENT = "agenteval: plug-in {} (agenteval.{}) is left out: {}\n"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the distribution was installed, as pip would do it."""
    folder = tmp_path_factory.mktemp("site")
    source = shutil.copytree(PACKAGE, tmp_path_factory.mktemp("source") / "package")
    uv = Path(sys.prefix, "bin", "uv")
    options = ["--offline", "--quiet", "--no-deps", "--python", sys.executable]
    command = [uv, "pip", "install", *options, "--target", folder, source]
    subprocess.run(command, check=True, timeout=60)
    return folder


@pytest.fixture
def plugged(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The distribution is there for this process, and nothing remembers that it was not."""
    monkeypatch.syspath_prepend(str(installed))
    forget()
    yield
    monkeypatch.undo()
    forget()


def forget() -> None:
    importlib.invalidate_caches()
    for cached in (*CACHED, *CACHED_ABOVE):
        cached.cache_clear()
    for name in [name for name in sys.modules if name.startswith("agenteval_example")]:
        del sys.modules[name]


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said but for the names of the plug-ins that are imported."""
    lines = capsys.readouterr().err.splitlines(keepends=True)
    return "".join(line for line in lines if not line.endswith(" is imported\n"))


@pytest.mark.usefixtures("plugged")
def test_a_group_is_loaded_by_name() -> None:
    assert [*plugins.load("agenteval.criteria")] == ["silent", "spaced", "taken"]
    assert plugins.sources("agenteval.criteria", iter(["silent"])) == ("agenteval-example/1.2",)


def test_a_group_to_which_nothing_adds_is_empty() -> None:
    assert plugins.load("agenteval.nothing") == {}


@pytest.mark.usefixtures("plugged")
def test_a_broken_plug_in_is_named_once_in_one_line_and_left_out(capsys) -> None:
    assert [*plugins.load("agenteval.formats", callable)] == ["diary"]
    plugins.load("agenteval.formats", callable)
    why = (
        "agenteval-example/1.2: ImportError: cannot import name 'a_module_of_some_other_version' "
        f"from 'agenteval.logs' ({Path(plugins.__file__).parent}/logs/__init__.py)"
    )
    broken = SILENT.format("broken", "formats", why)
    assert told(capsys) == broken + SILENT.format(
        "no-function", "formats", "the group takes no Dialect"
    )


@pytest.mark.usefixtures("plugged")
def test_a_plug_in_that_ends_its_program_is_left_out_and_decides_no_exit_code(
    tmp_path, monkeypatch, capsys
) -> None:
    gone = tmp_path / "gone-3.dist-info"
    gone.mkdir()
    (gone / "METADATA").write_text("Metadata-Version: 2.1\nName: gone\nVersion: 3\n")
    (gone / "entry_points.txt").write_text("[agenteval.criteria]\nends = ends_at_import\n")
    (tmp_path / "ends_at_import.py").write_text("raise SystemExit(0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    assert "ends" not in plugins.load("agenteval.criteria")
    assert SILENT.format("ends", "criteria", "gone/3: SystemExit: 0") in told(capsys)


@pytest.mark.usefixtures("plugged")
def test_a_plug_in_is_named_before_it_is_imported(capsys) -> None:
    plugins.load("agenteval.criteria")
    lines = capsys.readouterr().err.splitlines()
    named = "agenteval: plug-in {} (agenteval.criteria) of agenteval-example/1.2 is imported"
    wanted = [named.format(name) for name in ("cheated", "silent", "spaced", "taken")]
    assert [line for line in lines if line.endswith(" is imported")] == wanted


@pytest.mark.usefixtures("plugged")
def test_a_projects_distribution_takes_no_installed_ones_place(
    installed, tmp_path, monkeypatch, capsys
) -> None:
    evil = tmp_path / "agenteval_example-9.dist-info"
    evil.mkdir()
    (evil / "METADATA").write_text("Metadata-Version: 2.1\nName: agenteval-example\nVersion: 9\n")
    (evil / "entry_points.txt").write_text("[agenteval.criteria]\nsilent = os:sep\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    forget()
    assert plugins.load("agenteval.criteria")["silent"] != os.sep
    why = f"os:sep of {tmp_path}: a project's; install it to trust it"
    assert SILENT.format("silent", "criteria", why) in told(capsys)


@pytest.mark.usefixtures("plugged")
def test_two_plug_ins_of_one_name_are_the_first_of_them(tmp_path, monkeypatch, capsys) -> None:
    twin = tmp_path / "twin-3.dist-info"
    twin.mkdir()
    (twin / "METADATA").write_text("Metadata-Version: 2.1\nName: twin\nVersion: 3\n")
    (twin / "entry_points.txt").write_text("[agenteval.criteria]\nsilent = os:sep\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    assert plugins.load("agenteval.criteria")["silent"] == os.sep
    why = "agenteval-example/1.2: twin/3 has one of that name too"
    assert SILENT.format("silent", "criteria", why) in told(capsys)


@pytest.mark.usefixtures("plugged")
def test_a_line_of_a_plug_ins_log_is_a_call(capsys) -> None:
    assert [call.command for call in tool_calls({"did": "ls -la", "type": "x"}) or ()] == ["ls -la"]
    assert tool_calls({"said": "hello"}) is None


@pytest.mark.usefixtures("plugged")
def test_a_line_that_a_plug_in_fails_on_is_a_bad_line_that_names_it_and_the_next_is_read() -> None:
    (bad, call) = read_lines(['{"did": 5}', '{"did": "ls"}'])
    assert bad == BadLine(
        1,
        "plug-in diary (agenteval.formats): AttributeError: 'int' object has no attribute 'strip'",
    )
    assert call.command == "ls"


@pytest.mark.usefixtures("plugged")
def test_a_dialect_is_read_written_spoken_and_one_with_a_taken_name_left_out(
    tmp_path, capsys
) -> None:
    rules = tmp_path / "mine.tiny"
    rules.write_text("ls -la\n")
    for given in (str(rules), f"tinyshell:{rules}"):
        policy = load_any(given, roots=[])
        said = [allows(bash(command), policy) for command in ("ls -la", "ls")]
        assert said == [True, False]
    assert _written_for(policy, "toml").lost[:1] == ("ls -la",)
    assert _written_for(load_any("demo", roots=[shipped()]), "tinyshell").text.startswith(
        "git status\n"
    )
    assert load_setting("tinyshell", "five", "start", "0").profile.protocol == "tinyshell/1"
    taken = SILENT.format("taken", "dialects", "there is a dialect of that name")
    assert told(capsys) == taken


def bash(command: str) -> ToolCall:
    return ToolCall("", "bash", "", {"command": command})


@pytest.mark.usefixtures("plugged")
async def test_a_sandbox_is_chosen_by_name_and_has_to_pass_the_probe(capsys) -> None:
    with pytest.raises(UsageError, match=r"no sandbox works here; nothing is run\. plain: "):
        await choose("plain")
    with pytest.raises(UsageError, match="Known: bubblewrap, namespaces, container, none, plain"):
        await choose("nowhere")
    assert told(capsys) == SILENT.format("none", "sandboxes", "there is a sandbox of that name")


@pytest.mark.usefixtures("plugged")
def test_failure_classes_stand_before_those_of_programs_and_are_in_the_version(capsys) -> None:
    made = runpy.run_path(str(Path(catalogue.__file__)))
    ids = [each.id for each in made["failure_classes"]()]
    shipped = [each.id for each in catalogue.failure_classes()]
    assert [each for each in ids if each not in shipped] == ["container-engine"]
    assert ids[ids.index("container-engine") + 1] == "wrapper-prefix"
    assert made["TAXONOMY_VERSION"] == f"{SHIPPED_VERSION}+agenteval-example/1.2"
    assert told(capsys) == SILENT.format(
        "containers", "failure_classes", "pipe-to-filter: its id is taken, or it takes the rest"
    )


def test_a_command_is_judged_with_the_plug_ins_that_are_installed(installed: Path) -> None:
    def said(*path: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "agenteval", "classify", "--json", "docker run alpine ls"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return [each for each in ("container-engine", "bare-binary") if each in done.stdout]

    assert said(str(installed)) == ["container-engine", "bare-binary"]
    assert said() == ["bare-binary"]


@pytest.mark.slow
def test_a_criterion_of_a_plug_in_is_a_line_of_gate_toml(installed: Path, tmp_path: Path) -> None:
    rules = tmp_path / "gate.toml"
    (shown,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    rules.write_text(shown)
    done = subprocess.run(
        [sys.executable, "-m", "agenteval", "gate", "--explain", "--gate", str(rules)],
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "- silent: fewer than 5 trials without a call, per 100" in done.stdout
    taken = SILENT.format("taken", "criteria", "errors: the name is taken, or no key of gate.toml")
    assert taken in done.stderr


@pytest.mark.usefixtures("plugged")
def test_a_criterion_whose_name_is_taken_or_that_would_never_happen_is_left_out(capsys) -> None:
    assert [one.name for one in criteria._plugged()] == ["silent"]
    cheated = (
        "agenteval-example/1.2: ValueError: criterion 'cheated' is said to be moved by the "
        "outcome, and counts trials alike that differ in nothing else: let it count what moves it "
        "alone, or give it a function that simulates it"
    )
    assert told(capsys) == SILENT.format("cheated", "criteria", cheated) + "".join(
        SILENT.format(point, "criteria", f"{name}: the name is taken, or no key of gate.toml")
        for point, name in (("spaced", "too quiet"), ("taken", "errors"))
    )


def test_an_allow_list_of_ours_has_no_need_of_any_plug_in() -> None:
    policy = Policy("ours", tools={"bash": ToolRule("bash")})
    assert registry.lint(policy) == []
