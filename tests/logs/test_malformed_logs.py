"""Odd logs stop nothing: what is skipped is named, the rest is stored, and once only."""

import re
from contextlib import closing

import pytest
from odd_logs import odd
from sample_logs import OTEL, SAMPLES, inspect_archive
from test_readers import IDS, read, recorded, written

from agenteval.logs.ingest import take_in
from agenteval.logs.packed import UNREADABLE
from agenteval.store.sql import SqlStore
from agenteval.trial.session import Skipped

CLAUDE_LINE = '{"type": "assistant", "message": {"content": []}}\n'
CASES = pytest.mark.parametrize(("name", "file", "content", "told"), SAMPLES, ids=IDS)


def taken(name, path):
    """What is read, and what is skipped: all of a file that cannot be unpacked."""
    try:
        return read(name, path)
    except UNREADABLE as error:
        return [], [Skipped(str(path), "the file", str(error))]


@CASES
def test_no_odd_log_stops_a_reader_and_what_is_skipped_has_a_place(
    tmp_path, name, file, content, told
) -> None:
    seen = 0
    for what, whole in odd(content):
        path = written(tmp_path, file, whole)
        sessions, skipped = taken(name, path)
        calls = sum(len(session.calls) for session in sessions)
        assert calls <= 4 * len(told), what
        assert all(one.path == str(path) and one.at and one.reason for one in skipped), what
        seen += 1
    assert seen >= 60


@CASES
def test_what_is_whole_before_a_cut_is_read_and_the_cut_is_named(
    tmp_path, name, file, content, told
) -> None:
    whole = content if isinstance(content, bytes) else content.encode()
    path = written(tmp_path, file, whole[: len(whole) * 12 // 13])
    sessions, skipped = taken(name, path)
    assert skipped, "a cut says nothing"
    assert sum(len(session.calls) for session in sessions) <= len(told)


@CASES
def test_odd_logs_are_stored_whole_or_not_at_all_and_once(
    tmp_path, name, file, content, told
) -> None:
    folder, store = tmp_path / "logs", f"{tmp_path}/store.db"
    cases = list(odd(content))
    paths = []
    for number, (_, whole) in enumerate(cases[:: max(1, len(cases) // 60)]):
        place = folder / str(number)
        place.mkdir(parents=True)
        paths.append(written(place, file, whole))
    first = take_in(name, paths, store)
    again = take_in(name, paths, store)
    assert (first.files, again.has_news) == (len(paths), False)
    with closing(SqlStore(store)) as kept, kept.connect() as connection:
        rows = connection.exec_driver_sql(
            "SELECT count(*) FROM trial WHERE id NOT IN (SELECT trial_id FROM session)"
        ).scalar_one()
        left = connection.exec_driver_sql(
            "SELECT count(*) FROM call WHERE trial_id NOT IN (SELECT id FROM trial)"
        ).scalar_one()
    assert (rows, left) == (0, 0)


_KEY = re.compile(rb'"([A-Za-z_]\w*)"(?=\s*:)|"key": "([\w.]+)"')
# What a model gave as an argument may have any name: these texts are its own.
_FREE = {"value"}


@CASES
def test_nothing_is_lost_in_silence_where_a_byte_of_a_key_is_another(
    tmp_path, name, file, content, told
) -> None:
    whole = content if isinstance(content, bytes) else content.encode()
    if whole[:1] not in b"{[":
        pytest.skip("packed: no byte of it is a key's")
    places = {one[1] or one[2]: one.start(one.lastindex) for one in _KEY.finditer(whole)}
    silent = set()
    for key, at in places.items():
        bad = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        sessions, skipped = taken(name, written(tmp_path, file, bad))
        if recorded(sessions) != told and not skipped:
            silent.add(key.decode())
    assert places
    assert silent <= _FREE


def test_a_line_of_spans_is_found_behind_one_of_metrics_and_behind_a_broken_one(tmp_path) -> None:
    text = f'{{"resourceMetrics": []}}\n{{"resourceSpans": [\n{OTEL}\n'
    sessions, skipped = read("otel", written(tmp_path, "otel.jsonl", text))
    assert recorded(sessions) == ["ran", "denied"]
    assert [one.at for one in skipped] == ["line 2"]


def test_an_attribute_that_is_named_wrongly_is_told_with_its_span(tmp_path) -> None:
    path = written(tmp_path, "otel.json", OTEL.replace("error.type", "errof.type"))
    why = "no key 'error.type', but gen_ai.tool.name, errof.type"
    place = "part 1 of the document, span 1"
    assert read("otel", path)[1] == [Skipped(str(path), place, why)]


def test_what_stands_behind_the_end_of_a_document_is_named(tmp_path) -> None:
    sessions, skipped = read("otel", written(tmp_path, "otel.json", f"{OTEL} {OTEL}"))
    assert recorded(sessions) == ["ran", "denied"]
    assert [(one.at, one.reason) for one in skipped] == [
        (f"byte {len(OTEL) + 1}", "more behind the end of the document")
    ]


def test_a_key_that_is_missing_is_named_with_its_line_and_the_keys_that_are_there(tmp_path) -> None:
    content = CLAUDE_LINE.replace('"message"', '"messbge"')
    path = written(tmp_path, "c.jsonl", content)
    assert read("claude-code", path)[1] == [
        Skipped(str(path), "line 1", "no key 'message', but type, messbge")
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
@CASES
def test_a_log_tells_the_same_in_each_encoding(
    tmp_path, name, file, content, told, encoding
) -> None:
    whole = content if isinstance(content, bytes) else content.encode(encoding)
    sessions, skipped = taken(name, written(tmp_path, file, whole))
    assert (recorded(sessions), skipped) == (told, [])


@CASES
def test_a_log_tells_the_same_however_little_of_it_is_held(
    tmp_path, monkeypatch, name, file, content, told
) -> None:
    monkeypatch.setattr("agenteval.logs.json._AT_ONCE", 7)
    sessions, skipped = taken(name, written(tmp_path, file, content))
    assert (recorded(sessions), skipped) == (told, [])


def test_a_file_that_is_none_of_opencodes_is_named(tmp_path) -> None:
    for file, text in (("export.json", "{}"), ("run.jsonl", '{"type": 1}\n')):
        path = written(tmp_path, file, text)
        why = [Skipped(str(path), "the file", "no session of OpenCode's in it")]
        assert taken("opencode", path) == ([], why)


def test_an_archive_packed_by_zstd_says_what_unpacks_it(tmp_path) -> None:
    """The method is written over: which of both a Python lacks is asked by its number alone."""
    whole = bytearray(inspect_archive())
    for mark, method, name in ((b"PK\3\4", 8, 30), (b"PK\1\2", 10, 46)):
        at = -1
        while (at := whole.find(mark, at + 1)) >= 0:
            if whole[at + name :].startswith(b"samples/"):
                whole[at + method] = 93
    path = written(tmp_path, "log.eval", bytes(whole))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("zipfile._check_compression", _lacks_zstd)
        _, skipped = read("inspect", path)
    assert [(one.at, one.reason.partition(",")[0]) for one in skipped] == [
        ("samples/1_epoch_1.json", "packed by zstd")
    ]


def _lacks_zstd(method):
    if method == 93:
        raise NotImplementedError("That compression method is not supported")
