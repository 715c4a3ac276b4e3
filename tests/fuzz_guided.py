"""Fuzz the readers of shell against bash, led by coverage: `python tests/fuzz_guided.py [-runs=N]`.

Needs atheris (the dependency group `fuzz`); its options are those of libFuzzer. Bash runs what the
gate or the splitter accepts, a batch at a time; a difference ends the run with the text.
"""

import random
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent / "shell"))
with atheris.instrument_imports(include=["agenteval"]):
    from bash_oracle import Judge
from shell_texts import TOKENS, joined, simple

SEEDS = 500


def main() -> None:
    atheris.enabled_hooks.add("RegEx")
    judge = Judge(batch=2000)

    def read(data: bytes) -> None:
        text = data[1:].decode("utf-8", "surrogateescape")
        judge.offer(text, split=bool(data[:1] and data[0] & 1))
        if judge.complaints:
            raise AssertionError(judge.complaints[0])
        if not judge.waiting and judge.runs:
            counted = f"{judge.simple} accepted as simple, {judge.split} split, {judge.runs} run\n"
            sys.stderr.write(counted)

    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(SEEDS):
            text = f"0{simple(chance)}" if number % 2 else f"1{joined(chance)}"
            (Path(folder) / str(number)).write_text(text, encoding="utf-8")
        tokens = Path(folder) / "tokens.dict"
        marks = ("".join(f"\\x{byte:02x}" for byte in token.encode()) for token in TOKENS)
        tokens.write_text("".join(f'"{mark}"\n' for mark in marks), encoding="utf-8")
        options = ["-max_len=300", "-only_ascii=0", f"-dict={tokens}", *sys.argv[1:], folder]
        atheris.Setup([sys.argv[0], *options], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
