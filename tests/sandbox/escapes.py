"""Attempts at leaving one backend's sandbox and breaking its limits, with what stopped each."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from witness import WITNESS

from agenteval.sandbox.backends import BACKENDS
from agenteval.trial.trial import Limits

HERE = Path(__file__).parent
SMALL = replace(
    Limits(), call_seconds=8.0, memory=96 << 20, processes=24, workspace=8 << 20, inodes=300
)
BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"
HOARD = "held = []\nwhile True: held.append(bytearray(1 << 20))\n"
# Faster than anybody looks: where the kernel holds a limit of its own, it kills first.
AT_ONCE = (
    "import os, sys, time\n"
    "child = os.fork()\n"
    "held = b'x' * (90 << 20)\n"
    "if child: sys.exit(os.wait()[1] != 0)\n"
    "time.sleep(60)\n"
)
MANY = (
    "import os, time\n"
    "for _ in range(8):\n"
    "    if os.fork() == 0: held = bytearray(b'x') * (20 << 20); time.sleep(60)\n"
    "time.sleep(60)\n"
)
DISK = "with open('big', 'wb') as file:\n    while True: file.write(bytes(1 << 20))\n"
INODES = "import time\nfor number in range(100000): open(f'f{number}', 'w').close()\n"
OUTPUT = "import os\nfor _ in range(1024): os.write(1, b'x' * (1 << 20))\n"
STUBBORN = "trap '' TERM INT HUP; kill -STOP $$; sleep 600"
LIMITS = [
    ("fork without end", BOMB, "processes"),
    ("hoard memory in one process", HOARD, "memory"),
    ("take memory at once", AT_ONCE, "memory"),
    ("hoard memory in many processes", MANY, "memory"),
    ("fill the disk", DISK, "workspace"),
    ("use up the inodes", INODES, "inodes"),
    ("write a gigabyte of output", OUTPUT, "output"),
]


class Host:
    """What stands outside and would notice an escape."""

    def __init__(self, stack: ExitStack) -> None:
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.folder.chmod(0o755)  # so that nothing but the sandbox keeps it from other users
        (self.folder / "secret").write_text("found")
        self.victim = stack.enter_context(subprocess.Popen(["sleep", "600"]))
        stack.callback(self.victim.kill)
        self.udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.udp.bind(("127.0.0.1", 0))
        self.udp.setblocking(False)
        self.server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.server6 = stack.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6))
        self.listeners = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        self.abstract = f"agenteval-{os.getpid()}"
        self.listeners[0].bind("\0" + self.abstract)
        self.listeners[1].bind(str(self.folder / "socket"))
        (self.folder / "socket").chmod(0o777)
        for listener in self.listeners:
            listener.listen()

    def bait(self) -> bytes:
        bait = {
            "abstract": self.abstract,
            "canary": os.environ["AGENTEVAL_CANARY"],
            "command": Path("/proc/self/cmdline").read_text(),
            "home": os.environ["HOME"],
            "names": os.listdir(os.environ["HOME"]),
            "pid": os.getpid(),
            "port": self.server.getsockname()[1],
            "port6": self.server6.getsockname()[1],
            "project": str(HERE),
            "secret": str(self.folder / "secret"),
            "socket": str(self.folder / "socket"),
            "udp": self.udp.getsockname()[1],
            "victim": self.victim.pid,
        }
        return json.dumps(bait).encode()

    def files(self) -> dict[str, bytes]:
        attempts = {path.name: path.read_bytes() for path in (HERE / "attempts").glob("*.py")}
        return attempts | {"bait.json": self.bait(), "witness.py": WITNESS}

    def noticed(self) -> dict[str, str]:
        try:
            self.udp.recv(16)
        except BlockingIOError:
            udp = "nothing arrived"
        else:
            udp = ""
        alive = "it lives" if self.victim.poll() is None else ""
        return {"send udp to the host": udp, "signal host processes": alive}


async def attempts(backend, host: Host, way: str) -> dict[str, str]:
    """Those that one process makes inside, then what the host has noticed of them."""
    async with backend.open(host.files(), Limits()) as sandbox:
        witness = await sandbox.run(["python3", "witness.py"])
        if witness.output != f"{way}\n":
            raise SystemExit(f"scripts are not {way}: {witness}")
        done = await sandbox.run(["python3", "try_all.py", "bait.json"])
        try:
            stopped = json.loads(done.output.strip().rpartition("\n")[2])
        except ValueError:
            raise SystemExit(f"attempts ended with {done}") from None
        after = await sandbox.run(["echo", "alive"])
    stopped["kill the runner"] = "it lives" if after.output == "alive\n" else ""
    return stopped | host.noticed()


async def over_loopback(backend, host: Host) -> dict[str, str]:
    """With a 127.0.0.1 of its own, a trial still does not reach the host's."""
    names = ["connect to the host over ipv4", "connect to the host over ipv6"]
    names += ["send udp to the host", "connect to the internet", "connect to an abstract socket"]
    async with backend.open(host.files(), replace(Limits(), loopback=True)) as sandbox:
        done = await sandbox.run(["python3", "try_all.py", "bait.json", *names])
    stopped = json.loads(done.output) | {
        "send udp to the host": host.noticed()["send udp to the host"]
    }
    return {f"{name}, with loopback": why for name, why in stopped.items()}


async def limits(backend) -> dict[str, str]:
    """Each limit strikes by its name, within its time, and the sandbox can still be used."""
    stopped = {}
    for name, code, limit in LIMITS:
        async with backend.open({"attempt.py": code.encode()}, SMALL) as sandbox:
            done = await sandbox.run(["python3", "attempt.py"])
            after = await sandbox.run(["echo", "alive"])
        held = done.limit == limit and after.output == "alive\n" and len(done.output) <= 1 << 20
        stopped[name] = done.limit if held else ""
        if not held:
            print(name, done.exit_code, done.limit, done.output[-300:], after, file=sys.stderr)
    return stopped


async def lingering(backend) -> dict[str, str]:
    """What tries to outlive its call or its trial."""
    stopped = {}
    mark = f"{os.getpid()}.5"
    async with backend.open({}, replace(SMALL, call_seconds=0.5)) as sandbox:
        script = f"(setsid sh -c '(sleep 9{mark} &) ; sleep 9{mark}' &) ; nohup sleep 9{mark} &"
        done = await sandbox.run(["sh", "-c", script])
        stopped["daemonize"] = "killed" if done.exit_code == 0 and not alive(f"9{mark}") else ""
        done = await sandbox.run(["sh", "-c", STUBBORN])
        stopped["trap every signal and stop itself"] = done.limit
        done = await sandbox.run(["sh", "-c", f"trap '' TERM; sleep 8{mark}"])
        stopped["ignore the end of its time"] = "" if alive(f"8{mark}") else done.limit
    await asyncio.sleep(0.05)
    left = alive(f"8{mark}") or alive(f"9{mark}")
    stopped["outlive its trial"] = "" if left else "nothing is left"
    return stopped


def alive(mark: str) -> list[str]:
    """The processes of the host, in whatever namespace, whose command line holds the mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(path.parent.name)
    return found


async def through_files(backend, host: Host) -> dict[str, str]:
    """What lies in the workspace and waits for the evaluator to touch it."""
    secret = str(host.folder / "secret")
    outside = str(host.folder)
    async with backend.open({}, SMALL) as sandbox:
        await sandbox.run(["ln", "-s", secret, "link"])
        await sandbox.run(["ln", "-s", outside, "folder"])
        await sandbox.run(["mkfifo", "fifo"])
        await sandbox.run(["ln", "-s", "/dev/zero", "device"])
        stopped = {
            "have a symlink read": await refused(sandbox.read("link")),
            "have a FIFO read": await refused(sandbox.read("fifo")),
            "have a device read": await refused(sandbox.read("device")),
            "have a host file read by its path": await refused(sandbox.read(secret)),
            "have the evaluator's memory read": await refused(sandbox.read("/proc/self/mem")),
            "have a FIFO written": await refused(sandbox.write("fifo", b"x")),
            "have a symlink written": await refused(sandbox.write("link", b"x")),
            "have a linked folder written": await refused(sandbox.write("folder/x", b"x")),
            "have a path above written": await refused(sandbox.write("../x", b"x")),
        }
    if (host.folder / "x").exists() or (host.folder / "secret").read_text() != "found":
        stopped["have a linked folder written"] = ""
    return stopped


async def refused(request) -> str:
    try:
        await asyncio.wait_for(request, 5)
    except TimeoutError:
        return ""
    except OSError as error:
        return str(error)
    return ""


async def another_trial(backend) -> dict[str, str]:
    async with backend.open({}, SMALL) as one, backend.open({}, SMALL) as other:
        await one.run(["sh", "-c", "echo mine > /workspace/mark; echo mine > /tmp/mark"])
        met = await meet(one, other)
        looked = await other.run(["cat", "/workspace/mark", "/tmp/mark"])
        async with asyncio.TaskGroup() as group:
            running = group.create_task(one.run(["sleep", "1.25"]))
            await asyncio.sleep(0.2)
            seen = await other.run(["ps", "-eo", "args="])
            await other.run(["sh", "-c", "kill -9 -1; true"])
        ended = running.result()
    return {
        "reach another trial's abstract socket": met,
        "read another trial's files": "" if "mine" in looked.output else looked.output.strip(),
        "see another trial's processes": "" if "sleep" in seen.output else "not listed",
        "kill another trial's processes": "it ran to its end" if ended.exit_code == 0 else "",
    }


async def meet(one, other) -> str:
    """What stops one trial from connecting to the abstract socket of another."""
    socket_of = "import socket, time\ns = socket.socket(socket.AF_UNIX)\n"
    listen = socket_of + "s.bind('\\0meet')\ns.listen()\ntime.sleep(1)\n"
    connect = socket_of + "s.connect('\\0meet')\n"
    async with asyncio.TaskGroup() as group:
        group.create_task(one.run(["python3", "-c", listen]))
        await asyncio.sleep(0.5)
        tried = await other.run(["python3", "-c", connect])
    return tried.output.strip() if tried.exit_code else ""


async def main(name: str, way: str) -> None:
    backend = BACKENDS[name](prefork=way == "forked")
    with ExitStack() as stack:
        host = Host(stack)
        stopped = await attempts(backend, host, way)
        stopped |= await over_loopback(backend, host)
        stopped |= await through_files(backend, host)
        stopped |= await lingering(backend)
        stopped |= await another_trial(backend)
        stopped |= await limits(backend)
    print(json.dumps(stopped))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
