"""`agenteval runs`: what is labelled, carried to another store, and taken out of one."""

import json

import pytest

ONE = ("run", "-m", "sim/qwen3.5-27b", "--trials", "1", "media/rendered-plot")


def ids(cli, *where: str) -> list[str]:
    return [run["id"] for run in json.loads(cli("show", "--json", *where).out)["runs"]]


@pytest.fixture
def run(cli):
    cli(*ONE)
    return ids(cli)[0]


def test_a_run_is_named_by_its_label_and_keeps_its_note(cli, run):
    said = cli("runs", "label", "last", "nightly", "--note", "new parser")
    listed, one = cli("show", "--label", "nightly"), cli("show", "nightly", "--json")
    assert (said.code, said.out) == (0, f"{run}: labelled nightly\n")
    assert ("labels: nightly" in listed.out, "note: new parser" in listed.out) == (True, True)
    assert json.loads(one.out)["runs"][0]["id"] == run
    cli("runs", "label", run, "nightly", "--off")
    assert "labels:" not in cli("show").out
    assert cli("runs", "label", run, "last-1").code == 2


def test_a_label_that_already_names_a_run_is_refused(cli, run):
    model = json.loads(cli("show", run, "--json").out)["runs"][0]["model"]["name"]
    said = [cli("runs", "label", run, label) for label in (model, run, run[:4])]
    assert [(one.code, one.err.count("\n"), "no label" in one.err) for one in said] == [
        (2, 1, True)
    ] * 3


def test_a_run_is_carried_in_a_file_that_is_a_store(cli, run, project):
    assert cli("runs", "export", "last", "--file", "one.db").code == 0
    again = cli("runs", "export", "last", "--file", "one.db")
    there = cli("runs", "import", "one.db")
    assert (again.code, "is there already" in again.err) == (2, True)
    assert (there.code, "already; nothing was copied" in there.err) == (2, True)
    assert cli("runs", "rm", run, "--yes").out == f"removed {run}\n"
    assert (ids(cli), ids(cli, "--store", "one.db")) == ([], [run])
    assert cli("runs", "import", "one.db").out == f"{run}\n"
    assert json.loads(cli("show", run, "--json").out)["runs"][0]["id"] == run


def test_nothing_is_removed_that_was_not_named_whole_or_confirmed(cli, run):
    asked, short = cli("runs", "rm", run), cli("runs", "rm", "last", "--yes")
    assert (asked.code, "give --yes" in asked.err) == (2, True)
    assert (short.code, f"give whole ids, {run}" in short.err) == (2, True)
    assert ids(cli) == [run]
