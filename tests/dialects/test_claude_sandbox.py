"""Claude Code's sandbox, in which commands need no rule, and its Monitor, which runs commands."""

import json
from pathlib import Path

import pytest

from agenteval.classes.judge import judge
from agenteval.config.allowlists import load_any
from agenteval.errors import UsageError
from agenteval.policy.policy import Policy
from agenteval.trial.call import ToolCall

# Seen by running Claude Code 2.1.330 in a sandbox that it could start.
SANDBOX = {"enabled": True, "autoAllowBashIfSandboxed": True}
SANDBOXED = [
    (SANDBOX, {}, "foo x", True),
    (SANDBOX, {}, "foo x > /tmp/out", True),
    (SANDBOX, {}, "cat /etc/passwd", True),
    (SANDBOX, {}, "rm -rf /", False),
    (SANDBOX, {}, "eval 'foo x'", False),
    (SANDBOX, {}, "FOO=1 foo x", False),
    (SANDBOX, {}, "cd sub && rm x", False),
    (SANDBOX, {}, "echo x > /dev/tcp/a/80", False),
    (SANDBOX, {}, "for f in *; do foo $f; done", False),
    (SANDBOX, {"deny": ["Bash(foo x:*)"]}, "foo x y", False),
    (SANDBOX, {"ask": ["Bash(foo:*)"]}, "bar && foo x", False),
    (SANDBOX, {"ask": ["Bash"]}, "foo x", True),
    (SANDBOX, {"deny": ["Bash"]}, "foo x", False),
    (SANDBOX, {"defaultMode": "plan"}, "foo x", False),
    (SANDBOX, {"defaultMode": "dontAsk"}, "foo x", True),
    (SANDBOX, {}, "foo =x", False),
    ({"enabled": True}, {}, "foo x", False),
    ({"enabled": False, "autoAllowBashIfSandboxed": True}, {}, "foo x", False),
    ({**SANDBOX, "excludedCommands": ["npm *"]}, {}, "npm test", False),
    ({**SANDBOX, "excludedCommands": ["npm:*"]}, {}, "timeout 5 npm test", False),
    ({**SANDBOX, "excludedCommands": ["docker"]}, {}, "docker", False),
    ({**SANDBOX, "excludedCommands": ["docker"]}, {"allow": ["Bash(docker:*)"]}, "docker", True),
]


def settings_with(folder: Path, sandbox: dict, permissions: dict) -> Policy:
    file = folder / "settings.json"
    file.write_text(json.dumps({"permissions": permissions, "sandbox": sandbox}))
    return load_any(f"claude-code:{file}", roots=())


@pytest.mark.parametrize(("sandbox", "permissions", "command", "allowed"), SANDBOXED)
def test_claude_code_spares_what_runs_in_its_sandbox_a_rule(
    sandbox, permissions, command, allowed, tmp_path
) -> None:
    policy = settings_with(tmp_path, sandbox, permissions)
    for tool in ("bash", "monitor"):
        call = ToolCall("", tool, "", {"command": command})
        assert judge(call, policy).allowed is allowed


@pytest.mark.parametrize(("may_be_left", "allowed"), [(True, False), (False, True)])
def test_a_call_that_asks_to_leave_the_sandbox_needs_a_rule(may_be_left, allowed, tmp_path) -> None:
    sandbox = {**SANDBOX, "allowUnsandboxedCommands": may_be_left}
    policy = settings_with(tmp_path, sandbox, {})
    given = {"command": "foo x", "dangerouslyDisableSandbox": True}
    assert judge(ToolCall("", "bash", "", given), policy).allowed is allowed


@pytest.mark.parametrize(
    "sandbox", [[], {"enabled": "yes"}, {"excludedCommands": "git"}, {"excludedCommands": [1]}]
)
def test_a_sandbox_of_another_form_is_named_with_its_key(sandbox, tmp_path) -> None:
    with pytest.raises(UsageError, match=r"settings\.json: sandbox"):
        settings_with(tmp_path, sandbox, {})


@pytest.mark.parametrize(
    ("permissions", "command", "allowed"),
    [
        ({"allow": ["Bash(git status:*)"]}, "git status", True),
        ({"allow": ["Bash(git status:*)"]}, "touch q", False),
        ({"allow": ["Monitor"]}, "touch q", True),
        ({"allow": ["Monitor"], "deny": ["Bash(touch:*)"]}, "touch q", False),
        ({"allow": ["Bash"], "deny": ["Monitor"]}, "touch q", False),
        ({"allow": ["Bash"], "deny": ["Bash(touch:*)"]}, "echo x; touch q", False),
        ({}, "ls", True),
    ],
)
def test_monitor_is_judged_by_the_rules_for_bash(permissions, command, allowed, tmp_path) -> None:
    policy = settings_with(tmp_path, {}, permissions)
    call = ToolCall("", "Monitor", "{}", {"command": command})
    assert judge(call, policy).allowed is allowed
