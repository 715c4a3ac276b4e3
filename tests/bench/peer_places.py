"""The programs that `make bench` measures beside: each in an environment of its own, pinned.

What is missing is made when this is run, by `uv` from the package index. Inspect AI stands where
`make inspect` puts it, with the versions that the tests use.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
PLACE = Path(os.environ.get("AGENTEVAL_BENCH") or _CACHE / "agenteval" / "bench")
_UV = Path(sys.executable).with_name("uv")


@dataclass(frozen=True, slots=True)
class Peer:
    """A program; `less` is what it leaves out of what `agenteval run` does, as the table says."""

    name: str
    package: str
    version: str
    more: tuple[str, ...] = ()
    less: str = "judges, contains, stores and checks nothing"
    streams: bool = False
    own_place: Path | None = None

    @property
    def script(self) -> Path:
        return Path(__file__).parent / "peers" / f"{self.name.replace('-', '_')}_peer.py"

    @property
    def place(self) -> Path:
        if self.own_place:
            return self.own_place
        if self.name == "inspect":
            return Path(os.environ.get("AGENTEVAL_INSPECT") or _CACHE / "agenteval" / "inspect")
        return PLACE / f"{self.name}-{self.version}"

    @property
    def python(self) -> Path:
        return self.place / "bin" / "python"


PEERS = (
    Peer("openai", "openai", "3.54.0", streams=True),
    Peer("pydantic-ai", "pydantic-ai-slim[openai]", "2.68.0", ("openai==3.54.0",), streams=True),
    Peer("openai-agents", "openai-agents", "0.24.0", ("openai==3.54.0",), streams=True),
    Peer(
        # LiteLLM imports `mcp` at its first request and does not depend on it.
        "mini-swe-agent", "mini-swe-agent", "2.4.6", ("litellm==1.106.2", "mcp==2.3.0"),
        less="judges and contains nothing; keeps a trajectory in memory; threads, not a loop",
    ),
    Peer("inspect", "inspect-ai", "0.3.285", less="judges and contains nothing; writes its log"),
)  # fmt: skip


def made(peer: Peer) -> None:
    """Its environment, where it is not there yet, whole and with these packages."""
    pinned = [f"{peer.package}=={peer.version}", *peer.more]
    whole = peer.place / "packages"
    if peer.name == "inspect":
        if peer.python.exists():
            return
        own = PROJECT / "tests" / "hook" / "inspect_place.py"
        subprocess.run([sys.executable, str(own)], check=True)
        return
    if whole.exists() and whole.read_text() == "\n".join(pinned):
        return
    quiet = [str(_UV), "--quiet"]
    venv = ["venv", "--clear", "--python", sys.executable, str(peer.place)]
    subprocess.run([*quiet, *venv], check=True)
    into = ["--python", str(peer.python), *pinned]
    subprocess.run([*quiet, "pip", "install", "--compile-bytecode", *into], check=True)
    whole.write_text("\n".join(pinned))


if __name__ == "__main__":
    for one in PEERS:
        made(one)
