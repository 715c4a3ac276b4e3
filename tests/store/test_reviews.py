"""What a person says of calls: kept, put in place of what was said before, and carried along."""

from contextlib import closing

import pytest
from stored import stored

from agenteval.store.search import reviews
from agenteval.store.sql import SqlStore, opened
from agenteval.store.upkeep import copy, remove
from agenteval.testing import denied, run, trial

RUN = run(trial(denied("ls"), "uv run notes.py list"))
AT = "2026-11-22T10:00:00+00:00"


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path):
    if request.param == "sqlite":
        return stored(str(tmp_path / "runs.db"), RUN)
    server = request.getfixturevalue("postgres")
    return stored(server.url(server.new()), RUN)


def said(store: str) -> list[tuple[int, str, str, str, bool]]:
    with opened(store) as query:
        return [
            (one.call, one.judged, one.label, one.note, one.agrees)
            for one in reviews(query, run="r1")
        ]


def test_a_review_takes_the_place_of_the_one_before_and_an_empty_one_takes_it_away(store) -> None:
    with closing(SqlStore(store)) as opened_store:
        assert opened_store.review(1, "bare-binary", "", AT)
        assert opened_store.review(1, "pipe-to-filter", "why \0 not", AT)
        assert opened_store.review(2, "allowed", "", AT)
        assert not opened_store.review(9, "allowed", "", AT)
        both = said(store)
        opened_store.review(1, "", "", AT)
    assert both == [
        (1, "bare-binary", "pipe-to-filter", "why \0 not", False),
        (2, "allowed", "allowed", "", True),
    ]
    assert said(store) == both[1:]


def test_reviews_go_with_their_run_to_another_store_and_away_with_it(store, tmp_path) -> None:
    other = stored(str(tmp_path / "other.db"), run(trial("ls"), run_id="r0"))
    with closing(SqlStore(store)) as source, closing(SqlStore(other)) as target:
        source.review(2, "allowed", "mine", AT)
        copy(source.url, target, ["r1"])
        remove(source, ["r1"])
    assert (said(store), said(other)) == ([], [(3, "allowed", "allowed", "mine", True)])
