"""Configs of other harnesses in the forms in which people have them, old ones too."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agenteval.classes.judge import judge
from agenteval.cli.app import app
from agenteval.config.allowlists import load_any
from agenteval.dialects.registry import lint
from agenteval.errors import UsageError
from agenteval.policy.policy import Policy, World, allows
from agenteval.trial.call import ToolCall
from agenteval.workflows.reference import _written_for

WORLD = World(root="/home/me/project")


def load(folder: Path, name: str, content: object) -> Policy:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return load_any(str(path), roots=[])


def settings(folder: Path, **permissions: object) -> Policy:
    return load(folder, "settings.json", {"permissions": permissions})


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("", name, json.dumps(arguments), arguments)


def bash(command: str) -> ToolCall:
    return call("bash", command=command)


@pytest.mark.parametrize(
    ("name", "content", "engine"),
    [
        ("settings.json", {"hooks": {}}, "claude-code"),
        ("settings.local.json", {}, "claude-code"),
        ("managed-settings.json", {}, "claude-code"),
        ("mine.json", {"hooks": {}}, "claude-code"),
        ("mine.json", {"permissions": {}, "model": "x"}, "claude-code"),
        ("opencode.json", {}, "opencode"),
        ("old-opencode.jsonc", '{ /* "permissions" */ }', "opencode"),
        ("mine.json", {"$schema": "https://opencode.ai/config.json"}, "opencode"),
        ("mine.json", {"mcp": {}, "instructions": ["on permissions"]}, "opencode"),
        ("mine.json", {"permission": {}}, "opencode"),
    ],
)
def test_whose_config_a_file_is_shows_in_its_keys_or_its_name(
    tmp_path: Path, name: str, content: object, engine: str
) -> None:
    found = load(tmp_path, name, content).engine
    assert found
    assert found.name == engine


def test_a_json_file_of_nobody_is_not_taken_for_a_list_that_allows_everything(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match=r"has neither `permission` nor `permissions`.*opencode:"):
        load(tmp_path, "package.json", {"name": "x", "scripts": {"test": "pytest"}})


def test_settings_without_permissions_allow_what_needs_none(tmp_path: Path) -> None:
    policy = load(tmp_path, "settings.json", {"hooks": {}})
    tried = (bash("npm test"), bash("ls"), call("Read", file_path="a"))
    assert [allows(each, policy, WORLD) for each in tried] == [False, True, True]


@pytest.mark.parametrize(
    ("rules", "tool", "allowed"),
    [
        (["mcp__docs"], "mcp__docs__search", True),
        (["mcp__docs"], "mcp__docstrings__search", False),
        (["mcp__docs__*"], "mcp__docs__search", True),
        (["mcp__Docs__search"], "mcp__Docs__search", True),
        (["mcp__docs__get_*"], "mcp__docs__get_page", True),
        (["mcp__docs__get_*"], "mcp__docs__set_page", False),
        (["mcp__docs__search"], "mcp__docs__delete", False),
        (["mcp__docs(x)"], "mcp__docs__search", False),
        (["mcp__*"], "mcp__docs__search", False),  # no server is named: not heeded
        (["*"], "mcp__docs__search", False),
    ],
)
def test_claude_code_allows_the_tools_of_a_server_that_its_rules_name(
    tmp_path: Path, rules: list[str], tool: str, *, allowed: bool
) -> None:
    policy = settings(tmp_path, allow=rules)
    assert allows(call(tool, query="x"), policy, WORLD) is allowed


def test_a_denied_tool_of_a_server_is_no_invented_one(tmp_path: Path) -> None:
    policy = settings(tmp_path, allow=["mcp__docs"], deny=["mcp__docs__delete"])
    tried = (call("mcp__docs__delete"), call("mcp__other__delete"))
    found = [judge(each, policy, WORLD).primary for each in tried]
    assert [each.failure_class for each in found if each] == ["other-shell", "hallucinated-tool"]


@pytest.mark.parametrize(
    ("rule", "made", "allowed"),
    [
        ("Write(*)", call("Write", file_path="a", content="x"), True),
        ("Read(*)", call("Read", file_path="/etc/hosts"), True),
        ("WebFetch(*)", call("WebFetch", url="https://x.org"), True),
        ("Skill(*)", call("Skill", skill="notes"), True),
        ("Skill(notes:*)", call("Skill", skill="notes"), True),
        ("Skill(notes:*)", call("Skill", skill="other"), False),
        ("Bash(:*)", bash("anything"), True),
        ("Bash(git diff*)", bash("git difftool"), True),
        ("Bash(git push * --force*)", bash("git push origin --force-with-lease"), True),
        (r'Bash(python -c "print\(1\)")', bash('python -c "print(1)"'), True),
        (r"Bash(grep -E '\\.sql$')", bash(r"grep -E '\.sql$'"), True),
        (r"Read(//srv/a \(b\)/**)", call("Read", file_path="/srv/a (b)/c"), True),
        ("NoSuchTool", bash("npm test"), False),
    ],
)
def test_a_rule_of_claude_code_means_what_it_means_there(
    tmp_path: Path, rule: str, made: ToolCall, *, allowed: bool
) -> None:
    assert allows(made, settings(tmp_path, allow=[rule]), WORLD) is allowed


@pytest.mark.parametrize("deny", ["Agent(Explore)", "Task(Explore)"])
@pytest.mark.parametrize("tool", ["Agent", "Task"])
def test_sub_agents_of_claude_code_have_two_names(tmp_path: Path, deny: str, tool: str) -> None:
    policy = settings(tmp_path, deny=[deny])
    kinds = ("Explore", "Plan")
    tried = [call(tool, subagent_type=kind, prompt="x") for kind in kinds]
    assert [allows(each, policy, WORLD) for each in tried] == [False, True]


def test_tools_that_need_no_rule_in_claude_code_are_no_invented_ones(tmp_path: Path) -> None:
    names = ("AskUserQuestion", "TaskCreate", "EnterPlanMode", "BashOutput", "KillShell", "LSP")
    policy = settings(tmp_path)
    assert [allows(call(name), policy, WORLD) for name in names] == [True] * len(names)


@pytest.mark.parametrize(("given", "allowed"), [("disable", False), ("enable", True)])
def test_bypassing_permissions_can_be_switched_off(
    tmp_path: Path, given: str, *, allowed: bool
) -> None:
    policy = settings(tmp_path, defaultMode="bypassPermissions", disableBypassPermissionsMode=given)
    assert allows(bash("npm test"), policy, WORLD) is allowed


def test_the_default_mode_of_claude_code_has_two_names(tmp_path: Path) -> None:
    by_name = {mode: settings(tmp_path, defaultMode=mode) for mode in ("default", "manual")}
    assert by_name["manual"].digest == by_name["default"].digest
    assert not allows(bash("npm test"), by_name["manual"], WORLD)


@pytest.mark.parametrize("given", ["{bash: {'*': deny}, edit: deny}", "allow", "5"])
def test_permissions_that_are_no_list_say_nothing_in_an_agents_file(
    tmp_path: Path, given: str
) -> None:
    policy = load(tmp_path, "build.md", f"---\npermissions: {given}\n---\n")
    assert allows(bash("npm test"), policy, WORLD)
    both = f"---\npermissions: {given}\npermission: {{bash: deny}}\n---\n"
    assert not allows(bash("npm test"), load(tmp_path, "build.md", both), WORLD)


def test_brackets_are_written_as_claude_code_reads_them(tmp_path: Path) -> None:
    ours = load(tmp_path, "ours.toml", '[bash]\nallow = ["grep (a|b)\\\\. *"]\n')
    again = load(tmp_path, "settings.json", _written_for(ours, "claude-code").text)
    assert allows(bash(r"grep '(a|b)\.' x"), ours)
    assert again.bash.patterns == ours.bash.patterns


@pytest.mark.parametrize(
    ("given", "verdicts"),
    [
        # the permission replaces the switch of its name, so that the default counts again
        (
            {"tools": {"bash": False}, "permission": {"bash": {"rm *": "deny"}}},
            {"ls": True, "rm x": False},
        ),
        (
            {"tools": {"bash": False}, "permission": {"edit": "allow"}},
            {"ls": False},
        ),
        # and it stands where the switch stood: before what comes after it
        (
            {"tools": {"bash": True}, "permission": {"*": "deny", "bash": "allow"}},
            {"ls": False},
        ),
        ({"permission": {"*": "deny", "bash": "allow"}}, {"ls": True}),
        ({"tools": {"*": False, "bash": True}}, {"ls": True}),
    ],
)
def test_switches_and_permissions_of_opencode_make_one_table(
    tmp_path: Path, given: object, verdicts: dict[str, bool]
) -> None:
    policy = load(tmp_path, "opencode.json", given)
    assert {command: allows(bash(command), policy, WORLD) for command in verdicts} == verdicts


def test_variables_in_a_config_of_opencode_are_those_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAY_LIST", "deny")
    monkeypatch.delenv("NOT_SET", raising=False)
    text = '{"model": "{env:NOT_SET}", "permission": {"bash": {"ls": "{env:MAY_LIST}"}}}'
    policy = load(tmp_path, "opencode.json", text)
    assert [allows(bash(command), policy, WORLD) for command in ("ls", "pwd")] == [False, True]


def test_a_variable_that_holds_a_key_is_in_no_rule_of_opencode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "not-a-real-secret")
    monkeypatch.setenv("STORE", "postgresql://me:not-a-real-secret@host/runs")
    rules = {f"curl {{env:{name}}}": "allow" for name in ("DEPLOY_TOKEN", "STORE")}
    policy = load(tmp_path, "opencode.json", {"permission": {"bash": rules}})
    assert "not-a-real-secret" not in repr(policy)


@pytest.mark.parametrize(
    ("permission", "tool", "known", "allowed"),
    [
        ({"docs_*": "allow"}, "docs_search", True, True),
        ({"*": "deny", "docs_search": "allow"}, "docs_search", True, True),
        ({"docs_*": "ask"}, "docs_search", True, False),
        ({"docs_*": "deny"}, "docs_search", False, False),
        ({"*": "deny", "docs_*": "allow"}, "other_search", False, False),
        ({"*": "allow"}, "docs_search", False, False),  # nobody says that there is such a tool
    ],
)
def test_tools_that_rules_of_opencode_name_are_there(
    tmp_path: Path, permission: object, tool: str, *, known: bool, allowed: bool
) -> None:
    policy = load(tmp_path, "opencode.json", {"permission": permission})
    assert (policy.tool(tool) is not None, allows(call(tool), policy, WORLD)) == (known, allowed)


def test_opencode_1_0_has_the_tools_that_its_switches_turn_on(tmp_path: Path) -> None:
    path = tmp_path / "opencode.json"
    path.write_text('{"tools": {"docs_search": true, "docs_write": false}}')
    policy = load_any(f"opencode-1.0:{path}", roots=[])
    tried = [call("docs_search"), call("docs_write"), call("docs_read")]
    assert [allows(each, policy, WORLD) for each in tried] == [True, False, False]


@pytest.mark.parametrize(
    ("rules", "redundant"),
    [
        ({"git *": "allow", "git push *": "allow"}, ["git push *"]),
        ({"git *": "allow", "git push *": "deny", "git push me *": "allow"}, []),
        ({"*": "ask", "git *": "allow", "rm *": "deny", "ls": "allow"}, []),
    ],
)
def test_a_rule_of_opencode_after_a_denial_may_allow_again(
    tmp_path: Path, rules: object, redundant: list[str]
) -> None:
    policy = load(tmp_path, "opencode.json", {"permission": {"bash": rules}})
    assert [each.rule for each in lint(policy) if each.trouble == "says nothing new"] == redundant


@pytest.mark.parametrize(
    ("rules", "verdicts"),
    [
        ('prefix_rule(["ls"], "allow")', {"ls -l": True}),
        ('prefix_rule(["ls"], decision="forbidden")', {"ls": False}),
        ('prefix_rule(["ls"], "allow", ["ls -l"], [["rm"]], "why", True)', {"LS": True}),
        ('for each in "ls cat".split():\n  prefix_rule([each])', {"cat x": True, "rm": False}),
        ('"""What may run."""\nprefix_rule(pattern=["ls"])', {"ls": True}),
        ('prefix_rule(pattern=["ls"], match=["ls | head", "ls $HOME"])', {"ls": True}),
        ('network_rule(host="x.org", protocol="https", decision="allow")', {"ls": False}),
    ],
)
def test_rules_of_codex_in_its_other_forms_are_understood(
    tmp_path: Path, rules: str, verdicts: dict[str, bool]
) -> None:
    policy = load(tmp_path, "default.rules", rules)
    assert {command: allows(bash(command), policy, WORLD) for command in verdicts} == verdicts


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ("prefix_rule(pattern=['ls'], decision=['allow'])", ':1: not a rules file: Value `["allow'),
        ("\nprefix_rule(pattern=[1])", ":2: pattern: expected words, or lists of words, got [1]"),
        ("prefix_rule(pattern=['ls'], match=['#'])", ":1: match: expected a command, got '#'"),
        ("prefix_rule('never run rm')", ":1: not a rules file: Value `never run rm` of type"),
        ("x = 'ls", ":1: not a rules file: Parse error: unfinished string literal"),
        ("'a' + 1 +", ":1: not a rules file: Parse error: unexpected new line"),
    ],
)
def test_rules_of_codex_that_are_none_are_one_line(
    tmp_path: Path, rules: str, complaint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, "default.rules", rules)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "command", "lost"),
    [
        ("Bash(git diff*)", "git diff HEAD a", []),
        ("Bash(git diff*)", "git difftool", []),
        ("Bash(*)", "git log -1", []),
        ("Bash(ls *)", "ls", []),
        ("Bash(git * main)", "git push main", ["git * main: that a * before its end"]),
    ],
)
def test_a_rule_of_claude_code_allows_as_much_as_one_of_ours(
    tmp_path: Path, rule: str, command: str, lost: list[str]
) -> None:
    theirs = settings(tmp_path, allow=[rule])
    written = _written_for(theirs, "toml")
    ours = load(tmp_path, "ours.toml", written.text)
    assert [allows(bash(command), each, WORLD) for each in (theirs, ours)] == [True, True]
    assert [line[: len(start)] for line, start in zip(written.lost, lost, strict=True)] == lost


def test_a_rule_with_quotes_is_left_out_of_our_own_and_said(tmp_path: Path) -> None:
    written = _written_for(settings(tmp_path, allow=["Bash(ls)", "Bash(echo 'a b')"]), "toml")
    assert written.lost == ("echo 'a b': left out, for words are compared without their quotes",)
    assert load(tmp_path, "ours.toml", written.text).bash.patterns[0].text == "ls"
    assert "echo" not in written.text


def test_a_text_that_is_too_long_to_read_is_denied_under_the_widest_rules_of_codex(
    tmp_path: Path,
) -> None:
    policy = load(tmp_path, "default.rules", 'prefix_rule([["bash", "echo"]])')
    lengths = {length: allows(bash("echo " + "a" * length), policy) for length in (9, 140_000)}
    assert lengths == {9: True, 140_000: False}


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("ls > f", ("denied", "allowed", "allowed")),
        ("git push", ("denied", "denied", "denied")),
        ("git commit", ("denied", "denied", "denied")),
        ("git log; sudo -A x; env A=1 /bin/rm -rf x", ("denied", "denied", "denied")),
        ('for f in *; do A=1 rm -f "$f"; done', ("denied", "denied", "denied")),
        ("trap 'rm -f x' EXIT", ("denied", "denied", "denied")),
        ("rm -r x; timeout 5 rm -f x; echo 'rm -f x'", ("denied", "allowed", "allowed")),
        ("bash -c ')'", ("denied", "allowed", "allowed")),
        (f"bash -c '{'[[ ' * 3000}'", ("denied", "denied", "denied")),
    ],
)
def test_a_command_without_a_rule_is_judged_by_the_approval_policy_of_codex(
    tmp_path: Path, command: str, told: tuple[str, ...]
) -> None:
    path = tmp_path / "a.rules"
    rule = 'prefix_rule(pattern=["git", "{}"], decision="{}")\n'
    path.write_text(rule.format("push", "forbidden") + rule.format("commit", "prompt"))
    modes = ("codex", "codex-on-request", "codex-never")
    verdicts = [
        CliRunner().invoke(app, ["classify", "-a", f"{mode}:{path}", "--json", command])
        for mode in modes
    ]
    assert tuple(json.loads(each.stdout)["verdict"] for each in verdicts) == told


def test_rules_of_codex_name_no_tools(tmp_path: Path) -> None:
    policy = load(tmp_path, "default.rules", 'prefix_rule(pattern=["ls"])')
    assert policy.tool("docs_search") is None


def test_a_rule_that_holds_a_whole_script_is_shown_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    rule = 'Bash(python3 -c "\nimport x\n" *)'
    path.write_text(json.dumps({"permissions": {"allow": [rule, rule], "deny": [rule]}}))
    linted = CliRunner().invoke(app, ["allowlist", "lint", str(path)])
    converted = CliRunner().invoke(app, ["allowlist", "convert", str(path), "--to", "codex"])
    assert all(line.startswith(f"{path}: `") for line in linted.stdout.splitlines())
    lost = converted.stderr.splitlines()
    assert [line.split(":")[0] for line in lost] == ["not carried over"] * len(lost)
    assert r"import x\n" in linted.stdout + converted.stderr
