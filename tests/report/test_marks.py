"""A simulated model, a missing sandbox and an unfinished run are said wherever a number is."""

import io
import json

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


def test_console_marks_the_title_and_the_column_of_every_table(simulated):
    out = Console(file=io.StringIO(), width=120, color_system=None)
    console.render(simulated, out)
    titled = [line for line in out.file.getvalue().splitlines() if line.endswith("  SIMULATED")]
    assert out.file.getvalue().count("SIMULATED") >= 2 * len(tables(simulated)) + 1
    titles = [line.removesuffix("  SIMULATED") for line in titled if not line.startswith(" ")]
    *details, comparison = (table.title for table in tables(simulated))
    assert titles == [*details, MISSED, comparison, SAID, "In short"]


def test_html_says_it_in_the_page_title_and_at_every_trial(simulated, real):
    page = html.page(simulated)
    assert "<title>SIMULATED: " in page
    assert page.count('<details class="trial">') == 8
    assert all(
        "SIMULATED" in part.split("</summary>")[0]
        for part in page.split('<details class="trial">')[1:]
    )
    assert "SIMULATED" not in html.page(real)


def test_markdown_says_it_in_every_heading(simulated):
    headings = [
        line for line in files.markdown_text(simulated).splitlines() if line.startswith("#")
    ]
    assert headings[-1] == "## Void trials"
    assert all(line.endswith("(SIMULATED)") for line in headings[:-1])


def test_json_says_it_for_the_report_the_model_and_the_run(simulated, real):
    marked, plain = (json.loads(json_report.dumps(view)) for view in (simulated, real))
    for document, expected in ((marked, True), (plain, False)):
        said = [document["simulated"]]
        said += [model["simulated"] for model in document["models"]]
        said += [run["simulated"] for run in document["runs"]]
        assert said == [expected] * 3


def test_what_weakens_the_numbers_is_said_before_them(view):
    assert [line.split(":")[0] for line in view.warnings] == [
        "SIMULATED",
        "A simulated model stands beside a real one",
        "sim/moe",
        "sim/dense",
        "local",
        "local",
        "local",
        "These runs differ in more than the model",
    ]
    assert "1 of 8 trials is void" in view.warnings[2]
    assert "WITHOUT A SANDBOX" in view.warnings[3]
    assert "not complete" in view.warnings[4]


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
