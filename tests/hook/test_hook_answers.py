"""What the hook answers: through the command that a harness starts, or a guarded shell."""

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agenteval.hook import asking, judging
from agenteval.hook.installing import command, plugin
from agenteval.hook.judging import ProductionLog

AGENTEVAL = [sys.executable, "-m", "agenteval"]
RULES = '[bash]\nallow = ["touch *", "echo *"]\n[write]\nallow = ["**"]\n'
Done = subprocess.CompletedProcess[str]


@pytest.fixture
def project(tmp_path, monkeypatch, stopped) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "rules.toml").write_text(RULES)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    return tmp_path / "project"


@pytest.fixture
def folder(stopped) -> Path:
    """Where the resident process is to keep its log."""
    folder = stopped / "agenteval/hook"
    folder.mkdir(parents=True, mode=0o700)
    return folder


def words(harness: str = "claude-code", *, observe: bool = False, fail: str = "closed"):
    return command(harness, "../rules.toml", observe=observe, fail=fail)


def ran(started: list[str], sent: str = "", **how) -> Done:
    """What came of a program with this on its standard input."""
    texts = {"capture_output": True, "text": True}
    return subprocess.run(started, input=sent, timeout=60, check=False, **texts, **how)


def asked(tool: str, arguments: dict, started: list[str], **more: str) -> Done:
    sent = {"tool_name": tool, "tool_input": arguments, "cwd": str(Path.cwd()), **more}
    return ran(started, json.dumps(sent))


def reason(done: Done) -> str:
    """Why it was denied; "" for a call that goes on."""
    assert done.returncode == 0, done.stderr
    if not done.stdout:
        return ""
    told = json.loads(done.stdout)["hookSpecificOutput"]
    assert (told["hookEventName"], told["permissionDecision"]) == ("PreToolUse", "deny")
    return told["permissionDecisionReason"]


def bash(command: str, started: list[str], **more: str) -> str:
    return reason(asked("Bash", {"command": command}, started, **more))


def log(state: Path) -> list[dict]:
    return [dict(one) for one in ProductionLog(state / "agenteval/hook/calls.jsonl").lines()]


def resident(state: Path) -> int:
    return int((state / "agenteval/hook/pid").read_text())


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("Bash", {"command": "touch x"}, ""),
        ("Bash", {"command": "touch x | head"}, "pipe-to-filter"),
        ("Bash", {}, "malformed-arguments"),
        ("Write", {"file_path": "x", "content": "y"}, ""),
        ("Edit", {"file_path": "../x", "old_string": "a", "new_string": "b"}, "blocked-path"),
        ("MultiEdit", {"file_path": "../rules.toml", "edits": []}, "blocked-path"),
        ("Read", {"file_path": "/etc/passwd"}, ""),  # the list has no [read]: the harness's own
        ("WebSearch", {"query": "x"}, ""),
    ],
)
def test_a_call_is_judged_as_classify_judges_it(tool, arguments, why, project) -> None:
    said = reason(asked(tool, arguments, words()))
    assert (f"({why})" in said) if why else (said == "")


def test_a_command_that_starts_elsewhere_than_the_session_is_denied(project, monkeypatch) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(project))
    assert bash("touch x", words(), cwd=str(project)) == ""
    assert "Denied by the allow list rules" in bash("touch x", words(), cwd="/etc")


def test_a_file_tool_never_writes_what_the_hook_goes_by(project, tmp_path, stopped) -> None:
    inside = project / "mine.toml"
    inside.write_text(RULES)
    started = command("claude-code", "mine.toml", observe=False, fail="closed")
    assert reason(asked("Write", {"file_path": "other.toml", "content": ""}, started)) == ""
    for file in (inside, stopped / "agenteval/hook/calls.jsonl"):
        assert "Denied" in reason(asked("Write", {"file_path": str(file)}, started))


def test_observing_denies_nothing_and_keeps_what_would_have_been(project, stopped) -> None:
    assert bash("touch x | head", words(observe=True)) == ""
    line = log(stopped)[-1]
    assert (line["mode"], line["verdict"], line["class"], line["ran"]) == (
        "observe", "denied", "pipe-to-filter", True)  # fmt: skip


@pytest.mark.parametrize("path", ["/etc/cron.d/\ud800", "/etc/cron.d/a\0b", "loop/x"])
def test_a_path_that_is_none_is_denied_and_kept_whatever_the_hook_was_installed_for(
    path, project, tmp_path, stopped
) -> None:
    (tmp_path / "rules.toml").write_text('[write]\nallow = ["notes/**"]\n')
    (project / "loop").symlink_to("loop")
    assert "(blocked-path)" in reason(asked("Write", {"file_path": path}, words(fail="open")))
    assert log(stopped)[-1]["arguments"] == {"file_path": path}
    assert reason(asked("Write", {"file_path": path}, words(observe=True))) == ""
    assert log(stopped)[-1]["ran"] is True
    sent = json.dumps({"tool": "write", "args": {"filePath": path}})
    done = ran(words("opencode", fail="open"), sent)
    assert (done.returncode, "(blocked-path)" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("fail", "observe", "code"), [("closed", False, 0), ("open", False, 1), ("closed", True, 1)]
)
def test_a_defect_of_ours_is_kept_and_answered_as_the_hook_was_installed(
    fail, observe, code, project, tmp_path, monkeypatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(judging, "judge", broken)
    sent = json.dumps({"tool_name": "Bash", "tool_input": {"command": "ls"}}).encode()
    options = words(fail=fail, observe=observe)[4:]
    answer = judging.Judging(tmp_path / "kept").reply(options, {"cwd": str(project)}, sent)
    assert (answer.code, "RuntimeError: a defect" in answer.out + answer.err) == (code, True)
    line = [*ProductionLog(tmp_path / "kept/calls.jsonl").lines()][-1]
    assert (line["event"], line["reason"]) == ("unreadable", "RuntimeError: a defect")


def test_a_denied_call_is_denied_where_the_log_cannot_be_written(project, folder) -> None:
    (folder / "calls.jsonl").mkdir()
    assert "pipe-to-filter" in bash("touch x | head", words(fail="open"))
    assert "IsADirectoryError" in (folder / "resident.err").read_text()
    elsewhere = [*words(fail="open"), "--log", str(project.parent / "rules.toml/calls.jsonl")]
    assert "pipe-to-filter" in bash("touch x | head", elsewhere)
    assert bash("touch x", elsewhere) == ""


def test_the_model_of_claude_code_is_read_from_its_transcript(project, tmp_path, stopped) -> None:
    file = tmp_path / "session.jsonl"
    reply = {"type": "assistant", "message": {"model": "some-model", "content": []}}
    file.write_text("{broken\n" + json.dumps(reply) + "\n" + '{"type":"user"}\n')
    bash("touch x", words(), transcript_path=str(file), session_id="s1")
    deep = tmp_path / "deep.jsonl"
    deep.write_text('{"type":"assistant","message":' + "[" * 5000 + "\n")
    odd = ["/gone", "/a\0b", "/\ud800", str(deep)]
    for path in odd:
        assert bash("touch x", words(), transcript_path=path, session_id="s2") == ""
    assert [(one["session"], one["model"]) for one in log(stopped) if "tool" in one] == [
        ("s1", "some-model"), *[("s2", "")] * len(odd)]  # fmt: skip


def test_a_policy_that_changed_is_read_again_and_that_is_kept(project, tmp_path, stopped) -> None:
    assert bash("date", words()) != ""
    (tmp_path / "rules.toml").write_text('extends = "./base.toml"\n')
    (tmp_path / "base.toml").write_text('[bash]\nallow = ["date"]\n')
    assert bash("date", words()) == ""
    (tmp_path / "base.toml").write_text('[bash]\nallow = ["date -I"]\n')
    assert bash("date", words()) != ""
    changes = [one for one in log(stopped) if one.get("event") == "policy"]
    assert [bool(one["was"]) for one in changes] == [False, True, True]
    assert changes[1]["digest"] == changes[2]["was"]


@pytest.mark.parametrize("broken", [None, "allow = 3\n"])
@pytest.mark.parametrize(("fail", "code"), [("closed", 0), ("open", 1)])
def test_a_policy_that_is_gone_or_broken_fails_as_it_was_installed(
    fail, code, broken, project, tmp_path, stopped
) -> None:
    started = words(fail=fail)
    (tmp_path / "rules.toml").unlink()
    if broken:
        (tmp_path / "rules.toml").write_text(broken)
    done = asked("Bash", {"command": "touch x"}, started)
    assert (done.returncode, "rules.toml" in done.stdout + done.stderr) == (code, True)
    assert ("deny" in done.stdout) == (fail == "closed")
    assert log(stopped)[-1]["event"] == "unreadable"


@pytest.mark.parametrize(
    ("fail", "observe", "code", "said"),
    [
        ("closed", False, 2, "--fail closed"),
        ("open", False, 1, "--fail open"),
        ("closed", True, 1, "--observe"),
    ],
)
def test_without_an_answer_it_fails_as_it_was_installed(
    fail, observe, code, said, project, folder
) -> None:
    folder.chmod(0o755)
    done = asked("Bash", {"command": "touch x"}, words(fail=fail, observe=observe))
    assert (done.returncode, done.stdout, said in done.stderr) == (code, "", True)
    assert "is open to others: chmod 700" in done.stderr


@pytest.mark.parametrize("waiting", [0, 1])
def test_a_process_that_takes_no_call_is_waited_for_so_long_only(waiting, project, folder) -> None:
    (project / "here").touch()
    quick = (
        "import sys; from agenteval.hook import asking; asking.TIMEOUT = 0.5; "
        "sys.exit(asking.main(sys.argv[1:]))"
    )
    guarded = [*words("guard", fail="open")[4:], "--", "sh", "-c", "ls here"]
    with socket.socket(socket.AF_UNIX) as listening, contextlib.ExitStack() as others:
        listening.bind(os.path.relpath(folder / "socket"))
        listening.listen(0)
        for _ in range(waiting):
            other = others.enter_context(socket.socket(socket.AF_UNIX))
            other.connect(os.path.relpath(folder / "socket"))
        done = ran([sys.executable, "-c", quick, *guarded])
    why = "takes no call" if waiting else "takes longer than 0.5 s"
    assert (done.returncode, done.stdout, why in done.stderr) == (0, "here\n", True)


def test_the_socket_and_the_log_are_for_their_user_alone(project, stopped) -> None:
    bash("touch x", words())
    folder = stopped / "agenteval/hook"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}
    assert {name for name, mode in modes.items() if mode & 0o077} == set()


def test_who_kills_the_process_is_told_by_the_next_one(project, stopped) -> None:
    bash("touch x", words())
    killed = resident(stopped)
    os.kill(killed, signal.SIGKILL)
    while Path(f"/proc/{killed}/stat").exists() and ") Z" not in _stat(killed):
        time.sleep(0.01)
    assert "pipe-to-filter" in bash("touch x | head", words())
    ended = [one for one in log(stopped) if one.get("event") == "stop"]
    assert [(one["pid"], one["why"]) for one in ended] == [(killed, "killed")]
    assert resident(stopped) != killed


def _stat(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ") Z"


def test_many_at_once_start_one_process_and_no_line_is_lost(project, stopped) -> None:
    sent = json.dumps({"tool_name": "Bash", "tool_input": {"command": "touch " + "x" * 3000}})
    started = [subprocess.Popen(words(), stdin=subprocess.PIPE, text=True) for _ in range(12)]
    for process in started:
        process.communicate(sent, timeout=60)
    lines = log(stopped)
    assert [process.returncode for process in started] == [0] * 12
    assert [one["event"] for one in lines if "event" in one] == ["start", "policy"]
    assert sum(one.get("tool") == "Bash" for one in lines) == 12
    running = ran(["pgrep", "-f", f"agenteval.hook.resident {stopped}/agenteval/hook$"])
    assert running.stdout.split() == [str(resident(stopped))]


def test_a_log_that_is_full_is_followed_by_the_next(tmp_path) -> None:
    kept = ProductionLog(tmp_path / "calls.jsonl", most=2000, most_older=2)
    for number in range(100):
        kept.write({"number": number, "filler": "x" * 100})
    sizes = [path.stat().st_size for path in tmp_path.glob("calls.jsonl*")]
    numbers = [one["number"] for one in kept.lines()]
    assert (len(sizes), max(sizes) <= 2000) == (4, True)  # two older, one lock
    assert numbers == list(range(100 - len(numbers), 100))


@pytest.mark.parametrize(
    ("shell", "out", "code"),
    [
        (["bash", "-c", "echo hi"], "hi\n", 0),
        (["sh", "--norc", "-c", "echo hi"], None, None),
        (["bash", "-lc", "echo hi | head"], "", 126),
        (["bash", "-c", "echo hi", "more"], "", 126),
        (["bash", "-ic", "echo hi"], "", 126),
        (["bash", "script.sh"], "", 126),
        (["bash"], "", 126),
    ],
)
def test_a_guarded_shell_runs_what_is_allowed_and_nothing_else(shell, out, code, project) -> None:
    (project / "script.sh").write_text("echo from a script")
    done = ran([*words("guard"), "--", *shell], "echo from stdin\n")
    if out is not None:
        assert (done.stdout, done.returncode) == (out, code), done.stderr
    assert "from" not in done.stdout


@pytest.mark.parametrize(
    "quoted", ["\x1b[31m\x07\x9b\u202e\x7f", r"$'\x1b[31m\x07'", "\udc9b\udcff"], ids=ascii
)
@pytest.mark.parametrize("harness", ["guard", "opencode"])
def test_a_denial_moves_no_cursor(harness, quoted, project, stopped) -> None:
    command = f"echo {quoted} | tee {quoted}"
    if harness == "guard":
        started, sent = [*words("guard"), "--", "bash", "-c", command], ""
    else:
        started = words("opencode")
        sent = json.dumps({"tool": "bash", "args": {"command": command}})
    done = ran(started, sent, encoding="utf-8")
    assert "Denied by the allow list" in done.stderr
    assert [hex(ord(one)) for one in done.stderr if not one.isprintable() and one != "\n"] == []


def test_a_guarded_shell_is_a_program_that_others_can_use(project, stopped, tmp_path) -> None:
    (tmp_path / "startup").write_text("echo from BASH_ENV\n")
    guard = [*AGENTEVAL, "guard", "--allowlist", "../rules.toml", "--write", "shell", "--", "bash"]
    assert ran(guard).returncode == 0
    env = {**os.environ, "BASH_ENV": str(tmp_path / "startup")}
    done = [ran(["./shell", "-c", text], env=env) for text in ("echo 'a  b'", "echo a; ls x")]
    assert [(one.returncode, one.stdout) for one in done] == [(0, "a  b\n"), (126, "")]
    assert "(shell-chain): `;" in done[1].stderr
    assert [one["verdict"] for one in log(stopped) if "tool" in one] == ["allowed", "denied"]


def test_the_command_by_hand_says_what_the_harness_would_be_told(project) -> None:
    by_hand = [*AGENTEVAL, "hook", "run", "--for", "claude-code", "--allowlist", "../rules.toml"]
    assert bash("touch x | head", by_hand) == bash("touch x | head", words())


def test_status_tells_of_the_process_and_of_the_log(project, stopped) -> None:
    bash("touch x | head", words(), model="m")
    told = ran([*AGENTEVAL, "hook", "status"]).stdout
    assert f"running, {resident(stopped)}" in told
    assert "m  denied: 1" in told
    assert ran([*AGENTEVAL, "hook", "stop"]).stdout.startswith("ended ")


def test_status_reads_a_log_with_lines_that_are_none_of_ours(project, folder) -> None:
    (folder / "calls.jsonl").write_text('{}\n{"event":"a"}\n' + "[" * 3000 + "\n")
    told = ran([*AGENTEVAL, "hook", "status"])
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.endswith("  ?  ?  ?: 1\n  ?  a: \n")


@pytest.mark.parametrize("held", [b"x12", b"\xff", b""])
def test_a_pid_that_is_no_number_is_of_no_process(held, project, folder, stopped) -> None:
    (folder / "pid").write_bytes(held)
    assert bash("touch x", words()) == ""
    assert [one["event"] for one in log(stopped) if "event" in one] == ["start", "policy"]


# OpenCode 2 as its documentation has it: the default export's `setup` puts a function at a hook of
# the tools, which is given each call, and whose error is what the model reads.
HOST = """
const { default: plugin } = await import(process.argv[2])
const hooks = {}
const ctx = {
  location: { directory: process.cwd() },
  tool: { hook: async (name, run) => { hooks[name] = run } },
}
await plugin.setup(ctx)
for (const command of process.argv.slice(3)) {
  const event = { tool: "shell", sessionID: "s2", agent: "build", input: { command } }
  try { await hooks["execute.before"](event); console.log("") }
  catch (error) { console.log(error.message) }
}
console.log(Object.keys(await import(process.argv[2])).join(), plugin.id, typeof plugin)
"""


@pytest.mark.skipif(not shutil.which("node"), reason="no node to run the plug-in with")
def test_the_plug_in_answers_opencode_2_as_it_is_documented(project, tmp_path, stopped) -> None:
    file, host = tmp_path / "agenteval.mjs", tmp_path / "host.mjs"
    source = Path(asking.__file__).with_name("opencode_plugin.js").read_text()
    file.write_text(plugin(source, words("opencode"), fails_closed=True))
    host.write_text(HOST)
    done = ran(["node", str(host), str(file), "touch x", "touch x | head"])
    allowed, denied, shape = done.stdout.splitlines()
    assert (allowed, shape) == ("", "default agenteval object")
    assert denied.startswith("Denied by the allow list rules (pipe-to-filter): `| head`.")
    lines = [(one["tool"], one["session"], one["verdict"]) for one in log(stopped) if "tool" in one]
    assert lines == [("shell", "s2", "allowed"), ("shell", "s2", "denied")]
