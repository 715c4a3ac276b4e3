"""The log of what agents asked for in production: a line of JSON a call; docs/hook.md has its keys.

A line is one write to a file opened for appending, under a lock that also covers its turning over,
so several processes may keep one log.
"""

import contextlib
import fcntl
import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from agenteval.serving.bounds import Repeats

LOG: Final = "calls.jsonl"
FORMAT: Final = 1
NOT_JUDGED: Final = "not-judged"  # the verdict where no policy stands for that tool
MOST: Final = 16 << 20  # bytes of a log before the next is begun
KEPT: Final = 4  # older logs


class ProductionLog:
    """A log file of one user and the older ones next to it: calls.jsonl.1 is the newest of them."""

    def __init__(self, path: Path, *, most: int = MOST, kept: int = KEPT) -> None:
        self.path, self.most, self.kept = path, most, kept

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line. Where that cannot be, a verdict is answered all the same."""
        try:
            self._append(line)
        except (OSError, ValueError, RecursionError):
            tell_fault()

    def _append(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(
            {"v": FORMAT, "at": _time_of(datetime.now(UTC)), **line},
            ensure_ascii=True,
            separators=(",", ":"),
        )
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with Path(f"{self.path}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._turn_over(len(text) + 1)
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(file, f"{text}\n".encode())
            finally:
                os.close(file)

    def _turn_over(self, more: int) -> None:
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return
        if size + more <= self.most:
            return
        for number in range(self.kept - 1, 0, -1):
            older = Path(f"{self.path}.{number}")
            if older.exists():
                older.replace(f"{self.path}.{number + 1}")
        self.path.replace(f"{self.path}.1")

    def lines(self) -> Iterator[Mapping[str, Any]]:
        """All that is kept, the oldest first; a line that is none is left out."""
        names = [*(f"{self.path}.{number}" for number in range(self.kept, 0, -1)), str(self.path)]
        for name in names:
            if not Path(name).is_file():
                continue
            with Path(name).open(encoding="utf-8", errors="replace") as file:
                for text in file:
                    try:
                        line = json.loads(text)
                    except (ValueError, RecursionError):
                        continue
                    if isinstance(line, dict):
                        yield line


def _time_of(now: datetime) -> str:
    """UTC to the millisecond, as the log has it."""
    return f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z"


_REPEATS: Final = Repeats()


def tell(line: str) -> None:
    """Write a line to resident.err, if that is not full: once a minute while it repeats."""
    if text := _REPEATS.line(line):
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr, flush=True)  # noqa: T201 -- the resident's own log


def tell_fault() -> None:
    """Write the current exception to resident.err, as `tell` does."""
    tell(traceback.format_exc().rstrip())
