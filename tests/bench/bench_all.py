"""`make bench`: every benchmark in one go, written to docs/benchmarks.md.

What is compared is measured in turns, so that a busy machine slows all alike; the page has medians,
ratios to the reference of each table, and what other work took of the machine.

    python tests/bench/bench_all.py [--repeats 5] [--largest 1000000] [--trials 40] [--out PAGE]
"""

import argparse
import asyncio
import sys
from pathlib import Path

from machine import Machine, Watch
from mock_server import mock
from page import ENOUGH, Options, page
from parts_of_suite import (
    classifier,
    longer_trials,
    orchestrators,
    reading,
    sandbox,
    starts,
    whole_runs,
)
from peer_places import PEERS, PROJECT, made

PAGE = PROJECT / "docs" / "benchmarks.md"


async def measured(asked: Options) -> str:
    watch = Watch()
    for peer in PEERS if asked.trials >= ENOUGH else ():
        made(peer)
    tables = []
    if asked.trials >= ENOUGH:
        async with mock() as url:
            tables.append(await asyncio.to_thread(orchestrators, url, asked))
            tables.append(await asyncio.to_thread(longer_trials, url, asked))
            tables.append(await whole_runs(url, asked))
    tables.append(classifier(asked))
    tables.append(starts(asked))
    tables.append(reading(asked))
    machine = Machine(watch.others())  # before containers, most of whose processes are not ours
    tables.append(await sandbox(asked))
    return page(tables, asked, machine)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--largest", type=int, default=1_000_000, help="calls of a run that is read"
    )
    parser.add_argument("--trials", type=int, default=ENOUGH, help="more than the few of the start")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--out", type=Path, default=PAGE)
    asked = parser.parse_args()
    options = Options(asked.repeats, asked.largest, asked.trials, asked.turns)
    text = asyncio.run(measured(options))
    asked.out.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{asked.out}\n")


if __name__ == "__main__":
    main()
