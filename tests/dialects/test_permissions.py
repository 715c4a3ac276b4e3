"""The permission configs of other harnesses give the verdicts of that harness."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenteval.classes.judge import judge
from agenteval.config.allowlists import load_any
from agenteval.config.files import shipped
from agenteval.dialects.claude_code.rules import ToolSpecifier
from agenteval.dialects.claude_code.verdict import ClaudeCode
from agenteval.dialects.codex.engine import Codex, PrefixRule
from agenteval.dialects.opencode.engine import OpenCode, OpenCode10, PermissionRule, wildcard
from agenteval.errors import UsageError
from agenteval.policy.policy import Policy, World, allows
from agenteval.trial.call import ToolCall

WORLD = World(root="/home/me/project")


def load(given: str) -> Policy:
    return load_any(given, roots=[shipped()])


def write(folder: Path, name: str, content: object) -> str:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("", name, json.dumps(arguments), arguments)


def bash(command: str) -> ToolCall:
    return call("bash", command=command)


OPENCODE = {
    "permission": {
        "*": "deny",
        "bash": {"*": "deny", "uv run scripts/x.py *": "allow", "git status": "allow"},
        "read": {"*": "allow", "*.key": "deny"},
        "edit": {"notes/*": "allow"},
        "task": {"critic": "allow"},
    }
}


@pytest.mark.parametrize(
    ("command", "new", "old"),
    [
        ("uv run scripts/x.py list 'a | b'", True, True),
        ("uv run scripts/x.py list > /tmp/f", True, True),
        ("for i in 1 2; do uv run scripts/x.py $i; done", True, True),
        ("X=$(uv run scripts/x.py list)", True, True),
        ("cd sub && uv run scripts/x.py list", True, True),
        ("cd /tmp && uv run scripts/x.py list", False, False),
        ("FOO=1 uv run scripts/x.py list", False, True),
        ("uv  run   scripts/x.py list", False, True),
        ("uv run --quiet scripts/x.py list", False, True),
        ("uv run scripts/x.py list | head", False, False),
        ("uv run scripts/x.py $(curl x)", False, False),
        ("git status", True, True),
        ("git status -s", False, True),
        ("git status > f", False, True),
        ("", True, True),
    ],
)
def test_opencode_asks_about_every_command_of_the_tree(
    tmp_path: Path, command: str, *, new: bool, old: bool
) -> None:
    path = write(tmp_path, "opencode.json", OPENCODE)
    assert allows(bash(command), load(path), WORLD) is new
    assert allows(bash(command), load(f"opencode-1.0:{path}"), WORLD) is old


@pytest.mark.parametrize(
    ("made", "allowed"),
    [
        (call("read", filePath="notes/a"), True),
        (call("Read", filePath="notes/a"), True),
        (call("read", filePath="a.key"), False),
        (call("read", filePath="/etc/passwd"), False),
        (call("read", filePath="../other/x"), False),
        (call("read"), False),
        (call("edit", filePath="notes/a"), True),
        (call("write", filePath="notes/a", content="x"), True),
        (call("write", filePath="a", content="x"), False),
        (call("task", subagent_type="critic"), True),
        (call("task", subagent_type="other"), False),
        (call("webfetch", url="https://x.org"), False),
        (call("bash", command=5), False),
        (ToolCall("", "bash", "{", None, "cut"), False),
        (call("emit_guidance"), False),
    ],
)
def test_opencode_rules_reach_its_other_tools(
    tmp_path: Path, made: ToolCall, *, allowed: bool
) -> None:
    policy = load(write(tmp_path, "opencode.json", OPENCODE))
    assert allows(made, policy, WORLD) is allowed


def test_a_tool_that_opencode_denies_altogether_is_not_offered(tmp_path: Path) -> None:
    policy = load(write(tmp_path, "opencode.json", OPENCODE))
    found = judge(call("webfetch", url="https://x.org"), policy, WORLD).primary
    assert found
    assert found.failure_class == "hallucinated-tool"


def test_a_tool_that_no_rule_of_opencode_is_about_is_offered() -> None:
    engine = OpenCode((PermissionRule("read", "*", "deny"),))
    assert [engine.offers(tool) for tool in ("read", "grep")] == [False, True]


def test_the_last_rule_of_opencode_counts_and_without_one_everything_is_allowed(
    tmp_path: Path,
) -> None:
    bare = load(write(tmp_path, "opencode.json", {}))
    assert allows(bash("ls"), bare, WORLD)
    last = load(write(tmp_path, "b.json", {"permission": {"bash": {"ls *": "deny", "*": "allow"}}}))
    assert allows(bash("ls x"), last, WORLD)
    old = load("opencode-1.0:" + str(tmp_path / "b.json"))
    assert not allows(bash("ls x"), old, WORLD)
    assert not allows(bash("ls"), load(write(tmp_path, "c.json", {"permission": "deny"})), WORLD)


SECOND = [
    {"action": "*", "resource": "*", "effect": "ask"},
    {"action": "shell", "resource": "git *", "effect": "allow"},
    {"action": "shell", "resource": "git push *", "effect": "deny"},
    {"action": "subagent", "resource": "explore", "effect": "allow"},
    {"action": "edit", "resource": "docs/*.md", "effect": "allow"},
]


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        (bash("git status -s"), True),
        (bash("git"), True),
        (bash("git push"), False),
        (bash("git status && git push x"), False),
        (bash("ls"), False),
        (call("task", description="d", prompt="p", subagent_type="explore"), True),
        (call("task", description="d", prompt="p", subagent_type="general"), False),
        (call("edit", filePath="docs/a.md", oldString="a", newString="b"), True),
        (call("write", filePath="a.md", content="b"), False),
    ],
)
def test_the_rules_of_opencode_2_count_in_their_order(
    tmp_path: Path, asked: ToolCall, *, allowed: bool
) -> None:
    one = {"permissions": SECOND}
    agents = {"permissions": SECOND[:1], "agents": {"build": {"permissions": SECOND[1:]}}}
    front = f"---\nmode: primary\npermissions: {json.dumps(SECOND)}\n---\nDo it.\n"
    for name, content in (("a.json", one), ("b.json", agents), ("c.md", front)):
        policy = load(write(tmp_path, name, content))
        assert isinstance(policy.engine, OpenCode)
        assert allows(asked, policy, WORLD) is allowed


def test_opencode_1_0_has_actions_for_its_other_tools(tmp_path: Path) -> None:
    given = {"permission": {"edit": "deny", "webfetch": "ask"}, "tools": {"task": False}}
    policy = load("opencode-1.0:" + write(tmp_path, "a.json", given))
    assert not allows(call("edit", filePath="x"), policy, WORLD)
    assert not allows(call("webfetch", url="x"), policy, WORLD)
    assert not allows(call("task", subagent_type="x"), policy, WORLD)
    assert allows(call("read", filePath="x"), policy, WORLD)
    assert not allows(call("bash", command=5), policy, WORLD)
    assert not allows(ToolCall("", "read", "{", None), policy, WORLD)


def test_what_looks_like_a_date_in_front_matter_is_text(tmp_path: Path) -> None:
    text = "---\ncreated: 2024-02-30\npermission: {bash: allow}\n---\n"
    assert allows(bash("ls"), load(write(tmp_path, "agent.md", text)), WORLD)


def test_an_agents_front_matter_is_read_as_yaml(tmp_path: Path) -> None:
    text = "---\ndescription: x\ntools:\n  write: false\npermission:\n  bash:\n"
    text += '    "*": deny\n    "uv run x.py *": allow\n---\n# Body\n---\n'
    policy = load(write(tmp_path, "agent.md", text))
    assert allows(bash("uv run x.py a"), policy, WORLD)
    assert not allows(bash("ls"), policy, WORLD)
    assert "write" not in policy.tools


def test_comments_and_trailing_commas_are_no_trouble(tmp_path: Path) -> None:
    text = '{ // "no"\n "permission": {"bash": {"echo //x *": "allow", /* y */ "*": "deny",}, } }'
    policy = load(write(tmp_path, "opencode.jsonc", text))
    assert not allows(bash("echo //x"), policy, WORLD)
    assert policy.bash.patterns[0].text == "echo //x *"


CLAUDE = {
    "permissions": {
        "allow": [
            "Bash(git diff:*)",
            "Bash(npm run *)",
            "Bash(ls)",
            "Read(//data/**)",
            "Edit(src/**)",
            "WebFetch",
        ],
        "ask": ["Bash(git diff --output:*)"],
        "deny": ["Read(*.env)", "Bash(npm run deploy:*)"],
    }
}


@pytest.mark.parametrize(
    ("made", "allowed"),
    [
        (call("Read", file_path="a.txt"), True),
        (call("Read", file_path="deep/.env"), False),
        (call("Read", file_path="/data/x/y"), True),
        (call("Read", file_path="/etc/passwd"), False),
        (call("Grep", pattern="x"), True),
        (call("Edit", file_path="src/a.py"), True),
        (call("Write", file_path="src/deep/a.py", content="x"), True),
        (call("Write", file_path="a.py", content="x"), False),
        (call("WebFetch", url="x"), True),
        (call("WebSearch", query="x"), False),
        (call("TodoWrite", todos=[]), True),
        (call("Bash", command=5), False),
        (call("Nothing"), False),
        (ToolCall("", "Read", "{", None), False),
    ],
)
def test_claude_code_rules_reach_its_other_tools(
    tmp_path: Path, made: ToolCall, *, allowed: bool
) -> None:
    policy = load(write(tmp_path, "settings.json", CLAUDE))
    assert allows(made, policy, WORLD) is allowed


def test_the_mode_of_claude_code_counts(tmp_path: Path) -> None:
    def mode(name: str) -> Policy:
        permissions = {
            "defaultMode": name,
            "deny": ["Bash(rm:*)", "Read(./x/**)"],
            "allow": ["Bash"],
        }
        return load(write(tmp_path, "s.json", {"permissions": permissions}))

    edit = call("Edit", file_path="a")
    assert [allows(edit, mode(m), WORLD) for m in ("default", "acceptEdits")] == [False, True]
    assert allows(call("WebFetch", url="x"), mode("bypassPermissions"), WORLD)
    assert not allows(bash("rm x"), mode("bypassPermissions"), WORLD)
    assert allows(bash("anything at all"), mode("default"), WORLD)
    assert not allows(call("Read", file_path="x/y"), mode("default"), WORLD)
    assert allows(call("Grep", pattern="x"), mode("default"), WORLD)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.json", "{", "not JSON"),
        ("a.json", "[]", "expected a table of settings, got list"),
        ("a.json", '{"permission": 5}', "permission: expected a table or an action, got 5"),
        (
            "a.json",
            '{"permission": {"bash": "yes"}}',
            "permission.bash: expected allow, ask or deny",
        ),
        ("a.json", '{"tools": []}', "tools: expected a table of true and false"),
        ("a.json", '{"permissions": 5}', "permissions: expected a table, got 5"),
        ("a.md", "---\npermissions: [5]\n---\n", "rule 1: expected action, resource"),
        ("a.json", '{"permissions": [{"action": "shell"}]}', "rule 1: expected action, resource"),
        (
            "a.json",
            '{"permissions": [{"action": "bash", "resource": "*", "effect": "allow"}]}',
            "rule 1: action: expected shell, subagent or a whole name, got bash",
        ),
        (
            "a.json",
            '{"permissions": [{"action": "shell", "resource": "*", "effect": "yes"}]}',
            "rule 1: expected allow, ask or deny, got 'yes'",
        ),
        (
            "a.json",
            '{"permissions": {"allow": "x"}}',
            "permissions.allow: expected a list of rules",
        ),
        ("a.json", " ", "is empty: expected an object, at least {}"),
        (
            "a.json",
            '{"permission": {"bash": ["ls"]}}',
            "permission.bash: expected allow, ask or deny",
        ),
        ("a.json", '{"tools": {"bash": "no"}}', "tools.bash: expected true or false, got 'no'"),
        (
            "a.json",
            '{"permissions": {"allow": ["Bash(ls"]}}',
            "permissions.allow: expected Tool or",
        ),
        ("a.json", '{"permissions": {"deny": ["Bash( )"]}}', "permissions.deny: expected Tool or"),
        (
            "a.json",
            '{"permissions": {"defaultMode": "x"}}',
            "defaultMode: expected default, accept",
        ),
        ("a.json", '{"permissions": {"additionalDirectories": 1}}', "expected a list of folders"),
        ("a.md", "# no front", "no front matter"),
        ("a.md", "---\na: [\n---\n", "front matter: "),
        ("a.md", f"---\na: {'[' * 3000}\n---\n", "front matter: "),
        *(
            ("a.md", f"---\npermission: {each}\n---\n", "front matter: ")
            for each in ("!!int ''", "!!float ''", "!!bool foo", "!!timestamp x", "!!null [")
        ),
        ("a.md", f"---\npermission: {[['x'] * 50] * 50}\n---\n", "got [['x', 'x', 'x', 'x'"),
        ("a.rules", "x(1\n\n", ":1: not a rules file: something is left open at the end"),
        ("a.rules", "\nprefix_rule(pattern=x)", ":2: not a rules file: Variable `x` not found"),
        ("a.rules", "prefix_rule(decision='allow')", ":1: not a rules file: Missing parameter"),
        ("a.rules", "\0", ":1: not a rules file"),
        ("a.rules", "prefix_rule(pattern=['a', 3])", "pattern: expected words, or lists of words"),
        ("a.rules", "prefix_rule(pattern=[[]])", "pattern: expected words, or lists of words"),
        ("a.rules", "prefix_rule(pattern=['a'], x=1)", "Found `x` extra named parameter(s)"),
        ("a.rules", "prefix_rule(pattern=['a'], match=['b x'])", "the rule does not match 'b x'"),
        ("a.rules", "prefix_rule(pattern=['a'], not_match=[['a']])", "the rule matches ['a']"),
        (
            "a.rules",
            "prefix_rule(pattern=['a'], decision='no')",
            "decision: expected allow, prompt",
        ),
    ],
)
def test_a_config_that_is_none_is_one_line_with_its_file(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(UsageError) as caught:
        load(path)
    assert str(caught.value).startswith(path)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("reader", ["opencode", "opencode-1.0"])
@pytest.mark.parametrize(
    ("text", "key"),
    [("{}", ""), ('{"permission": {"read": {"~/x": "deny"}}}', " permission.read:")],
)
def test_without_a_home_what_stands_for_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str, text: str, key: str
) -> None:
    path = write(tmp_path, "opencode.json", text)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 987_654_321)
    with pytest.raises(UsageError) as caught:
        load(f"{reader}:{path}")
    assert str(caught.value) == f"{path}:{key} what ~ stands for is not known here: set HOME"


def test_a_tool_may_have_half_a_character_in_its_name(tmp_path: Path) -> None:
    names = ("\\ud800", "\\\\ud800", "x")
    texts = {f"{at}.json": f'{{"tools": {{"{name}": true}}}}' for at, name in enumerate(names)}
    paths = [write(tmp_path, *text) for text in texts.items()]
    assert len({load(f"opencode-1.0:{path}").digest for path in paths}) == 3


@pytest.mark.parametrize(
    ("name", "text", "verdicts"),
    [
        ("a.json", '\ufeff{"permission": "allow"}', {"ls": True, "rm x": True}),
        ("a.json", '{"permission": {"bash": "ask"}}', {"ls": False}),
        ("a.json", '{"tools": {"bash": false}}', {"ls": False}),
        (
            "a.json",
            '{"permission": "deny", "agent": {"build": {"permission": "allow"}}}',
            {"ls": True},
        ),
        ("a.json", '{"mode": {"build": {"tools": {"bash": false}}}}', {"ls": False}),
        ("a.json", '{"agent": {"plan": {"permission": "deny"}, "build": 1}}', {"ls": True}),
        ("a.json", '{"default_agent": "x", "agent": {"x": {"permission": "deny"}}}', {"ls": False}),
        ("a.md", "---\n---\n", {"ls": True}),
        ("a.md", "---\ndescription: do: it\npermission: deny\n---\n", {"ls": False}),
        (
            "a.md",
            "---\r\npermission:\r\n  bash:\r\n    '*': deny\r\n    ls: allow\r\n---\r\n",
            {"ls": True, "rm x": False},
        ),
        ("a.json", '{"permissions": {}}', {"ls": True, "npm test": False}),
        ("a.json", '{"permissions": {"allow": ["Bash(*)"]}}', {"ls": True}),
        ("a.rules", "# nothing yet", {"ls": False}),
        (
            "a.rules",
            """host_executable(name="ls", paths=["/bin/ls"])
prefix_rule(
    pattern = ["ls", ["-l", "-a"]],  # a list
    decision = "allow",
    justification = "harmless",
    match = ["ls -l x", ["ls", "-a"]],
    not_match = ["ls x"],
)""",
            {"ls -a": True, "ls": False},
        ),
    ],
)
def test_a_config_as_people_write_it_is_understood(
    tmp_path: Path, name: str, text: str, verdicts: dict[str, bool]
) -> None:
    policy = load(write(tmp_path, name, text))
    assert {command: allows(bash(command), policy, WORLD) for command in verdicts} == verdicts


@pytest.mark.parametrize("name", ["none.json", "codex:none", "opencode:none.md"])
def test_a_config_that_is_missing_or_no_text_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load(name)
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(UsageError, match="not UTF-8 text"):
        load(str(tmp_path / "latin.json"))


def test_our_own_lists_are_found_as_ever() -> None:
    assert load("demo").engine is None


def test_a_denied_call_is_explained_by_the_shape_of_it(tmp_path: Path) -> None:
    policy = load(write(tmp_path, "opencode.json", OPENCODE))
    found = judge(bash("uv run scripts/x.py list 2>&1 | head"), policy, WORLD).findings
    assert [each.failure_class for each in found] == ["pipe-to-filter", "bare-binary"]
    assert found[0].hint.startswith("Run `uv run scripts/x.py list` alone")


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(codec=None, exclude_categories=[]), max_size=40))
def test_no_text_is_too_odd_for_another_harness(text: str) -> None:
    engines = (
        OpenCode((PermissionRule("bash", "ls * x*", "allow"),)),
        OpenCode10({"ls * x": "allow"}, {}),
        ClaudeCode((ToolSpecifier.parse("Bash(ls * x:*)"),)),
        Codex((PrefixRule((("ls",),)),)),
    )
    for engine in engines:
        assert engine.allows("bash", {"command": text}, "/w") in {True, False}
        assert engine.allows("read", {"path": text, "filePath": text}, "/w") in {True, False}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("caseless", [True, False])
def test_a_word_longer_than_those_of_all_rules_is_not_folded(*, caseless: bool) -> None:
    """It took minutes: marks upon a letter are put in order by the square of their number."""
    rule = PrefixRule((("e\u0301",), ("\u00df", "a")), caseless=caseless)
    engine, long = Codex((rule,)), "e" + "\u0301\u0316" * 400_000
    assert engine.rules_about((long, "a"), "/w") == []
    assert engine.rules_about(("e\u0301", long), "/w") == []
    assert engine.rules_about(("e\u0301", "a"), "/w") == [rule]
    assert engine.rules_about(("\u00c9", "SS"), "/w") == [rule] * caseless
    assert Codex(()).rules_about(("", "a"), "/w") == []


def test_a_pattern_with_many_stars_is_matched_in_time_linear_in_the_text() -> None:
    assert not wildcard("*a*a*a*a*a*a*b", "a" * 200_000)
    assert wildcard("*a*a*a*a*a*a*b", "a" * 200_000 + "b")


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("ls", "ls", True),
        ("ls *", "ls", True),
        ("ls *", "ls x\ny", True),
        ("ls *", "lsx", False),
        ("l?", "ls", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("*.key", "x/y.key", True),
        ("a.c", "abc", False),
        ("", "", True),
    ],
)
def test_a_wildcard_is_anchored_and_crosses_everything(
    pattern: str, text: str, *, fits: bool
) -> None:
    assert wildcard(pattern, text) is fits
