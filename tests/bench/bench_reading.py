"""What it costs to read runs of 2,000 to 1,000,000 calls, start-up included: `make bench-reading`.

Two runs of each size that met the same worlds and erred in others of their calls are made by
copying played trials in SQL (`bench_view`). Of each command the table has the CPU seconds, user and
system, of its whole process, its peak memory, and CPU per call that it reads about.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from bench_view import CALLS, made

SIZES = (2_000, 10_000, 100_000, 1_000_000)
FIRST, SECOND = "20261101-000000-model-0", "20261101-010000-model-1"
COMMANDS = {
    "show RUN": (1, ("show", FIRST)),
    "show RUN --report": (1, ("show", FIRST, "--report", "{folder}/page.html")),
    "compare": (2, ("compare", FIRST, SECOND)),
    "gate": (2, ("gate", "--baseline", FIRST, "--candidate", SECOND)),
}


# A process starts with the memory of the one that starts it on its account: this one is small.
SMALL = """
import os, sys
process = os.posix_spawn(sys.executable, [sys.executable, "-m", "agenteval", *sys.argv[1:]],
                         os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
_, status, used = os.wait4(process, 0)
ended = os.waitstatus_to_exitcode(status)
print(ended, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def spent(words: list[str]) -> tuple[float, float]:
    """CPU seconds of a command with what it starts, and the largest peak memory in MB."""
    command = [sys.executable, "-S", "-c", SMALL, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ended, seconds, peak = done.stdout.split()[-3:]
    if int(ended) not in {0, 1, 3}:
        raise SystemExit(done.stdout + done.stderr)
    return float(seconds), float(peak)


def main(largest: int) -> None:
    sys.stdout.write(
        "| | calls in a run | CPU, s | peak, MB | CPU per call, \u00b5s |\n|---|--:|--:|--:|--:|\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        for size in (one for one in SIZES if one <= largest):
            store = Path(folder) / f"{size}.db"
            # Elsewhere: a process starts with the memory of the one that starts it on its account.
            own = [sys.executable, __file__, "--make", str(store), str(size)]
            subprocess.run(own, check=True)
            for name, (runs, words) in COMMANDS.items():
                asked = [word.format(folder=folder) for word in words]
                seconds, peak = spent([*asked, "--store", str(store)])
                each = 1e6 * seconds / (runs * size)
                sys.stdout.write(
                    f"| `{name}` | {size:,} | {seconds:.1f} | {peak:.0f} | {each:.1f} |\n"
                )
                sys.stdout.flush()
            store.unlink()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make"]:
        made(Path(sys.argv[2]), runs=2, trials=int(sys.argv[3]) // CALLS)
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else SIZES[-1])
