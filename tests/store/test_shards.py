"""Several processes that play one run: who has a trial, and what becomes of one that dies."""

from contextlib import ExitStack, closing
from dataclasses import replace

import pytest
from test_sql_store import KEY, RUN, TRIAL

from agenteval.errors import HostError, UsageError
from agenteval.protocols import TrialKey
from agenteval.store.sql import Part, Shard, SqlStore
from agenteval.store.upkeep import copy
from agenteval.store.write import Hold

OTHER = TrialKey("s", 2, 100)
WHOSE = "SELECT shard.run_id FROM shard JOIN trial ON trial.shard = shard.id"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    server = request.getfixturevalue("postgres")
    return server.url(server.new())


@pytest.fixture
def stores(url):
    """As two processes have the same store."""
    with closing(SqlStore(url)) as one, closing(SqlStore(url)) as two:
        one.add(RUN)
        yield one, two


def arrived(store: SqlStore, number: int, **about) -> Shard:
    shard = store.shard(Part(number, 2, **about))
    shard.arrive("r1")
    return shard


def written(store: SqlStore, shard: Shard | None):
    return store.recorder(RUN, {"s": "abc"}, shard)


def gone(store: SqlStore, shard: Shard) -> None:
    store.close_part("r1", shard, complete=False, second_reader={})


def play(recorder) -> None:
    recorder.turn(KEY, 0, TRIAL.turns[0])
    for call in TRIAL.calls:
        recorder.call(KEY, call)
    recorder.finish(KEY, TRIAL)


def test_a_trial_is_played_by_the_first_that_asks_for_it(stores) -> None:
    first, second = (written(store, arrived(store, at)) for at, store in enumerate(stores, 1))
    asked = [first.begin(KEY), second.begin(KEY), second.begin(OTHER), first.begin(OTHER)]
    assert asked == [True, False, True, False]


def test_what_a_living_shard_plays_is_left_to_it(stores) -> None:
    dying, living = (arrived(store, at) for at, store in enumerate(stores, 1))
    written(stores[0], dying).begin(KEY)
    living.take_over()
    assert (living.in_flight(), written(stores[1], living).begin(KEY)) == (1, False)


def test_a_shard_that_is_silent_beyond_its_lease_is_taken_for_gone_and_else_is_not(stores) -> None:
    silent, other = arrived(stores[0], 1, lease=-1.0), arrived(stores[1], 2)  # over as it begins
    written(stores[0], silent).begin(KEY)
    written(stores[1], other).begin(OTHER)
    other.take_over()
    assert (other.in_flight(), stores[1].played("r1")) == (1, {("s", 2)})


@pytest.mark.parametrize(("hours", "left"), [(-2, 0), (2, 0), (0, 1)])
def test_a_clock_that_was_put_back_or_forward_keeps_no_trial_with_the_dead(
    stores, hours, left
) -> None:
    dead, other = arrived(stores[0], 1), arrived(stores[1], 2)
    written(stores[0], dead).begin(KEY)
    with stores[0].connect() as connection:
        put = f"UPDATE shard SET seen = seen + {hours * 3600} WHERE number = 1"
        connection.exec_driver_sql(put)
        connection.commit()
    other.take_over()
    assert other.in_flight() == left


def test_a_shard_counts_what_those_before_it_play_at_a_time() -> None:
    shards = [Part(at, 3).others_before(4) for at in (1, 2, 3)]
    assert (shards, Part(2, 3, trials=1, before=2).others_before(4)) == ([0, 4, 8], 2)


def test_one_that_was_only_slow_changes_nothing_any_more(stores) -> None:
    slow, other = (arrived(store, at) for at, store in enumerate(stores, 1))
    late, again = written(stores[0], slow), written(stores[1], other)
    late.begin(KEY)
    gone(stores[0], slow)  # as far as anybody can tell
    other.take_over()
    assert again.begin(KEY)
    play(again)
    play(late)
    run = stores[0].load("r1")
    assert (run.trials, run.replaced) == ((TRIAL,), {"interrupted": 1})


def test_a_word_in_time_keeps_a_shard(stores) -> None:
    slow, other = (arrived(store, at) for at, store in enumerate(stores, 1))
    written(stores[0], slow).begin(KEY)
    gone(stores[0], slow)
    slow.beat()
    other.take_over()
    assert other.in_flight() == 1


def test_a_trial_of_no_shard_was_of_one_process_that_is_gone(stores) -> None:
    written(stores[0], None).begin(KEY)
    other = arrived(stores[1], 1)
    other.take_over()
    assert (other.in_flight(), other.part.label) == (0, "1/2")


def test_the_run_of_a_job_is_the_same_for_all_its_shards_and_again(stores) -> None:
    mine = arrived(stores[0], 1, job="7")
    stores[0].close_part("r1", complete=True, second_reader={})
    found = [stores[1].shard(Part(at, 2, job="7")).joins("m") for at in (1, 2)]
    other = [stores[1].shard(Part(1, 2, job=job)).joins("m") for job in ("8", "")]
    assert (found, other, mine.joins("n")) == (["r1", "r1"], [None, None], None)


def test_without_a_job_a_late_shard_finds_its_run_and_the_next_round_begins_another(stores) -> None:
    arrived(stores[0], 1)
    under_way = [stores[1].shard(Part(at, 2)).joins("m") for at in (1, 2)]
    stores[0].close_part("r1", complete=True, second_reader={})
    ended = [stores[1].shard(Part(at, 2)).joins("m") for at in (1, 2)]
    assert (under_way, ended) == (["r1", "r1"], [None, "r1"])


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (Part(1, 3, version="1"), "run r1 is played by 2 shards"),
        (Part(2, 2, version="2"), "this is agenteval 2, and run r1 was begun by 1"),
    ],
)
def test_another_number_of_shards_or_another_version_is_refused(stores, part, said) -> None:
    arrived(stores[0], 1, version="1")
    with pytest.raises(UsageError, match=said):
        stores[1].shard(part).check("r1")


def test_what_the_second_readers_said_is_added_up_and_no_end_opens_it_again(stores) -> None:
    stores[0].close_part("r1", complete=True, second_reader={"agreed": 2})
    stores[1].close_part("r1", complete=False, second_reader={"agreed": 3, "failed": 1})
    run, _ = stores[0].summarized("r1")
    assert (run.complete, run.second_reader) == (True, {"agreed": 5, "failed": 1})


def test_a_run_is_carried_to_another_store_with_its_shards(stores, tmp_path) -> None:
    recorder = written(stores[0], arrived(stores[0], 1))
    recorder.begin(KEY)
    play(recorder)
    with closing(SqlStore(str(tmp_path / "other.db"))) as other:
        other.add(replace(RUN, id="r0"))
        other.shard(Part(1, 1)).arrive("r0")  # so that numbers differ
        copy(stores[0].url, other, ["r1"])
        with other.connect() as connection:
            shards = connection.exec_driver_sql(WHOSE).all()
        assert (shards, other.load("r1").trials) == ([("r1",)], (TRIAL,))


def test_shards_hold_their_run_together_in_postgresql_against_all_others(postgres) -> None:
    url = postgres.url(postgres.new())
    with closing(SqlStore(url)) as one, closing(SqlStore(url)) as two:
        with one.claimed("r1", Hold.TOGETHER), two.claimed("r1", Hold.TOGETHER):
            with pytest.raises(UsageError, match="being played by another process"):
                with one.claimed("r1"):
                    raise AssertionError("claimed beside shards")
        with one.claimed("r1", Hold.WAITING):
            with pytest.raises(UsageError, match="being played by another process"):
                with two.claimed("r1", Hold.TOGETHER):
                    raise AssertionError("shared while one has it alone")


def test_after_a_lost_connection_each_word_is_said_anew_or_fails_as_the_machine_s(postgres) -> None:
    name = postgres.new()
    with closing(SqlStore(postgres.url(name))) as store, postgres.asks() as asking:
        store.add(RUN)
        shard = arrived(store, 1)
        asking.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                       f"'{name}'")  # fmt: skip
        with pytest.raises(HostError, match="What was stored before is intact"):
            shard.beat()
        shard.beat()
        assert written(store, shard).begin(KEY)
        store.close_run("r1", complete=True, second_reader={})
        with closing(SqlStore(postgres.url(name))) as another:  # each was committed by itself
            assert another.ask("SELECT complete FROM run") == [(True,)]
            assert another.ask("SELECT number FROM trial") == [(KEY.number,)]


def test_twenty_runs_are_claimed_at_once(postgres) -> None:
    with closing(SqlStore(postgres.url(postgres.new()))) as store, ExitStack() as claims:
        for number in range(20):
            claims.enter_context(store.claimed(f"r{number}"))
        assert store.ask("SELECT 1") == [(1,)]


def test_what_fails_while_a_run_is_claimed_gives_the_claim_back(url) -> None:
    with closing(SqlStore(url)) as one, closing(SqlStore(url)) as two:
        with pytest.raises(KeyError), one.claimed("r1"):
            raise KeyError
        with two.claimed("r1"), one.claimed("r2"):
            pass


def test_the_seconds_of_a_run_are_from_the_first_shards_coming_to_the_last_ones_end(stores) -> None:
    first = arrived(stores[0], 1)
    with stores[0].connect() as connection, connection.begin():
        connection.exec_driver_sql("UPDATE shard SET came = came - 100, seen = seen - 90")
    gone(stores[0], first)
    assert [run.effort for run in stores[0].runs()] == [None]
    last = arrived(stores[1], 2)
    stores[1].close_part("r1", last, complete=True, second_reader={})
    (run,) = stores[0].runs()
    assert run.effort is not None
    assert 100 <= run.effort.seconds < 160


@pytest.mark.parametrize("left", ["no shard", "another process"])
def test_what_was_played_in_parts_has_no_seconds(stores, left) -> None:
    if left == "no shard":  # for an hour
        first = arrived(stores[0], 1)
        written(stores[0], first).begin(KEY)
        with stores[0].connect() as connection, connection.begin():
            connection.exec_driver_sql("UPDATE shard SET came = came - 4000, seen = seen - 3600")
    else:
        written(stores[0], None).begin(KEY)
    last = arrived(stores[1], 2)
    stores[1].close_part("r1", last, complete=True, second_reader={})
    assert [(run.complete, run.effort) for run in stores[0].runs()] == [(True, None)]
