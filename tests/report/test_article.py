"""The published comparison, from its counts spread over sessions of its sizes."""

from itertools import cycle

import pytest

from agenteval.classes.catalogue import ARTICLE_ROWS
from agenteval.report.build import build_counts_view
from agenteval.trial.trial import ErrorCounts

ERRORS = {
    "35b": (10, 0, 4, 0, 0, 1, 0, 0, 4, 0, 0),
    "27b": (1, 1, 0, 0, 0, 0, 1, 2, 1, 3, 0),
    "122b": (2, 0, 3, 1, 2, 0, 0, 1, 0, 2, 2),
}
SIZES = {"35b": (20, 158), "27b": (21, 161), "122b": (17, 128)}


def spread(counts, sessions, calls):
    """One error a session in turn, as far apart as they can be: no clustering beyond chance."""
    made = [[] for _ in range(sessions)]
    classes = [row for row, count in zip(ARTICLE_ROWS, counts, strict=True) for _ in range(count)]
    for session, error in zip(cycle(made), classes + [None] * (calls - len(classes)), strict=False):
        session.append(error)
    return made


@pytest.fixture
def view():
    models = {name: ErrorCounts.of(spread(ERRORS[name], *SIZES[name])) for name in ERRORS}
    rows = {row: row for row in ARTICLE_ROWS}
    return build_counts_view("The published comparison", models, fold=rows)


def test_every_rate_of_the_published_table_is_there_to_two_decimals(view):
    rates = [[f"{100 * rate.value:.2f}" for rate in model.rows.values()] for model in view.models]
    assert rates == [
        ["6.33", "0.00", "2.53", "0.00", "0.00", "0.63", "0.00", "0.00", "2.53", "0.00", "0.00"],
        ["0.62", "0.62", "0.00", "0.00", "0.00", "0.00", "0.62", "1.24", "0.62", "1.86", "0.00"],
        ["1.56", "0.00", "2.34", "0.78", "1.56", "0.00", "0.00", "0.78", "0.00", "1.56", "1.56"],
    ]
    totals = [f"{model.total.count} {100 * model.total.value:.2f}" for model in view.models]
    assert totals == ["19 12.03", "9 5.59", "13 10.16"]
