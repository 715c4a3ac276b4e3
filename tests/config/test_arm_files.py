"""Arms: what is shipped says what it claims, and a file of one's own is an arm too."""

import re
from pathlib import Path

import pytest

from agenteval.config.files import DEFAULT_ARM
from agenteval.config.prompts import arm_named, arms
from agenteval.errors import UsageError
from agenteval.prompt.arm import PARAMETERS

TAUGHT = ("taught/tools", "taught/shell")
OWN = Path(__file__).resolve().parents[2] / "arms/taught/shell.toml"


def told(name: str) -> str:
    """All that a model reads under an arm before the scenario says a word."""
    arm = arms()[name]
    return "\n".join([arm.frame, *(str(form.schema()) for form in arm.profile.forms.values())])


def test_the_usual_arm_is_the_taught_one_with_file_tools():
    assert DEFAULT_ARM == "taught/tools"
    assert arms()[DEFAULT_ARM].offered(("bash", "read")) == (
        *("bash", "read", "glob", "grep", "todo", "webfetch"),
    )
    assert "edit" in arms()[DEFAULT_ARM].offered(("bash", "read", "write"))


@pytest.mark.parametrize("name", TAUGHT)
def test_no_taught_text_names_an_allow_list_or_what_no_harness_asks_for(name):
    said = told(name)
    for words in (r"allow.?list", r"\btimeout \d", r"\|\| true", r"python3? -c", r"\bfor \w+ in\b"):
        assert not re.search(words, said), words
    assert said.count("2>&1") == (name == "taught/shell")


def test_the_strict_arm_says_that_it_is_easy():
    assert "easy" in arms()["strict"].summary
    assert (arms()["strict"].rules, arms()["strict"].denials) == ("all", "hint")


def test_each_form_of_an_arm_begins_with_the_parameters_of_our_tool():
    for arm in arms().values():
        for tool, form in arm.profile.forms.items():
            required = [one.required for one in form.parameters][: len(PARAMETERS[tool])]
            assert len(form.parameters) >= sum(required) > 0, (arm.name, tool)


@pytest.fixture
def own(project):
    folder = project / "arms" / "captured"
    folder.mkdir(parents=True)
    return folder / "mine.toml"


def test_a_file_of_ones_own_is_an_arm_with_the_words_it_has(own):
    schema = '{"type": "object", "properties": {"command": {"type": "string", "pattern": "."}}}'
    text = OWN.read_text().replace(
        'description = "Execute a bash command and get its exit code and output."\n',
        f"description = 'Captured.'\nschema = '{schema}'\n",
    )
    own.write_text('words = "some program 1.2"\nengine = "opencode"\n' + text)
    arm = arm_named("captured/mine")
    function = arm.profile.forms["bash"].schema()["function"]
    assert (arm.protocol, arm.words, arm.engine) == (
        "captured/mine/1",
        "some program 1.2",
        "opencode",
    )
    assert function["parameters"]["properties"]["command"]["pattern"] == "."
    with pytest.raises(UsageError, match="captured/mine has denials of its own words; name it"):
        arm_named("captured/mine+user")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("version = 1", "", "key version is missing"),
        ("[tools.write]", "[tools.draw]", "no tools ['draw']. Known: bash, read, write"),
        ("version = 1", 'version = 1\nextras = ["glob"]', "tools: glob is missing"),
        ("version = 1", 'version = 1\nengine = "cursor"', "no engine 'cursor'. Known: claude-code"),
        ("version = 1", "version = 1\ncolour = 2", "unknown key colour"),
    ],
)
def test_what_is_wrong_with_such_a_file_is_one_line(own, old, new, says):
    own.write_text(OWN.read_text().replace(old, new))
    with pytest.raises(UsageError) as told:
        arms()
    assert says in str(told.value)
    assert str(own) in str(told.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "cursor",
            "--arm: no arm 'cursor'. Known: strict, taught/shell, taught/tools",
        ),
        ("taught/tools+loud", "no kind of denial 'loud'. Known: bare, rule, rules, user, hint"),
        ("codex+user", "--arm codex+user: codex has denials of its own words; name it alone"),
    ],
)
def test_an_arm_that_there_is_not_is_one_line(name, says):
    with pytest.raises(UsageError) as told:
        arm_named(name)
    assert says in str(told.value)
