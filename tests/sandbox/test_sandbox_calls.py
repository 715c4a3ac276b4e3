"""What a call gives back, on every backend."""

import asyncio
import shutil
from pathlib import Path

import pytest

from agenteval.sandbox.launch import COVERED, MASKED
from agenteval.trial.trial import Limits

SCRIPT = b"import sys\nprint(sys.argv[1:])\n"
FILES = {"notes.txt": b"one\ntwo\n", "scripts/show.py": SCRIPT, "run.sh": b"#!/bin/sh\necho ran\n"}

UV_REFUSES = "uv: only 'uv run [--script] FILE.py ARGUMENTS' works here, without a network\n"

CALLS = [
    (["cat", "notes.txt"], 0, "one\ntwo\n"),
    (["pwd"], 0, "/workspace\n"),
    (["python3", "scripts/show.py", "a b", "$HOME", ""], 0, "['a b', '$HOME', '']\n"),
    (["python", "scripts/show.py"], 0, "[]\n"),
    (["uv", "run", "scripts/show.py", "--flag"], 0, "['--flag']\n"),
    (["uv", "run", "--script", "scripts/show.py", "x"], 0, "['x']\n"),
    (["uv", "run", "python3", "scripts/show.py"], 0, "[]\n"),
    (["./run.sh"], 0, "ran\n"),
    (["sh", "-c", "echo out; echo err >&2; echo out"], 0, "out\nerr\nout\n"),
    (["sh", "-c", "exit 3"], 3, ""),
    (["sh", "-c", "kill -TERM $$"], 143, ""),
    (["sh", "-c", 'read line; echo "[$line]"'], 0, "[]\n"),
    (["printf", r"\303\050"], 0, "�("),
    (["nosuch"], 127, "bash: nosuch: command not found\n"),
    (["./nosuch"], 127, "bash: ./nosuch: No such file or directory\n"),
    (["./notes.txt"], 126, "bash: ./notes.txt: Permission denied\n"),
    (["./scripts"], 126, "bash: ./scripts: Is a directory\n"),
    ([""], 127, "bash: : command not found\n"),
    (["uv", "pip", "install", "x"], 2, UV_REFUSES),
]  # fmt: skip


@pytest.mark.parametrize(("argv", "code", "output"), CALLS)
async def test_a_call_gives_exit_code_and_output_as_they_came(backend, argv, code, output):
    async with backend.open(FILES, Limits()) as sandbox:
        done = await sandbox.run(argv)
    assert (done.exit_code, done.output, done.limit, done.cut) == (code, output, "", False)


ME = "git -c user.name=n -c user.email=e"
GIT = (
    f"echo x > f && git init -q . && git add f && {ME} commit -qm one && git clone -q . c "
    "&& git gc -q && git log --format=%s && ls c"
)
PYTHON = """
import asyncio, multiprocessing, sqlite3, socket, subprocess, threading
base = sqlite3.connect("base.db")
base.execute("pragma journal_mode = wal")
base.execute("create table t (a)")
with multiprocessing.get_context("spawn").Pool(2) as pool: print(pool.map(len, ["a", "bb"]))
threading.Thread(target=asyncio.run, args=[asyncio.sleep(0.01)]).start()
print(len(socket.socketpair()), subprocess.run(["ls"], capture_output=True, text=True).stdout)
"""
NODE = """
const fs = require("fs"), {Worker} = require("worker_threads")
fs.writeFileSync("n", "1")
fs.promises.readFile("n").then(text => console.log(text + require("child_process").execSync("ls")))
new Worker("setTimeout(() => {}, 5)", {eval: true})
"""
COREUTILS = (
    "for n in 3 1 2; do echo $n; done | sort | tee f | xargs; cp -a f g; touch -d 2020-01-01 g; "
    "ln -s f l; readlink l; tar cf t.tar f; gzip -k f; find . -name 'f*' | wc -l; "
    "flock f timeout 5 nice stat -c %s f; mkfifo p; (cat p & echo in > p; wait); df . > d; rm -r *"
)
PROGRAMS = {
    "git": (GIT, "one\nf\n"),
    "python3": (f"python3 -c '{PYTHON}'", "[1, 2]\n2 base.db\nbase.db-shm\nbase.db-wal\n\n"),
    "node": (f"node -e '{NODE}'", "1n\n\n"),
    "sh": (COREUTILS, "1 2 3\nf\n2\n6\nin\n"),
    "sqlite3": (
        "sqlite3 b.db 'create table t (a); insert into t values (7); select * from t'",
        "7\n",
    ),
}


@pytest.mark.parametrize("program", PROGRAMS)
async def test_programs_of_every_day_run_under_the_filter(backend, program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    text, output = PROGRAMS[program]
    async with backend.open({}, Limits()) as sandbox:
        done = await sandbox.run(["sh", "-c", text])
    assert (done.exit_code, done.output) == (0, output)


async def test_nothing_of_the_hosts_kernel_is_shown_and_there_is_no_capability(backend):
    look = f"cat {' '.join(MASKED)} 2>/dev/null; grep ^Cap /proc/self/status | cut -f2 | sort -u"
    async with backend.open({}, Limits()) as sandbox:
        done = await sandbox.run(["sh", "-c", look])
    assert (done.exit_code, done.output) == (0, "0000000000000000\n")


SHOWN = [path for path in COVERED if Path(path).is_dir()]


@pytest.mark.skipif(not SHOWN, reason="this machine has none of these folders")
async def test_what_an_administrator_keeps_below_usr_is_not_shown(backend):
    text = f"ls -A {' '.join(SHOWN)} | grep -v :$ | grep .; touch {SHOWN[0]}/x"
    async with backend.open({}, Limits()) as sandbox:
        done = await sandbox.run(["sh", "-c", text])
    assert done.output == f"touch: cannot touch '{SHOWN[0]}/x': Read-only file system\n"


async def test_files_go_in_and_come_out_unchanged(backend):
    content = bytes(range(256)) * 5000
    async with backend.open(FILES, Limits()) as sandbox:
        await sandbox.write("deep/er/file.bin", content)
        await sandbox.run(["cp", "deep/er/file.bin", "copy.bin"])
        assert await sandbox.read("copy.bin") == content
        assert await sandbox.read("/workspace/notes.txt") == FILES["notes.txt"]


async def test_lines_of_a_file_come_out_no_more_than_an_output_may_have(backend):
    async with backend.open(FILES, Limits(output_kept=5)) as sandbox:
        got = [
            await sandbox.read_lines("notes.txt", 1, None),
            await sandbox.read_lines("/workspace/notes.txt", 2, None),
            await sandbox.read_lines("notes.txt", 1, 1),
        ]
        with pytest.raises(FileNotFoundError):
            await sandbox.read_lines("absent", 1, None)
    assert got == [(b"one\nt", True), (b"two\n", False), (b"one\n", False)]


async def test_a_file_that_is_not_there_or_not_regular_is_an_error(backend):
    async with backend.open({}, Limits()) as sandbox:
        with pytest.raises(FileNotFoundError):
            await sandbox.read("absent")
        await sandbox.run(["mkfifo", "pipe"])
        await sandbox.run(["ln", "-s", "/etc/passwd", "link"])
        for path in ("pipe", "link", "/dev/zero", "/workspace"):
            with pytest.raises(OSError, match=path):
                await sandbox.read(path)


async def test_nothing_outlives_its_call(backend):
    leave = "setsid sleep 300 & (sleep 300 &) ; trap '' TERM; sleep 300 & kill -STOP $!"
    async with backend.open({}, Limits()) as sandbox:
        await sandbox.run(["sh", "-c", leave])
        left = await sandbox.run(["ps", "-eo", "pid=,comm="])
    seen = dict(line.split() for line in left.output.splitlines())
    assert [name for pid, name in seen.items() if pid != "1"] == ["ps"]


WAYS = {
    "changed": ["sh", "-c", "echo more >> notes.txt"],
    "written anew, as long and as old": [
        "sh",
        "-c",
        "printf 'two\\none\\n' > new; touch -r notes.txt new; mv new notes.txt",
    ],
    "removed": ["rm", "notes.txt"],
    "a file made beside it": ["touch", "notes.txt-wal"],
}


@pytest.mark.parametrize("argv", WAYS.values(), ids=WAYS)
async def test_a_stamp_tells_that_a_file_was(backend, argv):
    paths = ["notes.txt", "notes.txt-wal"]
    async with backend.open(FILES, Limits()) as sandbox:
        new = await sandbox.stamp(paths)
        await asyncio.sleep(0.1)
        before = [await sandbox.stamp(paths) for _ in range(2)]
        await sandbox.run(argv)
        await asyncio.sleep(0.1)
        after = await sandbox.stamp(paths)
    assert (new, before[0] == before[1], before[0] == after) == ("", True, False)


AFTERWARDS = {
    "left running by a command": (["sh", "-c", "(sleep 0.2; echo x >> notes.txt) &"], None, True),
    "written by us": (["true"], lambda sandbox: sandbox.write("notes.txt", b"x"), False),
    "written by a program of the scenario's": (
        ["true"],
        lambda sandbox: sandbox.judge("open('notes.txt', 'a').write('x')", "{}"),
        False,
    ),
}


@pytest.mark.parametrize(("argv", "then", "same"), AFTERWARDS.values(), ids=AFTERWARDS)
async def test_a_stamp_told_by_a_command_holds_until_something_may_be(backend, argv, then, same):
    async with backend.open(FILES, Limits()) as sandbox:
        await asyncio.sleep(0.1)
        first = await sandbox.stamp(["notes.txt"])
        await sandbox.run(argv)
        told = await sandbox.stamp(["notes.txt"])
        await asyncio.sleep(0.3)
        await (then(sandbox) if then else sandbox.read("notes.txt"))
        after = await sandbox.stamp(["notes.txt"])
        await sandbox.stamp([])  # of other files: now it must be asked for
        await asyncio.sleep(0.1)
        asked = await sandbox.stamp(["notes.txt"])
    assert (first == told, told == after, told == asked) == (True, same, same)


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "x" * 5000])
async def test_a_path_that_no_file_can_have_is_an_error_and_the_trial_goes_on(backend, path):
    async with backend.open(FILES, Limits()) as sandbox:
        with pytest.raises(OSError, match="Errno"):
            await sandbox.read(path)
        with pytest.raises(OSError, match="Errno"):
            await sandbox.write(path, b"x")
        await sandbox.stamp([path])
        after = await sandbox.run(["echo", "alive"])
    assert after.output == "alive\n"
