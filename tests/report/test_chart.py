"""Where the marks of the chart stand."""

import pytest

from agenteval.report.build import build_view
from agenteval.report.html import scale, signature_chart
from agenteval.stats.rates import Rate


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (Rate(19, 158), (0.02, 0.2)),
        (Rate(1, 1000), (0.001, 0.006)),
        (Rate(158, 158), (0.1, 1.0)),
        (Rate(40, 200), (0.05, 0.3)),
        (Rate(0, 5), (0.01, 0.1)),
    ],
)
def test_the_scale_ends_at_the_first_tick_behind_the_widest_interval(rate, expected):
    assert scale([rate]) == pytest.approx(expected)


def test_the_interval_of_a_class_never_seen_does_not_stretch_the_scale():
    assert scale([Rate(0, 5), Rate(19, 158)]) == scale([Rate(19, 158)])


def test_only_classes_that_were_seen_are_drawn_and_the_total_is_last(view):
    chart = signature_chart(view)
    assert [band.label for band in chart.bands] == [
        "hallucinated-tool",
        "pipe-to-filter",
        "shell-chain",
        "unlisted-script",
        "total",
    ]
    assert [band.strong for band in chart.bands] == [False] * 4 + [True]


def test_marks_stand_between_the_ends_of_their_intervals_on_the_scale(view):
    marks = [mark for band in signature_chart(view).bands for mark in band.marks]
    assert all(0 <= mark.left <= mark.at <= mark.right <= 100 for mark in marks)
    assert {mark.colour for mark in marks} == {0, 1, 2}


def test_ticks_begin_at_zero_and_end_at_the_end(view):
    ticks = signature_chart(view).ticks
    assert ticks[0] == (0.0, "0")
    assert ticks[-1][0] == pytest.approx(100)


def test_nothing_to_draw_is_an_empty_chart():
    assert [band.marks for band in signature_chart(build_view([])).bands] == [()]
