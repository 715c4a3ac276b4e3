"""What must still work under the filter and the limits: the programs that agents use."""

import shutil
from dataclasses import replace

import pytest

from agenteval.trial.trial import Limits

GIT = (
    "git init -q . && git config user.email a@b && git config user.name a && echo x > f && "
    "git add f && git commit -qm first && git checkout -q -b side && echo y >> f && "
    "git commit -qam second && git log --format=%s && git diff --stat HEAD~1"
)
TAR = "mkdir d && echo text > d/f && tar czf d.tgz d && rm -r d && tar xzf d.tgz && cat d/f"
PIPES = "seq 1000 | sort -rn | awk '{s+=$1} END {print s}'; cat <(echo substituted) > /dev/stdout"
POOL = """
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        print(sum(pool.map(abs, range(-100, 0))))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(len, ["abc"]))
"""
WAL = """
import sqlite3
one, other = sqlite3.connect("world.db"), sqlite3.connect("world.db")
print(one.execute("pragma journal_mode=wal").fetchone())
one.execute("create table t (x)")
one.executemany("insert into t values (?)", [(n,) for n in range(1000)])
one.commit()
print(other.execute("select count(*) from t").fetchone())
"""
SERVER = """
import threading, http.server, urllib.request
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"served")
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
with urllib.request.urlopen(f"http://localhost:{server.server_port}/", timeout=5) as reply:
    print(reply.read().decode())
"""
ASYNC = """
import asyncio, concurrent.futures, subprocess, tempfile
async def main():
    process = await asyncio.create_subprocess_exec("echo", "child", stdout=subprocess.PIPE)
    print((await process.communicate())[0].decode().strip())
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        print(sum(pool.map(len, ["a", "bb"])))
    with tempfile.NamedTemporaryFile() as file:
        print(file.write(b"x"))
asyncio.run(main())
"""
NODE = "fs = require('fs'); fs.writeFileSync('f', 'x'); console.log(fs.readFileSync('f', 'utf8'))"

PROGRAMS = [
    ("git", ["bash", "-c", GIT], "second\nfirst\n f | 1 +\n 1 file changed, 1 insertion(+)\n"),
    ("tar", ["bash", "-c", TAR], "text\n"),
    ("bash", ["bash", "-c", PIPES], "500500\nsubstituted\n"),
    ("python3", ["python3", "pool.py"], "5050\n3\n"),
    ("python3", ["python3", "wal.py"], "('wal',)\n(1000,)\n"),
    ("python3", ["python3", "server.py"], "served\n"),
    ("python3", ["python3", "async.py"], "child\n3\n1\n"),
    ("node", ["node", "-e", NODE], "x\n"),
]


@pytest.mark.parametrize(("program", "argv", "output"), PROGRAMS)
async def test_a_usual_program_works(backend, program, argv, output):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    scripts = {"pool.py": POOL, "wal.py": WAL, "server.py": SERVER, "async.py": ASYNC}
    files = {name: text.encode() for name, text in scripts.items()}
    async with backend.open(files, replace(Limits(), loopback=True)) as sandbox:
        done = await sandbox.run(argv)
    assert (done.exit_code, done.output, done.limit) == (0, output, "")
