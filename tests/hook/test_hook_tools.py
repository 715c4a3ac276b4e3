"""What the hook makes of a tool that it was not written for: it goes by what the call carries."""

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agenteval.cli.app import app
from agenteval.config.allowlists import load_any, load_policy
from agenteval.hook.installing import command
from agenteval.hook.judging import Judging, ProductionLog, decide
from agenteval.hook.tool_inputs import Effect, read_call
from agenteval.logs.chat import read_hook_log as read_log

RULES = '[bash]\nallow = ["ls", "ls *", "git status"]\n'
PASS = f'other_tools = "pass"\n{RULES}'
BAD = "rm x"
FOLDER = Path(__file__).parent


def rows(name: str) -> list:
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]


# Each carries `rm x` in another way.
SHAPES = rows("command_shapes.jsonl")
NAMES = [
    *("Bash", "bash", "BASH", "Bash ", "\u3000Bash", "\uff22\uff41\uff53\uff48", "Ba\u200bsh"),
    *("Monitor", "PowerShell", "mcp__shell__exec", "mcp__win__powershell", "exec_command"),
    *("run_shell_command", "local_shell", "execute_command", "some_tool", "B\u0430sh"),
    *(
        "unified_exec",
        "Bash\0",
        "Bash\n",
        "Re\x07ad",
        "\ud800",
        " ",
        "Read",
        "Glob",
        "BashOutput",
        "TodoWrite",
    ),
]
CALLS = [(tool, shape) for tool in NAMES for shape in SHAPES]
HARNESSES = ["claude-code", "codex", "opencode"]


def passed_by(policy, calls: list) -> list:
    """The calls that a policy lets go on."""
    readings = [read_call("", *call, "/w", "/w") for call in calls]
    return [one for one in readings if not decide(one, policy, "/w").denial]


def payload(harness: str, tool: str, arguments: object) -> bytes:
    keys = ("tool", "args") if harness == "opencode" else ("tool_name", "tool_input")
    return json.dumps(dict(zip(keys, (tool, arguments), strict=True))).encode()


class Hook:
    """The hook in this process, under a list of its own."""

    def __init__(self, folder: Path, rules: str = RULES) -> None:
        self.folder = folder
        (folder / "rules.toml").write_text(rules)
        self.judging = Judging(folder / "state")

    def denial(self, harness: str, tool: str, arguments: object, *more: str) -> str:
        """What the model reads; "" of a call that goes on."""
        options = ["--for", harness, "--allowlist", str(self.folder / "rules.toml"), *more]
        sent = payload(harness, tool, arguments)
        answer = self.judging.reply(options, {"cwd": str(self.folder)}, sent)
        if harness == "opencode":
            assert answer.code in {0, 2}
            return answer.err if answer.code else ""
        assert answer.code == 0
        if not answer.out:
            return ""
        return json.loads(answer.out)["hookSpecificOutput"]["permissionDecisionReason"]

    @property
    def lines(self) -> list[dict]:
        return [dict(one) for one in ProductionLog(self.folder / "state/calls.jsonl").lines()]


@pytest.fixture
def hook(tmp_path) -> Hook:
    return Hook(tmp_path)


@pytest.mark.parametrize("rules", [RULES, PASS], ids=["deny", "pass"])
@pytest.mark.parametrize("harness", HARNESSES)
def test_no_tool_of_any_name_carries_a_denied_command_through(harness, rules, tmp_path) -> None:
    hook = Hook(tmp_path, rules)
    passed = [call for call in CALLS if not hook.denial(harness, *call)]
    assert (passed, len(CALLS) > 1000) == ([], True)


LISTS = {
    "settings.json": {"permissions": {"allow": ["Bash(ls:*)", "Bash(git status)"]}},
    "opencode.json": {"permission": {"bash": {"*": "deny", "ls": "allow", "ls *": "allow"}}},
    "codex.rules": 'prefix_rule(pattern=["ls"], decision="allow")\n',
}


@pytest.mark.parametrize("name", LISTS)
def test_nor_does_one_under_the_rules_of_another_harness(name, tmp_path) -> None:
    if name == "codex.rules":
        pytest.importorskip("starlark")
    text = LISTS[name]
    (tmp_path / name).write_text(text if isinstance(text, str) else json.dumps(text))
    policy = load_any(str(tmp_path / name), roots=())
    # `ls` in another folder, or with an input, is what these rules allow of Bash too.
    others = {"stdin", "cwd", "workingDirectory"}
    calls = [(tool, shape) for tool, shape in CALLS if others.isdisjoint(shape)]
    assert (passed_by(policy, calls), len(calls) > 900) == ([], True)


def test_a_rule_of_another_harness_that_names_a_server_opens_its_tools(tmp_path) -> None:
    settings = {"permissions": {"allow": ["mcp__shell", "PowerShell"]}}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    policy = load_any(f"claude-code:{tmp_path}/settings.json", roots=())
    given = {"command": BAD}
    tools = ("mcp__shell__exec", "mcp__other__exec", "PowerShell", "TodoWrite")
    readings = [read_call("", tool, given, "/w", "/w") for tool in tools]
    denied = [one.tool for one in readings if decide(one, policy, "/w").denial]
    assert denied == ["mcp__other__exec", "TodoWrite"]


@pytest.mark.parametrize("harness", HARNESSES)
def test_what_a_list_allows_passes_under_any_name(harness, hook) -> None:
    denials = [hook.denial(harness, *call) for call in rows("harmless_calls.jsonl")]
    assert [*filter(None, denials)] == []


@pytest.mark.parametrize("harness", HARNESSES)
def test_an_allowed_command_is_no_cover_for_what_is_not_read(harness, hook) -> None:
    """An unknown tool, with an allowed command and a text that may be another."""
    passed = [call for call in rows("decoys.jsonl") if not hook.denial(harness, *call)]
    assert passed == []


def test_what_is_not_read_passes_where_the_list_lets_other_tools_pass(tmp_path) -> None:
    hook = Hook(tmp_path, PASS)
    said = [
        bool(hook.denial("claude-code", "mcp__x__y", {"command": command, "then": "x"}))
        for command in ("ls", BAD)
    ]
    assert said == [False, True]


PATCH = "*** Begin Patch\n*** Update File: {}\n@@\n-a\n+b\n*** End Patch"


@pytest.mark.parametrize("key", ["command", "patchText", "input"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (PATCH.format("notes/a.md"), ""),
        (PATCH.format("notes/a.md\n*** Move to: ../b"), "blocked-path"),
        (PATCH.format("notes/a.md\n  *** Add File: /etc/x"), "blocked-path"),
        (PATCH.format("notes/a.md\n\u00a0*** Delete File: /etc/x"), "blocked-path"),
        (PATCH.format("/etc/passwd"), "blocked-path"),
        ("*** Begin Patch\n*** Delete File: x\n*** End Patch", "blocked-path"),
        ("*** Begin Patch\n*** End Patch", "malformed-arguments"),
    ],
)
def test_a_patch_writes_the_files_that_it_names(text, why, key, tmp_path) -> None:
    hook = Hook(tmp_path, '[write]\nallow = ["notes/**"]\n')
    said = hook.denial("codex", "apply_patch", {key: text})
    assert (f"({why})" in said) if why else (said == "")


@pytest.mark.parametrize("line", ["Update File: {}", "Delete File: {}", "Move to: {}"])
def test_no_patch_writes_what_the_hook_goes_by(line, tmp_path) -> None:
    hook = Hook(tmp_path, '[write]\nallow = ["**"]\n')
    for file in (tmp_path / "rules.toml", "rules.toml", tmp_path / "state/calls.jsonl"):
        text = f"*** Begin Patch\n*** Update File: x\n*** {line.format(file)}\n*** End Patch"
        assert "(blocked-path)" in hook.denial("codex", "apply_patch", {"command": text})
    for key in ("file_path", "File", "target_file"):
        given = {key: str(tmp_path / "rules.toml")}
        assert "(blocked-path)" in hook.denial("claude-code", "Write", given)


def test_what_only_begins_as_a_patch_is_judged_as_a_command(tmp_path) -> None:
    hook = Hook(tmp_path, '[bash]\nallow = ["ls"]\n[write]\nallow = ["**"]\n')
    text = PATCH.format("x") + "\nrm x"
    assert "Denied" in hook.denial("codex", "apply_patch", {"command": text})
    assert "bare-binary" in hook.denial("codex", "apply_patch", {"command": "rm x"})


@pytest.mark.parametrize("key", ["file_path", "filePath", "path", "File_Path", "absolute_path"])
def test_a_file_has_the_same_rules_under_every_key(key, tmp_path) -> None:
    hook = Hook(tmp_path, '[read]\nallow = ["notes/**"]\n[write]\nallow = ["notes/**"]\n')
    said = [bool(hook.denial("claude-code", tool, {key: path}))
            for tool in ("Read", "Write", "read_file", "replace")
            for path in ("notes/a", "/etc/passwd")]  # fmt: skip
    assert said == [False, True] * 4


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Write", {"file_path": "notes/a", "new_path": "/etc/x"}),
        ("Edit", {"file_path": "notes/a", "edits": [{"file_path": "/etc/x"}]}),
        ("read_many_files", {"paths": ["notes/a"], "include": ["/etc/*"]}),
        ("str_replace_based_edit_tool", {"Command": "view", "command": "create", "path": "b/c"}),
    ],
)
def test_each_file_of_a_call_has_to_be_allowed(tool, arguments, tmp_path) -> None:
    rules = '[read]\nallow = ["notes/**", "b/**"]\n[write]\nallow = ["notes/**"]\n'
    assert "(blocked-path)" in Hook(tmp_path, rules).denial("claude-code", tool, arguments)


def test_a_command_in_a_file_that_is_written_is_no_command(tmp_path) -> None:
    hook = Hook(tmp_path, '[write]\nallow = ["**"]\n')
    given = {"file_path": "package.json", "content": '{"scripts": {"x": "y"}, "command": "rm x"}'}
    assert hook.denial("claude-code", "Write", given) == ""


LISTED = '[tools.PowerShell]\n[tools."mcp__db__query"]\n[tools.other]\n' + RULES


@pytest.mark.parametrize(
    ("rules", "tool", "arguments", "effect", "why"),
    [
        (RULES, "mcp__db__query", {"sql": "x"}, "unknown", '[tools."mcp__db__query"]'),
        (RULES, "Skill", {"skill": "x"}, "unknown", "this tool is not in the list"),
        (RULES, "Edit", {"file_path": "x"}, "unknown", '[write] with allow = ["**"]'),
        (RULES, "PowerShell", {"command": "ls"}, "unreadable", "read by a reader of bash"),
        (RULES, "mcp__x__pwsh", {"command": "ls"}, "unreadable", "read by a reader of bash"),
        (RULES, "run_code", {"code": "1"}, "unreadable", "code of a language"),
        (RULES, "Bash\0", {"command": "ls"}, "unreadable", "no tool's name"),
        (LISTED, "PowerShell", {"command": "ls"}, None, ""),
        (LISTED, "MCP__DB__query", {"sql": "x"}, None, ""),
        (LISTED, "other", {}, None, ""),
        (LISTED, "another", {}, "unknown", "not in the list"),
        (PASS, "mcp__db__query", {"sql": "x"}, "unknown", ""),
        (PASS, "Edit", {"file_path": "x"}, "no effect", ""),
        (PASS, "PowerShell", {"command": "ls"}, "unreadable", "read by"),
    ],
)
def test_a_tool_that_nobody_knows_is_denied_unless_the_list_says_otherwise(
    rules, tool, arguments, effect, why, tmp_path
) -> None:
    hook = Hook(tmp_path, rules)
    said = hook.denial("claude-code", tool, arguments)
    assert (why in said) if why else (said == "")
    line = hook.lines[-1]
    assert (line.get("effect"), line["verdict"] == "not-judged") == (effect, effect is not None)
    assert hook.denial("claude-code", tool, arguments, "--observe") == ""


def test_the_line_for_other_tools_is_extended_and_part_of_the_digest(tmp_path) -> None:
    (tmp_path / "base.toml").write_text(PASS)
    extended, denies = 'extends = "./base.toml"\n', 'other_tools = "deny"\n'
    lists = {"own": extended, "back": extended + denies, "plain": RULES, "said": denies + RULES}
    found = {}
    for name, text in lists.items():
        (tmp_path / f"{name}.toml").write_text(text)
        found[name] = load_policy(str(tmp_path / f"{name}.toml"), roots=())
    assert {name: policy.other_tools for name, policy in found.items()} == {
        "own": "pass", "back": "deny", "plain": "deny", "said": "deny"}  # fmt: skip
    assert found["plain"].digest == found["said"].digest == found["back"].digest
    assert found["own"].digest != found["plain"].digest


def test_a_call_that_was_not_judged_is_counted_apart_and_is_no_error(
    tmp_path, monkeypatch, stopped
) -> None:
    (tmp_path / "rules.toml").write_text(RULES)
    words = command("claude-code", str(tmp_path / "rules.toml"), observe=False, fail="closed")
    for tool, arguments in (("Skill", {}), ("Glob", {}), ("mcp__x__y", {"command": BAD})):
        sent = payload("claude-code", tool, arguments)
        done = subprocess.run(words, input=sent, capture_output=True, timeout=60, check=False)
        assert (done.returncode, bool(done.stdout)) == (0, tool != "Glob")
    told = CliRunner().invoke(app, ["hook", "status"]).output
    for count in ("not-judged (unknown, denied): 1", "not-judged (no effect): 1", "denied: 1"):
        assert count in told
    sessions = list(read_log(stopped / "agenteval/hook/calls.jsonl"))
    assert sum(len(turn.calls) for session in sessions for turn in session.turns) == 1


def test_install_says_which_tools_are_judged_and_which_pass(tmp_path, monkeypatch, stopped) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".claude").mkdir()
    settings = {
        "permissions": {"allow": ["Bash(ls:*)"], "denny": []},
        "hooks": {"PreToolUse": [{}]},
    }
    Path(".claude/settings.json").write_text(json.dumps(settings))
    (tmp_path / "rules.toml").write_text(f"{RULES}[tools.Skill]\n")
    own = ("hook", "install", "--for", "claude-code", "--yes", "--allowlist")
    told = CliRunner().invoke(app, [*own, "rules.toml"]).output.splitlines()
    assert told[:2] == [
        "judged as commands: every tool whose input carries one, whatever its name",
        "judged as files: reading passes, writing is denied: the list has no [write]",
    ]
    assert told[2] == "judged by a rule of their own: Skill"
    assert told[3].startswith("pass, as they change nothing on this machine: glob, grep, ls, ")
    assert told[4] == "any other tool, and PowerShell: denied until the list names it"
    told = CliRunner().invoke(app, [*own, "claude-code:.claude/settings.json"]).output.splitlines()
    assert [line.partition("settings.json: ")[2] for line in told[:2]] == [
        "permissions.denny: is not known: did you mean deny?",
        "hooks.PreToolUse: is not heeded: a hook may allow or deny a call, or change it",
    ]


@pytest.mark.parametrize(
    ("arguments", "effect"),
    [
        ('{"a": ' * 8 + '{"command": "ls"}' + "}" * 8, Effect.UNREADABLE),
        ('{"a": [[[[[[[[[{"command": "ls"}]]]]]]]]]}', Effect.UNREADABLE),
        ('{"command": 5}', Effect.UNKNOWN),
        ('{"command": null}', Effect.UNKNOWN),
        ('{"command": ""}', Effect.UNKNOWN),
        ('{"run": true}', Effect.UNKNOWN),
        ('{"description": "rm x"}', Effect.UNKNOWN),
    ],
)
def test_what_carries_no_command_that_can_be_found_is_not_taken_for_one(arguments, effect) -> None:
    assert read_call("", "some_tool", json.loads(arguments), "/w", "/w").effect is effect
