"""What a model reads under each harness profile, and how its calls are taken for ours."""

import json
import re
from dataclasses import replace

import pytest

from agenteval.classes.catalogue import failure_classes
from agenteval.config.files import DEFAULT_ARM
from agenteval.config.prompts import arms, load_setting, spoken
from agenteval.policy.policy import path_argument
from agenteval.prompt.arm import STRICT_PROFILE, Profile, recognised
from agenteval.prompt.prompt import VARIANTS, Setting, rules_for
from agenteval.trial.call import ToolCall
from agenteval.workflows.stages import _arm_card, load_stages

OURS = {
    "bash": {"command": "ls"},
    "read": {"path": "a.txt"},
    "write": {"path": "a.txt", "content": "x"},
}
PROFILES = {name: arm.profile for name, arm in arms().items()}
each_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))


@each_profile
@pytest.mark.parametrize("tool", OURS)
def test_a_call_written_in_a_profiles_names_is_taken_for_ours(profile: Profile, tool: str):
    name, raw = profile.written(tool, OURS[tool])
    call = ToolCall("1", name, raw, json.loads(raw))
    (schema,) = [form.schema() for form in (profile.forms[tool],)]
    function = schema["function"]

    assert profile.as_own_call(call, tuple(OURS)) == ToolCall("1", tool, raw, OURS[tool])
    assert function["name"] == name
    assert {*function["parameters"]["required"]} == json.loads(raw).keys()


@pytest.mark.parametrize(
    ("profile", "name", "taken"),
    [
        ("strict", "bash", "bash"),
        ("strict", "Bash", None),
        ("opencode", "Bash", "bash"),
        ("claude-code", "Bash", "bash"),
        ("claude-code", "bash", None),
        ("codex", "exec_command", "bash"),
        ("codex", "bash", None),
        ("codex", "write_file", None),  # a tool of the profile that this scenario does not offer
    ],
)
def test_only_an_offered_name_is_a_tool(profile, name, taken):
    meant = PROFILES[profile].as_own_call(ToolCall("1", name, "{}", {}), ("bash", "read"))

    assert (meant.name if meant else None) == taken


def test_our_own_parameter_is_none_of_theirs():
    call = ToolCall("1", "exec_command", "", {"command": "ls", "workdir": "/"})

    assert PROFILES["codex"].as_own_call(call, ("bash",)) == ToolCall(
        "1", "bash", "", {"workdir": "/"}
    )


@each_profile
def test_a_call_without_arguments_keeps_what_was_wrong_with_it(profile: Profile):
    call = ToolCall("1", profile.forms["bash"].name, "{", None, "no JSON")

    assert profile.as_own_call(call, ("bash",)) == ToolCall("1", "bash", "{", None, "no JSON")


@each_profile
def test_a_request_tells_which_profile_it_speaks(profile: Profile):
    assert spoken([form.schema() for form in profile.forms.values()]) == profile


def test_foreign_tools_are_taken_for_the_strict_profiles():
    foreign = {"function": {"name": "web_search", "description": "", "parameters": {}}}

    assert spoken([foreign]) == STRICT_PROFILE


def test_a_hint_is_retold_in_the_names_of_the_harness():
    hints = [("bash", "bash needs `command`, a string"), ("read", "read needs `path`, a string")]

    assert [PROFILES["codex"].retold(*hint) for hint in hints] == [
        "exec_command needs `cmd`, a string",
        "read_file needs `file_path`, a string",
    ]


@pytest.mark.parametrize("arm", arms().values(), ids=list(arms()))
@pytest.mark.parametrize("variant", VARIANTS)
def test_rules_speak_of_the_offered_tools_by_their_names_and_of_no_other(arm, variant):
    said = rules_for(Setting(arm, VARIANTS[variant]), ("bash", "read"))
    names = arm.profile.names(("bash", "read", "write"))

    assert all(names[tool] in said for tool in ("bash", "read")) or "tools" not in variant
    assert not re.search(rf"\b{names['write']}\b", said)


WEB = "There are no other tools"
AFTER = "After a denial"
MORE = "timeout"


@pytest.mark.parametrize("rules", ["none", "five", "all"])
def test_what_is_told_of_tools_and_of_denials_stands_in_its_variants_alone(rules):
    told = {
        variant.removeprefix(rules): (WEB in said, AFTER in said, MORE in said)
        for variant, said in VARIANTS.items()
        if variant.partition("+")[0] == rules
    }
    more = rules == "all"
    assert told == {
        "": (False, False, more),
        "+tools": (True, False, more),
        "+after": (False, True, more),
        "+tools+after": (True, True, more),
    }


def test_the_usual_rules_are_the_five_of_the_article():
    named = ("| head", "2>/dev/null", "&&", "path of its script", "make files")
    usual = load_setting(DEFAULT_ARM, None, "start", "0")
    assert all(words in usual.rules for words in named)
    assert usual.rules_name.startswith("five/")


def test_a_path_is_found_under_every_profiles_name():
    for profile in PROFILES.values():
        name = profile.forms["read"].parameters[0].name
        assert path_argument({name: "a.txt"}) == "a.txt"


# A word or form of each failure class that rules can name, found without our own table.
FORMS = {
    "pipe-to-filter": r"\|? ?head\b",
    "pipe": r"no pipe into",
    "stderr-redirect": r"2>",
    "file-redirect": r"No redirects|make files",
    "shell-chain": r"&&",
    "heredoc": r"heredoc",
    "heredoc-to-file": r"heredoc|make files",
    "command-substitution": r"substitution",
    "env-assignment": r"no variables",
    "background": r"background",
    "wrapper-prefix": r"timeout",
    "bare-binary": r"\bls\b",
    "inline-code": r"inline code",
    "unlisted-script": r"no scripts .* not listed",
    "hallucinated-flag": r"options\s+that are not listed",
    "blocked-path": r"outside it is denied",
    "hallucinated-tool": r"no other tools",
    "wrong-runner": r"path of its script",
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_classes_that_rules_name_are_those_whose_forms_they_show(variant):
    said = " ".join(VARIANTS[variant].split())
    setting = Setting(rules=said, rules_name=f"{variant}/3")
    assert {name for name, form in FORMS.items() if re.search(form, said)} == {*setting.named}
    assert {*setting.named} <= {one.id for one in failure_classes()}


def test_a_run_keeps_what_its_arm_is_in_a_sentence():
    usual = load_setting(DEFAULT_ARM, None, "start", "0")
    own = replace(usual, rules_name="mine.md/0f0f")
    other = load_setting("opencode", "none", "start", "0")
    assert usual.card(classes=34, tokens=4321).sentence.startswith(
        "taught/tools/1: rules name 6 of the 34 classes; about 4.3k tokens of context at the "
        "start; our words: a harness with file tools"
    )
    assert usual.card(classes=34, tokens=1).sentence.endswith("denials bare; our allow lists judge")
    assert "the user's own rules" in own.card(classes=34, tokens=1).sentence
    assert other.card(classes=34, tokens=1).sentence.endswith(
        "denials rules; opencode's rules judge"
    )
    assert "words of opencode" in other.card(classes=34, tokens=1).sentence


def test_of_a_real_program_the_run_keeps_that_its_words_are_its_own():
    stages = load_stages(["notes/append"])
    usual = load_setting("opencode", "five", "start", "0")
    card = _arm_card(stages, usual, "opencode")
    assert card.sentence == (
        "real/opencode/2: rules name 6 of the 34 classes; words of opencode: its own prompt, "
        "tools, results and denials; denials its own; opencode's rules judge"
    )
    ours = _arm_card(stages, usual).tokens
    assert (
        300 < ours < _arm_card(stages, load_setting(DEFAULT_ARM, None, "start", "0")).tokens < 6000
    )


def test_our_own_tools_are_recognised_among_those_of_a_request() -> None:
    def offered(name, *parameters):
        known = {"type": "object", "properties": {key: {} for key in parameters}}
        return {"type": "function", "function": {"name": name, "parameters": known}}

    found = recognised(
        [
            offered("Read", "file_path", "limit"),
            offered("read_file", "path"),  # there is one already
            offered("write", "filePath"),  # without a content it is another
            offered("WebFetch", "url"),
            offered("bash", "command"),
        ]
    )
    assert {
        tool: (form.name, [one.name for one in form.parameters]) for tool, form in found.items()
    } == {
        "read": ("Read", ["file_path"]),
        "webfetch": ("WebFetch", ["url"]),
        "bash": ("bash", ["command"]),
    }
