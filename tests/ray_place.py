"""Where the tests have Ray, in an environment of its own, which this makes when it is run.

And a real cluster of several nodes on this machine, each with an address and processes of its own.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).parents[1]
VERSION = "2.60.0"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
PLACE = Path(os.environ.get("AGENTEVAL_RAY") or _CACHE / "agenteval" / "ray")
SMALL = ("--object-store-memory", "80000000", "--disable-usage-stats", "--block")
NODES = 2


@dataclass
class Cluster:
    """A head that plays nothing, and nodes of one processor each."""

    folder: Path
    port: int
    nodes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **self.variables,
            "PATH": f"{PLACE / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(PROJECT),
            "RAY_ADDRESS": f"127.0.0.1:{self.port}",
            "RAY_USAGE_STATS_ENABLED": "0",
        }

    def head(self) -> None:
        place = ("--port", str(self.port), "--node-ip-address", "127.0.0.1", "--num-cpus", "0")
        self._start("--head", *place, "--temp-dir", str(self.folder), "--include-dashboard=false")

    def node(self, *before: str) -> subprocess.Popen[bytes]:
        """`before` stand before its command, as an `unshare` does."""
        address = f"127.0.0.{len(self.nodes) + 2}"
        place = ("--address", f"127.0.0.1:{self.port}", "--node-ip-address", address)
        return self._start(*place, "--num-cpus", "1", before=before)

    def _start(self, *words: str, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """A node that is there. On a busy machine Ray itself gives up waiting for its parts."""
        command = [*before, str(PLACE / "bin/ray"), "start", *words, *SMALL]
        said = self.folder / f"said-{len(self.nodes)}"
        for _ in range(6):
            with said.open("wb") as out:
                node = subprocess.Popen(
                    command, env=self.environment, stdout=out, stderr=out, start_new_session=True
                )
            while node.poll() is None:
                if b"block forever" in said.read_bytes():
                    self.nodes.append(node)
                    return node
                time.sleep(0.2)
            kill_all(node.pid)
        raise AssertionError(said.read_text())

    def run(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PLACE / "bin/python", *words], env=self.environment, cwd=cwd,
            capture_output=True, text=True, check=False, timeout=250,
        )  # fmt: skip


def kill_all(root: int) -> None:
    """The process and all below it, as when a machine loses its power."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    those = [root]
    for one in those:
        those += children.get(one, [])
    for one in those:
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


@contextmanager
def cluster(variables: Mapping[str, str] = os.environ) -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="ray-"))  # its sockets' names must be short
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        there = Cluster(folder, free.getsockname()[1], variables=variables)
    try:
        there.head()
        for _ in range(NODES):
            there.node()
        yield there
    finally:
        for one in there.nodes:
            kill_all(one.pid)
            one.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    uv = str(Path(sys.executable).parent / "uv")
    made = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(PLACE)]
    subprocess.run(made, check=True)
    put = [
        uv,
        "pip",
        "install",
        "--quiet",
        "--compile-bytecode",
        "--python",
        str(PLACE / "bin/python"),
    ]
    subprocess.run([*put, f"ray=={VERSION}", f"{PROJECT}[postgres]"], check=True)
