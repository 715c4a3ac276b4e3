"""Where the commands of a page run: in an empty folder, against simulated models."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from pages import PROJECT, Block

SECONDS = 240  # for one command
COLUMNS = "90"
# What a page calls a model of the reader's, where it says that it is served, and who plays it.
SERVED = {
    "my-model": ("http://localhost:8000/v1", "sim/qwen3.5-27b"),
    "my-candidate": ("http://localhost:8001/v1", "sim/qwen3.6-35b"),
}
OF_THE_PROJECT = ("agenteval.toml", "allowlists", "fixtures", "gate.toml", "scenarios")


def copy(source: Path, target: Path) -> None:
    """Copy a file or folder: of a project no link is followed."""
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


@dataclass
class World:
    """The folders in which all commands of one page run, one after another."""

    folder: Path
    urls: dict[str, str]  # by name, of `SERVED`
    _ids: dict[str, str] = field(default_factory=dict)  # as stored: as shown

    def __post_init__(self) -> None:
        for name in ("fresh", "checkout"):
            (self.folder / name).mkdir(parents=True)
        for name in OF_THE_PROJECT:
            copy(PROJECT / name, self.folder / "checkout" / name)

    def write(self, block: Block) -> None:
        path = self._place(block) / block.flags["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._real("\n".join(block.lines) + "\n"))

    def run(self, text: str, block: Block) -> tuple[int, list[str], str]:
        """Its exit code, the lines that it prints, and its standard error."""
        environment = {
            "COLUMNS": block.flags.get("width", COLUMNS),
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TERM": "dumb",
        }
        if text.startswith("agenteval run "):
            text = f"{text} {block.flags.get('quick', '')}"
        done = subprocess.run(
            ["bash", "-c", self._real(target(text))],
            capture_output=True,
            check=False,
            cwd=self._place(block),
            env=environment,
            text=True,
            timeout=SECONDS,
        )
        self._learn()
        lines = [line.rstrip() for line in self._told(done.stdout).strip("\n").split("\n")]
        return done.returncode, lines, done.stderr

    def _place(self, block: Block) -> Path:
        return self.folder / block.flags.get("folder", "fresh")

    def _real(self, text: str) -> str:
        for stored, shown in self._ids.items():
            text = text.replace(shown, stored)
        for name, (url, _) in SERVED.items():
            text = text.replace(url, self.urls[name])
        return text

    def _told(self, text: str) -> str:
        for stored, shown in self._ids.items():
            text = text.replace(stored, shown)
        for name, (url, _) in SERVED.items():
            text = text.replace(self.urls[name], url)
        return text.replace(str(self.folder / "fresh"), ".")

    def _learn(self) -> None:
        """The n-th run of a page always has the n-th time of a made-up day."""
        for path in sorted(self.folder.glob("*/**/*.db")):
            with closing(sqlite3.connect(path)) as store:
                stored = [row[0] for row in store.execute("SELECT id FROM run ORDER BY id")]
            for one in stored:
                if one not in self._ids:
                    minutes = 10 * 60 + 15 + 5 * len(self._ids)
                    stamp = f"20261121-{minutes // 60:02}{minutes % 60:02}00"
                    self._ids[one] = re.sub(r"^\d{8}-\d{6}", stamp, one)


def target(text: str) -> str:
    """What `make TARGET` runs, without making what is already there, and in another folder."""
    asked = re.fullmatch(r"make ([a-z-]+)", text)
    if not asked:
        return text
    steps = ["make", "--silent", "--just-print", "--assume-old=.venv/.ready", asked[1]]
    printed = subprocess.run(steps, cwd=PROJECT, capture_output=True, check=True, text=True).stdout
    return printed.replace(".venv/bin/", "")
