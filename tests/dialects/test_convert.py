from pathlib import Path

import pytest
from typer.testing import CliRunner

from agenteval.cli.app import app
from agenteval.config.allowlists import load_any, load_policy
from agenteval.config.files import shipped
from agenteval.errors import UsageError
from agenteval.policy.policy import World, allows
from agenteval.trial.call import ToolCall
from agenteval.workflows.reference import _written_for, targets

NAMES = sorted(path.stem for path in (shipped() / "allowlists").glob("*.toml"))
SUFFIXES = {"opencode": ".json", "claude-code": ".json", "codex": ".rules", "toml": ".toml"}
DEMO = load_policy("demo", roots=[shipped()])


def bash(command: str) -> ToolCall:
    return ToolCall("", "bash", command, {"command": command})


@pytest.mark.parametrize("name", NAMES)
def test_a_list_written_as_toml_is_the_same_list(tmp_path: Path, name: str) -> None:
    policy = load_policy(name, roots=[shipped()])
    written = _written_for(policy, "toml")
    path = tmp_path / "again.toml"
    path.write_text(written.text)
    again = load_policy(str(path), roots=[])
    assert again.digest == policy.digest
    assert again.description == policy.description
    assert written.lost == ()


@pytest.mark.parametrize("to", [target for target in targets() if target != "toml"])
@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git status", True),
        ("uv run scripts/notes.py list --limit 5", True),
        ("uv run scripts/echo.py 'a | b'", True),
        ("python3 scripts/report.py", True),
        ("npm test", False),
        ("/opt/git status", False),
        ("uv run scripts/other.py", False),
        ("uv run scripts/notes.py list | npx x", False),
        ("uv run scripts/notes.py list || npm test", False),
        ("uv run scripts/notes.py $(rm x)", False),
    ],
)
def test_another_harness_gives_the_same_verdicts_under_what_was_written_for_it(
    tmp_path: Path, to: str, command: str, *, allowed: bool
) -> None:
    path = tmp_path / f"written{SUFFIXES[to]}"
    path.write_text(_written_for(DEMO, to).text)
    again = load_any(f"{to}:{path}", roots=[])
    assert allows(bash(command), DEMO) is allowed
    assert allows(bash(command), again, World(root="/w")) is allowed


@pytest.mark.parametrize("to", ["opencode", "claude-code"])
@pytest.mark.parametrize(
    ("name", "path", "allowed"),
    [
        ("read", "notes/a.md", True),
        ("read", "rendered/x/y.png", False),
        ("read", "deep/x.key", False),
        ("read", "/etc/passwd", False),
        ("edit", "notes/a.md", True),
        ("edit", "notes/deep/a.md", True),
        ("edit", "data/a.csv", False),
    ],
)
def test_the_rules_for_files_are_carried_over(
    tmp_path: Path, to: str, name: str, path: str, *, allowed: bool
) -> None:
    file = tmp_path / "written.json"
    file.write_text(_written_for(DEMO, to).text)
    again = load_any(f"{to}:{file}", roots=[])
    made = ToolCall("", name, "", {"filePath": path, "file_path": path})
    if to == "opencode":
        made = ToolCall("", name, "", {"filePath": path})
    assert allows(made, again, World(root="/w")) is allowed


def test_what_can_not_be_said_is_listed() -> None:
    lost = _written_for(DEMO, "codex").lost
    assert "git status: that no further words may follow" in lost
    assert "sha256sum data/*: left out, for a prefix has no patterns" in lost
    assert any(line.startswith("uv run scripts/notes.py: its options") for line in lost)
    assert "tools.read: rules are about commands only" in lost
    assert "tools.todo: the schema of its parameters" in _written_for(DEMO, "opencode").lost
    assert "tools.todo: Claude Code has no such tool" in _written_for(DEMO, "claude-code").lost


def test_a_list_without_tools_or_with_any_words_is_written_too(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[[bash.script]]\npath = "x.py"\n[tools.t]')
    (tmp_path / "b.toml").write_text("[tools.t]")
    bash_only = load_policy(str(tmp_path / "a.toml"), roots=[])
    assert "that each" not in " ".join(_written_for(bash_only, "claude-code").lost)
    assert '"x.py"' in _written_for(bash_only, "codex").text
    no_bash = load_policy(str(tmp_path / "b.toml"), roots=[])
    assert '"bash"' not in _written_for(no_bash, "opencode").text
    assert "bash" not in _written_for(no_bash, "toml").text


def test_a_foreign_list_becomes_one_of_ours(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(
        '{"permissions": {"allow": ["Bash(git diff:*)", "Bash(ls)"], "deny": ["Bash(x)"]}}'
    )
    written = _written_for(load_any(str(settings), roots=[]), "toml")
    ours = tmp_path / "ours.toml"
    ours.write_text(written.text)
    policy = load_policy(str(ours), roots=[])
    assert [allows(bash(c), policy) for c in ("git diff x", "ls", "ls -l", "x")] == [
        True,
        True,
        False,
        False,
    ]
    assert written.lost == ("permissions.deny: bash(x)",)


FULL = """
files = ["x.py"]
stated = ["pipe"]
[bash]
allow = ["ls", "cat data/* x"]
constructs = ["pipe", "env-assignment", "heredoc"]
env = ["TZ"]
"""


@pytest.mark.parametrize(
    ("to", "more", "fewer"),
    [
        ("codex", "chain", "env-assignment, heredoc"),
        (
            "claude-code",
            "chain, file-redirect, here-string, input-redirect, stderr-redirect",
            "env-assignment, heredoc",
        ),
        (
            "opencode",
            (
                "background, chain, command-substitution, file-redirect, here-string,"
                " input-redirect, stderr-redirect, subshell"
            ),
            "env-assignment",
        ),
    ],
)
def test_what_stands_around_commands_is_listed_too(
    tmp_path: Path, to: str, more: str, fewer: str
) -> None:
    file = tmp_path / "full.toml"
    file.write_text(FULL)
    lost = _written_for(load_policy(str(file), roots=[]), to).lost
    assert [
        line
        for line in lost
        if not line.startswith(("that", "ls: that", "cat data/* x: l", "cat data/* x: that a *"))
    ] == [
        "cat data/* x: that a word with a path has no .. in it",
        f"constructs: {more} pass there around what is allowed",
        f"constructs: {fewer}: no rule can allow them there",
        "env: TZ: no variable may be set there",
        "files: x.py",
        "stated: pipe",
    ]


@pytest.mark.parametrize(
    ("harness", "text", "lost"),
    [
        (
            "opencode",
            '{"permission": {"bash": {"ls": "allow", "rm *": "deny"}, "read": "ask"}}',
            (
                "permission.bash: rm * deny",
                "permission.read: * ask",
                "that a command of which no rule speaks is allowed",
            ),
        ),
        (
            "opencode",
            '{"permission": {"bash": {"*": "ask", "ls": "allow"}}}',
            ("permission.bash: * ask",),
        ),
        (
            "opencode-1.0",
            (
                '{"permission": {"bash": {"ls": "allow", "rm *": "deny"}, "edit": "deny"},'
                ' "tools": {"task": false}}'
            ),
            (
                "permission.bash: rm * deny",
                "permission.edit: deny",
                "tools.task: false",
                "that a command of which no rule speaks is allowed",
            ),
        ),
        (
            "claude-code",
            (
                '{"permissions": {"allow": ["Bash(ls)", "Bash", "Read(//x)"], "ask": ["Bash(l x)"],'
                ' "defaultMode": "plan", "additionalDirectories": ["/srv"]}}'
            ),
            (
                "permissions.allow: read(//x)",
                "permissions.ask: bash(l x)",
                "permissions.defaultMode: plan",
                "permissions.additionalDirectories: /srv",
            ),
        ),
        (
            "codex",
            """prefix_rule(pattern=["ls"])
prefix_rule(pattern=["a", ["b", "c"]], decision="forbidden")
prefix_rule(pattern=["cat"], canonical_matching=True)
host_executable(name="a", paths=["/opt/a", "/bin/a"])
host_executable(name="ls", paths=[])""",
            (
                "prefix_rule a b|c: forbidden",
                "prefix_rule cat: whatever the case of its letters",
                "host_executable a: /bin/a, /opt/a",
                "host_executable ls: nowhere but in PATH",
                "that a program may be given by its path too",
            ),
        ),
    ],
)
def test_each_foreign_rule_that_stays_behind_is_listed(
    tmp_path: Path, harness: str, text: str, lost: tuple[str, ...]
) -> None:
    file = tmp_path / "foreign"
    file.write_text(text)
    policy = load_any(f"{harness}:{file}", roots=[])
    assert _written_for(policy, "toml").lost == lost
    assert _written_for(policy, "opencode").lost[: len(lost)] == lost


def test_the_commands_print_what_they_find(tmp_path: Path) -> None:
    clean = CliRunner().invoke(app, ["allowlist", "lint", "demo"])
    assert (clean.exit_code, clean.stdout) == (0, "")
    wide = tmp_path / "wide.toml"
    wide.write_text('bash.allow = ["git diff *"]')
    found = CliRunner().invoke(app, ["allowlist", "lint", str(wide)])
    assert found.exit_code == 1
    assert found.stdout.startswith(
        f"{wide}: `git diff *` lets more through: --output writes any file"
    )
    written = CliRunner().invoke(app, ["allowlist", "convert", str(wide), "--to", "codex"])
    assert written.stdout == (
        'prefix_rule(pattern=["git", "diff"], decision="allow")\n'
        'host_executable(name="git", paths=[])\n'
    )
    assert [line.split(": ", 1)[1][:40] for line in written.stderr.splitlines()] == [
        "constructs: chain, pipe pass there aroun",
        r"that a word may have one of *?[]{}\~^# o",
    ]
    lossy = CliRunner().invoke(app, ["allowlist", "convert", "demo", "--to", "codex"])
    assert "not carried over: git status: that no further words may follow" in lossy.stderr
    none = CliRunner().invoke(app, ["allowlist", "lint", "none"])
    assert isinstance(none.exception, UsageError)


@pytest.mark.parametrize("command", ["lint", "convert"])
def test_the_help_has_examples(command: str) -> None:
    shown = CliRunner().invoke(app, ["allowlist", command, "--help"]).stdout
    assert f"agenteval allowlist {command}" in shown
