"""What we accept, bash runs exactly so: the short form of `make fuzz`, and our own tables."""

import random

import pytest
from bash_oracle import Judge
from shell_texts import joined, mutated, simple
from test_gate import ACCEPTED, STOPPED
from test_leaves import READ
from test_leaves import STOPPED as NOT_SPLIT

TABLES = [row[0] for table in (ACCEPTED, STOPPED, READ, NOT_SPLIT) for row in table]


@pytest.mark.parametrize("reader", ["gate", "splitter"])
def test_bash_runs_the_words_we_read_in_the_tables(reader: str):
    judge = Judge()
    for text in TABLES:
        judge.offer(text, split=reader == "splitter")
    judge.flush()
    assert judge.complaints == []
    assert judge.simple + judge.split >= len(ACCEPTED) - 1


@pytest.mark.parametrize(("reader", "count"), [("gate", 500), ("splitter", 100)])
def test_bash_runs_the_words_we_read_in_mutated_texts(reader: str, count: int):
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    judge = Judge()
    for _ in range(count):
        text = joined(chance) if reader == "splitter" else simple(chance)
        for _ in range(8):
            judge.offer(text, split=reader == "splitter")
            text = mutated(text, chance)
    judge.flush()
    assert (judge.complaints, seed) == ([], seed)
    assert judge.simple + judge.split >= count // 2
