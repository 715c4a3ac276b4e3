"""Calls found by class, scenario, outcome, agent and text, in SQLite and in PostgreSQL."""

from contextlib import closing

import pytest
from stored import stored

from agenteval.errors import Cause
from agenteval.store import search
from agenteval.store.read import Part, load_trial
from agenteval.store.search import START, Wanted, calls_page, grouped
from agenteval.store.sql import SqlStore, opened
from agenteval.testing import card, denied, run, says, sub_agent, tool, trial
from agenteval.trial.call import Ending, Outcome

RUNS = (
    run(
        trial(
            "uv run notes.py list",
            denied("ls | head", "pipe-to-filter"),
            (denied("ls -la"), tool("read", path="a_b%c!d.md")),
            agents=(sub_agent("checker", denied("cat x"), "uv run notes.py show 1"),),
        ),
        trial(denied("rm -rf /"), number=2, outcome=Outcome.STALLED, ending=Ending.LOOPED),
        trial(denied("ls"), scenario="mail", outcome=Outcome.VOID, cause=Cause.CRASHED),
        trial('echo "é \0 <b>"', says("Done."), scenario="mail", number=2),
        run_id="r1",
    ),
    run(trial(denied("ls | head", "pipe-to-filter")), run_id="r2", model=card("other")),
)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def store(request, tmp_path_factory):
    if request.param == "sqlite":
        return stored(str(tmp_path_factory.mktemp("search") / "runs.db"), *RUNS)
    server = request.getfixturevalue("postgres")
    return stored(server.url(server.new()), *RUNS)


@pytest.fixture
def query(store):
    with opened(store) as asked:
        yield asked


def texts(page: search._CallPage) -> list[str]:
    return [f"{one.run} {one.scenario}#{one.number} {one.arguments}" for one in page.calls]


LS, FIRST = '{"command": "ls"}', "r1 notes#1"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (
            Wanted(failure_class="pipe-to-filter"),
            [f'{FIRST} {{"command": "ls | head"}}', 'r2 notes#1 {"command": "ls | head"}'],
        ),
        (
            Wanted(run="r1", failure_class="bare-binary", counted=True),
            [f'{FIRST} {{"command": "ls -la"}}', 'r1 notes#2 {"command": "rm -rf /"}'],
        ),
        (Wanted(outcome="stalled"), ['r1 notes#2 {"command": "rm -rf /"}']),
        (Wanted(outcome="void"), [f"r1 mail#1 {LS}"]),
        (Wanted(scenario="mail", number=1), [f"r1 mail#1 {LS}"]),
        (Wanted(agent="checker", denied=True), [f'{FIRST} {{"command": "cat x"}}']),
        (
            Wanted(agent="checker/1", denied=False),
            [f'{FIRST} {{"command": "uv run notes.py show 1"}}'],
        ),
        (Wanted(agent="check"), []),
        (Wanted(agent="", text="CAT X"), []),
        (Wanted(tool="read"), [f'{FIRST} {{"path": "a_b%c!d.md"}}']),
        (Wanted(text="RM -rf"), ['r1 notes#2 {"command": "rm -rf /"}']),
        (Wanted(text="B%C!d"), [f'{FIRST} {{"path": "a_b%c!d.md"}}']),
        (Wanted(text="a%d"), []),
        (Wanted(text="read"), [f'{FIRST} {{"path": "a_b%c!d.md"}}']),
        (Wanted(text='"é \0'), [r'r1 mail#2 {"command": "echo \"\u00e9 \u0000 <b>\""}']),
    ],
    ids=str,
)
def test_calls_are_found_by_all_that_is_given(query, wanted, found) -> None:
    assert texts(calls_page(query, wanted)) == found


def test_a_call_is_found_with_all_that_a_list_shows_of_it(query) -> None:
    (found,) = calls_page(query, Wanted(text="rm -rf")).calls
    raw = '{"command": "rm -rf /"}'
    of_trial = ("r1", "test-model", "notes", 2, "stalled", "", 0, 0)
    assert (found.run, found.model, found.scenario, found.number, found.outcome) == of_trial[:5]
    assert (found.agent, found.turn, found.position) == of_trial[5:]
    assert (found.tool, found.arguments, found.length) == ("bash", raw, len(raw))
    assert (found.failure_class, found.allowed, found.exit_code) == ("bare-binary", False, None)


@pytest.mark.parametrize("size", [1, 2, 3, 20])
def test_pages_have_every_call_once_forwards_and_back(query, size) -> None:
    everything = calls_page(query, Wanted(), size=100)
    pages = [calls_page(query, Wanted(), size=size)]
    while later := pages[-1].later:
        pages.append(calls_page(query, Wanted(), after=later, size=size))
    back = [pages[-1]]
    while earlier := back[-1].earlier:
        back.append(calls_page(query, Wanted(), before=earlier, size=size))
    forwards = [one for page in pages for one in page.calls]
    backwards = [one for page in reversed(back) for one in page.calls]
    assert (forwards, backwards) == (list(everything.calls),) * 2
    assert (len(forwards), everything.earlier, everything.later) == (10, None, None)


def test_a_search_for_text_goes_on_where_a_page_of_it_ended(query, monkeypatch) -> None:
    monkeypatch.setattr(search, "SPAN", 2)
    pages = [calls_page(query, Wanted(text="ls | head"))]
    while later := pages[-1].later:
        pages.append(calls_page(query, Wanted(text="ls | head"), after=later))
    last = calls_page(query, Wanted(text="uv run notes.py list"), before=(99, 0))
    assert [len(page.calls) for page in pages] == [1, 0, 0, 0, 1]
    assert [page.partial for page in pages] == [True, True, True, True, False]
    assert (last.calls, last.partial, last.earlier is None) == ((), True, False)


def test_a_long_text_is_given_by_its_beginning_also_where_the_column_holds_it_as_json(
    tmp_path,
) -> None:
    long = run(trial(tool("write", text="x" * 5000), tool(f"\0{'y' * 5000}")))
    with opened(stored(str(tmp_path / "runs.db"), long)) as query:
        plain, kept = calls_page(query, Wanted(), after=START).calls
    assert (len(plain.arguments), plain.length) == (search.EXCERPT, 5012)
    assert kept.tool.startswith('"\\u0000yyy')


@pytest.mark.parametrize(
    ("wanted", "by", "found"),
    [
        (Wanted(run="r1", denied=True), "class", [("bare-binary", 4), ("pipe-to-filter", 1)]),
        (Wanted(run="r1"), "scenario", [("notes", 7), ("mail", 2)]),
        (Wanted(denied=True), "class", [("bare-binary", 4), ("pipe-to-filter", 2)]),
        (Wanted(denied=True), "outcome", [("completed", 4), ("stalled", 1), ("void", 1)]),
        (Wanted(), "agent", [("", 8), ("checker/1", 2)]),
        (Wanted(text="notes.py"), "tool", [("bash", 2)]),
    ],
    ids=str,
)
def test_calls_are_counted_by_what_they_have_in_common(query, wanted, by, found) -> None:
    assert grouped(query, wanted, by) == found


def test_a_trial_that_was_replaced_is_not_searched_and_one_in_flight_is(tmp_path) -> None:
    path = stored(str(tmp_path / "runs.db"), RUNS[1], in_flight=True)
    with opened(path) as query:
        (running,) = calls_page(query, Wanted()).calls
        assert (running.outcome, calls_page(query, Wanted(counted=True)).calls) == ("", ())
    with closing(SqlStore(path)) as store:
        store.ask("UPDATE trial SET replaced = 1")
    with opened(path) as query:
        assert calls_page(query, Wanted()).calls == ()
        assert grouped(query, Wanted(denied=True), "class") == []


def test_a_trial_is_loaded_alone_whole_or_in_part(query) -> None:
    whole = load_trial(query, "r1", "notes", 1)
    part = load_trial(query, "r1", "notes", 1, Part(1, 2, most=1))
    assert whole == RUNS[0].trials[0]
    assert (part.turns, part.calls) == (whole.turns[1:2], whole.calls[1:2])
    assert load_trial(query, "r1", "notes", 9) is None
