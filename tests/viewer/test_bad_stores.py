"""Stores that no reader expects: half a run, none, huge trials and texts, an older schema."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from links import Page
from stored import play, stored
from two_runs import FIRST, GUARD, SECOND, client

from agenteval.protocols import TrialKey
from agenteval.store import location
from agenteval.store.sql import SqlStore
from agenteval.testing import denied, run, says, tool, trial
from agenteval.trial.call import Outcome
from agenteval.trial.run import Source

ALL = (
    "/",
    "/run?id=first",
    "/calls",
    "/calls?run=first&by=outcome",
    "/trials?run=first",
    "/reviews",
)


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "runs.db")


def read(store: str, address: str) -> Page:
    answer = client(store).get(address)
    assert answer.status_code == 200, answer.text
    return Page(answer.text)


def test_a_run_without_calls_has_pages_and_no_figure(path) -> None:
    stored(path, run(trial(says("No.")), run_id="first"), run(run_id="second"))
    assert "No call was denied: there is no call that counts" in read(path, "/run?id=first").text
    assert "No trial of it is stored yet." in read(path, "/run?id=second").text
    assert "No such call." in read(path, "/calls").text
    assert "model-a" not in read(path, "/compare?a=first&b=second").text


def test_half_a_run_is_told_to_be_one_and_its_trial_in_flight_has_a_transcript(path) -> None:
    half = replace(FIRST, complete=False, trials_planned=9)
    stored(path, half, in_flight=True)
    page = read(path, "/run?id=first")
    assert "This run is not finished: figures are of what is stored so far." in page.text
    assert "trials ended 2 of 9" in page.text
    text = read(path, "/trial?run=first&scenario=mail/draft&number=1").text
    assert "running 1 turn, 1 call" in text
    assert "interrupted" not in text
    assert "running" in read(path, "/trials?run=first").text


def test_a_store_that_is_being_written_is_read_between_two_calls(path) -> None:
    stored(path, FIRST)
    going_on = replace(SECOND, complete=False, trials=())
    with closing(SqlStore(path)) as writing:
        writing.add(going_on)
        recorder = writing.recorder(going_on, {"notes/read": "d"})
        (played,) = SECOND.trials
        key = TrialKey("notes/read", 1, 1001)
        recorder.begin(key)
        begun = read(path, "/run?id=second").text
        recorder.turn(key, 0, played.turns[0])
        recorder.call(key, played.calls[0])
        going = read(path, "/trial?run=second&scenario=notes/read&number=1").text
        play(recorder, replace(played, number=2))
        done = read(path, "/run?id=second").text
    assert "trials ended 0 of 1" in begun
    assert "1 turn, 1 call" in going
    assert "trials ended 1 of 1" in done


def test_a_store_of_an_older_schema_is_read_and_stays_as_it_is(path) -> None:
    stored(path, FIRST)
    with closing(sqlite3.connect(path)) as old:
        old.executescript("DROP TABLE review; DROP INDEX call_by_class; PRAGMA user_version = 12;")
    assert "first" in read(path, "/").links
    assert "pipe-to-filter 1" in read(path, "/calls?run=first").text
    with closing(sqlite3.connect(path)) as kept:
        assert kept.execute("PRAGMA user_version").fetchone() == (12,)


@pytest.mark.parametrize("address", ALL)
def test_a_store_that_went_away_gets_a_page_that_says_so(path, tmp_path, address) -> None:
    asking = client(stored(path, FIRST))
    (tmp_path / "runs.db").rename(tmp_path / "other.db")
    answer = asking.get(address)
    assert answer.status_code == 400
    assert "no such file" in answer.text


@pytest.mark.parametrize("address", ["/", "/calls", "/run?id=first", "/reviews.jsonl"])
def test_a_damaged_store_gets_a_page_that_says_so(path, address) -> None:
    asking = client(stored(path, FIRST))
    with Path(path).open("r+b") as file:
        file.seek(4096)
        file.write(bytes(40 * 4096))
    answer = asking.get(address)
    assert (answer.status_code, "damaged" in answer.text) == (503, True)


def test_a_review_that_cannot_be_written_is_told_so(path, monkeypatch) -> None:
    monkeypatch.setattr(location, "WAIT_SECONDS", 0.1)
    asking = client(stored(path, FIRST), writes=True)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        form = {"call": "1", "label": "", "note": "x", "key": GUARD.key}
        answer = asking.post("/review", data=form, headers={"origin": str(asking.base_url)})
    assert (answer.status_code, "database is locked" in answer.text) == (503, True)


def multiplied(path: str, turns: int, calls: int) -> None:
    """One trial with so many turns of so many calls, all copies of its first, by SQL."""
    one = run(trial(denied("ls | head", "pipe-to-filter"), scenario="long"), run_id="first")
    stored(path, one)
    with closing(sqlite3.connect(path)) as store, store:
        for table, named in (("turn", "number"), ("call", "turn")):
            names = [row[1] for row in store.execute(f'PRAGMA table_info("{table}")')]
            put = {"id": "NULL", named: "turns.value"}
            if table == "call":
                put["position"] = "calls.value"
            values = ", ".join(put.get(name, f'one."{name}"') for name in names)
            inner = _numbers(calls if table == "call" else 1)
            many = f"({_numbers(turns)}) AS turns, ({inner}) AS calls WHERE one.id = 1"
            store.execute(f'INSERT INTO "{table}" SELECT {values} FROM "{table}" AS one, {many}')
            store.execute(f'DELETE FROM "{table}" WHERE id = 1')
        ((made,),) = store.execute("SELECT calls FROM turn LIMIT 1").fetchall()
        store.execute("UPDATE turn SET calls = ?", (json.dumps(json.loads(made) * calls),))


def _numbers(most: int) -> str:
    return f"""WITH RECURSIVE n(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM n
        WHERE value + 1 < {most}) SELECT value FROM n"""


@pytest.mark.slow
@pytest.mark.parametrize(("turns", "calls"), [(100_000, 1), (1, 100_000)])
def test_a_trial_of_100_000_calls_is_shown_in_parts(path, turns, calls) -> None:
    multiplied(path, turns, calls)
    address = "/trial?run=first&scenario=long&number=1"
    page = read(path, address)
    assert f"{turns} turn{'' if turns == 1 else 's'}, 100000 calls" in page.text
    shown = [one["id"] for _, one in page.elements if "data-line" in one]
    assert len(shown) == (100 if turns > 1 else 1000)
    if turns > 1:
        later = read(path, page.links["later"])
        begins = next(one["id"] for _, one in later.elements if "data-line" in one)
        assert begins == "call-101-1"
        far = read(path, f"{address}&turn=99999")
        assert "call-100000-1" in {one.get("id") for _, one in far.elements}
    else:
        assert "99000 more calls of this turn are not shown here." in page.text
    found = read(path, "/calls?run=first&failure_class=pipe-to-filter")
    assert "pipe-to-filter 100000" in found.text


def test_arguments_of_a_million_characters_are_cut_in_lists_and_told_on_the_page_of_the_call(
    path,
) -> None:
    stored(path, run(trial(tool("write", text="x" * 1_000_000)), run_id="first"))
    for address in ("/calls", "/trial?run=first&scenario=notes&number=1"):
        assert len(client(path).get(address).text) < 40_000
    call = read(path, "/call?id=1")
    raw = len(json.dumps({"text": "x" * 1_000_000}))
    assert f"{raw - 200_000} more characters are in the store." in call.text


def test_every_page_reads_a_postgresql_store(postgres) -> None:
    store = stored(postgres.url(postgres.new()), FIRST, SECOND)
    trial_of = "run=first&scenario=notes/read&number=1"
    addresses = (*ALL, f"/trial?{trial_of}", "/call?id=2", "/compare?a=first&b=second")
    pages = [client(store).get(address) for address in addresses]
    side = client(store).get("/side?a=first&b=second&scenario=notes/read&number=1")
    assert [page.status_code for page in (*pages, side)] == [200] * (len(addresses) + 1)
    assert "first difference" in side.text
    assert "pipe-to-filter 1" in Page(pages[1].text).text


def test_a_comparison_is_made_anew_when_a_trial_has_been_added(path) -> None:
    second = replace(SECOND, complete=False)
    stored(path, FIRST, second)
    before = read(path, "/compare?a=first&b=second").text
    again = read(path, "/compare?a=first&b=second").text
    with closing(SqlStore(path)) as writing:
        play(writing.recorder(second, {"notes/read": "d"}), replace(SECOND.trials[0], number=2))
    after = read(path, "/compare?a=first&b=second").text
    assert ("n=2 calls 1 trial" in before, before == again) == (True, True)
    assert "n=4 calls 2 trials" in after


@pytest.mark.parametrize(("judged", "told"), [(True, "0.00 [0.0,"), (False, "not observable")])
def test_of_sessions_out_of_logs_no_figure_is_made_that_nobody_observed(path, judged, told) -> None:
    session = trial("ls", outcome=Outcome.NOT_OBSERVABLE)
    stored(path, run(session, run_id="first", source=Source("claude-code", judged=judged)))
    listed, page = read(path, "/").text, read(path, "/run?id=first").text
    assert f"first test-model {told}" in listed
    assert f"errors per 100 calls {told}" in page
    assert ("Errors by class" in page) == judged
    assert "goal reached not observable: sessions out of logs of claude-code" in page
