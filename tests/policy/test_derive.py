"""`agenteval allowlist derive`: rules from what scripts themselves say they take."""

import tomllib
from functools import cache
from pathlib import Path

import pytest
from suite import PROJECT, SCENARIOS
from typer.testing import CliRunner

from agenteval.classes.judge import judge
from agenteval.cli.policy import allowlist
from agenteval.config.allowlists import (
    ScriptTable,
    _spelled_out_table,
    bash_rules,
    convert,
    load_policy,
)
from agenteval.errors import UsageError
from agenteval.trial.call import ToolCall
from agenteval.workflows.author import write_skeleton
from agenteval.workflows.reveal import MARK

ALLOWLISTS = PROJECT / "allowlists"
SHIPPED = {
    (policy, scenario.fixture)
    for scenario in SCENARIOS
    for policy in (scenario.policy, *(agent.policy for agent in scenario.agents if agent.policy))
}
# The plan is a text to heating.py's parser, and JSON to what reads it.
EXPLAINED = [("home", "scripts/heating.py")]
ENDS = "# scripts/tool.py: {} before it reads a command line\n\n[bash]\n"


def derived(*arguments: object) -> str:
    result = CliRunner().invoke(allowlist, ["derive", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def tables(text: str) -> dict[str, ScriptTable]:
    """The scripts of an allow list with nothing abbreviated, by their paths."""
    bash = convert("derived", tomllib.loads(text)).bash
    return {script.path: _spelled_out_table(script) for script in (bash.script if bash else ())}


def script(tmp_path: Path, text: str, name: str = "tool.py") -> Path:
    folder = tmp_path / "scripts"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


@cache
def of_fixture(name: str) -> dict[str, ScriptTable]:
    return tables(derived(PROJECT / "fixtures" / name / "files" / "scripts"))


@pytest.mark.slow
def test_it_writes_the_rules_of_the_shipped_allow_lists():
    """All but what a list says more exactly than the script's parser does: `EXPLAINED`."""
    wrong = []
    for policy, fixture in sorted(SHIPPED):
        for path, table in tables((ALLOWLISTS / f"{policy}.toml").read_text()).items():
            if of_fixture(fixture)[path] != table:
                wrong.append((policy, path))

    assert wrong == list(EXPLAINED)


def test_it_writes_the_rules_that_a_new_scenario_begins_with(tmp_path):
    allowed = write_skeleton("chores", root=tmp_path)[-1]

    rules = tables(derived(tmp_path / "fixtures" / "chores" / "files" / "scripts"))

    assert rules == tables(allowed.read_text())


ARGPARSE = """
import argparse, json, pathlib
top = argparse.ArgumentParser()
top.add_argument("--version", action="version", version="1")
top.add_argument("-q", "--quiet", action="count")
top.add_argument("--colour", action=argparse.BooleanOptionalAction)
top.add_argument("--meta", type=json.loads)
top.add_argument("--file", type=pathlib.Path, required=True)
top.add_argument("--day", type=lambda text: text)
top.add_argument("--level", type=int, choices=range(3))
top.add_argument("--port", type=int, choices=range(1, 65536))
top.add_argument("--pair", nargs=2, type=float)
top.add_argument("--tag", action="append")
commands = top.add_subparsers()
run = commands.add_parser("run it", aliases=["r"])
run.add_argument("what", nargs="?")
run.add_argument("rest", nargs=argparse.REMAINDER)
inner = commands.add_parser("inner").add_subparsers()
inner.add_parser("deepest").add_argument("text")
top.parse_args()
"""
CLICK = """
import click

@click.group()
@click.option("--verbose", "-v", count=True)
def cli(verbose): ...

@cli.command()
@click.argument("name")
@click.argument("files", nargs=-1, type=click.Path())
@click.option("-l", "--limit", type=int)
@click.option("--share", type=click.FloatRange(0, 1), required=True)
@click.option("--format", type=click.Choice(["csv", "json"]))
@click.option("--pair", nargs=2)
@click.option("--tag", multiple=True)
@click.option("--shout/--no-shout")
def add(**given): ...

@cli.command("drop-all")
@click.argument("which", required=False)
def drop(which): ...

cli()
"""
TYPER = """
import enum, pathlib, typer

class Unit(str, enum.Enum):
    KWH, M3 = "kWh", "m3"

app = typer.Typer()

@app.command()
def add(name: str, count: int = 3, tag: list[str] = [], force: bool = False, unit: Unit = "m3"): ...

@app.command()
def show(ids: list[int], where: pathlib.Path = ".", note: str = typer.Option(...)): ...

if __name__ == "__main__":
    app()
"""


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (
            ARGPARSE,
            """\
# scripts/tool.py: --day: any text fits here, the script takes what <lambda> takes
# scripts/tool.py: --port: its 65535 choices are not listed
[[bash.script]]
path = "scripts/tool.py"
command_optional = true
[bash.script.options]
"--version" = { kind = "flag", ends = true }
"--quiet" = { kind = "flag", aliases = ["-q"], repeatable = true }
"--colour" = { kind = "flag", aliases = ["--no-colour"] }
"--meta" = "json"
"--file" = { kind = "path", required = true }
"--day" = "str"
"--level" = { kind = "choice", choices = ["0", "1", "2"] }
"--port" = "int"
"--pair" = { kind = "float", nargs = 2 }
"--tag" = { repeatable = true }
[bash.script.commands."run it"]
positionals = [{ name = "what", nargs = "?" }, { name = "rest", nargs = "..." }]
[bash.script.commands.r]
positionals = [{ name = "what", nargs = "?" }, { name = "rest", nargs = "..." }]
[bash.script.commands.inner]
command_optional = true
[bash.script.commands.inner.commands.deepest]
positionals = ["text"]
""",
        ),
        (
            CLICK,
            """\
# scripts/tool.py: add: --share: its range 0 to 1 is not kept
[[bash.script]]
path = "scripts/tool.py"
parser = "click"
[bash.script.options]
"--verbose" = { kind = "flag", aliases = ["-v"], repeatable = true }
[bash.script.commands.add]
positionals = ["name", { name = "files", kind = "path", nargs = "*" }]
[bash.script.commands.add.options]
"--limit" = { kind = "int", aliases = ["-l"] }
"--share" = { kind = "float", required = true }
"--format" = { kind = "choice", choices = ["csv", "json"] }
"--pair" = { nargs = 2 }
"--tag" = { repeatable = true }
"--shout" = { kind = "flag", aliases = ["--no-shout"] }
[bash.script.commands.drop-all]
positionals = [{ name = "which", nargs = "?" }]
""",
        ),
        (
            TYPER,
            """\
[[bash.script]]
path = "scripts/tool.py"
parser = "typer"
[bash.script.commands.add]
positionals = ["name"]
[bash.script.commands.add.options]
"--count" = "int"
"--tag" = { repeatable = true }
"--force" = { kind = "flag", aliases = ["--no-force"] }
"--unit" = { kind = "choice", choices = ["kWh", "m3"] }
[bash.script.commands.show]
positionals = [{ name = "ids", kind = "int", nargs = "+" }]
[bash.script.commands.show.options]
"--where" = "path"
"--note" = { required = true }
""",
        ),
        (
            (
                f"import argparse\ntry: argparse.ArgumentParser().parse_args()\n"
                f"finally: print('\\n{MARK}{{}}')"
            ),
            '[[bash.script]]\npath = "scripts/tool.py"\n',
        ),
        ("import atexit, sys; sys.exit(3)", ENDS.format("it ends (3)")),
        ("import os; os._exit(4)", ENDS.format("it ended (4)")),
        (
            "import nothing_such",
            "# scripts/tool.py: ModuleNotFoundError: No module named 'nothing_such'\n\n[bash]\n",
        ),
        ("x = ", "# scripts/tool.py: SyntaxError: invalid syntax (tool.py, line 1)\n\n[bash]\n"),
        ("print('-n')", "# scripts/tool.py: it reads no command line\n\n[bash]\n"),
    ],
    ids=lambda text: " ".join(text.split())[:24],
)
def test_a_script_tells_its_command_line_or_why_not(text, rules, tmp_path):
    written = derived(script(tmp_path, text))

    head = 'description = "Scripts, each with its own command line."\n\n'
    assert written == head + rules
    assert tomllib.loads(written).keys() == {"description", "bash"}


def test_a_helper_beside_a_script_is_found_and_one_script_can_be_asked_alone(tmp_path):
    script(tmp_path, "FORMATS = ['csv']", "helper.py")
    script(tmp_path, "import nothing_such", "broken.py")
    text = (
        "import argparse, helper\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--format', choices=helper.FORMATS)\nparser.parse_args()"
    )

    written = derived(script(tmp_path, text) / "tool.py", "--runner", "python3")

    assert written.partition("\n\n")[2] == (
        '[[bash.script]]\npath = "scripts/tool.py"\nrunner = "python3"\n[bash.script.options]\n'
        '"--format" = { kind = "choice", choices = ["csv"] }\n'
    )


def test_one_script_is_that_one_and_no_folder_is_read_that_no_script_names(tmp_path):
    folder = script(tmp_path, "from parts.formats import FORMATS; import argparse\n" + CHOICES)
    for name, text in {"a/tool.py": "input()", "parts/formats.py": "FORMATS = ['csv']"}.items():
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
    (folder / "a" / "closed").symlink_to("/proc/self/mem")  # nobody can read this one

    written = derived(folder / "tool.py")

    assert '"--format" = { kind = "choice", choices = ["csv"] }' in written


CHOICES = (
    "parser = argparse.ArgumentParser()\n"
    "parser.add_argument('--format', choices=FORMATS)\nparser.parse_args()"
)


def test_it_is_written_to_a_new_file_that_judges(tmp_path):
    out = tmp_path / "allowlists" / "mine.toml"

    said = derived(script(tmp_path, ARGPARSE), "--file", out)

    policy = load_policy(str(out), roots=[tmp_path])
    command = {"command": "uv run scripts/tool.py --file a --verbose inner deepest x"}
    primary = judge(ToolCall("", "bash", "", command), policy).primary
    assert (said, primary and primary.failure_class) == (f"wrote {out}\n", "hallucinated-flag")
    with pytest.raises(UsageError, match=r"mine.toml: is there already\. Name a new file"):
        derived(tmp_path / "scripts", "--file", out)


LOST_ARGPARSE = """
import argparse
class Own(argparse.Action): ...
top = argparse.ArgumentParser(allow_abbrev=False, add_help=False, fromfile_prefix_chars="@")
top.add_argument("--own", action=Own)
top.add_argument("--all", nargs="...")
top.add_argument("kinds", nargs="*", choices=["a", "b"], default=["a"])
one = top.add_mutually_exclusive_group(required=True)
one.add_argument("-j", "--json", action="store_true")
one.add_argument("--csv", action="store_true")
top.parse_known_args()
"""
LOST_CLICK = """
import click

class Found(click.Group):
    def list_commands(self, ctx): return ["a"]

@click.group(cls=Found, chain=True, context_settings={"token_normalize_func": str.lower,
    "help_option_names": ["-h", "--help"]})
@click.version_option("1")
@click.option("--eager", is_eager=True)
@click.option("--kind", type=click.Choice(["a"], case_sensitive=False))
@click.option("--name", prompt=True)
@click.option("--key", required=True, envvar="KEY")
def cli(**given): ...

cli()
"""
LOST_COMMAND = """
import click

@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--mode", is_flag=False, flag_value="x")
def cli(**given): ...

cli()
"""


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (
            LOST_ARGPARSE,
            """\
# scripts/tool.py: --own: what its own action Own checks is not kept
# scripts/tool.py: it reads arguments from files too; here such a word is a value
# scripts/tool.py: it ignores options that it does not know; here they are denied
# scripts/tool.py: --all: it takes all that is left, options too; here it takes words
[[bash.script]]
path = "scripts/tool.py"
abbreviations = false
help = []
one_of = [["--json", "--csv"]]
positionals = [{ name = "kinds", kind = "choice", choices = ["a", "b"], nargs = "+" }]
[bash.script.options]
"--own" = "str"
"--all" = { nargs = "*" }
"--json" = { kind = "flag", aliases = ["-j"] }
"--csv" = "flag"
""",
        ),
        (
            LOST_CLICK,
            """\
# scripts/tool.py: it takes many sub-commands in a row; here one
# scripts/tool.py: it finds its sub-commands when it runs: none is here
# scripts/tool.py: names that it reads in more than one spelling are denied here in all but one
# scripts/tool.py: --eager: it may end the script early; here what else is required is so beside it
# scripts/tool.py: --kind: choices in other letters than these are denied here
# scripts/tool.py: --name: the script asks for it where it is left out; here nobody answers
# scripts/tool.py: --key: here it is required, where the script reads KEY too
[[bash.script]]
path = "scripts/tool.py"
parser = "click"
help = ["-h", "--help"]
[bash.script.options]
"--version" = { kind = "flag", ends = true }
"--eager" = "str"
"--kind" = { kind = "choice", choices = ["a"] }
"--name" = "str"
"--key" = { required = true }
""",
        ),
        (
            LOST_COMMAND,
            """\
# scripts/tool.py: ignore_unknown_options: what it does not know is denied here
# scripts/tool.py: behind its first word it takes no options; here it does
[[bash.script]]
path = "scripts/tool.py"
parser = "click"
[bash.script.options]
"--mode" = { nargs = "?" }
""",
        ),
        (
            """import argparse\nparser = argparse.ArgumentParser(prefix_chars="-+")
parser.add_argument("+x")\nparser.parse_args()""",
            """\
[[bash.script]]
path = "scripts/tool.py"
prefix = "-+"
[bash.script.options]
"+x" = "str"
""",
        ),
        (
            """import argparse\nparser = argparse.ArgumentParser(prefix_chars="a")
parser.add_argument("ax")\nparser.parse_args()""",
            """\
# scripts/tool.py: no allow list can say what it takes: bash.script scripts/tool.py: prefix: \
expected the characters before an option, got 'a'

[bash]
""",
        ),
    ],
)
def test_what_an_allow_list_cannot_say_is_told_and_what_is_written_can_be_read(
    text, rules, tmp_path
):
    written = derived(script(tmp_path, text))

    assert written.partition("\n\n")[2] == rules
    bash_rules(convert("derived", tomllib.loads(written)).bash)


def test_scripts_in_other_languages_are_named(tmp_path):
    script(tmp_path, "getopts a:b o", "shell.sh")
    script(tmp_path, "#!/bin/sh\n", "plain")
    script(tmp_path, "x", "data.csv")

    written = derived(script(tmp_path, "import argparse; argparse.ArgumentParser().parse_args()"))

    said = [line for line in written.splitlines() if line.startswith("#")]
    assert said == [
        "# scripts/plain: not read, no Python",
        "# scripts/shell.sh: not read, no Python",
    ]


@pytest.mark.parametrize("place", ["nowhere", "empty", "empty/tool.py", "scripts/other.py"])
def test_a_place_without_scripts_is_refused(place, tmp_path):
    (tmp_path / "empty").mkdir()
    script(tmp_path, "")

    with pytest.raises(UsageError, match=r"no Python scripts there\. Name a folder of scripts"):
        derived(tmp_path / place)
