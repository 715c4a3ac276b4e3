"""Capturing a user's own harness: what it sends becomes an arm, and models read just that."""

import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from real import cache

from agenteval.config.prompts import arms
from agenteval.errors import UsageError
from agenteval.harness import capture
from agenteval.harness.install import installed
from agenteval.play.tools import answer
from agenteval.prompt.prompt import Setting
from agenteval.sandbox.maker import fill, render_agent
from agenteval.trial.call import BashRun, FileRead
from agenteval.trial.trial import Agent, Execution, Limits

AGENTEVAL = [sys.executable, "-m", "agenteval"]
# A harness as small as can be: it asks by chat completions, denies pipes, and runs nothing.
FAKE = f"""\
#!{sys.executable}
import json, os, sys, urllib.request
if "--version" in sys.argv:
    sys.exit(print("9.8.7"))
END = " In Jinja {{%- endraw -%}} ends {{% raw %}}, {{{{ x }}}}."
SYSTEM = "You are {{fake}}, in " + os.getcwd() + ".\\n\\n\\nBe {{% short %}}." + END
TOOLS = [{{"type": "function", "function": {{"name": "bash", "description": "Runs {{it}}.",
    "parameters": {{"type": "object", "required": ["command", "why"], "properties": {{
        "command": {{"type": "string"}}, "why": {{"type": "string", "enum": ["look"]}}}}}}}}}},
    {{"type": "function", "function": {{"name": "web", "parameters": {{}}}}}}]
RULE = "The user has specified a rule which prevents you from using this. "
def result(name, raw):
    if name != "bash":
        return "Model tried to call unavailable tool 'invalid'. Available tools: bash, web."
    try:
        asked = json.loads(raw)
        command = asked["command"]
    except (ValueError, KeyError) as error:
        return "The bash tool was called with invalid arguments: " + str(error)
    assert asked["why"] == "look", asked
    if "|" in command:
        return RULE + '[{{"permission":"bash","pattern":"*"}}] ' + command
    if command.startswith("ls"):
        return "ls: cannot access '/no-such-folder-of-agenteval'\\nExit code 2"
    return "" if command == "true" else "agenteval-capture\\n"
messages = [{{"role": "system", "content": SYSTEM}}, {{"role": "user", "content": sys.argv[1]}}]
while True:
    body = {{"model": "x", "messages": messages, "tools": TOOLS, "temperature": 0.5}}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode())
    said = json.load(urllib.request.urlopen(request))["choices"][0]["message"]
    messages.append(said)
    if not said.get("tool_calls"):
        break
    for call in said["tool_calls"]:
        f = call["function"]
        messages.append({{"role": "tool", "tool_call_id": call["id"],
                          "content": result(f["name"], f["arguments"])}})
"""
RULES = '{"permission": {"bash": {"*": "deny", "echo *": "allow", "ls *": "allow"}}}'


def look(rules: str | None = None) -> list[str]:
    """The lines of a capture of ./opencode in this process."""
    return [*capture.captured(["./opencode", "look"], None, rules)]


def captured(folder: Path, *words: str, env: dict[str, str] | None = None):
    return subprocess.run(
        [*AGENTEVAL, "harness", "capture", *words],
        cwd=folder,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    program = tmp_path / "opencode"
    program.write_text(FAKE)
    program.chmod(0o755)
    (tmp_path / "opencode.json").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_captured_arm_is_what_the_harness_sent_and_nothing_else(project) -> None:
    done = captured(project, "--permissions", "opencode.json", "--", "./opencode", "look around")
    assert done.returncode == 0, done.stderr
    # It runs whatever has no pipe: our engine knows from the rules that these three are denied.
    differing = re.findall(r"ran +(.*)  DIFFERS", done.stdout)
    assert differing == ["cat /etc/hostname", "timeout 5 true", "true"]
    arm = arms((project,))["captured/opencode"]
    system = (
        "You are {fake}, in /workspace.\n\n\nBe {% short %}. "
        "In Jinja {%- endraw -%} ends {% raw %}, {{ x }}."
    )
    agent = Agent("a", "", instructions="# System\n\nS\n\n# Task\n\nT\n", tools=("bash",))
    prompt = render_agent(agent, {}, Setting(arm=arm, rules=""))
    assert fill(arm.frame, {}) == system
    assert prompt.system.startswith(system)
    assert arm.profile.forms["bash"].schema()["function"] == {
        "name": "bash",
        "description": "Runs {it}.",
        "parameters": {
            "type": "object",
            "required": ["command", "why"],
            "properties": {
                "command": {"type": "string"},
                "why": {"type": "string", "enum": ["look"]},
            },
        },
    }
    texts = arm.profile.texts
    rule = "The user has specified a rule which prevents you from using this. "
    assert (texts.denied, texts.ran, texts.empty) == (
        f"{rule}{{rules}} {{command}}",
        "{output}",
        "",
    )
    assert texts.failed == "{output}Exit code {code}"
    assert texts.unknown.endswith("Available tools: {tools}.")
    assert (arm.engine, arm.words) == ("opencode", "opencode 9.8.7")


# As Qwen Code does, which tells the command again with its result.
TELLS = r"""
def wordy(command, out, code):
    return f"Command: {command}\nOutput: {out or '(empty)'}\nExit Code: {code}"
def result("""
WORDY = FAKE.replace("\ndef result(", TELLS)
WORDY = WORDY.replace('return "ls: cannot', 'return wordy(command, "ls: cannot')
WORDY = WORDY.replace('Exit code 2"', '", 2)')
WORDY = WORDY.replace(
    'return "" if command == "true" else', 'return wordy(command, "" if command == "true" else'
)
WORDY = WORDY.replace('"agenteval-capture\\n"\n', '"agenteval-capture\\n", 0)\n')


def test_a_result_that_names_its_command_names_that_of_each_call(project) -> None:
    (project / "opencode").write_text(WORDY)
    look()
    arm = arms((project,))["captured/opencode"]
    texts = arm.profile.texts
    assert texts.ran == "Command: {command}\nOutput: {output}\nExit Code: {code}"
    assert texts.failed == "Command: {command}\nOutput: {output}\nExit Code: {code}"
    assert texts.empty == "Command: {command}\nOutput: (empty)\nExit Code: {code}"

    def read(output: str, code: int, ran: BashRun | FileRead) -> str:
        return answer(Execution(code, output, 0.0), Limits(), arm, ran, {})

    bash, file = BashRun("date -u", ("date", "-u"), ()), FileRead("a.md")
    assert read("Monday\n", 0, bash) == "Command: date -u\nOutput: Monday\n\nExit Code: 0"
    assert read("no\n", 1, bash) == "Command: date -u\nOutput: no\n\nExit Code: 1"
    assert read("", 0, bash) == "Command: date -u\nOutput: (empty)\nExit Code: 0"
    assert read("Monday\n", 0, file) == "Monday\n"


@pytest.mark.slow
def test_a_captured_arm_is_played(project) -> None:
    look()
    words = ("-m", "sim/qwen3.5-27b", "--arm", "captured/opencode", "mail/draft", "--trials", "1")
    done = subprocess.run([*AGENTEVAL, "run", *words], capture_output=True, text=True, timeout=100,
                          check=False)  # fmt: skip
    assert (done.returncode, "completed              1" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("command", "rules", "said"),
    [
        (["no-such-harness", "x"], None, "no such program on PATH"),
        (["true"], None, "asked us nothing with a shell among its tools"),
        (["./opencode", "x"], "gone.json", "gone.json: cannot be read"),
    ],
)
def test_what_cannot_be_captured_is_one_line_with_the_cure(project, command, rules, said) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        [*capture.captured(command, None, rules)]
    assert "\n" not in str(raised.value)


def test_a_harness_whose_commands_show_no_output_makes_no_arm(project) -> None:
    broken = "bwrap: execvp sandbox: No such file or directory\\nExit code: 1"
    (project / "opencode").write_text(FAKE.replace("agenteval-capture\\n", broken))
    with pytest.raises(UsageError, match=r"of it, but: Exit code: 1\. Its own sandbox may"):
        look()
    assert not (project / "arms").exists()


def is_running(words: bytes) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if words in path.read_bytes():
                return True
    return False


HANGS = """
import subprocess, time
subprocess.Popen(["sleep", "6117"])  # holds the output open
time.sleep(600)
"""


def test_a_harness_that_does_not_end_after_our_last_word_is_ended(project, monkeypatch) -> None:
    (project / "opencode").write_text(FAKE + HANGS)
    monkeypatch.setattr(capture, "LEAVES", 0.5)
    told = look()
    assert (told[-2], len(told)) == ("wrote arms/captured/opencode.toml", 17)
    for _ in range(100):  # killed it is; the kernel takes its time to have it gone
        if not is_running(b"sleep\x006117"):
            return
        time.sleep(0.1)
    raise AssertionError("what it started is still there")


def test_a_harness_that_hangs_over_a_call_is_begun_again_for_the_rest(project, monkeypatch) -> None:
    waits = "import time\ndef result(name, raw):\n    if '/etc/hostname' in raw: time.sleep(600)\n"
    (project / "opencode").write_text(FAKE.replace("def result(name, raw):\n", waits))
    monkeypatch.setattr(capture, "QUIET", 2.0)
    monkeypatch.setattr(capture, "LEAVES", 2.0)
    told = look()
    assert [line.split()[0] for line in told[3:-2]] == [
        *("ran", "denied", "ran", "ran", "ran", "ran"), "ended", *("ran", "ran"),
        *("refused", "refused", "refused")]  # fmt: skip


def test_a_call_whose_result_is_never_sent_counts_as_one_that_ended_the_harness(project) -> None:
    silent = FAKE.replace('messages.append({"role": "tool"', 'str({"role": "tool"')
    (project / "opencode").write_text(silent)
    assert {line.split()[0] for line in look()[3:-2]} == {"ended"}


def test_a_harness_that_asks_nothing_and_does_not_end_is_one_line(project, monkeypatch) -> None:
    (project / "opencode").write_text(f"#!{sys.executable}\nimport sys, time\n"
                                      "'--version' in sys.argv or time.sleep(600)\n")  # fmt: skip
    monkeypatch.setattr(capture, "FIRST", 0.5)
    with pytest.raises(UsageError, match=r"asked us nothing in 0\.5 s: name a way"):
        look()


def test_an_arm_that_is_there_is_not_overwritten(project) -> None:
    arm = project / "arms/captured/opencode.toml"
    arm.parent.mkdir(parents=True)
    arm.write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        look()
    assert arm.read_text() == "mine"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "program", "words"),
    [
        ("opencode", "opencode", ("run", "look around")),
        ("claude-code", "claude", ("-p", "look around")),
        # Its own sandbox finds itself no more where its home is a temporary folder.
        ("codex", "codex", ("exec", "--skip-git-repo-check", "-s", "danger-full-access", "look")),
    ],
)
def test_the_real_program_is_captured(name, program, words, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("AGENTEVAL_DATA", str(cache()))
    try:
        found = installed(name)
    except UsageError as error:
        pytest.skip(str(error))
    rules = '{"permission": {"bash": {"*": "deny", "echo *": "allow", "ls *": "allow"}}}'
    (tmp_path / "opencode.json").write_text(rules)
    (tmp_path / "home").mkdir()
    own = {"HOME": str(tmp_path / "home"), "PATH": f"{(found.folder / found.binary).parent}:"
           f"{os.environ['PATH']}"}  # fmt: skip
    asked = ("--permissions", "opencode.json") if name == "opencode" else ()
    done = captured(tmp_path, *asked, "--", program, *words, env=own)
    assert (done.returncode, "DIFFERS" in done.stdout) == (0, False), done.stdout + done.stderr
    arm = arms((tmp_path,))[f"captured/{name}"]
    assert arm.words == f"{name} {found.program.version}"
    assert len(arm.frame) > 5000
    assert "{output}" in arm.profile.texts.ran
