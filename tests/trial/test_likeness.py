"""How alike two calls are, and what counts as the same intent."""

import json

import pytest

from agenteval.trial.call import ToolCall
from agenteval.trial.intents import (
    READS,
    REMOVES,
    WRITES,
    Command,
    Intent,
    intent_of,
    likeness,
    same_intent,
)


def bash(command):
    return ToolCall("1", "bash", json.dumps({"command": command}), {"command": command})


def other(name, **arguments):
    return ToolCall("1", name, json.dumps(arguments), arguments)


def malformed(raw):
    return ToolCall("1", "bash", raw, malformed="no JSON")


def same(one, other):
    return same_intent(intent_of(one), intent_of(other))


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
        (bash("sed -i s/a/b/ notes.md"), other("write", path="notes.md", content="b")),
        (other("read", path="/data/notes.md"), other("read", path="notes.md")),
        (bash("cat notes.md"), other("read", path="notes.md")),
        (malformed('{"command": "uv run notes.py list'), bash("uv run notes.py list")),
        (bash("uv run pantry-inventry.py list tea"), bash("uv run pantry-inventory.py list tea")),
    ],
)
def test_the_same_thing_without_the_offending_construct_is_the_same_intent(denied, allowed):
    assert same(denied, allowed)


@pytest.mark.parametrize(
    ("denied", "allowed"),
    [
        (bash("ls -la"), bash("uv run notes.py list")),
        (bash("uv run notes.py list | head"), bash("uv run notes.py show 3")),
        (bash("uv run food.py list"), bash("uv run notes.py list")),
        (bash("uv run calendar-event.py show tea"), bash("uv run calendar-events.py show rice")),
        (bash("uv run python -c 'print(1)'"), bash("uv run notes.py list")),
        (other("read", path="/data/a.png"), other("read", path="notes.md")),
        (bash("cat old/notes.md"), bash("cat new/notes.md")),
        (bash("ls"), bash("")),
        (bash("cat"), other("read", path="notes.md")),
        (bash("sed -i s/a/b/ notes.md"), other("read", path="notes.md")),
        (other("web_search", query="lidar"), other("read", path="notes.md")),
    ],
)
def test_another_script_or_another_subcommand_is_another_intent(denied, allowed):
    assert not same(denied, allowed)


NOTES = Command("notes", "list")


def of(name, *words, numbers=()):
    return Command(name, words=frozenset(words), numbers=frozenset(numbers))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("uv run notes.py list", [NOTES]),
        ("uv run notes.py > out.txt list", [NOTES]),
        ("uv run notes.py list 2> err.txt", [NOTES]),
        ("timeout -k 5 30 uv run notes.py list", [NOTES]),
        ("timeout 30 './notes.py' list", [NOTES]),
        ("cd /srv && uv run notes.py list", [NOTES]),
        ("uv run notes.py list <<EOF\nrm x\nEOF", [NOTES]),
        ("uv run notes.py list --title=tea", [Command("notes", "list", frozenset({"tea"}))]),
        ("uv run notes.py list list", [NOTES]),
        ("-n list", [Command("n", "list")]),
        ("sudo", [of("sudo")]),
        ("cd /srv", [of("cd", "srv")]),
        ("uv run a.py || cat log", [of("a"), of(READS, "log")]),
        ("cat a | grep b | wc -l; ls", [of(READS, "a"), of("(list)")]),
        ("cat a; head b & tail c", [of(READS, "a"), of(READS, "b"), of(READS, "c")]),
        ("head -n 5 a.txt", [of(READS, "a.txt")]),
        ("tail -n +20 a.txt", [of(READS, "a.txt")]),
        ("grep -n tea notes.md", [of("(search)", "tea", "notes.md")]),
        ("grep -i tea notes.md", [of("(search)", "tea", "notes.md")]),
        ("tree -i src", [of("(list)", "src")]),
        ("sed -n 5p a.md", [of(READS, "a.md")]),
        ("echo hi > /tmp/a", [of(WRITES, "/tmp/a")]),
        ("cat ~/a", [of(READS, "~/a")]),
        ("echo hi > ./a", [of(WRITES, "./a")]),
        ("echo hi >> a", [of(WRITES, "a")]),
        ("echo hi > /dev/null", [Command("echo", "hi")]),
        ("rm -rf build", [of(REMOVES, "build")]),
        ("FOO=1 ls src", [of("(list)", "src")]),
        ("python -c 'print(1)'", [of("(code)", "print", "1")]),
        (
            "python3 run-export.py --page 2 --command next",
            [Command("runexport", "next", frozenset("2"), frozenset("2"))],
        ),
    ],
)
def test_what_a_call_does_is_told_without_what_starts_and_prepares_it(command, expected):
    assert list(intent_of(bash(command)).commands) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (other("ask", text="rm tea"), of("ask", "rm", "tea")),
        (other("web-search", query="rm tea"), of("websearch", "rm", "tea")),
        (other("grep", pattern="tea"), of("(search)", "tea")),
        (other("read", path="a.md", limit=5), of(READS, "a.md")),
        (other("view", file="a.md"), of(READS, "a.md")),
        (other("read", folder="notes"), of(READS, "notes")),
        (other("write", path="a.md", content="rm b.md"), of(WRITES, "a.md")),
    ],
)
def test_a_tool_is_no_shell_and_does_what_its_name_says_to_its_words_or_files(call, expected):
    assert intent_of(call).commands == (expected,)


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (bash("ls"), bash("ls"), True),
        (bash("ls |head"), bash("ls  | head"), True),
        (bash("ls"), bash("ls -la"), False),
        (bash("ls"), other("shell", command="ls"), False),
        (other("bash", command="ls", timeout=1), other("bash", command="ls", timeout=2), True),
        (other("bash", command="ls", description="a"), bash("ls"), True),
        (other("bash", command="ls", cwd="a"), bash("ls"), False),
        (malformed("{"), malformed("{"), True),
        (malformed("{"), malformed("{{"), False),
        (malformed("{"), bash("ls"), False),
        (ToolCall("1", "bash", '{"command":"ls"}', {"command": "ls"}), bash("ls"), True),
    ],
)
def test_a_call_is_the_same_but_for_what_says_nothing(one, two, expected):
    assert (intent_of(one).key == intent_of(two).key) is expected


@pytest.mark.parametrize(
    "call",
    [bash(""), bash(" | "), bash('"' * 500_000), bash('"\\' * 500_000), bash("<<"), bash("> x"),
     bash("'\\"), bash("sudo"), bash("a=1"), bash("\0" * 9), other("", path=""), other("read"),
     malformed(""), malformed('{"command": "')],
)  # fmt: skip
def test_whatever_a_model_writes_has_an_intent(call):
    assert isinstance(intent_of(call), Intent)
    assert same(call, call)


def test_likeness_is_the_share_of_words_in_common():
    def like(one, other):
        return likeness(intent_of(one), intent_of(other))

    assert like(bash("ls a b"), bash("ls a b")) == 1.0
    assert like(bash("ls a"), bash("ls b")) == 0.5
    assert like(bash("ls"), other("read", path="x")) == 0.0
