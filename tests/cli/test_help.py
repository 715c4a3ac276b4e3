"""`agenteval --help`: static, so that it is quick, and yet what each command says of itself."""

import subprocess
import sys
from collections import defaultdict

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from agenteval.cli.app import COMMANDS, app, plain


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_itself(name) -> None:
    command = get_command(app).commands[name]
    assert command.help.strip().splitlines()[0] == COMMANDS[name]["help"]


def modules_after(*commands: str) -> set[str]:
    """What a process has imported that showed the help of all these; "" is the list of them."""
    probe = (
        "import sys; from agenteval.cli.app import app\n"
        "for name in sys.argv[1:]:\n"
        "    try: app([name, '--help'] if name else ['--help'])\n"
        "    except SystemExit: pass\n"
        "print([*sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", probe, *commands], capture_output=True, text=True, check=True
    )
    return set(eval(ended.stderr))


def test_help_imports_no_command_and_no_workflow() -> None:
    parts = (
        "_version cli cli.app cli.options cli.output cli.signals config config.beneath "
        "config.files dialects errors host lazily report trial trial.redaction trial.text workflows"
    )
    ours = {name for name in modules_after("") if name.startswith("agenteval.")}
    assert ours <= {f"agenteval.{part}" for part in parts.split()}


def test_no_help_of_a_command_reads_what_it_only_works_with() -> None:
    read = {".".join(name.split(".")[:2]) for name in modules_after(*COMMANDS)}
    assert {"agenteval.cli", "typer"} < read
    heavy = {f"agenteval.{name}" for name in ("play", "sandbox", "stats")}
    heavy |= {"sqlalchemy", "pydantic", "openai", "numpy", "rich"}
    assert heavy & read == set()


def test_examples_of_a_help_text_stand_in_lines_of_their_own() -> None:
    told = plain("Does it.\n\nExamples:\n- `do it` at once\n\n- `do it --twice`, and again\n")
    assert told.splitlines() == [
        "Does it.",
        "",
        "\b",
        "Examples:",
        "  do it   # at once",
        "  do it --twice   # and again",
    ]


@pytest.mark.parametrize("arguments", [["--help"], ["allowlist", "--help"], ["run", "--help"]])
def test_help_fits_a_narrow_terminal(arguments) -> None:
    shown = CliRunner().invoke(app, arguments, prog_name="agenteval").stdout
    prose = [line for line in shown.splitlines() if not line.startswith("    agenteval ")]
    assert max(map(len, prose)) <= 80


# Options that mean one thing and say it in the words of their command.
WORDS_OF_THEIR_OWN = {
    "--agent": "ingest takes sessions of agents with this in it, the others mean one agent",
    "--allowlist": "classify lists the formats, rescore says that it takes the same",
    "--base-url": "run takes several",
    "--concurrency": "run takes several levels, promote one, and speed asks requests",
    "--file": "allowlist derive prints where none is given",
    "--gate": "run ends early by it, the others judge by it",
    "--json": "classify prints a line a call",
    "--model": "show lists runs of it",
    "--out": "gate writes its reports there, scenarios world a world",
    "--project": "doctor lists what a folder would do, ingest takes sessions in folders",
    "--redact": "export does it to a dataset unless told otherwise",
    "--report": "each has a default of its own",
    "--since": "ingest has sessions, show has runs",
    "--seed": "scenarios show draws one trial",
    "--trials": "promote plans how many",
    "--yes": "runs rm then wants whole ids",
}


def options(command):
    """Each option of each command: its name, the type of its value, what it says."""
    for one in getattr(command, "commands", {}).values():
        yield from options(one)
    for one in command.params:
        for name in one.opts:
            if name.startswith("--"):
                yield name, one.type.name, one.help or ""


def test_an_option_means_one_thing_in_every_command() -> None:
    kinds, words = defaultdict(set), defaultdict(set)
    for name, kind, told in options(get_command(app)):
        kinds[name].add(kind)
        words[name].add(told)
    # A flag of doctor, whose folder may be left away: typer has no option whose value may be.
    assert {name for name, found in kinds.items() if len(found) > 1} == {"--project"}
    assert {name for name, told in words.items() if len(told) > 1} == set(WORDS_OF_THEIR_OWN)
