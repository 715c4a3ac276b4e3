"""The table of sub-agents: their calls apart from those that every other table counts."""

from agenteval.report.build import build_view
from agenteval.report.provenance import agent_tables
from agenteval.testing import card, denied, run, sub_agent, trial

LIST = "uv run notes.py list"


def test_calls_of_sub_agents_stand_apart_with_their_own_n():
    worker = sub_agent("worker", LIST, denied("ls"))
    trials = [
        trial(LIST, denied("ls"), LIST, number=1, agents=(worker, sub_agent("judge", LIST))),
        trial(LIST, number=2, agents=(sub_agent("worker", LIST, LIST),)),
        trial(LIST, number=3),
    ]
    view = build_view([run(*trials), run(trial(LIST), run_id="r2", model=card("other"))])

    (table,) = agent_tables(view.runs)

    counts = [
        (row.label, [(cell.count, cell.value, cell.n) for cell in row.cells]) for row in table.rows
    ]
    assert (counts, view.models[0].total.n) == (
        [
            ("first agent, all scenarios", [("1", "20.00", "n=5"), ("0", "0.00", "n=1")]),
            ("judge", [("0", "0.00", "n=1"), ("", "-", "")]),
            ("worker", [("1", "25.00", "n=4"), ("", "-", "")]),
        ],
        5,
    )


def test_without_sub_agents_there_is_no_such_table():
    assert [*agent_tables(build_view([run(trial(LIST))]).runs)] == []
