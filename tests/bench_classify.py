"""How fast shell is read: `python tests/bench_classify.py [CORPUS]`, beside its floor and bashlex.

A corpus is a text of commands with lines of %% between them, or JSON lines with a `command`.
Each command is read by itself, without any cache, and timed as the best of three.
"""

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import bashlex
import tree_sitter
import tree_sitter_bash

from agenteval.core.shell import Simple, read_simple
from agenteval.core.shell_facts import read_facts
from agenteval.core.shell_leaves import read_leaves

OWN = Path(__file__).parent / "corpus" / "commands.txt"
PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
BASHLEX_SAMPLE = 400  # it takes a hundred times as long as the rest


def corpus(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line)["command"] for line in text.splitlines()]
    return text.removesuffix("\n").split("\n%%\n")


def parse_tree(text: str) -> object:
    return PARSER.parse(text.encode("utf-8", "surrogatepass"))


def parse_bashlex(text: str) -> object:
    try:
        return bashlex.parse(text)
    except (bashlex.errors.ParsingError, NotImplementedError, AttributeError, IndexError):
        return None


def seconds(read: Callable[[str], object], texts: list[str]) -> list[float]:
    """The best of three for each text."""
    times = []
    for text in texts:
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            read(text)
            best = min(best, time.perf_counter() - start)
        times.append(best)
    return sorted(times)


def line(name: str, read: Callable[[str], object], texts: list[str]) -> float:
    """Print one row and return its median."""
    times = seconds(read, texts)
    median = statistics.median(times)
    p99 = times[int(0.99 * (len(times) - 1))]
    sys.stdout.write(
        f"{name:34} n={len(texts):6}  median {1e6 * median:8.1f} us  p99 {1e6 * p99:8.1f} us"
        f"  {len(times) / sum(times):10,.0f}/s\n"
    )
    return median


def start_up(module: str) -> float:
    """The best of five starts of Python that import a module, in milliseconds."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def main() -> None:
    texts = corpus(Path(sys.argv[1]) if len(sys.argv) > 1 else OWN)
    denied = [text for text in texts if not isinstance(read_simple(text), Simple)]
    line("gate", read_simple, texts)
    line("splitter", read_leaves, texts)
    floor = line("tree-sitter, parse only", parse_tree, texts)
    facts = line("facts", read_facts, texts)
    denied_floor = line("tree-sitter, not simple ones", parse_tree, denied)
    denied_facts = line("facts, not simple ones", read_facts, denied)
    line("bashlex, parse only", parse_bashlex, texts[:BASHLEX_SAMPLE])
    sys.stdout.write(
        f"facts over parse {facts / floor:.1f}, not simple ones {denied_facts / denied_floor:.1f}\n"
        f"start-up: python {start_up('sys'):.0f} ms, with the readers "
        f"{start_up('agenteval.core.shell_facts'):.0f} ms\n"
        f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB\n"
    )


if __name__ == "__main__":
    main()
