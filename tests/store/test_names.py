"""Which run a word means, and how a store and a text are written."""

import base64
import random

import pytest

from agenteval.errors import UsageError
from agenteval.store.location import Known, Location, passed_over, resolve_name
from agenteval.store.summaries import begun_since
from agenteval.store.texts import PACKED, from_column, packed

IDS = ["20260103-b", "20260102-a", "20260102-a-2", "20260101-a", "20251231-x", "20251230-y"]
RUNS = [Known(run) for run in IDS]
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
    assert resolve_name(word, RUNS, TABLES, where="r.db") == expected


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("2026010", "'2026010' begins the ids of 5 runs in r.db"),
        (
            "nope",
            f"no run 'nope' in r.db (newest: {', '.join(IDS[:5])}); `agenteval show` lists all",
        ),
    ],
)
def test_a_word_that_means_none_or_several_names_a_few_of_the_newest(word, complaint):
    with pytest.raises(UsageError) as error:
        resolve_name(word, RUNS, TABLES, where="r.db")
    assert complaint in str(error.value)
    assert ", ".join(IDS[:4]) in str(error.value)


@pytest.mark.parametrize("runs", [
    [Known("5", "old"), Known("4", "other", ["old"])],
    [Known("old-5", "new"), Known("4", "other", ["old"])],
])  # fmt: skip
def test_a_label_that_names_something_else_too_is_no_answer(runs):
    with pytest.raises(UsageError, match=r"'old' is the label of 4 and names an? .*5: give the id"):
        resolve_name("old", runs, where="r.db")


def test_a_label_on_the_run_that_is_meant_anyhow_is_an_answer():
    assert resolve_name("old", [Known("5", "old", ["old"]), Known("4", "old")], where="r.db") == "5"


def test_without_a_run_there_is_no_last_one():
    with pytest.raises(UsageError, match=r"no run 'last' in r.db \(newest: none yet\)"):
        resolve_name("last", [], where="r.db")


STORE = [
    Known("6", "real", usable=False),
    Known("5", "sim/a", simulated=True),
    Known("4", "real", ["nightly"]),
    Known("3", "other", ["nightly", "best"]),
    Known("2", "real"),
    Known("1", "sim/a", usable=False, simulated=True),
]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("last", "4"),
        ("last-0", "4"),
        ("last-1", "3"),
        ("last-2", "2"),
        ("last real", "4"),
        ("last-1 real", "2"),
        ("last sim/a", "5"),
        ("real", "4"),
        ("other", "3"),
        ("sim/a", "5"),
        ("nightly", "4"),
        ("best", "3"),
        ("6", "6"),
    ],
)
def test_a_run_is_meant_by_its_model_its_label_or_its_place(word, expected):
    assert resolve_name(word, STORE, where="r.db") == expected


@pytest.mark.parametrize("word", ["last-3", "last-2 real", "last nobody", "nobody", "last-"])
def test_a_place_that_no_run_has_is_refused(word):
    with pytest.raises(UsageError, match=f"no run {word!r}"):
        resolve_name(word, STORE, where="r.db")


def test_the_last_run_is_a_simulated_one_where_there_is_no_other():
    assert resolve_name("last", STORE[4:], where="r.db") == "2"
    assert resolve_name("last", [STORE[5], STORE[1]], where="r.db") == "5"


def test_to_go_on_with_a_run_the_last_one_is_the_newest_whatever_it_is():
    assert resolve_name("last", STORE, where="r.db", whatever=True) == "6"


def test_what_the_word_last_passed_over_is_known():
    assert [run.id for run in passed_over("last", STORE)] == ["6", "5"]
    assert [run.id for run in passed_over("last-1", STORE)] == ["6", "5"]
    assert [run.id for run in passed_over("last-1", [STORE[2], STORE[1], STORE[3]])] == ["5"]
    assert not passed_over("last-1", STORE[2:])
    assert not any(passed_over(word, STORE) for word in ("real", "last real", "last-9"))
    assert not passed_over("last", [])


def test_where_last_finds_none_what_it_passed_over_says_why():
    with pytest.raises(UsageError) as error:
        resolve_name("last-1", STORE[:3], where="r.db")
    with pytest.raises(UsageError, match=r"no run 'last-9' in r.db \(newest: 5, 1\)"):
        resolve_name("last-9", [STORE[1], STORE[5]], where="r.db")
    assert str(error.value) == (
        "no run 'last-1' in r.db (`last` passes over what stands in brackets; newest: "
        "6 (without a trial that counts), 5 (simulated), 4); `agenteval show` lists all"
    )


def test_a_model_of_which_no_trial_counts_is_told_with_its_run():
    with pytest.raises(UsageError) as error:
        resolve_name("dead", [Known("7", "dead", usable=False), *STORE], where="r.db")
    assert str(error.value) == (
        "no run 'dead' in r.db (but 7, which is without a trial that counts: give this id to mean "
        "it); `agenteval show` lists all"
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hunter2@host/db", "postgresql://me:***@host/db"),
        ("postgresql://:hunter2@host/db", "postgresql://:***@host/db"),
        ("postgresql://me:hun/ter2@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:hunter@2@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me@corp:hunter2@host:5432/db", "postgresql://me@corp:***@host:5432/db"),
        ("postgresql://me:hun?ter=2@host/db", "postgresql://me:***"),
        ("postgresql://host:5432/db?password=hunter@2", "postgresql://host:***"),
        ("postgresql://h/db?user=me&password=hunter2", "postgresql://h/db?user=me&password=***"),
        (
            "postgresql://h/db?password=hun&ter2&user=me",
            "postgresql://h/db?password=***&***&user=me",
        ),
        ("postgres:/me:hunter2@host/db", "postgres:***"),
        ("postgresql:me:hunter2@host/db", "postgresql:***"),
        ("host=h dbname=db password=hunter2", "host=***"),
        (
            "postgresql://h/db?p%61ssword=hunter2&user=u@c",
            "postgresql://h/db?p%61ssword=***&user=u@c",
        ),
        ("postgresql://me@host:5432/db", "postgresql://me@host:5432/db"),
        ("sqlite:///runs.db?timeout=5", "sqlite:///runs.db?timeout=5"),
        ("a:b@c?d=e.db", "a:b@c?d=e.db"),
    ],
)
def test_a_store_is_shown_without_the_password_in_its_url(url, shown):
    assert str(Location(url)) == shown


@pytest.mark.parametrize(
    "word", ["postgres:/me:hunter2@host/db", "dbname=db password=hunter2", "sqlite:/runs.db"]
)
def test_what_is_meant_for_a_server_makes_no_file_of_its_name(word):
    with pytest.raises(UsageError, match=r"neither a file nor a URL") as error:
        Location(word).check_ours()
    assert "hunter2" not in str(error.value)


def test_a_file_may_be_called_much_like_it():
    for word in ("lr=1/runs.db", "C:/runs.db", "postgres/runs.db", "POSTGRES://host/db"):
        Location(word).check_ours()
    assert Location("POSTGRES://host/db").url == "postgresql+psycopg://host/db"


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        (None, True),
        ("2026-01", True),
        ("2026-W01", True),
        ("2026-01-02", True),
        ("2026-01-02T03:04+00:00", True),
        ("2026-01-02T03:05", False),
        ("2026-01-02T04:04+01:00", True),
        ("2026-01-02T02:05-01:00", False),
    ],
)
def test_a_run_is_of_a_day_in_utc_or_of_an_instant(day, expected):
    assert begun_since(day)("2026-01-02T03:04:00.000+00:00") is expected


def test_what_is_no_day_is_refused():
    with pytest.raises(UsageError, match="--since yesterday: no day or time"):
        begun_since("yesterday")


NOISE = base64.b64encode(random.Random(1).randbytes(450)).decode()


@pytest.mark.parametrize(
    ("text", "is_packed"),
    [("a" * 511, False), ("a" * 512, True), (NOISE, False), (NOISE + "\ud800", False)],
    ids=["short", "alike", "noise", "half a character"],
)
def test_a_text_is_compressed_where_that_makes_it_shorter(text, is_packed):
    stored = packed(text)
    assert (stored.startswith(PACKED), from_column(stored)) == (is_packed, text)
