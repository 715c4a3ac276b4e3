"""The tools that a harness offers beside bash: what they do in the world, and what is closed."""

from dataclasses import replace

import pytest

from agenteval.config.prompts import arms
from agenteval.policy.command_lines import PathRules
from agenteval.prompt.arm import Cut
from agenteval.testing import Made, ScriptedModel, tool

TOOLS = arms()["taught/tools"]


def primary(record) -> str:
    return record.verdict.primary.failure_class if record.verdict.primary else ""


@pytest.mark.parametrize(
    ("made", "closed", "read"),
    [
        (tool("glob", pattern="*.txt"), "", "notes/n.txt"),
        (tool("glob", pattern="*.py"), "", "nothing was found"),  # not open to be read
        (tool("glob", pattern="*", path="notes"), "", "notes/n.txt"),
        (tool("grep", pattern="a n.te"), "", "notes/n.txt:1: a note"),
        (tool("grep", pattern="note", include="*.md"), "", "nothing was found"),
        (tool("grep", pattern="import"), "", "nothing was found"),
        (tool("grep", pattern="("), "", "missing ), unterminated subpattern"),
        (tool("grep", pattern="x", path="/etc"), "blocked-path", "has been denied"),
        (tool("glob", pattern="*", path="../.."), "blocked-path", "has been denied"),
        (tool("glob"), "malformed-arguments", "Invalid tool call"),
        (tool("webfetch", url="https://example.org/"), "blocked-path", "has been denied"),
        (tool("todowrite", todos=[{"content": "mark"}]), "", '"content": "mark"'),
        (tool("todowrite", todos="mark"), "malformed-arguments", "Invalid tool call"),
        (
            tool("edit", filePath="notes/n.txt", oldString="a", newString="b"),
            "hallucinated-tool",
            "",
        ),
        (tool("Read", path="notes/n.txt"), "hallucinated-tool", "The tools are: bash, read, glob"),
        (tool("bash", command="ls notes", workdir="/tmp"), "blocked-path", "has been denied"),
    ],
)
async def test_a_search_tells_of_what_may_be_read_and_the_web_is_closed(play, made, closed, read):
    (trial,) = await play(ScriptedModel(made), arm=TOOLS)
    (record,) = trial.calls
    assert (primary(record), read in record.reply) == (closed, True), record.reply


def edit(old: str, new: str, path: str = "notes/n.txt") -> Made:
    return tool("edit", filePath=path, oldString=old, newString=new)


@pytest.mark.parametrize(
    ("made", "replied", "then"),
    [
        (edit("note", "word"), "edited notes/n.txt", "a word"),
        (edit("nothing", "word"), "stands in 0 places", "a note"),
        (edit("", "word"), "stands in 0 places", "a note"),
        (edit("", "new", "notes/m.txt"), "edited notes/m.txt", "a note"),
        (edit("x", "new", "notes/m.txt"), "No such file", "a note"),
        (edit("a", "b", "scripts/mark.py"), "has been denied", "a note"),
    ],
)
async def test_an_edit_changes_the_one_place_or_nothing(play, made, replied, then):
    writing = replace(play.scenario, tools=("bash", "read", "write"))
    look = tool("read", filePath="notes/n.txt")
    (trial,) = await play(ScriptedModel(made, look), scenario=writing, arm=TOOLS)
    assert replied in trial.calls[0].reply
    assert trial.calls[1].reply == then


async def test_under_strict_there_is_no_other_tool_than_the_scenarios(play):
    (trial,) = await play(ScriptedModel(tool("glob", pattern="*")))
    assert primary(trial.calls[0]) == "hallucinated-tool"


async def test_all_of_a_long_result_can_be_read_in_the_file_that_the_notice_names(play):
    arm = replace(TOOLS, cut=Cut(1, 99, "end", saved=True))
    kept = "/tmp/agent/tool-output/1.txt"
    (trial,) = await play(
        ScriptedModel(
            tool("read", filePath=kept),
            "ls scripts notes",
            tool("read", filePath=kept, offset=2, limit=1),
            tool("read", filePath=kept.replace("1", "2")),
        ),
        arm=arm,
    )
    before, cut, part, other = trial.calls
    assert primary(before) == primary(other) == "blocked-path"
    assert f"All of it is in {kept}" in cut.reply
    assert cut.reply.endswith("]\nmark.py\n")
    assert cut.execution.output == "notes:\nn.txt\n\nscripts:\nmark.py\n"
    assert part.reply == "n.txt\n"


STOLEN = "import pathlib; pathlib.Path('notes/stolen.txt').write_text('it ran')"


@pytest.mark.parametrize("name", ["json.py", "re.py", "os.py", "sitecustomize.py", "encodings.py"])
async def test_what_a_model_wrote_is_no_part_of_a_search(play, name):
    play.policy = replace(play.policy, write=PathRules(("**",)), read=PathRules(("**",)))
    (trial,) = await play(
        ScriptedModel(
            tool("write", filePath=name, content=STOLEN),
            tool("grep", pattern="note"),
            tool("glob", pattern="**/*.txt"),
        ),
        arm=TOOLS,
        scenario=replace(play.scenario, tools=("bash", "read", "write")),
    )
    wrote, found, listed = trial.calls
    assert (wrote.execution.exit_code, "notes/n.txt:1: a note" in found.reply) == (0, True)
    assert listed.reply == "notes/n.txt"


async def test_a_search_follows_no_link_out_of_its_folder(play):
    play.policy = replace(play.policy, read=PathRules(("**",)))
    files = play.files
    play.files = lambda seed: {**files(seed), "scripts/mark.py": LINKS.encode()}
    (trial,) = await play(
        ScriptedModel(
            "uv run scripts/mark.py a",
            tool("glob", pattern="*", path="etc"),
            tool("grep", pattern="root", path="etc"),
            tool("grep", pattern="root", path="."),
        ),
        arm=TOOLS,
    )
    assert [record.reply for record in trial.calls[1:]] == [
        *["etc: a link leads to another folder"] * 2,
        "scripts/mark.py:3: os.symlink('/etc/passwd', 'root')",
    ]


async def test_a_search_goes_on_behind_a_file_that_cannot_be_read(play):
    play.policy = replace(play.policy, read=PathRules(("**",)))
    files = play.files
    play.files = lambda seed: {**files(seed), "scripts/mark.py": CLOSED.encode()}
    (trial,) = await play(
        ScriptedModel("uv run scripts/mark.py a", tool("grep", pattern="note", path="notes")),
        arm=TOOLS,
    )
    assert trial.calls[1].reply == "notes/n.txt:1: a note"


CLOSED = """import pathlib
pathlib.Path('notes/a.txt').write_text('a closed note')
pathlib.Path('notes/a.txt').chmod(0)
"""
LINKS = """import os
os.symlink('/etc', 'etc')
os.symlink('/etc/passwd', 'root')
"""
