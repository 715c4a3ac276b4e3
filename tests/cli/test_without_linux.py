"""What needs no sandbox works where Linux's own calls are missing, as on macOS."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

# Before anything of the package is imported. The standard library of this machine is Linux's: its
# own modules are loaded first, so that they do not look for what macOS has.
WITHOUT = """
import _socket, asyncio, ctypes, multiprocessing.context, os, posix, resource, socket, sqlite3
import select, subprocess, sys, sysconfig, tempfile, types, urllib.request, uuid, webbrowser
sysconfig.get_config_vars()
tempfile._O_TMPFILE_WORKS = False
sys.modules["_scproxy"] = types.ModuleType("_scproxy")
sys.modules["_scproxy"]._get_proxies = sys.modules["_scproxy"]._get_proxy_settings = dict
names = (
    "sched_getaffinity sched_setaffinity O_PATH O_TMPFILE pidfd_open memfd_create unshare setns "
    "eventfd splice getrandom posix_fadvise copy_file_range SO_PEERCRED prlimit epoll"
)
for module in (os, posix, socket, _socket, select, resource):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
real = open
def opened(path, *words, **options):
    if str(path).startswith("/proc/"):
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return real(path, *words, **options)
import builtins
builtins.open = opened
def bound(what, most, setrlimit=resource.setrlimit):
    if what == resource.RLIMIT_AS:
        raise ValueError("current limit exceeds maximum limit")
    setrlimit(what, most)
resource.setrlimit = bound
sys.platform = "darwin"
"""
IMAGE = "AGENTEVAL_CONTAINER_IMAGE"
COMMAND = "import sys; sys.argv[0] = 'agenteval'; from agenteval.cli.app import main; main()"


def agenteval(tmp_path, *words, given=""):
    """Its exit code and what it printed; a traceback is none of them."""
    done = subprocess.run(
        [sys.executable, "-c", f"{WITHOUT}\n{COMMAND}", *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        check=False,
        env={
            **{name: value for name, value in os.environ.items() if name == IMAGE},
            "HOME": str(tmp_path),
            "PATH": "/usr/bin:/bin",
            "XDG_STATE_HOME": str(tmp_path / "state"),
        },
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def log(model, *commands):
    call = {"role": "assistant", "model": model}
    return "".join(
        json.dumps(
            {
                "model": model,
                "messages": [
                    {"role": "user", "content": "go"},
                    call | {"tool_calls": [function(command)]},
                    {"role": "tool", "tool_call_id": "c", "content": "done"},
                ],
            }
        )
        + "\n"
        for command in commands
    )


def function(command):
    arguments = json.dumps({"command": command})
    return {
        "id": "c",
        "type": "function",
        "function": {"name": "bash", "arguments": arguments},
    }


RULES = ["--allowlist", "claude-code:claude.json"]


@pytest.fixture(scope="module")
def taken_in(tmp_path_factory):
    """A folder with a store of two models' logs."""
    tmp_path = tmp_path_factory.mktemp("logs")
    (tmp_path / "claude.json").write_text('{"permissions": {"allow": ["Bash(ls:*)"]}}')
    for model, commands in (("a", ["ls", "ls -l"] * 9), ("b", ["ls", "rm x | head"] * 9)):
        (tmp_path / f"{model}.jsonl").write_text(log(model, *commands))
    words = ["--store", "s.db", *RULES, "--workers", "2"]
    done = agenteval(tmp_path, "ingest", "openai", "a.jsonl", "b.jsonl", *words)
    assert done[0] == 0, done[1]
    _, shown = agenteval(tmp_path, "show", "--store", "s.db")
    first = {name: re.search(rf"\S+-openai-{name}\b", shown).group() for name in "ab"}
    return tmp_path, first


@pytest.fixture
def stored(tmp_path, taken_in):
    """A copy of it: a command may write there, or hold something open."""
    folder, first = taken_in
    return shutil.copytree(folder, tmp_path / "logs"), first


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["show", "last"], 0),
        (["compare", "a", "b"], 0),
        (["gate", "--baseline", "a", "--candidate", "b"], 1),
        (["trend", "--by", "model"], 0),
        (["whatif", "b", "--allowlist", "demo"], 0),
        (["suggest", "b", "--allowlist", "demo"], 0),
        (["suggest", "b"], 0),
        (["view", "--export", "pages"], 0),
        (["hook", "status"], 0),
    ],
    ids=lambda one: one[0] if isinstance(one, list) else "",
)
def test_a_store_of_logs_is_worked_with(stored, words, code) -> None:
    folder, runs = stored
    given = [runs.get(word, word) for word in words]
    ended, told = agenteval(folder, *given, *([] if words[0] == "hook" else ["--store", "s.db"]))
    assert ended == code, told


def test_a_command_is_classified(tmp_path) -> None:
    ended, told = agenteval(tmp_path, "classify", "rm -rf x | head")
    assert (ended, "pipe-to-filter" in told) == (0, True), told


@pytest.mark.slow
@pytest.mark.skipif(IMAGE not in os.environ, reason=f"{IMAGE} names no image")
def test_a_run_plays_through_a_container_engine_and_the_doctor_says_so(tmp_path) -> None:
    ended, told = agenteval(tmp_path, "doctor")
    assert (ended, "A run uses: container\n" in told) == (0, True), told
    words = ["--model", "sim/qwen3.5-27b", "--trials", "1", "notes/append"]
    ended, told = agenteval(tmp_path, "run", *words)
    assert (ended, "goal reached, of trials     1  100.0%" in told) == (0, True), told
