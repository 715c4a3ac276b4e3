import sqlite3
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from agenteval.errors import Cause, HostError, UsageError
from agenteval.protocols import TrialKey
from agenteval.shell.gate import Span
from agenteval.store import read as loading
from agenteval.store import sql as summaries
from agenteval.store.location import Bound, Connection, unopened
from agenteval.store.sql import SqlStore, keep_look
from agenteval.store.summaries import INTERRUPTED, Listed, listed
from agenteval.trial.call import Allowed, Denied, Ending, Finding, Outcome, ToolCall
from agenteval.trial.run import ArmCard, Crash, Effort, Look, ModelCard, Run
from agenteval.trial.summary import ImportedCounts
from agenteval.trial.trial import (
    AgentPart,
    CallRecord,
    ErrorCounts,
    Execution,
    GoalCheck,
    HandshakeStep,
    Message,
    Trial,
    Turn,
    Usage,
)

RUN = Run(
    id="r1",
    model=ModelCard(name="m", served_id="org/m", architecture="moe", sampling={"temperature": 1.0}),
    started="2026-01-01T00:00:00.000+00:00",
    seed=7,
    trials_planned=2,
    max_turns=None,
    concurrency=4,
    sandbox="bubblewrap",
    protocol="strict/2",
    arm=ArmCard("strict", 4, "ours", "all", 15, 29, 700, "hint", "", "the easy arm"),
    taxonomy="1",
    policies={"demo": "abc"},
)
KEY = TrialKey("s", 1, 99)
ALLOWED = CallRecord(
    turn=0,
    position=0,
    call=ToolCall("c1", "bash", '{"command": "ls"}', {"command": "ls"}),
    verdict=Allowed(),
    reply="a\n",
    execution=Execution(0, "a\n", 0.01),
)
DENIED = CallRecord(
    turn=0,
    position=1,
    call=ToolCall("c2", "bash", '{"command": ', None, "arguments are not JSON: \udcff"),
    verdict=Denied(
        findings=(
            Finding("malformed-arguments", Span(0, 12, '{"command": '), "close it", ("cut",)),
            Finding("other-shell", Span(1, 2, "x")),
        )
    ),
    reply="denied",
    objection="two readings",
)
TRIAL = Trial(
    scenario="s",
    number=1,
    seed=99,
    turns=(
        Turn(
            text="text",
            calls=(ALLOWED.call, DENIED.call),
            finish_reason="tool_calls",
            usage=Usage(10, 5),
            raw="raw \x00 body",
            seconds=0.5,
            ended=1763740800.25,
            reasoning="I look \x00 first.",
        ),
    ),
    calls=(ALLOWED, DENIED),
    ending=Ending.STOPPED,
    outcome=Outcome.COMPLETED,
    handshake=(HandshakeStep("first", reached=True),),
    goal=(
        GoalCheck("one", held=True, expected="a \x00", found="a \x00"),
        GoalCheck("two", held=False, expected=2, said="no such table"),
    ),
    goal_turn=0,
    seconds=0.5,
)


@pytest.fixture
def store(tmp_path: Path):
    opened = SqlStore(str(tmp_path / "new" / "folder" / "runs.db"))
    yield opened
    opened.close()


def play(store: SqlStore, trial: Trial = TRIAL, *, finish: bool = True) -> None:
    recorder = store.recorder(RUN, {"s": "abc"})
    recorder.begin(KEY)
    for number, turn in enumerate(trial.turns):
        recorder.turn(KEY, number, turn)
    for record in trial.calls:
        recorder.call(KEY, record)
    if finish:
        recorder.finish(KEY, trial)


def test_a_run_comes_back_as_it_was(store: SqlStore) -> None:
    store.add(RUN)
    play(store)
    store.add(replace(RUN, id="r2"))
    store.close_run("r1", complete=True, second_reader={"agreed": 3}, effort=Effort(9.5, 700.0))
    ended = {"complete": True, "second_reader": {"agreed": 3}, "effort": Effort(9.5, 700.0)}
    assert store.load("r1") == replace(RUN, **ended, trials=(TRIAL,), requests=1)
    assert store.load("r2").trials == ()


def test_without_the_bytes_of_its_replies_a_run_is_the_same_else(store: SqlStore) -> None:
    store.add(RUN)
    play(store)
    bare = replace(TRIAL, turns=tuple(replace(turn, raw="") for turn in TRIAL.turns))
    with summaries.opened(store.url) as query:
        found = loading.load(query, "r1", where="here", raw=False)
    assert found == replace(RUN, trials=(bare,), requests=1)


def test_trials_are_read_some_at_a_time_each_with_its_own_rows(store, monkeypatch) -> None:
    monkeypatch.setattr(loading, "TOGETHER", 2)
    store.add(RUN)
    keys = [TrialKey("s", number, 99) for number in (1, 2, 3, 4, 5)]
    recorder = store.recorder(RUN, {"s": "abc"})
    for key in reversed(keys):
        recorder.begin(key)
        for record in TRIAL.calls[: key.number % 3]:
            recorder.call(key, record)
    numbers = [(one.number, len(one.calls)) for one in store.load("r1").trials]
    assert numbers == [(1, 1), (2, 2), (3, 0), (4, 1), (5, 2)]


def test_an_output_that_was_the_reply_is_kept_once_and_is_one_text_in_memory(
    store: SqlStore,
) -> None:
    store.add(RUN)
    play(store)
    with store.connect() as asked:
        rows = asked.exec_driver_sql("SELECT output, output_is_reply, reply FROM call ORDER BY id")
        assert rows.fetchall()[0] == ("", 1, "a\n")
    record = store.load("r1").trials[0].calls[0]
    assert record.execution.output is record.reply
    with store.connect() as asked:  # as an older release wrote it
        asked.exec_driver_sql("UPDATE call SET output = reply, output_is_reply = 0 WHERE id = 1")
        asked.commit()
    assert store.load("r1").trials[0].calls[0] == record


@pytest.mark.parametrize(
    ("reply", "output"), [("", ""), ("a", ""), ("", "a"), ("cut: a", "a"), ("\ud800", "\ud800")]
)
def test_reply_and_output_come_back_as_they_were(store: SqlStore, reply: str, output: str) -> None:
    record = replace(ALLOWED, reply=reply, execution=Execution(0, output, 0.01))
    store.add(RUN)
    recorder = store.recorder(RUN, {"s": "abc"})
    recorder.begin(KEY)
    recorder.call(KEY, record)
    (found,) = store.load("r1").trials[0].calls
    assert (found.reply, found.execution) == (reply, record.execution)


def test_a_trial_in_flight_when_the_run_died_comes_back_void_with_its_calls(store) -> None:
    store.add(RUN)
    play(store, finish=False)
    (trial,) = store.load("r1").trials
    calls = (ALLOWED, DENIED)
    assert (trial.outcome, trial.reason, trial.calls) == (Outcome.VOID, INTERRUPTED, calls)


def test_an_id_that_is_taken_gets_a_number(store: SqlStore) -> None:
    assert [store.add(RUN).id for _ in range(3)] == ["r1", "r1-2", "r1-3"]


def test_of_two_stores_that_take_one_id_at_once_the_later_one_gets_a_number(
    store: SqlStore, monkeypatch
) -> None:
    store.add(RUN)
    with closing(SqlStore(store.url)) as other:
        seen = iter([False])  # what it saw before the first one added its run
        monkeypatch.setattr(other, "exists", lambda found: next(seen, store.exists(found)))
        assert other.add(RUN).id == "r1-2"


def test_imported_counts_take_an_id_too(store: SqlStore) -> None:
    counts = ErrorCounts((8,), {"bare-binary": (2,)}, by_trial=False)
    table = ImportedCounts("t1", RUN.model, RUN.started, "m.csv", (("", ""),), counts)
    assert [store.add_imported(table).id for _ in range(2)] == ["t1", "t1-2"]
    assert store.add(replace(RUN, id="t1")).id == "t1-3"


def test_what_a_run_cost_and_what_a_gate_saw_of_it_is_what_was_last_told(store: SqlStore) -> None:
    looks = [Look(at, 5, 12, 0.001, "INCONCLUSIVE", "r0", "abc") for at in (1, 2)]
    store.add(RUN)
    for look in looks:
        store.look("r1", look)
    told = []
    for effort in (Effort(9.5, 700.0), None):
        store.close_run("r1", complete=False, second_reader={}, effort=effort)
        told.append(store.load("r1"))
    assert [run.effort for run in told] == [Effort(9.5, 700.0), None]
    assert told[0].looks == tuple(looks)


def test_a_trial_that_is_played_has_not_ended(store: SqlStore) -> None:
    store.add(RUN)
    play(store)
    for number in (2, 3):
        store.recorder(RUN, {"s": "abc"}).begin(replace(KEY, number=number))
    assert (store.ended("r1"), len(store.played("r1"))) == (1, 3)


def test_trials_of_other_runs_are_not_counted_whichever_come_first(store: SqlStore) -> None:
    for name in ("r0", "r1", "r2"):
        store.add(replace(RUN, id=name))
    for number, name in enumerate(("r0", "r2")):
        store.recorder(RUN, {"s": "abc"}).begin(replace(KEY, number=7 + number))
        store.recorder(replace(RUN, id=name), {"s": "abc"}).begin(replace(KEY, number=number))
    name = "".join("r1")  # its letters alone are the same
    assert store.played(name) == {("s", 7), ("s", 8)}


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_store_may_be_in_memory(url: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqlStore(url)
    store.add(RUN)
    assert store.exists("r1")
    store.close()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("name", ["new/runs.db", "/new/runs.db"])
def test_the_folder_of_a_new_store_is_made(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = f"{tmp_path}{name}" if name.startswith("/") else name
    SqlStore(f"sqlite:///{place}").close()
    assert (tmp_path / "new" / "runs.db").is_file()


def test_a_damaged_file_is_the_machines_fault(tmp_path) -> None:
    SqlStore(str(tmp_path / "runs.db")).close()
    with (tmp_path / "runs.db").open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 2000)
    with pytest.raises(HostError, match="the file is damaged"):
        SqlStore(str(tmp_path / "runs.db"))


def test_what_was_set_aside_and_not_played_again_is_left(store: SqlStore) -> None:
    store.add(RUN)
    play(store)
    store.recorder(RUN, {"s": "abc"}).begin(replace(KEY, number=2))
    assert store.set_aside("r1", voids=False) == [("s", 2)]
    assert (store.played("r1"), store.trials_set_aside("r1")) == ({("s", 1)}, {("s", 2)})


def test_the_last_run_is_one_that_can_be_used_unless_any_is_wanted(store: SqlStore) -> None:
    store.add(RUN)
    play(store)
    store.close_run("r1", complete=True, second_reader={}, effort=Effort(1.0, None))
    store.add(replace(RUN, id="r2", started="2026-01-02T00:00:00.000+00:00"))
    assert [run.id for run in store.runs()] == ["r2", "r1"]
    assert (store.resolve_name("last"), store.resolve_name("last", whatever=True)) == ("r1", "r2")


def test_an_unknown_run_is_one_line_with_the_known_ones(store: SqlStore) -> None:
    store.add(RUN)
    with pytest.raises(UsageError, match=r"^no run 'x' in .*\(newest: r1\); `agenteval show`"):
        store.load("x")


DRIVER, PLACE = "install its driver", "give a file path or a database URL"


@pytest.mark.parametrize(
    ("url", "cure"),
    [
        ("mongodb://x/y", PLACE),
        ("postgresql+nothing://x/y", PLACE),
        ("://", PLACE),
        ("sqlite:////proc/none/x.db", PLACE),
        ("mysql+pymysql://x/y", DRIVER),
    ],
)
def test_a_store_that_cannot_be_opened_is_one_line(url: str, cure: str) -> None:
    with pytest.raises(UsageError, match=rf"^--store .*: cannot be opened.*{cure}") as caught:
        SqlStore(url)
    assert "sqlalche.me" not in str(caught.value), "the library's page is no help to a user"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            ValueError("failed to resolve host '2@nowhere': Name"),
            "resolve host '***@nowhere': Name",
        ),
        (ValueError("failed to resolve host 'hun&ter2=x': Name"), "'***'"),
        (ModuleNotFoundError("no driver\nand much more"), "(no driver); install its driver"),
    ],
)
def test_of_what_a_driver_says_the_first_line_is_told_without_a_password(error, told) -> None:
    assert told in str(unopened("postgresql://h", error))


@pytest.mark.parametrize(
    "said",
    [
        "failed to resolve host 'db': [Errno -3] Temporary failure in name resolution",
        'FATAL:  too many connections for role "me"',
        "FATAL:  no more connections allowed (max_client_conn)",
        "SSL SYSCALL error: EOF detected",
        "database or disk is full",
    ],
)
def test_what_passes_by_itself_is_no_fault_of_the_user_s(said) -> None:
    assert isinstance(unopened("postgresql://h", ValueError(said)), HostError)


def test_a_file_that_is_no_database_is_one_line_and_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but dear to somebody" * 100)
    with pytest.raises(UsageError, match=r"not a store of agenteval .file is not a database."):
        SqlStore(str(file))
    assert file.read_text().startswith("not a database")


def test_the_database_of_another_program_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "cookies.db"
    with closing(sqlite3.connect(path)) as there:
        there.execute("CREATE TABLE jar (x)")
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"a database of another program, with a table 'jar'"):
        SqlStore(str(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("url", ["{}", "sqlite:///{}?timeout=5", "sqlite+pysqlite:///{}"])
def test_nobody_writes_between_what_is_read_and_what_is_written_of_it(
    tmp_path: Path, url: str
) -> None:
    file = str(tmp_path / "runs.db")
    with closing(SqlStore(url.format(file))) as store:
        connection, another = store._connection, sqlite3.connect(file, timeout=0)
        with closing(another), connection.together():
            assert connection.ask("SELECT count(*) FROM run") == [(0,)]
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                another.execute("INSERT INTO tags VALUES ('r1', '[]', '')")
            store.add(RUN)
        assert store.exists(RUN.id)


@pytest.mark.parametrize("url", ["{}", "sqlite:///{}?timeout=5", "postgresql"])
def test_of_two_looks_of_one_number_the_first_is_kept(tmp_path: Path, request, url: str) -> None:
    if url == "postgresql":
        server = request.getfixturevalue("postgres")
        url = server.url(server.new())
    where = url.format(tmp_path / "runs.db")
    with closing(SqlStore(where)) as store:
        store.add(RUN)
    first, second = (Look(1, 5, trials, 0.001, "FAIL", "r0", "abc") for trials in (12, 13))
    assert (keep_look(where, RUN.id, first), keep_look(where, RUN.id, second)) == (
        "",
        "another gate looked at the same time",
    )
    with closing(SqlStore(where)) as store:
        assert store.summarized(RUN.id)[0].looks == (first,)


@pytest.mark.parametrize("url", ["sqlite:///{}", "sqlite:///{}?timeout=5", "sqlite+pysqlite:///{}"])
def test_a_claim_stands_beside_the_file_that_its_url_names(url: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(SqlStore(url.format(path))) as store, store.claimed("r1"):
        assert sorted(one.name for one in tmp_path.glob("*claims")) == ["runs.db-claims"]


def test_the_crashes_of_a_server_are_kept_with_all_requests_made(tmp_path) -> None:
    store = SqlStore(str(tmp_path / "runs.db"))
    store.add(RUN)
    recorder = store.recorder(RUN, {"s": "d"})
    for number, cause in ((1, Cause.CRASHED), (2, Cause.OURS), (3, None)):
        key = TrialKey("s", number, 1)
        recorder.begin(key)
        recorder.turn(key, 0, TRIAL.turns[0])
        recorder.finish(key, replace(TRIAL, cause=cause, retries=2))
    store.crash(RUN.id, Crash(7.0, "the server is gone"))
    run = store.load(RUN.id)
    store.close()
    assert (run.requests, run.crashes) == (3 + 6 + 1, (Crash(7.0, "the server is gone"),))


def kept(store: SqlStore) -> list[Listed]:
    return listed(store.ask)


def test_labels_are_given_once_and_taken_off_and_a_note_stays_until_there_is_another(store) -> None:
    store.add(RUN)
    store.tag("r1", ["best", "nightly"], "before the update", off=False)
    store.tag("r1", ["best"], None, off=False)
    (run,) = kept(store)
    assert (run.labels, run.note) == (("nightly", "best"), "before the update")
    store.tag("r1", ["best"], "after it", off=True)
    (run,) = kept(store)
    assert (run.labels, run.note) == (("nightly",), "after it")


def test_a_database_without_room_is_a_fault_of_the_host(store: SqlStore) -> None:
    store.add(RUN)
    with store.connect() as connection:
        for ask in (store.ask, lambda sql: connection.exec_driver_sql(sql).fetchall()):
            ((pages,),) = ask("PRAGMA page_count")
            ask(f"PRAGMA max_page_count={pages}")
            with pytest.raises(HostError, match=r"^--store .*runs.db: database or disk is full\. "):
                ask("CREATE TABLE more AS SELECT randomblob(100000)")


def test_a_database_with_broken_pages_is_a_fault_of_the_host(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = SqlStore(str(path))
    with store.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE other AS SELECT randomblob(100000)")
        connection.commit()
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    size = path.stat().st_size
    again = SqlStore(str(path))
    with path.open("rb+") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(HostError, match="malformed"):
        again.runs()
    again.close()


@pytest.mark.parametrize(
    ("ours", "told"),
    [("SELECT * FROM nowhere", "no such table"), ("SELECT FROM WHERE", "syntax error")],
)
def test_a_query_that_cannot_be_asked_is_a_fault_of_ours(store: SqlStore, ours, told) -> None:
    with store.connect() as connection, pytest.raises(OperationalError, match=told):
        connection.exec_driver_sql(ours)
    with pytest.raises(sqlite3.OperationalError, match=told):
        store.ask(ours)


@dataclass
class Noting:
    """A connection that notes what the database says, asked so, before a trial is written."""

    own: Connection
    asks: str
    seen: list[tuple[str, object]] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        return getattr(self.own, name)

    def execute(self, sql: str, values: Bound) -> list:
        if '"trial" ' in sql:
            self.seen.append((sql.split(maxsplit=1)[0], self.own.ask(self.asks)[0][0]))
        return self.own.execute(sql, values)


def commits(store: SqlStore, ask: str) -> list[tuple[str, object]]:
    """What a database says, asked so, while a trial begins, ends, and the next one begins."""
    store.add(RUN)
    recorder = store.recorder(RUN, {"s": "abc"})
    noting = Noting(recorder.connection, ask)
    recorder = replace(recorder, connection=noting)
    recorder.begin(KEY)
    recorder.finish(KEY, TRIAL)
    recorder.begin(replace(KEY, number=2))
    return noting.seen


def test_the_end_of_a_trial_is_written_through_to_the_disk_and_nothing_else(store) -> None:
    """SQLite says how far a commit goes: 1 into the system's cache, 2 through to the disk."""
    seen = commits(store, "PRAGMA synchronous")
    assert seen == [("INSERT", 1), ("UPDATE", 2), ("INSERT", 1)]


SYSTEM, TASK = Message("system", "half \udcff \x00"), Message("user", "Do it.")
ASKED = replace(
    TRIAL,
    prompt=(SYSTEM, Message("assistant", "", (ALLOWED.call, DENIED.call), "", "hm"), TASK),
    agents=(AgentPart("helper", 1, 0, 1, Ending.STOPPED, prompt=(SYSTEM, TASK)),),
)


def test_what_agents_began_with_comes_back_and_is_kept_once_in_a_run(store: SqlStore) -> None:
    store.add(RUN)
    play(store, ASKED)
    again = store.recorder(RUN, {"s": "abc"})  # of another process, which knows of no message
    for number in (2, 3):
        key = replace(KEY, number=number)
        again.begin(key)
        again.finish(key, replace(ASKED, number=number, turns=(), calls=()))
    assert [(one.prompt, one.agents) for one in store.load("r1").trials] == [
        (ASKED.prompt, ASKED.agents)
    ] * 3
    kept = store.ask("SELECT count(*) FROM message WHERE run_id = 'r1'")
    assert kept[0][0] == 3


def test_one_trial_is_read_alone_as_all_of_its_run_are(store: SqlStore) -> None:
    store.add(RUN)
    play(store, ASKED)
    found = [loading.load_trial(store.ask, "r1", "s", number) for number in (1, 2)]
    assert found == [*store.load("r1").trials, None]
