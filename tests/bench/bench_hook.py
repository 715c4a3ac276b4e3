"""How long a call waits for the hook: bench_hook.py [CALLS]; the aim is 20 ms at the 95th of 100.

The command is the one that `agenteval hook install` writes, started by a shell as harnesses start
it, in turn with a start of that Python alone. Beside them stands what the command line of agenteval
takes for one verdict without a resident process. On a busy machine `chrt -r 20` before it, as root,
tells what it would take where a processor is free.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from agenteval.hook.installing import _command_line, command

COMMANDS = Path(__file__).parents[1] / "corpus" / "commands.txt"
AIM = 20.0
SOME = 50  # calls through the whole command line


def main(calls: int) -> int:
    commands = COMMANDS.read_text(encoding="utf-8").removesuffix("\n").split("\n%%\n")[:calls]
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        words = command("claude-code", "demo", observe=False, fail="closed")
        hook = _command_line(words, fails_closed=True)
        bare = _command_line([*words[:3], "-c", ""], fails_closed=True)
        line = _command_line(
            [sys.executable, "-m", "agenteval", "classify", "ls"], fails_closed=True
        )
        _waited(hook, sent("ls"))
        resident = int(Path(state, "agenteval/hook/pid").read_text())
        before = _ran(resident)
        found = measured({"hook": hook, "bare Python": bare}, commands)
        judging = 1000 * (_ran(resident) - before) / len(commands)
        found |= measured({"classify": line}, commands[:SOME])
        os.kill(resident, signal.SIGTERM)
        time.sleep(0.3)
    for name, (half, most, cpu) in found.items():
        told = f"{name:12} p50 {half:6.1f} ms  p95 {most:6.1f} ms  CPU {cpu:6.1f} ms a call"
        sys.stdout.write(f"{told}  n {len(commands[: SOME if name == 'classify' else None])}\n")
    sys.stdout.write(f"the resident process, which judges: CPU {judging:.1f} ms a call\n")
    return int(found["hook"][1] >= AIM)


def sent(text: str) -> bytes:
    call = {"tool_name": "Bash", "tool_input": {"command": text}, "cwd": str(Path.cwd())}
    return json.dumps(call).encode("utf-8", "surrogatepass")


def measured(
    ways: dict[str, str], commands: Sequence[str]
) -> dict[str, tuple[float, float, float]]:
    """Milliseconds waited at the half and at 95 of 100, and those of the processor: the means."""
    waits: dict[str, list[float]] = {name: [] for name in ways}
    spent = dict.fromkeys(ways, 0.0)
    for text in commands:
        for name, way in ways.items():
            before = _cpu()
            waits[name].append(_waited(way, sent(text)))
            spent[name] += _cpu() - before
    return {
        name: (_at(each, 0.5), _at(each, 0.95), 1000 * spent[name] / len(each))
        for name, each in waits.items()
    }


def _waited(line: str, payload: bytes) -> float:
    start = time.perf_counter()
    subprocess.run(["sh", "-c", line], input=payload, capture_output=True, check=True)
    return 1000 * (time.perf_counter() - start)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _ran(pid: int) -> float:
    """Seconds that a process has been on a processor; it is no child of ours (proc(5))."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _at(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
