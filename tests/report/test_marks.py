"""A simulated model, a missing sandbox and an unfinished run are said wherever a number is."""

import io

import pytest
from rich.console import Console

from agenteval.report import console, files, html
from agenteval.report import json as json_report
from agenteval.report.build import build_view
from agenteval.report.details import detail_tables
from agenteval.report.tables import MISSED, SAID, comparison_table, void_of


@pytest.fixture
def simulated(runs):
    return build_view(runs[:1])


@pytest.fixture
def real(runs):
    return build_view(runs[2:])


def tables(view):
    return [*detail_tables(view), comparison_table(view)]


def test_every_table_of_a_simulated_run_says_so(simulated, real):
    assert all(table.simulated for table in tables(simulated))
    assert not any(table.simulated for table in tables(real))


def test_every_heading_of_a_simulated_run_says_so_in_each_form_and_of_a_real_one_none(
    simulated, real
):
    page, markdown = html.page(simulated), files.markdown_text(simulated)
    trials = [part.split("</summary>")[0] for part in page.split('<details class="trial">')[1:]]
    headings = [line for line in markdown.splitlines() if line.startswith("#")]
    unmarked = [line for line in (*trials, *headings) if "SIMULATED" not in line]
    assert (len(trials), unmarked) == (8, ["## Void trials"])
    assert "<title>SIMULATED: " in page
    assert "SIMULATED" not in f"{html.page(real)}{files.markdown_text(real)}{printed(real)}"


def test_console_marks_every_title_of_a_simulated_run(simulated):
    lines = printed(simulated).splitlines()
    titles = [line.removesuffix("  SIMULATED") for line in lines if line.endswith("  SIMULATED")]
    *details, comparison = (table.title for table in tables(simulated))
    expected = [*details, MISSED, comparison, SAID, "In short"]
    assert [title for title in titles if not title.startswith(" ")] == expected


def printed(view) -> str:
    out = Console(file=io.StringIO(), width=120, color_system=None)
    console.render(view, out)
    return out.file.getvalue()


@pytest.mark.parametrize(("view", "marked"), [("simulated", True), ("real", False)])
def test_json_says_it_for_the_report_the_model_and_the_run(view, marked, request):
    document = json_report.document(request.getfixturevalue(view))
    parts = (document, *document["models"], *document["runs"])
    assert [part["simulated"] for part in parts] == [marked] * 3


@pytest.mark.parametrize(
    ("voids", "played", "told"),
    [
        (1, 1, "the one trial is void"),
        (3, 3, "all 3 trials are void"),
        (1, 8, "1 of 8 trials is void"),
        (2, 8, "2 of 8 trials are void"),
    ],
)
def test_void_trials_are_told_in_the_number_that_they_are(voids, played, told) -> None:
    assert void_of(voids, played) == told
