"""OpenCode's database as a stranger can make it: named, bounded, and what is whole is read."""

from itertools import pairwise

import pytest
from sample_logs import OPENCODE, RULES, database
from test_readers import read, recorded

WHOLE = [told for _, told in OPENCODE]
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id"
DATA = "VARCHAR AS (printf('%.*c', 30000000, 'x'))"
VIEWS = {
    "a view that never ends": f"CREATE VIEW session AS {ENDLESS} FROM n",
    "a view of another table": "CREATE VIEW session AS SELECT * FROM old",
    "a table that works its values out": f"CREATE TABLE session (id, version {DATA})",
    "a virtual table": "CREATE VIRTUAL TABLE session USING fts5(id)",
}


def made(tmp_path, *statements):
    """A database as OpenCode has it, with what these did to it."""
    path = tmp_path / "opencode.db"
    store = database(path)
    for one in statements:
        store.execute(one)
    store.execute("PRAGMA journal_mode=DELETE")
    store.close()
    return path


def reasons(path):
    sessions, skipped = read("opencode", path)
    return recorded(sessions), [(one.at, one.reason) for one in skipped]


@pytest.mark.parametrize("what", VIEWS.values(), ids=[*VIEWS])
def test_what_stands_in_the_place_of_a_table_is_not_asked(tmp_path, what) -> None:
    path = made(tmp_path, "ALTER TABLE session RENAME TO old", what)
    why = "session is no plain table that OpenCode made"
    assert reasons(path) == ([], [("the database", why)])


def test_a_declaration_that_was_written_over_is_not_taken_for_a_table(tmp_path) -> None:
    path = made(
        tmp_path,
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_master SET sql = 'CREATE VIEW session AS SELECT 1', type = 'view', "
        "rootpage = 0 WHERE name = 'session'",
    )
    assert [at for at, _ in reasons(path)[1]] == ["the database"]


@pytest.mark.parametrize("size", [33_600_000, 90_000_000])
def test_a_huge_value_is_named_and_the_rest_is_read(tmp_path, size) -> None:
    path = made(tmp_path, f"UPDATE part SET data = zeroblob({size}) WHERE id = 'prt_0'")
    assert reasons(path) == (WHOLE[1:], [("part prt_0", "string or blob too big")])


def test_a_session_whose_id_is_no_utf8_is_read(tmp_path) -> None:
    odd = "CAST(x'7365735fff' AS TEXT)"
    path = made(
        tmp_path, f"UPDATE message SET session_id = {odd}", f"UPDATE session SET id = {odd}"
    )
    assert reasons(path) == (WHOLE, [])


def test_values_of_other_types_are_named_and_the_rest_is_read(tmp_path) -> None:
    path = made(
        tmp_path,
        "UPDATE part SET data = 7.5 WHERE id = 'prt_0'",
        "UPDATE part SET data = NULL WHERE id = 'prt_1'",
        "UPDATE part SET data = x'FF00' WHERE id = 'prt_2'",
        "UPDATE part SET id = NULL WHERE id = 'prt_3'",
        f"UPDATE part SET data = '{'[' * 200_000}' WHERE id = 'prt_4'",
    )
    told, skipped = reasons(path)
    assert (told, sorted(at for at, _ in skipped)) == (
        WHOLE[5:],
        ["part None", "part prt_0", "part prt_1", "part prt_2", "part prt_4"],
    )


def test_damaged_pages_are_named_and_nothing_hangs(tmp_path) -> None:
    path = made(tmp_path)
    whole = path.read_bytes()
    told = set()
    for start in range(100, len(whole), 512):
        path.write_bytes(whole[:start] + bytes(range(256)) * 2 + whole[start + 512 :])
        sessions, skipped = read("opencode", path)
        told.add((len(sessions), bool(skipped)))
        assert {one.path for one in skipped} <= {str(path)}
    assert (0, True) in told


def test_a_tree_of_pages_that_never_ends_is_given_up(tmp_path) -> None:
    """Each page of a table names the next one 600 times: as many rows as there are paths."""
    path = tmp_path / "opencode.db"
    store = database(path)
    store.execute("PRAGMA journal_mode=DELETE")
    rows = [(f"m{at}", "ses_1", 0, "x" * 3_000) for at in range(9)]
    store.executemany("INSERT INTO message VALUES (?, ?, ?, ?)", rows)
    ((root,),) = store.execute("SELECT rootpage FROM sqlite_master WHERE name = 'message'")
    ((size,),) = store.execute("PRAGMA page_size")
    store.close()
    pages = bytearray(path.read_bytes())
    last = len(pages) // size
    for here, below in pairwise([root, *range(last - 5, last + 1)]):
        looped = b"\5\0\0\2\x58\x0f\0\0" + below.to_bytes(4, "big") + b"\x0f\0" * 600
        cell = below.to_bytes(4, "big") + b"\1"
        page = looped.ljust(0xF00, b"\0") + cell
        pages[(here - 1) * size : here * size] = page.ljust(size, b"\0")
    path.write_bytes(pages)
    told, skipped = reasons(path)
    assert (told, [at for at, _ in skipped][-1:]) == ([], ["the database"])


def test_triggers_and_indexes_of_a_stranger_change_nothing(tmp_path) -> None:
    path = made(
        tmp_path,
        "CREATE INDEX other ON part (abs(message_id))",
        "CREATE TRIGGER t AFTER INSERT ON part BEGIN DELETE FROM session; END",
    )
    sessions, skipped = read("opencode", path)
    assert (recorded(sessions), skipped, sessions[0].rules) == (WHOLE, [], RULES)


def test_a_collation_that_nobody_knows_is_named(tmp_path) -> None:
    path = made(
        tmp_path,
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_master SET sql = replace(sql, '(id', '(id COLLATE ours') "
        "WHERE name = 'message'",
    )
    assert [at for at, _ in reasons(path)[1]] == ["session ses_1"]


def test_nothing_is_left_beside_a_database_that_nobody_has_open(tmp_path) -> None:
    path = tmp_path / "opencode.db"
    database(path).close()
    read("opencode", path)
    assert [one.name for one in tmp_path.iterdir()] == ["opencode.db"]
