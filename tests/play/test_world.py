import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from agenteval.play.tools import Database, _evaluate_trace, evaluate
from agenteval.sandbox.maker import declared
from agenteval.trial.trial import Answer, Answers, Check, GoalCheck, Question, Trace

COUNT = Check("two rows", "SELECT count(*) FROM t", 2)
FIRST, OTHER = [Question("SELECT 1")], [Question("SELECT 2")]


def image(*statements: str) -> bytes:
    connection = sqlite3.connect(":memory:")
    for statement in statements:
        connection.execute(statement)
    content = connection.serialize()
    connection.close()
    return content


@pytest.mark.parametrize(
    ("answer", "found", "told"),
    [
        (Answer(("count(*)",), ((3,),)), 3, "two rows (expected 2, found 3)"),
        (Answer(("count(*)",), (("2",),)), "2", "two rows (expected 2, found '2')"),
        (Answer(("count(*)",)), None, "two rows (expected 2, found None)"),
        (Answer(error="no such table: t"), None, "two rows (no such table: t)"),
    ],
)
def test_a_check_that_does_not_hold_says_what_was_to_be_found_and_what_was(
    answer, found, told
) -> None:
    one = evaluate(COUNT, answer)
    assert (one, one.failure) == (
        GoalCheck("two rows", held=False, expected=2, found=found, said=answer.error),
        told,
    )


@pytest.mark.parametrize(
    ("made", "held"),
    [
        (["uv run note.py show --id 7"], True),
        (["uv run note.py list", "notes/all.md"], True),
        (["uv run note.py show --id 8", "uv run other.py 7"], False),
        ([], False),
    ],
)
def test_a_trace_holds_when_one_call_has_all_words_of_one_way(made, held) -> None:
    found = _evaluate_trace(Trace("it was read", ("note.py 7", "notes/all.md")), made)
    assert (found.held, found.why.startswith("no call that ran well has 'note.py 7' or")) == (
        held,
        not held,
    )


def test_a_check_that_holds_keeps_what_was_found_and_a_long_text_is_cut() -> None:
    held = evaluate(COUNT, Answer(("count(*)",), ((2,),)))
    long = evaluate(COUNT, Answer(("text",), (("x" * 300,),)))
    assert (held, long.found) == (
        GoalCheck("two rows", held=True, expected=2, found=2),
        f"{'x' * 200} (100 more characters)",
    )


def test_a_fixture_declares_what_its_database_holds() -> None:
    world = image("CREATE TABLE t(x)", "CREATE VIEW v AS SELECT x FROM t")
    logged = world[:18] + b"\x02\x02" + world[20:]  # as a database with a write-ahead log has it
    wanted = (
        ("table", "t", "t", "CREATE TABLE t(x)"),
        ("view", "v", "v", "CREATE VIEW v AS SELECT x FROM t"),
    )
    assert (declared(world), declared(logged)) == (wanted, wanted)


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100])
def test_a_file_that_is_no_database_declares_nothing(content) -> None:
    assert declared(content) == ()


@dataclass
class Stamped:
    stamps: Iterator[str]
    asked: int = 0

    async def ask(self, database: str, questions: Sequence[Question], schema) -> Answers:
        self.asked += 1
        return Answers(broken=str(self.asked))

    async def stamp(self, paths: Sequence[str]) -> str:
        assert paths == ["w.db", "w.db-wal"]
        return next(self.stamps)


@pytest.mark.parametrize(
    ("stamps", "questions", "times"),
    [
        (["a", "a", "a"], [FIRST, FIRST, FIRST], 1),
        (["a", "b", "b"], [FIRST, FIRST, FIRST], 2),
        (["", "", ""], [FIRST, FIRST, FIRST], 3),  # it cannot be told
        (["", "a", "a"], [FIRST, FIRST, FIRST], 2),
        (["a", "a", "a"], [FIRST, OTHER, OTHER], 2),
    ],
)
async def test_a_database_is_asked_again_only_when_it_may_have_changed(
    stamps, questions, times
) -> None:
    world = Stamped(iter(stamps))
    database = Database(world, "w.db")
    seen = [await database.ask(one) for one in questions]
    assert (world.asked, seen[-1]) == (times, Answers(broken=str(times)))


@pytest.mark.parametrize(
    ("stamps", "touched"),
    [
        (["a", "a", "a"], [False, False]),
        (["a", "a", "b"], [False, True]),
        (["a", "b"], [True, True]),  # once touched, no stamp is asked for again
        ([""], [True, True]),  # it was too new to tell
        (["a", ""], [True, True]),
    ],
)
async def test_a_database_is_as_at_first_until_it_was_touched(stamps, touched) -> None:
    database = Database(Stamped(iter(stamps)), "w.db")
    await database.begin()
    assert [await database.is_touched() for _ in touched] == touched
