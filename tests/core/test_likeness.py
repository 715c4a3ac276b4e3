"""How alike two calls are, and what counts as the same intent."""

import json

import pytest

from agenteval.core.call import ToolCall
from agenteval.core.recovery import likeness, same_call, same_intent


def bash(command):
    return ToolCall("1", "bash", json.dumps({"command": command}), {"command": command})


def other(name, **arguments):
    return ToolCall("1", name, json.dumps(arguments), arguments)


def malformed(raw):
    return ToolCall("1", "bash", raw, malformed="no JSON")


@pytest.mark.parametrize(
    ("denied", "allowed"),
    [
        (bash("uv run notes.py list | head -5"), bash("uv run notes.py list --limit 5")),
        (bash("timeout 30 uv run notes.py show 3"), bash("uv run notes.py show 3")),
        (bash("cd /srv/app && uv run scripts/notes.py list"), bash("uv run scripts/notes.py list")),
        (bash("uv run ralf.py spawn x --no-agent"), bash("uv run ralf.py spawn x --agent")),
        (bash("uv run ./notes.py list 2>&1"), bash("uv run notes.py --json")),
        (bash("ls 'my notes' | wc -l"), bash("ls")),
        (other("emit_guidance", text="x"), bash("uv run emit-guidance.py --text x")),
        (other("emit_guidance", text="x"), bash("uv run ralf.py emit_guidance x")),
        (other("read", path="/data/notes.md"), other("read", path="notes.md")),
        (bash("cat notes.md"), other("read", path="notes.md")),
        (malformed('{"command": "uv run notes.py list'), bash("uv run notes.py list")),
    ],
)
def test_the_same_thing_without_the_offending_construct_is_the_same_intent(denied, allowed):
    assert same_intent(denied, allowed)


@pytest.mark.parametrize(
    ("denied", "allowed"),
    [
        (bash("ls -la"), bash("uv run notes.py list")),
        (bash("uv run notes.py list | head"), bash("uv run notes.py show 3")),
        (bash("uv run food.py list"), bash("uv run notes.py list")),
        (bash("uv run python -c 'print(1)'"), bash("uv run notes.py list")),
        (other("read", path="/data/a.png"), other("read", path="notes.md")),
        (bash("ls"), bash("")),
        (other("web_search", query="lidar"), other("read", path="notes.md")),
    ],
)
def test_another_script_or_another_subcommand_is_another_intent(denied, allowed):
    assert not same_intent(denied, allowed)


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (bash("ls"), bash("ls"), True),
        (bash("ls"), bash("ls -la"), False),
        (bash("ls"), other("shell", command="ls"), False),
        (malformed("{"), malformed("{"), True),
        (malformed("{"), malformed("{{"), False),
        (malformed("{"), bash("ls"), False),
        (ToolCall("1", "bash", '{"command":"ls"}', {"command": "ls"}), bash("ls"), True),
    ],
)
def test_a_call_is_the_same_when_tool_and_arguments_are(one, two, expected):
    assert same_call(one, two) is expected


def test_likeness_is_the_share_of_words_in_common():
    assert likeness(bash("ls a b"), bash("ls a b")) == 1.0
    assert likeness(bash("ls a"), bash("ls b")) == 0.5
    assert likeness(bash("ls"), other("read", path="x")) == 0.0
