"""Which run a word means."""

import pytest

from agenteval.errors import UsageError
from agenteval.store.location import meant

RUNS = ["20260103-b", "20260102-a", "20260102-a-2", "20260101-a", "20251231-x", "20251230-y"]
TABLES = ["20260104-counts"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("last", "20260103-b"),
        ("20260103", "20260103-b"),
        ("20260102-a", "20260102-a"),
        ("20260102-a-", "20260102-a-2"),
        ("20260104", "20260104-counts"),
    ],
)
def test_a_run_is_meant_by_its_id_its_beginning_or_as_the_last_one(word, expected):
    assert meant(word, RUNS, TABLES, where="r.db") == expected


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        (
            "2026010",
            "'2026010' begins the ids of 5 runs in r.db",
        ),
        (
            "nope",
            f"no run 'nope' in r.db (newest: {', '.join(RUNS[:5])}); `agenteval show` lists all",
        ),
    ],
)
def test_a_word_that_means_none_or_several_names_a_few_of_the_newest(word, complaint):
    with pytest.raises(UsageError) as error:
        meant(word, RUNS, TABLES, where="r.db")
    assert complaint in str(error.value)
    assert ", ".join(RUNS[:4]) in str(error.value)


def test_without_a_run_there_is_no_last_one():
    with pytest.raises(UsageError, match=r"no run 'last' in r.db \(newest: none yet\)"):
        meant("last", [], where="r.db")
