"""Where the marks of the chart stand."""

import re

import pytest

from agenteval.report.build import build_view
from agenteval.report.console import standing_table
from agenteval.report.figures import figures_of, heat_map, scale
from agenteval.report.html import _signature_chart, page
from agenteval.stats.rates import Rate
from agenteval.testing import card, denied, run, trial
from agenteval.trial.call import Outcome
from agenteval.trial.run import Effort


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (Rate(19, 158), (0.02, 0.2)),
        (Rate(1, 1000), (0.001, 0.006)),
        (Rate(158, 158), (0.1, 1.0)),
        (Rate(40, 200), (0.05, 0.3)),
    ],
)
def test_the_scale_ends_at_the_first_tick_behind_the_widest_interval(rate, expected):
    assert scale(rate.high) == pytest.approx(expected)


def test_the_interval_of_a_class_never_seen_does_not_stretch_the_scale():
    one = run(trial(*["uv run a.py"] * 40, *[denied("ls")] * 4), model=card("one"))
    few = run(trial("uv run a.py"), model=card("few"), run_id="r2")
    both, alone = (_signature_chart(build_view(runs)) for runs in ([one, few], [one]))
    assert both.ticks == alone.ticks


def test_marks_stand_between_the_ends_of_their_intervals_on_the_scale(view):
    lanes = (
        r'lane s(\d).*?left:([\d.]+)%;width:([\d.]+)%"></i><i class="dot[^"]*" style="left:([\d.]+)'
    )
    marks = [tuple(map(float, found)) for found in re.findall(lanes, page(view))]
    assert {colour for colour, *_ in marks} == {0, 1, 2}
    assert all(0 <= low <= at <= low + width + 0.02 <= 100.04 for _, low, width, at in marks)


def test_nothing_to_draw_is_an_empty_chart():
    assert _signature_chart(build_view([])).bands == [("total", [])]


def played(name, denials, *, concurrency=4, seconds=60.0, run_id="r1"):
    """Four trials of twelve calls, so many of them denied, in a minute."""
    made = [
        trial(
            *["uv run a.py"] * (12 - denials),
            *[denied("ls")] * denials,
            number=number,
            outcome=Outcome.COMPLETED if number > denials else Outcome.GAVE_UP,
        )
        for number in range(1, 5)
    ]
    effort = Effort(seconds) if seconds else None
    return run(*made, model=card(name), run_id=run_id, concurrency=concurrency, effort=effort)


def test_errors_stand_over_useful_calls_per_minute_with_their_interval():
    view = build_view([played("slow", 1, seconds=120.0), played("fast", 3, run_id="r2")])
    found = next(one for one in figures_of(view) if one.id == "speed")
    (slow,), (fast,) = (one.marks for one in found.series)
    assert (slow.x < fast.x, slow.y > fast.y) == (True, True), "a canvas counts down"
    assert all(mark.high <= mark.y <= mark.low for mark in (slow, fast))
    cells = [[cell.value for cell in row.cells] for row in found.table.rows]
    assert cells == [["22.0", "8.33"], ["36.0", "25.00"]]
    assert [row.cells[0].n for row in found.table.rows] == ["n=44", "n=36"]


def test_a_speed_that_nobody_measured_is_no_point():
    view = build_view([played("m", 1, seconds=0.0)])
    assert [one.id for one in figures_of(view)] == []
    assert [cell.value for cell in standing_table(view).rows[0].cells[-2:]] == [
        "not observable"
    ] * 2


def test_levels_of_one_model_are_a_line():
    runs = [
        played("m", 1, concurrency=level, seconds=240.0 / level, run_id=f"r{level}")
        for level in (4, 1, 2)
    ]
    found = next(one for one in figures_of(build_view(runs)) if one.id == "levels")
    (line,) = found.series
    assert [mark.label for mark in line.marks] == ["m: 11.0 at 1", "m: 22.0 at 2", "m: 44.0 at 4"]
    assert line.joined
    assert [row.label for row in found.table.rows] == ["m, 1", "m, 2", "m, 4"]


def test_the_hardest_scenario_is_the_first_of_the_map_and_its_shade_is_its_share():
    easy = trial("uv run a.py", scenario="easy")
    hard = [
        trial(denied("ls"), scenario="hard", number=at, outcome=Outcome.GAVE_UP) for at in (1, 2)
    ]
    other = run(easy, model=card("other"), run_id="r2")
    view = build_view([run(easy, *hard, model=card("m")), other])
    cells = heat_map(view)
    assert [(name, [one and one.completed.count for one in of]) for name, of in cells] == [
        ("hard", [0, None]),
        ("easy", [1, 1]),
    ]
    shown = re.findall(r'<td( class="h\d+")?[^>]* title="([^"]*)"', page(view))
    assert [(shade, title.partition(";")[0]) for shade, title in shown] == [
        (' class="h0"', "completed 0 of 2 [0, 66] %"),
        ("", "not played"),
        *[(' class="h10"', "completed 1 of 1 [21, 100] %")] * 2,
    ]


def test_each_figure_of_a_model_s_line_leads_to_its_calls(view):
    line = page(view).partition('id="standing"')[2].partition("</tr>\n<tr>")[0]
    of = dict(re.findall(r'data-head="([^"]+)"[^>]*>.*?<a href="([^"]+)">', line))
    assert of == {
        "goal reached": "#run-0",
        "errors per 100 calls": "#denied",
        "recovered next turn": "#denied",
        "recovered ever": "#denied",
    }


def test_every_link_of_the_page_leads_to_a_place_of_it(view):
    made = page(view)
    places = set(re.findall(r' id="([^"]+)"', made))
    links = set(re.findall(r'href="#([^"]+)"', made))
    assert links <= places
    assert {"criteria", "levels"}.isdisjoint(links)
    assert {"standing", "signature", "denied", "trials", "tables", "repeat"} <= links


def test_a_count_of_the_comparison_leads_to_as_many_calls(view):
    made = page(view)
    (_, href, count), *_ = re.findall(
        r'<a href="#class-(pipe-to-filter)">.*?<a href="#(c0-pipe-to-filter)">(\d+)</a>', made
    )
    listed = made.split(f'<ul id="{href}">')[1].split("</ul>")[0]
    assert (int(count), listed.count("<li>")) == (12, 12)
    assert "<mark>| grep</mark>" in listed
