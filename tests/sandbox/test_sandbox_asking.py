"""The world's database is asked where a model that made it can do no harm, on every backend."""

import asyncio
import os
import random
import sqlite3
import time

import pytest

from agenteval.errors import InfrastructureError
from agenteval.sandbox.backends import Bare, Namespaces
from agenteval.sandbox.maker import declared
from agenteval.trial.trial import Answer, Limits, Question

COUNT = Question("SELECT count(*) FROM t")
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
TABLE = ("CREATE TABLE t (x)", "INSERT INTO t VALUES (1), (2)")


def image(*statements: str, views: dict[str, str] | None = None) -> bytes:
    """A database; `views` are written into the schema by hand: a statement each takes too long."""
    connection = sqlite3.connect(":memory:")
    for statement in statements:
        connection.execute(statement)
    connection.execute("PRAGMA writable_schema = ON")
    for name, text in (views or {}).items():
        row = ("view", name, name, 0, text)
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)
    connection.commit()
    content = connection.serialize()
    connection.close()
    return content


WORLD = image(*TABLE)


def chain(length: int) -> dict[str, str]:
    """A view of a view of a view ..., by the name of the table."""
    views = {"v0": "CREATE VIEW v0 AS SELECT 1 x"}
    for number in range(1, length):
        views[f"v{number}"] = f"CREATE VIEW v{number} AS SELECT * FROM v{number - 1}"
    return views | {"t": f"CREATE VIEW t AS SELECT * FROM v{length - 1}"}


async def asked(backend, content: bytes, *questions: Question, schema=None):
    async with backend.open({"data/w.db": content}, Limits()) as sandbox:
        known = declared(WORLD) if schema is None else schema
        return await sandbox.ask("data/w.db", questions or (COUNT,), known)


async def test_each_question_has_its_own_answer(backend):
    many = Question("SELECT x, 'a' AS y, NULL AS z, x'00', 0.5 FROM t ORDER BY x", 5)
    given = await asked(backend, WORLD, COUNT, many, Question("SELECT y FROM t"), Question("SELEC"))
    assert given.broken == ""
    count, rows, *wrong = given.answers
    assert count == Answer(("count(*)",), ((2,),))
    assert rows.rows == ((1, "a", None, None, 0.5), (2, "a", None, None, 0.5))
    assert rows.named[0] == {"x": 1, "y": "a", "z": "", "x'00'": "", "0.5": 0.5}
    assert [one.error for one in wrong] == ["no such column: y", 'near "SELEC": syntax error']


FORBIDDEN = [
    "DELETE FROM t",
    "PRAGMA user_version",
    "PRAGMA writable_schema = ON",
    "ATTACH '/etc/passwd' AS other",
    "SELECT load_extension('/usr/lib/x.so')",
    "VACUUM INTO 'other.db'",
    "CREATE TEMP TABLE s (x)",
    "SELECT * FROM pragma_table_info('t')",
    "SELECT 1; SELECT 2",
    "SELECT hex(zeroblob(2000000))",
    "SELECT randomblob(9)",
]


async def test_a_question_may_only_read_and_use_functions_that_are_known(backend):
    given = await asked(backend, WORLD, *map(Question, FORBIDDEN))
    assert [answer.error != "" for answer in given.answers] == [True] * len(FORBIDDEN)


async def test_what_goals_are_made_of_is_allowed(backend):
    queries = [
        f"{ENDLESS} SELECT max(x) FROM (SELECT x FROM n LIMIT 9)",
        "SELECT sum(value) FROM json_each('[4, 5]')",
        "SELECT length(trim(replace('a b c d e ', ' ', ''))) + 4",
        "SELECT CAST(strftime('%d', '2026-01-09') AS INTEGER)",
        "SELECT count(*) OVER () + 7 FROM t",
    ]
    given = await asked(backend, WORLD, *map(Question, queries))
    assert [(answer.first, answer.error) for answer in given.answers] == [(9, "")] * len(queries)


async def test_what_only_stands_in_the_write_ahead_log_counts_and_nothing_is_written(backend):
    script = (
        "import os, sqlite3\n"
        "w = sqlite3.connect('data/w.db')\n"
        "w.execute('PRAGMA journal_mode=WAL')\n"
        "w.execute('INSERT INTO t VALUES (3)')\n"
        "w.commit()\n"
        "os._exit(0)\n"
    )
    async with backend.open({"data/w.db": WORLD, "log.py": script.encode()}, Limits()) as sandbox:
        await sandbox.run(["python3", "log.py"])
        await sandbox.run(["rm", "data/w.db-shm"])
        before = await sandbox.run(["sh", "-c", "cksum data/*"])
        given = await sandbox.ask("data/w.db", [COUNT], declared(WORLD))
        after = await sandbox.run(["sh", "-c", "cksum data/*"])
        await sandbox.run(["rm", "data/w.db-wal"])
        without = await sandbox.ask("data/w.db", [COUNT], declared(WORLD))
    assert ([answer.first for answer in given.answers], before.output) == ([3], after.output)
    assert [answer.first for answer in without.answers] == [2]


BROKEN = {
    "a table is gone": (["DROP TABLE t"], "t is not as it was declared"),
    "a table has another column": (
        ["DROP TABLE t", "CREATE TABLE t (x, y)"],
        "t is not as it was declared",
    ),
    "a view in the place of a table": (
        ["DROP TABLE t", "CREATE VIEW t AS SELECT 1 x"],
        "t is not as it was declared",
    ),
    "one view more": (["CREATE VIEW v AS SELECT 1"], "view v was not there at first"),
    "a trigger": (
        ["CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END"],
        "trigger g was not there at first",
    ),
    "a virtual table": (["CREATE VIRTUAL TABLE f USING fts5(x)"], "f was not there at first"),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_schema_that_is_not_the_fixtures_is_a_world_that_the_model_broke(backend, how):
    statements, told = BROKEN[how]
    given = await asked(backend, image(*TABLE, *statements))
    assert given.answers == ()
    assert given.broken.startswith("data/w.db: ")
    assert told in given.broken


async def test_further_tables_and_indexes_do_no_harm(backend):
    more = (
        "CREATE TABLE u (a PRIMARY KEY)",
        "CREATE INDEX i ON t (x)",
        "CREATE UNIQUE INDEX k ON u (a)",
    )
    given = await asked(backend, image(*TABLE, *more))
    assert [answer.first for answer in given.answers] == [2]


async def test_views_that_the_fixture_has_are_asked(backend):
    world = image(*TABLE, "CREATE VIEW v AS SELECT sum(x) AS all_of_them FROM t")
    given = await asked(backend, world, Question("SELECT * FROM v"), schema=declared(world))
    assert [answer.first for answer in given.answers] == [3]


DEEP = "SELECT hex(zeroblob(500000)) LIKE '%1%2%' FROM n"
NEEDLE = "printf('%.*c', 500000, 'a') || 'b'"
STRAW = f"INSERT INTO s VALUES (printf('%.*c', 1000000, 'a'), {NEEDLE})"
COSTLY = {
    "400 views in a row": image(views=chain(400)),
    "5,000 views in a row": image(views=chain(5_000)),
    "20,000 views in a row": image(views=chain(20_000)),
    "a view without end": image(f"CREATE VIEW t AS {ENDLESS} SELECT x FROM n"),
    "a view without end, of slow steps": image(f"CREATE VIEW t AS {ENDLESS} {DEEP}"),
    "one instr of a megabyte": image(
        "CREATE TABLE s (a, b)", STRAW, "CREATE VIEW t AS SELECT instr(a, b) x FROM s"
    ),
    "a sort of more than there is memory": image(
        f"CREATE VIEW t AS {ENDLESS} SELECT x FROM n GROUP BY hex(x) ORDER BY hex(x)"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True], ids=["a model's", "even declared"])
@pytest.mark.parametrize("what", COSTLY)
async def test_no_database_costs_more_than_a_question_may(what, known):
    """The next question of the same world is answered at once."""
    content = COSTLY[what]
    schema = declared(content) if known and "000 views" not in what else ()
    async with Namespaces().open({"w.db": content, "good.db": WORLD}, Limits()) as sandbox:
        started = time.process_time(), time.perf_counter()
        given = await sandbox.ask("w.db", [Question("SELECT x FROM t ORDER BY 1")], schema)
        ours, spent = time.process_time() - started[0], time.perf_counter() - started[1]
        good = await sandbox.ask("good.db", [COUNT], declared(WORLD))
    if "400" not in what or not known:
        assert given.broken or given.answers[0].error
    assert good.answers[0].first == 2
    assert (ours < 0.5, spent < 11) == (True, True)


async def test_whoever_is_cancelled_does_not_wait_for_the_answer():
    view = image(f"CREATE VIEW t AS {ENDLESS} SELECT x FROM n")
    async with Namespaces().open({"w.db": view}, Limits()) as sandbox:
        started = time.perf_counter()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await sandbox.ask("w.db", [COUNT], declared(view))
        assert time.perf_counter() - started < 1.5


ODD = {
    "it is gone": ("rm w.db", "No such file or directory"),
    "a FIFO": ("rm w.db; mkfifo w.db", "not a regular file"),
    "a folder": ("rm w.db; mkdir w.db", "Is a directory"),
    "a link to itself": ("rm w.db; ln -s w.db w.db", "Too many levels of symbolic links"),
    "a link to an endless device": ("ln -sf /dev/zero w.db", "Too many levels"),
    "a link to another database": ("mv w.db o.db; ln -s o.db w.db", "Too many levels"),
    "unreadable": ("chmod 0 w.db", "Permission denied"),
    "words": ("yes no database > w.db & sleep 0.1; kill $!", "cannot be read"),
    "zeros": ("rm w.db; truncate -s 60M w.db", "cannot be read"),
    "nothing": (": > w.db", "cannot be read"),
    "cut": ("truncate -s 3000 w.db", "cannot be read"),
    "a log of nonsense is none": ("head -c 9000 /dev/urandom > w.db-wal", ""),
    "a log that is a FIFO is none": ("mkfifo w.db-wal", ""),
}


@pytest.mark.parametrize("how", ODD)
async def test_whatever_stands_in_its_place_is_named(backend, how):
    command, told = ODD[how]
    async with backend.open({"w.db": WORLD}, Limits()) as sandbox:
        await sandbox.run(["sh", "-c", command])
        given = await sandbox.ask("w.db", [COUNT], declared(WORLD))
    assert told in given.broken
    assert bool(given.broken) is bool(told)


async def test_a_disk_that_a_model_filled_changes_no_answer(backend):
    async with backend.open({"w.db": WORLD}, Limits()) as sandbox:
        await sandbox.run(["sh", "-c", "cat /dev/zero > /tmp/full; cat /dev/zero > full"])
        given = await sandbox.ask("w.db", [COUNT], declared(WORLD))
    assert given.answers[0].first == 2


async def test_without_isolation_it_is_asked_in_a_process_of_its_own_as_well():
    async with Bare().open({"w.db": image(views=chain(20_000))}, Limits()) as sandbox:
        given = await sandbox.ask("w.db", [COUNT], ())
    assert given.broken


async def test_a_sandbox_that_is_gone_is_our_fault(backend):
    async with backend.open({"w.db": WORLD}, Limits()) as sandbox:
        sandbox._link._peer.close()
        with pytest.raises(InfrastructureError):
            await sandbox.ask("w.db", [COUNT], declared(WORLD))


FUZZED = int(os.environ.get("AGENTEVAL_FUZZED_WORLDS", "2000"))


@pytest.mark.slow
async def test_pages_that_an_attacker_made_crash_and_hold_up_nothing(tmp_path):
    """Random bytes of a database with all that databases have are flipped; none stops the world."""
    path = tmp_path / "seed.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        "PRAGMA page_size=512; CREATE TABLE t (x INTEGER PRIMARY KEY, y TEXT);"
        "CREATE INDEX i ON t (y); CREATE TABLE w (a PRIMARY KEY, b) WITHOUT ROWID;"
    )
    texts = [(number, f"{number:05} " * (1 + number % 40)) for number in range(200)]
    connection.executemany("INSERT INTO t VALUES (?, ?)", texts)
    connection.executemany("INSERT INTO w VALUES (?, ?)", texts)
    connection.commit()
    connection.close()
    good = path.read_bytes()
    chance = random.Random(20261122)
    questions = [
        Question("SELECT count(*), sum(length(y)) FROM t"),
        Question("SELECT y FROM t WHERE y > '00100' ORDER BY y DESC", 9),
        Question("SELECT t.x, w.b FROM t JOIN w ON w.a = t.x", 9),
    ]
    endings = set()
    async with Namespaces(prefork=True).open({"w.db": good}, Limits()) as sandbox:
        for _ in range(FUZZED):
            made = bytearray(good)
            for _ in range(chance.choice((1, 2, 8, 64))):
                made[chance.randrange(len(made))] = chance.randrange(256)
            await sandbox.write("w.db", bytes(made))
            started = time.perf_counter()
            given = await sandbox.ask("w.db", questions, declared(good))
            assert time.perf_counter() - started < 11
            endings.add("broken" if given.broken else "answered")
        await sandbox.write("w.db", good)
        given = await sandbox.ask("w.db", questions, declared(good))
    assert (endings, given.answers[0].first) == ({"broken", "answered"}, 200)
