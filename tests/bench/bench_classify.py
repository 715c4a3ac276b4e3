"""How fast shell is read and judged, beside the floor and bashlex: bench_classify.py [CORPUS].

A corpus is a text of commands with lines of %% between them, or JSON lines with a `command`.
Each command is read by itself, without any cache, and timed as the best of three. Times are of the
processor, not of the clock: other work on the machine does not count.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import bashlex
import tree_sitter
import tree_sitter_bash

from agenteval.classes.judge import judge, judge_many
from agenteval.config.allowlists import load_policy
from agenteval.config.files import shipped
from agenteval.shell.gate import Simple, read_simple
from agenteval.shell.leaves import read_leaves
from agenteval.shell.reader import read_facts
from agenteval.trial.call import BASH, ToolCall, Verdict

OWN = Path(__file__).parents[1] / "corpus" / "commands.txt"
PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
DEMO = load_policy("demo", roots=[shipped()])
JUDGE = judge_many(DEMO)
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


def seconds(read: Callable[[str], object], text: str) -> float:
    """The best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.thread_time()
        read(text)
        best = min(best, time.thread_time() - start)
    return best


def line(name: str, read: Callable[[str], object], texts: list[str]) -> None:
    """Print one row."""
    times = sorted(seconds(read, text) for text in texts)
    median = statistics.median(times)
    p99 = times[int(0.99 * (len(times) - 1))]
    sys.stdout.write(
        f"{name:34} n={len(texts):6}  median {1e6 * median:8.1f} us  p99 {1e6 * p99:8.1f} us"
        f"  {len(times) / sum(times):10,.0f}/s\n"
    )


def verdict(text: str) -> Verdict:
    return judged(text)(text)


def judged(text: str) -> Callable[[str], Verdict]:
    """Judges the call with this command, which is there already."""
    call = ToolCall("", BASH, text, {"command": text})
    return lambda _: judge(call, DEMO)


def beside(name: str, texts: list[str]) -> None:
    """Print how many times the bare parse of the same text its verdict takes, side by side.

    The parser gets a text and the judge a call: each as it comes from the wire.
    """
    pairs = [(seconds(parse_tree, text), seconds(judged(text), text)) for text in texts]
    ratios = sorted(whole / parse for parse, whole in pairs)
    totals = sum(whole for _, whole in pairs) / sum(parse for parse, _ in pairs)
    sys.stdout.write(
        f"{name:34} n={len(texts):6}  verdict over parse: median {statistics.median(ratios):.2f}"
        f"  p90 {ratios[int(0.9 * (len(ratios) - 1))]:.2f}  of totals {totals:.2f}\n"
    )


def cpu(*arguments: str) -> float:
    """Seconds of the processor that Python with these arguments takes, its start-up included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


CLI = ("-m", "agenteval", "classify", "--json", "--jsonl")
API = ("-c", "import sys, json, agenteval\nagenteval.classify(map(json.loads, open(sys.argv[1])))")


def throughput(name: str, asked: Sequence[str], texts: list[str]) -> None:
    """Print verdicts for each CPU second by a process that never saw the texts, and then again."""
    with tempfile.TemporaryDirectory() as folder:
        files = {times: Path(folder) / f"{times}.jsonl" for times in (0, 1, 5)}
        lines = "".join(f"{json.dumps({'command': text})}\n" for text in dict.fromkeys(texts))
        for times, file in files.items():
            file.write_text(times * lines or '{"command": "ls"}\n', encoding="utf-8")
        took = (min(cpu(*asked, str(file)) for _ in range(3)) for file in files.values())
        start, once, often = took
    count = len(set(texts))
    sys.stdout.write(
        f"{name:34} n={count:6}  cold {count / (once - start):8,.0f}/CPU s"
        f"  warm {4 * count / max(often - once, 1e-3):8,.0f}/CPU s  start {1000 * start:.0f} ms\n"
    )


def main() -> None:
    texts = corpus(Path(sys.argv[1]) if len(sys.argv) > 1 else OWN)
    joined = [text for text in texts if not isinstance(read_simple(text), Simple)]
    denied = [text for text in texts if not verdict(text).allowed]
    line("gate", read_simple, texts)
    line("splitter", read_leaves, texts)
    line("tree-sitter, parse only", parse_tree, texts)
    line("tree-sitter, not simple ones", parse_tree, joined)
    line("facts", read_facts, texts)
    line("facts, not simple ones", read_facts, joined)
    line("verdict under the demo list", verdict, texts)
    line("verdict, not simple ones", verdict, joined)
    line(
        "verdict, kept for repeats",
        lambda text: JUDGE(ToolCall("", BASH, text, {"command": text})),
        texts,
    )
    line("bashlex, parse only", parse_bashlex, texts[:BASHLEX_SAMPLE])
    beside("denied", denied)
    beside("denied, simple ones", sorted(set(denied).difference(joined)))
    beside("denied, not simple ones", joined)
    throughput("agenteval classify --jsonl", CLI, texts)
    throughput("agenteval.classify()", API, texts)
    sys.stdout.write(
        f"start-up: python {1000 * cpu('-c', ''):.0f} ms, with the readers "
        f"{1000 * cpu('-c', 'import agenteval.shell.reader'):.0f} ms\n"
        f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB\n"
    )


if __name__ == "__main__":
    main()
