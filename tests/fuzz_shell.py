"""Fuzz the readers of shell against bash: `python tests/fuzz_shell.py --commands 1000000`.

Every generated or mutated text that the gate (or, for a share of them, the splitter) accepts is
run by bash with recording programs; a difference ends the run with status 1.
"""

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "shell"))
from bash_oracle import Judge  # the path above is where it lives
from shell_texts import joined, mutated, simple


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", type=int, default=1_000_000, help="accepted texts to run")
    parser.add_argument("--seconds", type=float, default=600, help="stop after this time")
    parser.add_argument("--split", type=float, default=0.1, help="share for the splitter")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    chance = random.Random(seed)
    judge = Judge()
    start = time.perf_counter()
    offered = 0
    while judge.simple + judge.split < options.commands and not judge.complaints:
        split = chance.random() < options.split
        text = joined(chance) if split else simple(chance)
        for _ in range(8):
            judge.offer(text, split=split)
            text = mutated(text, chance)
            offered += 1
        if time.perf_counter() - start > options.seconds:
            break
    judge.flush()
    sys.stdout.write(
        f"seed {seed}: {offered} texts; accepted: {judge.simple} as simple, {judge.split} split;"
        f" bash ran {judge.runs} programs for them and differed {len(judge.complaints)} times;"
        f" {time.perf_counter() - start:.0f} s\n"
    )
    sys.stdout.writelines(f"{complaint}\n" for complaint in judge.complaints[:20])
    return 1 if judge.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
