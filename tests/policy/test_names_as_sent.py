"""Tools are known by the letters of their names, as a model sends them, by no order of these."""

import json
import tomllib

import pytest

from agenteval.config.allowlists import convert, load_any, policy
from agenteval.policy.policy import Policy, World, allows, decide
from agenteval.trial.call import Allowed, BashRun, FileEdit, FileRead, FileWrite, ToolCall

RULES = """
[bash]
allow = ["echo *"]
[read]
allow = ["a", "in"]
[write]
allow = ["a", "out"]
[tools.aa]
[tools.zz]
"""
OWN = policy(convert("t", tomllib.loads(RULES)), name="t", where="t")


def sent(name: str, **arguments: object) -> ToolCall:
    """A name out of a reply is no text of the program: only its letters are the same."""
    name = "".join(name)
    return ToolCall("", name, json.dumps(arguments), arguments)


@pytest.fixture(params=["own", "opencode"])
def rules(request, tmp_path) -> Policy:
    if request.param == "own":
        return OWN.offering(("bash", "read", "write", "edit"))
    path = tmp_path / "opencode.json"
    path.write_text(json.dumps({"permission": "allow"}))
    return load_any(str(path), roots=[])


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (sent("bash", command="echo a"), BashRun),
        (sent("read", path="a"), FileRead),
        (sent("write", path="a", content="x"), FileWrite),
        (sent("edit", path="a", old="x", new="y"), FileEdit),
    ],
)
def test_each_tool_does_its_own_work(rules: Policy, call: ToolCall, kind: type) -> None:
    verdict = decide(call, rules)
    assert isinstance(verdict, Allowed)
    assert isinstance(verdict.runs, kind)


@pytest.mark.parametrize("name", ["aa", "zz"])
def test_a_tool_of_another_name_opens_no_file(name: str) -> None:
    assert OWN.paths(name) is None
    assert decide(sent(name, path="b"), OWN) == Allowed()


def test_a_kept_result_is_open_to_the_tool_that_reads_alone() -> None:
    world = World(saved=frozenset({"/kept/1"}))
    assert allows(sent("read", path="/kept/1"), OWN, world)
    assert not allows(sent("write", path="/kept/1", content="x"), OWN, world)


def test_a_file_tool_without_a_path_is_denied() -> None:
    assert not allows(sent("read"), OWN)
    assert not allows(sent("read", path="a", filePath="b"), OWN)


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("echo x > out", True),
        ("echo x > in", False),
        ("echo x 2> out", True),
        ("echo x 2> in", False),
        ("echo x < in", True),
        ("echo x < out", False),
    ],
)
def test_behind_a_redirect_what_it_reads_or_writes_must_be_open(command, allowed) -> None:
    joins = "constructs = ['file-redirect', 'input-redirect', 'stderr-redirect']"
    rules = tomllib.loads(RULES.replace("[read]", f"{joins}\n[read]"))
    joined = policy(convert("t", rules), name="t", where="t")
    assert allows(sent("bash", command=command), joined) is allowed
