"""How fast logs are taken in: `make bench-ingest`, not collected by pytest.

Sessions of Claude Code are written to a folder, 1,000 calls each, and taken in with an allow list
into a new store. A command that was judged is not judged again: `make bench-ingest` plays 20,000
different ones, and then 20,000,000, of which hardly one comes twice. What is printed is wall time,
CPU and the most memory that the process held.
"""

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from agenteval.logs.ingest import take_in

PLAIN = ("uv run scripts/notes.py list --limit {n}", "git status", "cat notes/{n}.md", "ls src/{n}")
SHAPED = (
    "uv run scripts/notes.py list | head -{n}",
    "cd src && make {n}",
    "grep -rn x{n} . 2>/dev/null",
)
SESSION = 1_000
DIFFERENT = 20_000
KINDS = len(PLAIN) + len(SHAPED) - 1  # that have a number


def call(number: int, session: int, rng: random.Random, different: int) -> str:
    """The two lines of one call, one in ten denied, its command one of so many."""
    command = rng.choice(PLAIN if rng.random() < 0.7 else SHAPED).format(
        n=rng.randrange(different // KINDS)
    )
    known = {"sessionId": f"s{session}", "cwd": "/srv/work", "version": "2.1.0"}
    when = f"2026-03-{1 + session % 28:02}T10:00:00Z"
    use = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": command}}
    answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "x" * 200}
    if rng.random() < 0.1:
        said = f"Permission to use Bash with command {command} has been denied."
        answer |= {"is_error": True, "content": said}
    message = {"id": f"m{number}", "role": "assistant", "model": "a-model", "content": [use]}
    lines = (
        {"type": "assistant", "uuid": f"a{number}", "timestamp": when, "message": message, **known},
        {"type": "user", "uuid": f"u{number}", "message": {"content": [answer]}, **known},
    )
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def write(folder: Path, calls: int, different: int = DIFFERENT) -> int:
    rng, size = random.Random(7), 0
    for session in range(calls // SESSION):
        path = folder / f"s{session}.jsonl"
        with path.open("w") as file:
            for number in range(SESSION):
                file.write(call(number, session, rng, different))
        size += path.stat().st_size
    return size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--allowlist", default="demo")
    parser.add_argument("--workers", type=int, help="default: as many as are worth it")
    parser.add_argument("--different", type=int, default=DIFFERENT, help="commands")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        logs, store = Path(folder, "logs"), Path(folder, "store.db")
        logs.mkdir()
        size = write(logs, asked.calls, asked.different)
        began = time.monotonic(), time.process_time()
        intake = take_in(
            "claude-code",
            [str(logs)],
            str(store),
            allowlist=asked.allowlist or None,
            workers=asked.workers,
        )
        wall, cpu = time.monotonic() - began[0], time.process_time() - began[1]
        taken = sum(sum(one.recorded.values()) for one in intake.runs.values())
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        others = resource.getrusage(resource.RUSAGE_CHILDREN)
        workers = others.ru_utime + others.ru_stime
        sys.stdout.write(
            f"{taken:,} calls out of {asked.different:,} commands, {size / 1e6:.0f} MB: "
            f"{wall:.1f} s, {cpu:.1f} s of CPU and {workers:.1f} in workers; {held:.0f} MB held, "
            f"{others.ru_maxrss / 1024:.0f} by the largest of these; store "
            f"{store.stat().st_size / 1e6:.0f} MB\n"
        )


if __name__ == "__main__":
    main()
