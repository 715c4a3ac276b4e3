"""The speed tables, cell by cell."""

from dataclasses import replace

from agenteval.report.speed import LogView, Served, cells, log_lines, log_tables, speed_tables
from agenteval.report.tables import Table
from agenteval.stats.loads import Load, Speed, Timeline
from agenteval.stats.quantiles import Samples

SAME = Samples(4, 1234.5, 50.25, 0.125, 9.5)
FULL = Speed(2, 40, 8_000, 60.0, SAME, SAME, SAME, useful=30, failed=1, joules=3.6e6)
BARE = Speed(4, 0, 0, None, None, None, None)


def texts(table: Table) -> list[list[str]]:
    rows = [
        [row.label, *(" ".join(filter(None, (c.count, c.value))) for c in row.cells)]
        for row in table.rows
    ]
    return [[table.first, *(head.label for head in table.heads)], *rows]


def test_what_is_known_of_each_level_is_shown_and_what_is_not_is_said() -> None:
    together = speed_tables([Served("m", simulated=False, speed=one) for one in (FULL, BARE)])[0]
    unknown = "not observable"
    assert texts(together) == [
        ["concurrency", "requests", "failed", "seconds", "tokens/s", "completions/min",
         "useful calls/min", "watts", "tokens/kWh"],
        ["2", "40", "1", "60.0", "8,000 133", "40 40.0", "30 30.0", "60,000", "8,000"],
        ["4", "0", "0", unknown, f"0 {unknown}", f"0 {unknown}", "-", unknown, unknown],
    ]  # fmt: skip


def test_what_came_in_windows_of_time_is_shown_where_there_are_any() -> None:
    timed = replace(FULL, windows=Timeline(SAME, SAME, None, SAME))
    titles = [
        [table.title for table in speed_tables([Served("m", simulated=False, speed=one)])]
        for one in (timed, FULL)
    ]
    together = [title for title in titles[0] if title not in titles[1]]
    assert together == [
        "Generation tokens/s, all requests together",
        "Prefill tokens/s, all requests together",
        "Completions per minute, all requests together",
    ]


def test_samples_are_told_to_three_digits_or_not_at_all() -> None:
    assert [
        [cell.value for cell in cells(SAME)],
        [cell.value for cell in cells(None)],
    ] == [["4", "1,234", "50.2", "0.125", "9.50"], ["0", "-", "-", "-", "-"]]


def test_levels_of_several_models_are_named_by_them_and_marked_when_simulated() -> None:
    tables = speed_tables(
        [
            Served("real", simulated=False, speed=FULL),
            Served("sim/x", simulated=True, speed=FULL),
        ]
    )
    assert [(table.simulated, [row.label for row in table.rows]) for table in tables] == [
        (True, ["real, 2", "sim/x, 2"])
    ] * 4


def test_a_log_without_an_access_log_has_no_table_of_completions() -> None:
    load = Load(3, 4, SAME, None, SAME, None, None, Samples(4, 0.0, 0.0, 0.0, 0.0), 0, 0)
    view = LogView((load,), 10.0, lines=9, engine_lines=4, completions=0, failed=0, unread=2)
    assert (
        [table.title for table in log_tables(view)],
        log_lines(view)[1:],
    ) == (
        ["Generation tokens/s, active windows", "Generation tokens/s of each request"],
        (
            "2 lines about throughput have a form that is not known here.",
            "Power: not in such a log; --watts says what the machines draw.",
        ),
    )
