"""`agenteval compare` and `agenteval import counts`."""

import json
import shutil

import pytest
from stored import stored

from agenteval.config.files import shipped
from agenteval.testing import card, denied, run, says, trial

STORE = "reports/agenteval.db"
LIST = "uv run notes.py list"


@pytest.fixture
def published(project):
    shutil.copy(shipped() / "agenteval.toml", project)
    return str(shutil.copy(shipped() / "fixtures" / "article" / "counts.csv", project))


def keep(run_id, errors, **known):
    """A stored run of eight trials, the first so many of them with one denial each."""
    trials = []
    for number in range(1, 9):
        first = denied("ls") if number <= errors else LIST
        steps = (first, LIST, says("Here."))
        trials.append(trial(*steps, number=number, handshake=[("one", number > 2)]))
    stored(STORE, run(*trials, run_id=run_id, model=card(run_id), trials_planned=8, **known))


def test_the_published_table_is_compared_as_it_stands(cli, published):
    said = cli("compare", published, "--json")
    document = json.loads(said.out)
    pairs = {
        (pair["first"], pair["second"]): (
            round(pair["p"], 3),
            round(pair["p_adjusted"], 3),
            round(pair["ratio"]["value"], 2),
            pair["calls_needed"],
            round(pair["kinds"]["g_rate"] + pair["kinds"]["g_kind"], 2),
            pair["kinds"]["p_adjusted"] < 0.05,
        )
        for pair in document["pairs"]
    }
    assert pairs == {
        ("qwen3.6-35b-a3b", "qwen3.5-27b"): (0.043, 0.341, 2.15, 304, 27.66, True),
        ("qwen3.6-35b-a3b", "qwen3.5-122b-a10b"): (0.619, 1.0, 1.18, 4430, 23.11, False),
        ("qwen3.5-27b", "qwen3.5-122b-a10b"): (0.147, 0.88, 0.55, 545, 17.5, False),
    }
    assert [len(of) for of in document["architectures"]["models"]] == [2, 1]
    assert document["runs"] == []


PUBLISHED = """
- Marginal, not settled: qwen3.5-27b made fewer errors than qwen3.6-35b-a3b, 5.59 against 12.03 per
100 calls: 6.44 fewer [0.2, 13.1]; p = 0.043, but 0.34 after correction for 11 claims of this
report; n=161 and 158 calls, taken as independent. If the true difference is as seen, a new run
of about 524 calls per model would settle it in four cases of five; if it is half as large, of
about 2,099 calls per model.
- Not settled: qwen3.5-122b-a10b made fewer errors than qwen3.6-35b-a3b, 10.16 against 12.03 per 100
calls: 1.87 fewer [-5.8, 9.2]; p = 0.62, and 1.00 after correction for 11 claims of this report;
n=128 and 158 calls, taken as independent. A new run of about 2,965 calls per model
would show a difference of 3 points in four cases of five.
- Not settled: qwen3.5-27b made fewer errors than qwen3.5-122b-a10b, 5.59 against 10.16 per 100
calls: 4.57 fewer [-1.6, 11.6]; p = 0.15, and 0.88 after correction for 11 claims of this report;
n=161 and 128 calls, taken as independent. If the true difference is as seen, a new run
of about 941 calls per model would settle it in four cases of five; if it is half as large, of
about 3,766 calls per model.
- Settled: qwen3.6-35b-a3b and qwen3.5-27b make different kinds of errors. Their mixes of classes
lie 0.78 apart (0 is the same, 1 nothing in common), where chance alone gives 0.41; p = 0.001, and
0.014 after correction for 11 claims of this report; n=19 and 9 errors, taken as independent.
- Marginal, not settled: whether qwen3.6-35b-a3b and qwen3.5-122b-a10b make different kinds of
errors. Their mixes of classes lie 0.64 apart (0 is the same, 1 nothing in common), where chance
alone gives 0.38; p = 0.005, but 0.051 after correction for 11 claims of this report; n=19 and 13
errors, taken as independent. Only more errors to compare can settle it.
- Not settled: whether qwen3.5-27b and qwen3.5-122b-a10b make different kinds of errors. Their mixes
of classes lie 0.66 apart (0 is the same, 1 nothing in common), where chance alone gives 0.54; p =
0.32, and 1.00 after correction for 11 claims of this report; n=9 and 13 errors, taken as
independent. Only more errors to compare can settle it.
"""


def test_the_published_headline_is_marginal_and_one_of_its_kinds_is_settled(cli, published):
    ids = [line.split()[0] for line in cli("import", "counts", published).out.splitlines()]
    words = " ".join(PUBLISHED.split())
    for names in ([published], ids):
        assert words in " ".join(cli("compare", *names).out.split())


def test_what_counts_cannot_show_is_said_to_be_not_observable(cli, published):
    said = " ".join(cli("compare", published).out.split())
    assert "Not observable in counts: errors per trial, trials with a denial, trials" in said
    assert "the counts do not say which calls belong to one trial" in said
    assert "unknown trials" in said


def test_imported_counts_are_stored_listed_and_compared_with_a_run(cli, published):
    keep("mine", 3)
    said = cli("import", "counts", published)
    ids = [line.split()[0] for line in said.out.splitlines()]
    observed = [line.split(maxsplit=1)[1] for line in said.out.splitlines()]
    assert observed == ["19 errors in 158 calls", "9 errors in 161 calls", "13 errors in 128 calls"]
    listed = cli("show").out
    assert f"{ids[1]}  qwen3.5-27b  counts of 161 calls, from {published}" in listed
    pair = json.loads(cli("compare", ids[1], "mine", "--json").out)["pairs"][0]
    assert (pair["first"], pair["second"], pair["by_trial"]) == ("qwen3.5-27b", "mine", False)
    assert pair["first_rate"]["count"] == 9
    assert pair["figures"]["trials completed"] is None
    assert cli("import", "counts", published).out.split()[0] != ids[0]


def test_the_beginning_of_an_id_names_a_run_everywhere(cli, project):
    keep("20260102-mine", 7)
    keep("20260103-yours", 2)
    compared = json.loads(cli("compare", "20260102", "20260103", "--json").out)
    shown = json.loads(cli("show", "20260103", "--json").out)
    refused = [cli(*of) for of in (("show", "2026"), ("speed", "2026"), ("compare", "2026", "x"))]
    assert [model["model"] for model in compared["models"]] == ["20260102-mine", "20260103-yours"]
    assert shown["runs"][0]["id"] == "20260103-yours"
    assert [(one.code, "'2026' begins the ids of 2 runs" in one.err) for one in refused] == [
        (2, True)
    ] * 3


def test_imported_counts_are_no_run_to_be_shown(cli, published):
    one = cli("import", "counts", published).out.split()[0]
    said = cli("show", one)
    assert (said.code, "holds imported counts" in said.err) == (2, True)


def test_runs_that_met_the_same_worlds_are_compared_world_by_world(cli, project):
    keep("mine", 7)
    keep("yours", 0, seed=8, sandbox="none")
    said = cli("compare", "mine", "yours", "--report", "reports/both.md")
    text = " ".join(said.out.split())
    assert "In the same worlds: first minus second" in text
    assert "Settled for these scenarios: yours makes fewer errors than mine, 0.00 against" in text
    assert "These runs differ in more than the model: sandbox (bubblewrap / none)." in text
    last = text[text.index("In short") :]  # the verdict in plain words is the last thing read
    assert "yours makes fewer errors than mine" in last
    assert "Not known: who reaches the goal more often." in last
    page = (project / "reports" / "both.md").read_text()
    assert "## mine against yours, by class" in page
    assert "neither mine nor yours completed more trials than the other" in page


def test_the_newest_run_is_the_last_and_a_page_is_html_by_default(cli, project):
    keep("mine", 3)
    keep("newer", 3, started="2027-01-01T00:00:00Z")
    said = cli("compare", "mine", "last", "--report", "both.html", "--json")
    document = json.loads(said.out)
    assert [model["model"] for model in document["models"]] == ["mine", "newer"]
    assert document["runs"][0]["tool_errors"]["n"] == 13
    assert "mine against newer" in (project / "both.html").read_text()


def test_one_model_is_no_comparison(cli):
    keep("mine", 3)
    said = cli("compare", "mine")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "name another run, or a file of counts" in said.err


def test_a_report_that_cannot_be_written_is_one_line(cli, published, project):
    (project / "taken").mkdir()
    for name in ("taken", "taken.md"):
        (project / "taken.md").mkdir(exist_ok=True)
        said = cli("compare", published, "--report", name)
        assert (said.code, "cannot be written" in said.err) == (2, True)


def test_one_table_has_one_p_from_its_counts_as_from_the_calls_written_after_it(published, cli):
    tables = (cli("show", "article", "--json"), cli("compare", published, "--json"))
    found = [[one["p"] for one in json.loads(table.out)["pairs"]] for table in tables]
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_runs_of_unlike_arms_are_compared_only_where_that_is_asked_for(cli, project):
    (project / "reports").mkdir()
    keep("one", 2, protocol="taught/tools/1, rules five")
    keep("two", 3, protocol="strict/4, rules all")
    refused = cli("compare", "one", "two")
    assert refused.code == 2
    assert "one and two are runs of unlike arms: prompts (" in refused.err
    compared = cli("compare", "one", "two", "--across-arms")
    assert (compared.code, "differ in more than the model: prompts" in compared.out) == (0, True)


def test_a_run_is_not_compared_with_itself(cli, project) -> None:
    keep("one", 1)
    said = cli("compare", "one", "one")
    assert (said.code, said.err) == (2, "agenteval: compare: one is named twice; name two runs\n")
