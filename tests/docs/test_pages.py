"""README and docs/ are true: their commands run, print what is shown, and nothing is left out."""

import re
from pathlib import Path

import command_page
import picture
import pytest
from pages import PAGES, PROJECT, blocks
from played_page import played
from suite import SCENARIOS

import agenteval
from agenteval.classes.catalogue import failure_classes
from agenteval.config.models import Timeouts
from agenteval.errors import Cause
from agenteval.models.stream import LARGEST_BODY
from agenteval.play.trial import LONGEST_PAUSE, PAUSES
from agenteval.sandbox.inside import inquiry
from agenteval.trial.call import Outcome
from agenteval.trial.tally import LONGEST, MEASURED, REFERENCE
from agenteval.trial.trial import Limits

README = (PROJECT / "README.md").read_text()
TEXTS = {
    str(path.relative_to(PROJECT)): path.read_text()
    for path in (
        *PAGES,
        PROJECT / "CONTRIBUTING.md",
        PROJECT / "SECURITY.md",
        PROJECT / "allowlists" / "README.md",
        PROJECT / "scenarios" / "README.md",
    )
}
COMMANDS = dict(command_page.every_command())
OURS = {
    option
    for command in COMMANDS.values()
    for one in command.params
    for option in (*one.opts, *one.secondary_opts)
}
OTHERS = {"--all", "--enable-auto-tool-choice", "--tool-call-parser", "--help", "--write", "--name"}
RUNNING = [name for name, text in TEXTS.items() if any(block.runs for block in blocks(text))]
MEASURING = ("run", "show ", "compare", "gate", "plan", "speed")


def code(text: str) -> list[str]:
    """What stands in backquotes, and each line of a fence or of an indented block."""
    fences = re.findall(r"^```.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^    (.*)", prose, re.MULTILINE)
    return [*re.findall(r"`([^`\n]+)`", prose), *indented, *"\n".join(fences).split("\n")]


def unknown(line: str) -> list[str]:
    """What a command line of ours names that the program does not have."""
    line = re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", line)
    words = re.split(r"  +| [|<>] | -- ", line)[0].split()  # behind -- it is another's
    name = words.pop(0)
    while words and f"{name} {words[0]}" in COMMANDS:
        name += f" {words.pop(0)}"
    given = [word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    known = [option for one in COMMANDS[name].params for option in (*one.opts, *one.secondary_opts)]
    lacks = [option for option in given if option not in {*known, "--help", "--json"}]
    group = bool(getattr(COMMANDS[name], "commands", {}))
    stray = words[:1] if group and words and re.fullmatch(r"[a-z]+", words[0]) else []
    return [*lacks, *stray]


@pytest.mark.slow
@pytest.mark.timeout(900)  # a dozen commands each, on a machine that may be busy
@pytest.mark.parametrize("name", RUNNING)
def test_every_command_of_a_page_does_what_the_page_shows(name: str, tmp_path: Path) -> None:
    faults = [one.fault for one in played(TEXTS[name], tmp_path) if one.fault]
    assert faults == [], "if the page is to follow: make docs-refresh"


def test_the_page_of_options_is_what_the_commands_say() -> None:
    assert command_page.PAGE.read_text() == command_page.render(), "make docs-refresh"


def test_what_a_judge_may_take_is_what_the_page_on_security_says() -> None:
    taken = f"{inquiry.CPU_SECONDS} s of CPU and {inquiry.MEMORY >> 20} MB"
    assert taken in TEXTS["SECURITY.md"]


@pytest.mark.slow
def test_the_picture_is_what_the_demo_prints() -> None:
    assert picture.PICTURE.read_text() == picture.rendered(picture.demo()), "make docs-refresh"


@pytest.mark.parametrize("name", TEXTS)
def test_every_command_and_option_of_a_page_exists(name: str) -> None:
    lines = [line.removeprefix("$ ").strip() for line in code(TEXTS[name])]
    ours = [line for line in lines if re.match(r"agenteval( |$)(?!─)", line)]
    wrong = {line: unknown(line) for line in ours if unknown(line)}
    alone = {line.split()[0] for line in lines if re.match(r"--[a-z-]+( |$)", line)}
    assert (wrong, alone - OURS - OTHERS) == ({}, set())


def test_the_page_on_python_says_which_commands_have_no_function() -> None:
    page = TEXTS["docs/python.md"]
    parts = [r"a program can have: (.*?), which", r"Commands alone, without a function: (.*?)\."]
    found = [re.findall(part, page, re.DOTALL) for part in parts]
    functions, alone = ({*re.findall(r"`(\w+)`", text)} for (text,) in found)
    offered = {name for name in agenteval.__all__ if name.islower()} - {"run_async"}
    top = {name.split()[1] for name in COMMANDS if name.count(" ") == 1}
    assert (functions, functions & alone) == (offered, set())
    assert (functions - {"load"}) | {"show"} | alone == top


def test_every_command_is_in_a_page_that_somebody_wrote() -> None:
    written = "\n".join(text for name, text in TEXTS.items() if name != "docs/commands.md")
    missing = [name for name in COMMANDS if not re.search(rf"{name}\b", written)]
    assert missing == []


@pytest.mark.parametrize("name", RUNNING)
def test_figures_that_are_shown_say_that_they_are_simulated(name: str) -> None:
    shown = [
        (command.text, "\n".join(command.shown))
        for block in blocks(TEXTS[name])
        if block.runs
        for command in block.commands()
        if command.shown
        and re.match(rf"(agenteval ({'|'.join(MEASURING)})|make demo)", command.text)
    ]
    assert [
        text
        for text, output in shown
        if "SIMULATED" not in output and not re.search(r"show article|sim/|-sim-", text)
    ] == []


@pytest.mark.parametrize("name", TEXTS)
def test_every_link_of_a_page_leads_to_a_file(name: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", TEXTS[name])
    folder = (PROJECT / name).parent
    assert [link for link in links if not (folder / link).exists()] == []


def test_a_fence_of_a_file_is_its_text() -> None:
    shown = [block for text in TEXTS.values() for block in blocks(text) if "from" in block.flags]
    files = {block.flags["from"]: "\n".join(block.lines) + "\n" for block in shown}
    assert files == {name: (PROJECT / name).read_text() for name in files}
    examples = {str(path.relative_to(PROJECT)) for path in (PROJECT / "examples").glob("*/*")}
    assert examples <= {*files}


def test_every_group_of_plug_ins_is_told_and_played() -> None:
    modules = [path.read_text() for path in (PROJECT / "agenteval").rglob("*.py")]
    group = re.compile(r'^GROUP = "([\w.]+)"', re.MULTILINE)
    groups = {name for text in modules for name in group.findall(text)}
    played = (PROJECT / "tests" / "plugin_package" / "pyproject.toml").read_text()
    told = re.findall(r"^\| `(agenteval\.\w+)` \|", TEXTS["docs/plugins.md"], re.MULTILINE)
    assert {*told} == groups == {*re.findall(r'entry-points\."([\w.]+)"', played)}


@pytest.mark.parametrize("name", TEXTS)
def test_every_target_of_a_page_is_in_the_makefile(name: str) -> None:
    makefile = (PROJECT / "Makefile").read_text()
    asked = {
        match[1]
        for line in code(TEXTS[name])
        if (match := re.match(r"(?:\$ )?make ([a-z-]+)", line))
    }
    assert [one for one in asked if not re.search(rf"^{one}:", makefile, re.MULTILINE)] == []


def test_the_readme_is_short_and_its_counts_are_right() -> None:
    assert (
        len(README.splitlines()) <= 150,
        f"{len(SCENARIOS)} shipped scenarios" in README,
        f"{len(failure_classes())} [failure classes]" in README,
    ) == (True, True, True)


def test_every_cause_of_a_void_and_every_limit_is_told() -> None:
    pauses = ", ".join(f"{pause:g}" for pause in PAUSES[:-1]) + f" and {PAUSES[-1]:g} seconds"
    said = [
        *(f"`{cause}`" for cause in Cause),
        *(f"`{end}`" for end in (Outcome.TIMED_OUT, Outcome.OUT_OF_TURNS, Outcome.GAVE_UP)),
        pauses,
        f"at most {LONGEST_PAUSE:g}",
        f"more than {LARGEST_BODY >> 20} MiB",
        f"generates {REFERENCE:g} tokens a second",
        f"After {MEASURED} tokens",
        f"(default {Limits().trial_seconds:g})",
        f"of a model (default {Timeouts().request:g})",
        "up to eight times" if LONGEST == 8 else "another bound",
    ]
    flat = " ".join(TEXTS["docs/runs.md"].split())
    assert [one for one in said if one not in flat] == []
