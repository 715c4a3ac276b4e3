"""The paths that rules of other harnesses are about, whatever they are written as."""

import json
from pathlib import Path
from typing import Any

import pytest
from clocks import processor_seconds

from agenteval.config.allowlists import load_any
from agenteval.policy.policy import World, allows
from agenteval.trial.call import ToolCall

ROOT = "/home/me/project"


def allowed(folder: Path, rules: dict[str, Any], tool: str, **arguments: str) -> bool:
    harness = "claude-code" if "permissions" in rules else "opencode"
    path = folder / "rules.json"
    path.write_text(json.dumps(rules))
    call = ToolCall("", tool, json.dumps(arguments), arguments)
    return allows(call, load_any(f"{harness}:{path}", roots=[]), World(root=ROOT))


CLAUDE = {
    "permissions": {
        "allow": ["Edit(./notes/**)", "Edit(/docs/**)", "Edit(src/**)", "Edit(*.md)", "Read(//**)"],
        "deny": ["Read(./.env)", "Read(.key)", "Read(~/.ssh/**)", "Read(//etc/**)"],
    }
}


@pytest.mark.parametrize(
    ("tool", "path", "expected"),
    [
        ("edit", "notes/a", True),
        ("edit", "notes/a/b", True),
        ("edit", "a/notes/b", False),
        ("edit", "docs/a", True),
        ("edit", "a/docs/b", False),
        ("edit", "src/a", True),
        ("edit", "a/src/b", False),
        ("edit", "a/b/c.md", True),
        ("edit", "../c.md", False),
        ("edit", "..c.md", True),
        ("read", ".env", False),
        ("read", f"{ROOT}/./.env", False),
        ("read", "notes/../.env", False),
        ("read", "a/.env", False),
        ("read", "a/.key", False),
        ("read", ROOT, True),
        ("read", str(Path.home() / ".ssh" / "id"), False),
        ("read", "~/.ssh/id", False),
        ("read", "/etc/passwd", False),
        ("read", "//etc/passwd", False),
        ("read", "/srv/x", True),
    ],
)
def test_a_pattern_of_claude_code_with_a_folder_is_anchored(
    tmp_path: Path, tool: str, path: str, *, expected: bool
) -> None:
    assert allowed(tmp_path, CLAUDE, tool, file_path=path) is expected


@pytest.mark.parametrize(
    ("rule", "fits", "not_"),
    [
        ("Read(./secrets)", "secrets secrets/a a/secrets", "secrets2 x"),
        ("Read(./secrets/)", "secrets/a a/secrets/b", "secrets a/secrets"),
        ("Read(./secrets/**)", "secrets secrets/a/b a/secrets/b", "secrets.md"),
        ("Read(secrets)", "secrets secrets/a a/secrets a/secrets/b", "secrets2/a"),
        ("Read(secrets/)", "secrets/a a/secrets/b", "secrets secrets2/a"),
        ("Read(/secrets)", "secrets/a", "a/secrets"),
        ("Read(**/secrets)", "secrets/a a/b/secrets/c", "asecrets/a"),
        ("Read(/a/*/c)", "a/b/c a/b/c/d", "a/c x/a/b/c a/b/b/c"),
        ("Read(*.pem)", "x.pem a/x.pem a.pem/b", "x.pem2"),
        ("Read(//home/me/project/a)", "a a/b", "b"),
        ("Read(//**)", "a /etc/x /", ""),
        ("Read(**)", "a a/b .", "/etc/x"),
        ("Read(/)", "a a/b .", "/etc/x"),
        ("Read(~/.ssh)", str(Path.home() / ".ssh" / "id"), "a/.ssh"),
        ("Glob(a)", "", "a"),
        ("Read", "a /etc/x", ""),
    ],
)
def test_a_pattern_of_claude_code_fits_a_folder_with_all_that_is_in_it(
    tmp_path: Path, rule: str, fits: str, not_: str
) -> None:
    rules = {"permissions": {"deny": [rule], "allow": ["Read(//**)"]}}
    found = {
        path: allowed(tmp_path, rules, "grep", path=path) for path in (fits + " " + not_).split()
    }
    assert found == {path: path in not_.split() for path in found}


def test_only_rules_for_read_and_edit_hold_paths_in_claude_code(tmp_path: Path) -> None:
    rules = {"permissions": {"allow": ["Write(a)", "Edit(b)", "NotebookEdit"]}}
    for tool, path, expected in (
        ("write", "a", False),
        ("write", "b", True),
        ("notebookedit", "c", True),
        ("write", "c", False),
    ):
        assert allowed(tmp_path, rules, tool, file_path=path, content="") is expected


def test_further_folders_of_claude_code_count_as_the_project(tmp_path: Path) -> None:
    rules = {"permissions": {"additionalDirectories": ["../docs", "/srv"]}}
    paths = ("/home/me/docs/a", "/srv/a", "/home/me/other", "/srv2/a")
    found = [allowed(tmp_path, rules, "read", file_path=path) for path in paths]
    assert found == [True, True, False, False]


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("webfetch", {"url": "https://docs.rs/x"}, True),
        ("webfetch", {"url": "https://a.Example.com:80"}, True),
        ("webfetch", {"url": "https://docs.rs@evil.com/x"}, False),
        ("webfetch", {"url": "docs.rs"}, False),
        ("webfetch", {}, False),
        ("task", {"subagent_type": "critic"}, False),
        ("task", {"subagent_type": "other"}, True),
        ("skill", {"skill": "deploy"}, True),
        ("skill", {"skill": "other"}, False),
    ],
)
def test_rules_of_claude_code_for_hosts_agents_and_skills(
    tmp_path: Path, tool: str, arguments: dict[str, str], *, expected: bool
) -> None:
    allow = ["WebFetch(domain:docs.rs)", "WebFetch(domain:*.example.com)", "Skill(deploy)"]
    rules = {"permissions": {"allow": allow, "deny": ["Task(critic)"]}}
    assert allowed(tmp_path, rules, tool, **arguments) is expected


OPENCODE = {
    "permission": {
        "read": {"*": "allow", "*.key": "deny"},
        "edit": {"notes/*": "allow", "*": "deny", "notes/b": "allow"},
        "external_directory": {"*": "deny", "/tmp/*": "allow", "/tmp/deep/*": "deny"},
    }
}


def test_a_call_that_names_two_paths_needs_both(tmp_path: Path) -> None:
    assert allowed(tmp_path, CLAUDE, "read", path="notes/a", file_path="notes/a")
    assert not allowed(tmp_path, CLAUDE, "read", path="notes/a", file_path=".env")
    assert not allowed(tmp_path, CLAUDE, "read", path=".env", file_path="notes/a")
    assert not allowed(tmp_path, OPENCODE, "read", path="a.key", filePath="a")
    assert not allowed(tmp_path, OPENCODE, "read", path="a.key")
    assert allowed(tmp_path, OPENCODE, "read", path="b", filePath="a")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cd /tmp", True),
        ("cd /tmp/x", True),
        ("cd /tmp/deep", False),
        ("cd /", False),
        ("cat /tmp/x", True),
        ("cat /x", False),
        ("cat //tmp/x", True),
        ("rm -r /tmp/deep", False),
        ("cat /tmp/deep/x", False),
        ("cat x", True),
        (f"cd {ROOT}", True),
    ],
)
def test_opencode_asks_for_the_folder_itself_or_the_one_around_a_file(
    tmp_path: Path, command: str, *, expected: bool
) -> None:
    assert allowed(tmp_path, OPENCODE, "bash", command=command) is expected


def test_a_file_in_the_uppermost_folder_is_asked_for_there(tmp_path: Path) -> None:
    rules = {"permission": {"external_directory": {"/*": "allow", "//*": "deny"}}}
    assert allowed(tmp_path, rules, "bash", command="cat /x")
    assert allowed(tmp_path, rules, "read", filePath="/x")


@pytest.mark.parametrize(
    ("workdir", "expected"),
    [("", True), (".", True), ("sub", True), ("/tmp", True), ("/etc", False), ("..", False)],
)
def test_opencode_asks_before_a_command_starts_outside(
    tmp_path: Path, workdir: str, *, expected: bool
) -> None:
    assert allowed(tmp_path, OPENCODE, "bash", command="ls", workdir=workdir) is expected


def test_paths_of_a_command_count_from_where_it_starts(tmp_path: Path) -> None:
    assert allowed(tmp_path, OPENCODE, "bash", command="cat ../x", workdir="sub")
    assert not allowed(tmp_path, OPENCODE, "bash", command="cat ../x", workdir=".")


def test_opencode_1_0_starts_nowhere_else_unless_all_is_open(tmp_path: Path) -> None:
    call = ToolCall("", "bash", "", {"command": "ls", "workdir": "/etc"})
    path = tmp_path / "a.json"
    for action, expected in (("ask", False), ("allow", True)):
        path.write_text(json.dumps({"permission": {"external_directory": action}}))
        policy = load_any(f"opencode-1.0:{path}", roots=[])
        assert allows(call, policy, World(root=ROOT)) is expected


@pytest.mark.parametrize("harness", ["opencode", "opencode-1.0"])
@pytest.mark.parametrize(
    "command",
    [
        "( " * 1500 + "echo a" + " )" * 1500 + "; rm x",
        "echo a " + '"$(echo b)" ' * 3000 + "; rm x",
        "cat <<A\nA\n" * 1500 + "rm x",
        "echo a;" * 40_000,
    ],
    ids=["brackets", "substitutions", "heredocs", "long"],
)
def test_a_text_that_is_too_deep_to_be_read_whole_is_denied(
    tmp_path: Path, harness: str, command: str
) -> None:
    path = tmp_path / "a.json"
    rules = {"*": "deny", "echo *": "allow", "cat *": "allow"}
    path.write_text(json.dumps({"permission": {"bash": rules}}))
    call = ToolCall("", "bash", "", {"command": command})
    assert not allows(call, load_any(f"{harness}:{path}", roots=[]), World(root=ROOT))


@pytest.mark.parametrize(
    "command",
    ["a" + "bc" * 60_000, "echo " + "$(echo " * 18_000, "echo a;" * 18_000, "cat " + "/a" * 60_000],
    ids=lambda command: command[:14],
)
def test_long_texts_take_opencode_no_long_time(tmp_path: Path, command: str) -> None:
    rules = {"permission": {"bash": {"a*b*c*d": "deny", "zz": "deny"}}}
    seconds = processor_seconds(
        lambda: allowed(tmp_path, rules, "bash", command=command), enough=2.0
    )
    assert seconds < 2
