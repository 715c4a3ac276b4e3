"""Usage lines of a prompt, found and filled in."""

import pytest

from agenteval.config.prompts import _fillings, _script_of, usages
from agenteval.policy.command_lines import Argument, CommandLine, Kind

LINE = CommandLine.of(
    [
        Argument("--limit", Kind.INT),
        Argument("--share", Kind.FLOAT),
        Argument("--format", choices=("table", "json")),
        Argument("--open", Kind.FLAG),
        Argument("--text"),
        Argument("--tag", most=None),
    ],
    (Argument("note", Kind.INT), Argument("state", choices=("new", "old"))),
    {
        "move": CommandLine.of((), (Argument("notes", Kind.INT, most=None),)),
        "show": CommandLine.of([Argument("--id", Kind.INT)], (Argument("file", Kind.PATH),)),
    },
)

PROMPT = """\
Use these, and `uv run scripts/a.py --all`; see also `scripts/a.py` and `uv run scripts/b.py`.

    uv run scripts/a.py list [--limit N]      all of them
        What there is, with `--limit`.
    $ uv run scripts/b.py  # nothing else
    python is a language
    git status

uv run scripts/c.py is a line of prose.
"""


def test_usages_are_indented_lines_and_quoted_calls():
    assert usages(PROMPT) == [
        "uv run scripts/a.py list [--limit N]",
        "uv run scripts/b.py",
        "uv run scripts/a.py --all",
    ]


def test_a_usage_names_its_script():
    assert _script_of("uv run scripts/a.py list [--limit N]") == (("uv", "run"), "scripts/a.py")


@pytest.mark.parametrize(
    ("usage", "shortest", "whole"),
    [
        ("[--limit N]", "", ["--limit 1"]),
        ("--limit 5 --share NUMBER", "--limit 5 --share 1.5", ["--limit 5 --share 1.5"]),
        ("--format table|csv", "--format table", ["--format table", "--format csv"]),
        ("--format FORMAT [--open]", "--format table", ["--format table --open"]),
        ("--open ID STATE", "--open 1 new", ["--open 1 new"]),
        ('--text "SELECT [x] ..."', "--text SELECT [x] ...", ["--text SELECT [x] ..."]),
        ("--text 'A|B'", "--text A|B", ["--text A|B"]),
        ("show [--id <id>] FILE", "show file.txt", ["show --id 1 file.txt"]),
        ("--tag A [B ...]", "--tag A", ["--tag A B"]),
        ("move NOTE [NOTE ...]", "move 1", ["move 1 1"]),
        ("--colour RED 1 2 3 4 X", "--colour 1 1 2 3 4 X", ["--colour 1 1 2 3 4 X"]),
    ],
)
def test_a_usage_is_filled_with_values_that_fit(usage, shortest, whole):
    filled = [" ".join(words[1:]) for words in _fillings(f"x.py {usage}", LINE, 1)]

    assert filled == [shortest, *whole]
