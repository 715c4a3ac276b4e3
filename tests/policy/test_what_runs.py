"""What an allowed call runs is what was judged, under our own rules and under those of others."""

import json
import random
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenteval.classes.judge import judge
from agenteval.config.allowlists import convert, load_any, policy
from agenteval.policy.policy import (
    Policy,
    World,
    admitted_path,
    allows,
    allows_command,
    elsewhere,
    files_written,
    only_command,
)
from agenteval.policy.rules import _passed_on
from agenteval.shell.gate import Simple, read_simple
from agenteval.shell.leaves import Leaves, read_leaves
from agenteval.shell.programs import shown_files
from agenteval.trial.call import (
    Allowed,
    BashRun,
    Denied,
    FileEdit,
    FileRead,
    FileSearch,
    FileWrite,
    Runnable,
    ToolCall,
)

BASH = ("bash", "--norc", "--noprofile", "-c")
RULES = """
[bash]
allow = ["echo *", "git *", "ls *"]
constructs = ["pipe", "chain", "command-substitution"]
[read]
allow = ["notes/**"]
[write]
allow = ["notes/**"]
[tools.todo]
description = "keeps a list"
"""
OWN = policy(convert("t", tomllib.loads(RULES)), name="t", where="t")
LINES = [
    "ls -l",
    "ls 'a b'",
    "ls *.c",
    "echo hi",
    "git log | ls",
    "ls $(git x)",
    "ls; git y",
    "ls >",
]


def bash(text: str) -> ToolCall:
    return ToolCall("", _as_sent("bash"), text, {"command": text})


def tool(name: str, **arguments: object) -> ToolCall:
    return ToolCall("", _as_sent(name), json.dumps(arguments), arguments)


def _as_sent(name: str) -> str:
    """Equal to the names of our tools and none of them, as what is read from a reply."""
    return "".join([*name])


def runs(call: ToolCall, rules: Policy = OWN) -> Runnable | None:
    verdict = judge(call, rules)
    assert isinstance(verdict, Allowed)
    return verdict.runs


@pytest.mark.parametrize(
    ("text", "argv", "commands"),
    [
        ("git log 'a b'", ("git", "log", "a b"), [("git", "log", "a b")]),
        ("  git log  # why", ("git", "log"), [("git", "log")]),
        ("ls *.c", (*BASH, "ls *.c"), [("ls", "*.c")]),
        ("echo hi", (*BASH, "echo hi"), [("echo", "hi")]),
        ("git log | ls x", (*BASH, "git log | ls x"), [("git", "log"), ("ls", "x")]),
        ("ls $(git x)", (*BASH, "ls $(git x)"), [("git", "x"), ("ls", "$(git x)")]),
    ],
)
def test_a_command_runs_as_it_was_read(text, argv, commands) -> None:
    assert runs(bash(text)) == BashRun(text, argv, tuple(commands))


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (tool("read", path="notes/a.md"), FileRead("notes/a.md")),
        (tool("read", filePath="/workspace/./notes//a.md"), FileRead("notes/a.md")),
        (tool("read", path="notes/a", offset=3, limit=20), FileRead("notes/a", 3, 20)),
        (tool("read", path="notes/a", offset="3.0", limit=20.0), FileRead("notes/a", 3, 20)),
        (tool("read", path="notes/a", offset=0, limit=-1), FileRead("notes/a")),
        (tool("read", path="notes/a", offset=True, limit=None), FileRead("notes/a")),
        (tool("read", path="notes/a", offset="9" * 10, limit=1e300), FileRead("notes/a")),
        (tool("read", path="notes/a", offset="x", limit=2.5), FileRead("notes/a")),
        (tool("write", path="./notes/a.md", content="x"), FileWrite("notes/a.md", "x")),
        (tool("todo", items=[]), None),
    ],
)
def test_a_file_tool_touches_the_path_that_was_judged(call, found) -> None:
    assert runs(call) == found


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=3), st.randoms())
def test_whatever_is_allowed_runs_its_own_reading_and_no_other(
    lines: list[str], chance: random.Random
) -> None:
    text = chance.choice(["\n", " && ", " | ", " "]).join(lines)
    verdict = judge(bash(text), OWN)
    if isinstance(verdict, Denied):
        return
    simple, split = read_simple(text), read_leaves(text)
    assert isinstance(verdict.runs, BashRun)
    assert isinstance(split, Leaves)
    assert verdict.runs.text == text
    assert verdict.runs.argv in (simple.argv if isinstance(simple, Simple) else (), (*BASH, text))
    assert verdict.runs.commands == tuple(leaf.argv for leaf in split.leaves)


LOOP = "for f in a b; do ls $f; done"


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (bash("ls 'a b'"), BashRun("ls 'a b'", ("ls", "a b"), (("ls", "a b"),))),
        (tool("Bash", command="ls x"), BashRun("ls x", ("ls", "x"), (("ls", "x"),))),
        (bash("ls | cat"), BashRun("ls | cat", (*BASH, "ls | cat"), (("ls",), ("cat",)))),
        (bash(LOOP), BashRun(LOOP, (*BASH, LOOP), ())),
        (tool("read", filePath="/workspace/a"), FileRead("a")),
        (tool("read", filePath="a/../b"), FileRead("/workspace/b")),
        (tool("write", filePath="a", content="x"), FileWrite("a", "x")),
        (tool("read", filePath="a", offset=5), FileRead("a", 5)),
        (tool("webfetch", url="x"), None),
        (tool("glob", pattern="*.py", path="a"), FileSearch("glob", "*.py", "a", "")),
        (tool("edit", path="a", old="x", new="y"), FileEdit("a", "x", "y")),
        (tool("edit", filePath="a", oldString="x", newString="y"), None),  # in other words
        (tool("edit", old="x", new="y"), FileEdit("/workspace", "x", "y")),  # which is no file
        (tool("apply_patch", patchText="x"), None),  # nothing here carries it out
    ],
)
def test_what_rules_of_other_harnesses_allow_goes_through_the_same_door(
    tmp_path: Path, call, found
) -> None:
    path = tmp_path / "opencode.json"
    path.write_text(json.dumps({"permission": "allow"}))
    assert runs(call, load_any(str(path), roots=[])) == found


CHANGE = {"path": "notes/a", "old": "x", "new": "y"}


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (tool("edit", **CHANGE), FileEdit("notes/a", "x", "y")),
        (tool("glob", pattern="*.md"), FileSearch("glob", "*.md", ".", "")),
        (tool("read", path="notes/a"), FileRead("notes/a")),
        (tool("todo", items=[]), None),
    ],
)
def test_what_an_agent_is_offered_beside_is_a_tool_under_our_rules(call, found) -> None:
    assert runs(call, OWN.offering(("read", "todo", "edit", "glob"))) == found


def test_an_agent_has_no_tool_that_it_is_not_offered() -> None:
    offered = OWN.offering(("read", "edit", "unheard-of"))
    assert [*offered.tools] == ["read", "edit"]
    assert not allows(tool("write", path="notes/a", content="x"), offered)
    assert not allows(tool("edit", **CHANGE | {"path": "a"}), offered)
    assert not allows(tool("edit", **CHANGE), OWN)
    assert not allows(tool("webfetch", url="x"), OWN.offering(("webfetch",)))


def test_a_tool_of_the_users_own_stays_his_whatever_it_is_called() -> None:
    own = policy(convert("t", tomllib.loads("[tools.edit]\n[read]")), name="t", where="t")
    assert own.offering(("edit", "read")).tools == own.tools
    assert runs(tool("edit", any=1), own.offering(("edit",))) is None
    assert own.paths("edit") is None
    assert (own.paths("read"), own.paths("write")) == (own.read, own.write)


def test_a_kept_result_outside_the_workspace_is_open_to_be_read_and_not_to_be_written() -> None:
    world = World(saved=frozenset({"/tmp/result"}))
    read, written = tool("read", path="/tmp/result"), tool("write", path="/tmp/result", content="")
    assert (allows(read, OWN, world), allows(read, OWN), allows(written, OWN, world)) == (
        True, False, False)  # fmt: skip
    changed = tool("edit", **CHANGE | {"path": "/tmp/result"})
    assert not allows(changed, OWN.offering(("edit",)), world)


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (bash("ls"), "ls"),
        (tool("bash", command="ls", timeout=1), None),
        (ToolCall("", "bash", "{", None, "cut"), None),
        (tool("read", path="x"), None),
    ],
)
def test_a_bash_call_of_nothing_else_is_its_command(call, found) -> None:
    assert only_command(call, OWN) == found


def test_where_a_schema_says_what_bash_takes_a_call_is_more_than_its_command() -> None:
    rules = RULES + "[tools.bash.parameters]\nrequired = ['reason']\n"
    strict = policy(convert("t", tomllib.loads(rules)), name="t", where="t")
    assert only_command(bash("ls"), strict) is None
    assert not allows(bash("ls"), strict)
    assert allows(tool("bash", command="ls", reason="x"), strict)


@pytest.mark.parametrize("key", ["workdir", "cwd", "working_directory"])
def test_the_folders_that_a_call_asks_for_are_told(key: str) -> None:
    found = [elsewhere({key: value, "x": "y"}, World()) for value in ("/tmp", ".", None, 5)]
    assert found == [("/tmp",), (), (), ("5",)]
    assert not allows(tool("bash", command="ls", **{key: "a"}), OWN)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [("ls", True), ("rm", False), ("ls | git x", True), ("ls | rm", False), ("ls &", False)],
)
def test_a_command_is_read_once_whoever_reads_it(text: str, *, allowed: bool) -> None:
    assert allows_command(text, OWN) is allowed
    none_joined = policy(convert("t", {"bash": {"allow": ["ls", "git *"]}}), name="t", where="t")
    assert allows_command(text, none_joined) is (text == "ls")


def test_a_tool_that_another_harness_rules_name_is_one_in_any_capitals(tmp_path: Path) -> None:
    path = tmp_path / "opencode.json"
    path.write_text(json.dumps({"permission": {"*": "deny", "jira_search": "allow"}}))
    rules = load_any(str(path), roots=[])
    found = [rules.tool(name) for name in ("jira_search", "Jira_Search", "jira_delete")]
    assert [tool and tool.name for tool in found] == ["jira_search", "jira_search", None]
    assert allows(tool("Jira_Search", query="x"), rules)
    assert not allows(tool("jira_delete", query="x"), rules)


def _rules(allow: list[str]) -> Policy:
    return policy(convert("t", {"bash": {"allow": allow}}), name="t", where="t")


def test_a_script_is_known_by_its_bare_name_and_told_by_its_first_rule():
    twice = _rules(["uv run scripts/a-b.tools.py *", "python3 scripts/a-b.tools.py *"])
    assert twice.bash.by_stem == {"a_b": "uv run scripts/a-b.tools.py"}


@pytest.mark.parametrize("paths", [{}, {"path": "notes/a", "filePath": "notes/b"}])
def test_a_file_tool_without_a_path_or_with_two_touches_nothing(paths) -> None:
    rules = OWN.paths("read")
    assert rules is not None
    assert admitted_path(tool("read", **paths), rules, World()) is None


def test_files_that_a_call_writes_are_those_inside_the_workspace() -> None:
    text = "uv run x.py > a.txt 2>&1 > /etc/b > c/d"
    call = ToolCall("", "bash", "", {"command": text})
    assert list(files_written(call, "/workspace")) == ["a.txt", "c/d"]
    written = [tool("write", path=path, content="x") for path in ("./a", "/etc/a", "/workspace/b")]
    assert [[*files_written(one, "/workspace")] for one in written] == [["a"], [], ["b"]]
    others = (tool("read", path="a"), tool("zip", path="a"), bash(">"))
    assert [[*files_written(one, "/workspace")] for one in others] == [[], [], []]


@pytest.mark.parametrize(
    ("redirects", "written"),
    [
        ("> a 2> b >> c", ["a", "b", "c"]),
        ("&> a", ["a"]),
        ("> 5", ["5"]),
        ("2>&1 >&5 2>&-", []),
        ("2> /dev/null", []),
        ("< a > b", ["b"]),
        ("> a <<END\nx\nEND", ["a"]),
        ("> a <<< x", ["a"]),
    ],
)
def test_files_that_redirects_write_are_those_of_errors_too_and_no_descriptors(
    redirects: str, written: list[str]
) -> None:
    assert [*files_written(bash(f"uv run x.py {redirects}"), "/workspace")] == written


def test_of_a_program_that_shows_nothing_no_files_are_known() -> None:
    assert (shown_files(["uv", "a"]), shown_files(["cat", "a"])) == ([], ["a"])


def test_where_an_option_is_parted_from_its_value_every_word_may_be_filled_in() -> None:
    runs = [*_passed_on(("git", "-cx=y", "bisect", "run", "ls"), range(2, 3))]
    assert (runs[0].argv, runs[0].dynamic) == (["-x", "y", "bisect", "run", "ls"], {0, 1, 2, 3, 4})
